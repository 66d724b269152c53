//! Which override snapshots concern a placement, and which of them a cluster.
//!
//! The lists that come out go into a binding's spec, and their order is the order of
//! application: plain order of names, so `a-10` stands before `a-9`.

use std::collections::BTreeMap;

use flagship_api::names::{ObjectKey, SnapshotIndex};
use flagship_api::overrides::{PlacementRef, PlacementScope};
use flagship_api::placement_status::{NamespacedName, ResourceIdentifier};
use serde::{Deserialize, Serialize};

use super::clusters::is_for;
use super::contents::is_envelope;
use super::selection::{selects_namespaced, selects_wide};
use super::{ClusterOverride, NamespacedOverride};
use crate::model::PackedMap;

/// The override snapshots that concern one placement.
#[derive(Debug, Clone, Default)]
pub struct Concerning<'a> {
    wide: Vec<&'a ClusterOverride>,
    narrow: Vec<&'a NamespacedOverride>,
}

/// What a binding says about overrides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// ClusterResourceOverrideSnapshots, in order of application.
    pub wide: Vec<String>,
    /// ResourceOverrideSnapshots, applied after the others.
    pub narrow: Vec<NamespacedName>,
}

/// A snapshot whose cluster selector cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSelector {
    /// Name of the snapshot.
    pub snapshot: String,
    /// What is wrong.
    pub cause: String,
}

/// Picks those of the latest snapshots that are meant for a placement with these resources,
/// the content of envelopes included.
pub fn concerning<'a>(
    placement: &ObjectKey,
    resources: &[ResourceIdentifier],
    wide: &'a [ClusterOverride],
    narrow: &'a [NamespacedOverride],
) -> Concerning<'a> {
    // Those that are being taken over count no more, whatever they select.
    let mut wide = newest(wide, |o| ("", &o.name));
    let mut narrow = newest(narrow, |o| (&o.key.namespace, &o.key.name));
    // An envelope's namespace can be named, the envelope cannot.
    wide.retain(|o| {
        let nameable = |resource: &&ResourceIdentifier| {
            !is_envelope(resource) || !resource.namespace.is_empty()
        };
        is_meant(placement, o.spec.placement.as_ref(), None)
            && resources.iter().filter(nameable).any(|resource| selects_wide(o, resource))
    });
    narrow.retain(|o| {
        let mut named = resources.iter().filter(|resource| !is_envelope(resource));
        is_meant(placement, o.spec.placement.as_ref(), Some(&o.key.namespace))
            && named.any(|resource| selects_namespaced(o, resource))
    });
    Concerning { wide, narrow }
}

impl Concerning<'_> {
    /// Whether no cluster needs to be looked at.
    pub fn is_empty(&self) -> bool {
        self.wide.is_empty() && self.narrow.is_empty()
    }

    /// Those that a cluster with these labels gets.
    pub fn on(&self, labels: &PackedMap) -> Result<Chosen, BadSelector> {
        let mut chosen = Chosen::default();
        let bad = |snapshot: &str, cause| BadSelector { snapshot: snapshot.to_owned(), cause };
        for o in &self.wide {
            if is_for(&o.spec.policy, labels).map_err(|cause| bad(&o.name, cause))? {
                chosen.wide.push(o.name.clone());
            }
        }
        for o in &self.narrow {
            if is_for(&o.spec.policy, labels).map_err(|cause| bad(&o.key.name, cause))? {
                chosen.narrow.push(o.key.clone());
            }
        }
        chosen.wide.sort_unstable();
        chosen.narrow.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Ok(chosen)
    }
}

/// Whether an override is meant for this placement. One in a namespace that names a
/// namespaced placement means the placement beside it.
fn is_meant(placement: &ObjectKey, named: Option<&PlacementRef>, beside: Option<&str>) -> bool {
    let Some(named) = named else { return true };
    let namespace = placement.namespace.as_deref();
    named.name == placement.name
        && match named.scope.unwrap_or_default() {
            PlacementScope::Cluster => namespace.is_none(),
            PlacementScope::Namespaced => namespace.is_some() && beside == namespace,
        }
}

/// While a snapshot takes over from the one before it, both are labelled the latest. Only
/// the one with the higher index counts.
fn newest<'a, T>(latest: &'a [T], name: fn(&'a T) -> (&'a str, &'a str)) -> Vec<&'a T> {
    type Rank = Option<SnapshotIndex>;
    let mut newest: BTreeMap<(&str, &str), (Rank, &T)> = BTreeMap::new();
    for snapshot in latest {
        let (namespace, name) = name(snapshot);
        // A name that nobody of ours gave stands for itself.
        let read = name.rsplit_once('-').map(|(of, index)| (of, index.parse().ok()));
        let (of, index) = read.filter(|(_, index)| index.is_some()).unwrap_or((name, None));
        match newest.get(&(namespace, of)) {
            Some((other, _)) if *other >= index => {}
            _ => {
                newest.insert((namespace, of), (index, snapshot));
            }
        }
    }
    newest.into_values().map(|(_, snapshot)| snapshot).collect()
}
