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
use super::observed::{Content, Observed};
use super::pass_error::{PassError, Stage};
use crate::model::Cluster;
use crate::overrides::manifest::{
    Overridden, apply, cluster_override_missing, override_missing, target,
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
        if self.wide.is_empty() && self.narrow.is_empty() {
            return Ok(Some(manifest.clone()));
        }
        let unreadable =
            |error: serde_json::Error| PassError::unexpected(Stage::Sync, error.to_string());
        let tree: Value = manifest.parse().map_err(unreadable)?;
        let cluster = Target { name: &self.cluster.name, labels: &self.cluster.labels };
        let overridden = apply(&tree, &self.wide, &self.narrow, cluster).map_err(|failure| {
            let cause = match wrapper {
                Some(wrapper) => format!(
                    "failed to apply overrides to {} from envelope {wrapper}: {failure}",
                    target(&tree)
                ),
                None => failure.to_string(),
            };
            PassError::user(Stage::Override, cause)
        })?;
        Ok(match overridden {
            Overridden::Untouched => Some(manifest.clone()),
            Overridden::Changed(tree) => Some(RawJson::of(&tree).map_err(unreadable)?),
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
    Some(hash::of(&(&cluster.name, &cluster.labels, said)).unwrap_or_default())
}

/// Hash of manifests as they are.
pub fn manifests_hash(manifests: &[RawJson]) -> String {
    let texts: Vec<&str> = manifests.iter().map(RawJson::text).collect();
    hash::of(&texts).unwrap_or_default()
}
