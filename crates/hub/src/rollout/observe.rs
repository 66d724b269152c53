//! What one pass looks at.
//!
//! A pass counts bindings, and its own last writes must be among what it counts: it waits until
//! the mirror shows them. Snapshots come from the mirror that the work generator
//! reads too, so that no binding names one the generator cannot see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_rules::model::{Binding, Cluster};
use flagship_rules::rollout::Observed;
use flagship_runtime::effects::PendingWrites;
use flagship_runtime::error_action::Failure;

use crate::counted_bindings::{Uncounted, bindings_of};
use crate::hub::Context;
use crate::mirrors::{Mirrors, ResourceSnapshot, ScopeMirrors};
use crate::scope::Scoped;

/// Reads everything for one pass; `None` if the placement is gone, going, or moved by
/// update runs.
pub(super) async fn observe<S: Scoped>(
    cx: &Context,
    mirrors: &Mirrors,
    scope: &ScopeMirrors,
    key: &ObjectKey,
    is_shown: bool,
    seen: &PendingWrites<ObjectKey>,
) -> Result<Option<Observed>, Failure> {
    let Some(placement) = scope.placements.get(key) else { return Ok(None) };
    if placement.deleting || placement.value.is_external() {
        return Ok(None);
    }
    let counted = bindings_of::<S>(cx, scope, key, is_shown, seen).await;
    let bindings = counted.map_err(|uncounted| match uncounted {
        Uncounted::Failed(error) => Failure::from(error),
        Uncounted::Malformed(problem) => {
            Failure::back_off(format!("a binding cannot be read: {problem}"))
        }
    })?;
    let snapshots = latest_groups(scope.resources_of(key));
    let mut observed = Observed {
        now: cx.env.now(),
        placement: placement.value.clone(),
        bindings,
        resource_snapshots: snapshots.iter().map(|snapshot| snapshot.value.clone()).collect(),
        clusters: BTreeMap::new(),
        cluster_overrides: mirrors.overrides.latest_wide(),
        overrides: Vec::new(),
    };
    let namespaces = namespaces(key, &snapshots);
    let narrow = namespaces.into_iter().flat_map(|name| mirrors.overrides.latest_narrow(name));
    observed.overrides = narrow.collect();
    if !observed.cluster_overrides.is_empty() || !observed.overrides.is_empty() {
        observed.clusters = clusters(mirrors, &observed.bindings);
    }
    Ok(Some(observed))
}

/// The snapshots of the latest version; there may be two of them for a moment.
fn latest_groups(all: Vec<Arc<ResourceSnapshot>>) -> Vec<Arc<ResourceSnapshot>> {
    let latest: BTreeSet<Option<String>> =
        all.iter().filter(|s| s.value.latest).map(|s| s.value.index.clone()).collect();
    all.into_iter().filter(|snapshot| latest.contains(&snapshot.value.index)).collect()
}

/// Namespaces whose overrides may be about the placement: overrides change what lives
/// beside them.
fn namespaces<'a>(key: &'a ObjectKey, snapshots: &'a [Arc<ResourceSnapshot>]) -> BTreeSet<&'a str> {
    if let Some(namespace) = &key.namespace {
        return BTreeSet::from([namespace.as_str()]);
    }
    let resources =
        snapshots.iter().flat_map(|s| s.value.resources.iter().chain(&s.value.enveloped));
    resources.map(|resource| resource.namespace.as_str()).filter(|name| !name.is_empty()).collect()
}

fn clusters(mirrors: &Mirrors, bindings: &[Binding]) -> BTreeMap<String, Arc<Cluster>> {
    let names: BTreeSet<&str> = bindings.iter().map(Binding::cluster).collect();
    let known = names.into_iter().filter_map(|name| {
        let cluster = mirrors.members.clusters.get(&ObjectKey::cluster(name))?;
        Some((name.to_owned(), cluster.value.clone()))
    });
    known.collect()
}
