//! The manifests of every Work, overrides applied.
//!
//! All or nothing: a mistake in the last snapshot must not leave the first half of a new
//! version in the member.

use std::collections::BTreeMap;

use flagship_api::hash;
use flagship_api::names::EnvelopeRef;
use flagship_api::raw_json::RawJson;
use serde_json::Value;

use super::envelope::{check_reach, unwrapped};
use super::group::{Group, envelope, partial};
use super::observed::{Content, Observed, Stamp};
use super::pass_error::{PassError, Stage};
use crate::model::Cluster;
use crate::overrides::manifest::{
    Overridden, OverrideFailure, apply, cluster_override_missing, override_missing,
};
use crate::overrides::{ClusterOverride, NamespacedOverride, Target};
use crate::placement::identifier;

/// Manifests by the name a Work would have if it were new.
pub type Rendered = BTreeMap<String, Vec<RawJson>>;

/// The overrides a binding names, in its order, and the cluster they are for.
struct Overrides<'a> {
    wide: Vec<ClusterOverride>,
    narrow: Vec<NamespacedOverride>,
    cluster: &'a Cluster,
}

/// Which rules rendered a Work with overrides; their number grows when they refuse what they
/// took before. What older ones rendered is judged again.
const RULES: &str = "2-";

/// Renders every Work of the group.
pub fn render(
    seen: &Observed,
    cluster: &Cluster,
    group: &Group<'_>,
    content: &Content,
) -> Result<Rendered, PassError> {
    let overrides = Overrides::named(seen, cluster, content)?;
    let mut rendered = Rendered::new();
    for (snapshot, work) in &group.snapshots {
        let Some(held) = content.snapshots.get(&snapshot.name) else {
            // Seen a moment ago, and gone by now.
            let whole = group.snapshots.len();
            let expected = i64::try_from(whole).unwrap_or(i64::MAX);
            return Err(partial(
                seen,
                &seen.binding.spec.resource_snapshot_name,
                expected,
                whole - 1,
            ));
        };
        let mut plain = Vec::new();
        for manifest in &held.resources {
            let placed = identifier(manifest);
            check_reach(&seen.binding, &placed)?;
            match envelope(&placed) {
                Some(wrapper) => {
                    let inside = overrides.on_wrapped(&wrapper, manifest)?;
                    rendered.insert(wrapper.work(work), inside);
                }
                None => plain.extend(overrides.on(manifest, None)?),
            }
        }
        rendered.insert(work.clone(), plain);
    }
    Ok(rendered)
}

/// The same without what is refused, if something is that an override made another object of;
/// else nothing.
pub fn without_refused(
    seen: &Observed,
    cluster: &Cluster,
    group: &Group<'_>,
    content: &Content,
) -> Option<Rendered> {
    let overrides = Overrides::named(seen, cluster, content).ok()?;
    let (mut rendered, mut made_another) = (Rendered::new(), false);
    let mut keep = |manifest: &RawJson| {
        let applied = overrides.on_tree(manifest);
        made_another |=
            matches!(&applied, Err(Refused::Override(failure)) if failure.makes_another);
        applied.ok().flatten()
    };
    for (snapshot, work) in &group.snapshots {
        let held = content.snapshots.get(&snapshot.name)?;
        let mut plain = Vec::new();
        for manifest in &held.resources {
            let placed = identifier(manifest);
            let reached = check_reach(&seen.binding, &placed).is_ok();
            match envelope(&placed) {
                Some(wrapper) => {
                    let inside = unwrapped(&wrapper, manifest).ok().filter(|_| reached);
                    let inside = inside.iter().flatten().filter_map(&mut keep).collect();
                    rendered.insert(wrapper.work(work), inside);
                }
                None if reached => plain.extend(keep(manifest)),
                None => {}
            }
        }
        rendered.insert(work.clone(), plain);
    }
    made_another.then_some(rendered)
}

/// Why a manifest cannot be overridden.
enum Refused {
    /// It, or what came of it, is no JSON.
    NoJson(serde_json::Error),
    /// A mistake in an override of this manifest.
    Override(OverrideFailure),
}

impl<'a> Overrides<'a> {
    fn named(seen: &Observed, cluster: &'a Cluster, content: &Content) -> Result<Self, PassError> {
        let missing = |cause| PassError::user(Stage::Override, cause);
        let wide = seen.binding.spec.cluster_resource_override_snapshots.iter().map(|name| {
            let found = content.cluster_overrides.iter().find(|known| known.name == *name);
            found.cloned().ok_or_else(|| missing(cluster_override_missing(name)))
        });
        let narrow = seen.binding.spec.resource_override_snapshots.iter().map(|key| {
            let found = content.overrides.iter().find(|known| known.key == *key);
            found.cloned().ok_or_else(|| missing(override_missing(key)))
        });
        Ok(Self {
            wide: wide.collect::<Result<_, _>>()?,
            narrow: narrow.collect::<Result<_, _>>()?,
            cluster,
        })
    }

    /// The manifest as the cluster gets it, if it gets it. What no override is for stays
    /// the same to the byte.
    fn on(
        &self,
        manifest: &RawJson,
        wrapper: Option<&EnvelopeRef>,
    ) -> Result<Option<RawJson>, PassError> {
        self.on_tree(manifest).map_err(|refused| match (refused, wrapper) {
            (Refused::NoJson(error), _) => PassError::unexpected(Stage::Sync, error.to_string()),
            (Refused::Override(failure), Some(wrapper)) => {
                let target = &failure.target;
                let cause = format!(
                    "failed to apply overrides to {target} from envelope {wrapper}: {failure}"
                );
                PassError::user(Stage::Override, cause)
            }
            (Refused::Override(failure), None) => {
                PassError::user(Stage::Override, failure.to_string())
            }
        })
    }

    fn on_tree(&self, manifest: &RawJson) -> Result<Option<RawJson>, Refused> {
        if self.wide.is_empty() && self.narrow.is_empty() {
            return Ok(Some(manifest.clone()));
        }
        let tree: Value = manifest.parse().map_err(Refused::NoJson)?;
        let cluster = Target { name: &self.cluster.name, labels: &self.cluster.labels };
        let overridden =
            apply(&tree, &self.wide, &self.narrow, cluster).map_err(Refused::Override)?;
        Ok(match overridden {
            Overridden::Untouched => Some(manifest.clone()),
            Overridden::Changed(tree) => Some(RawJson::of(&tree).map_err(Refused::NoJson)?),
            Overridden::Dropped => None,
        })
    }

    fn on_wrapped(
        &self,
        wrapper: &EnvelopeRef,
        manifest: &RawJson,
    ) -> Result<Vec<RawJson>, PassError> {
        let inside = unwrapped(wrapper, manifest)?;
        let each = inside.iter().filter_map(|wrapped| self.on(wrapped, Some(wrapper)).transpose());
        each.collect()
    }
}

/// Hash of what overrides say and look at, besides the names that the public annotations
/// hold. Nothing without overrides, and nothing while one of them cannot be seen: what was
/// made with it stays good.
pub fn inputs_hash(seen: &Observed, cluster: &Cluster) -> Option<String> {
    let said = seen.override_hashes.as_ref().filter(|_| seen.binding.is_overridden())?;
    let hash = hash::of(&(&cluster.name, &cluster.labels, said)).unwrap_or_default();
    Some(format!("{RULES}{hash}"))
}

/// What a Work says of its inputs that carries less than they say.
pub fn inputs_refused() -> String {
    format!("{RULES}refused")
}

/// Whether rules rendered a Work that took what these refuse.
pub fn by_older_rules(stamp: &Stamp) -> bool {
    !stamp.inputs.as_ref().is_some_and(|inputs| inputs.starts_with(RULES))
}

/// Hash of manifests as they are.
pub fn manifests_hash(manifests: &[RawJson]) -> String {
    let texts: Vec<&str> = manifests.iter().map(RawJson::text).collect();
    hash::of(&texts).unwrap_or_default()
}
