//! What clusters should get now: the latest resources, and the overrides for each.

use std::sync::Arc;

use flagship_api::names::SnapshotIndex;
use flagship_api::placement_status::ResourceIdentifier;

use super::observed::Observed;
use crate::model::{Binding, ResourceSnapshot};
use crate::overrides::belonging::{BadSelector, Chosen, Concerning, concerning};
use crate::placement::PassError;
use crate::placement::resource_snapshots::{bad_count, content, incomplete};

/// What every cluster should get.
pub struct Wanted<'a> {
    seen: &'a Observed,
    /// The first object of the latest resources.
    pub master: &'a str,
    overrides: Concerning<'a>,
}

/// Finds the latest resources; `None` while there are none.
pub fn wanted(seen: &Observed) -> Result<Option<Wanted<'_>>, PassError> {
    let all = seen.resource_snapshots.iter().map(Arc::as_ref);
    let latest: Vec<&ResourceSnapshot> = all.filter(|snapshot| snapshot.latest).collect();
    if latest.is_empty() {
        return Ok(None);
    }
    let index = |s: &ResourceSnapshot| s.index.as_deref().and_then(|text| text.parse().ok());
    let is_master = |s: &&ResourceSnapshot| s.hash.as_ref().is_some_and(|hash| !hash.is_empty());
    // Two of them while one takes over from the other.
    let master = latest.into_iter().filter(is_master).max_by_key(|s| index(s));
    let master = master.ok_or_else(|| {
        let key = seen.placement.key();
        PassError::Unexpected(format!("no master resourceSnapshot found for placement {key}"))
    })?;
    let overrides = if seen.cluster_overrides.is_empty() && seen.overrides.is_empty() {
        Concerning::default()
    } else {
        let resources = whole_group(seen, master, index(master))?;
        let key = seen.placement.key();
        concerning(&key, &resources, &seen.cluster_overrides, &seen.overrides)
    };
    Ok(Some(Wanted { seen, master: &master.name, overrides }))
}

impl Wanted<'_> {
    /// The overrides for a binding's cluster. Without overrides for the placement the
    /// cluster is not asked for.
    pub fn overrides_for(&self, binding: &Binding) -> Result<Chosen, PassError> {
        if self.overrides.is_empty() {
            return Ok(Chosen::default());
        }
        let cluster = binding.cluster();
        let found = self.seen.clusters.get(cluster).ok_or_else(|| {
            PassError::Expected(format!(
                "member cluster {cluster} of {} is not found",
                binding.name
            ))
        })?;
        self.overrides.on(&found.labels).map_err(|BadSelector { snapshot, cause }| {
            PassError::User(format!("override snapshot {snapshot}: {cause}"))
        })
    }

    /// Whether a binding names exactly this.
    pub fn is_in(&self, binding: &Binding, overrides: &Chosen) -> bool {
        binding.spec.resource_snapshot_name == self.master
            && binding.spec.cluster_resource_override_snapshots == overrides.wide
            && binding.spec.resource_override_snapshots == overrides.narrow
    }
}

/// Everything in the latest resources and in their envelopes. All objects of the group must
/// be there, or an override might seem to have nothing to do.
fn whole_group(
    seen: &Observed,
    master: &ResourceSnapshot,
    index: Option<SnapshotIndex>,
) -> Result<Vec<ResourceIdentifier>, PassError> {
    let key = seen.placement.key();
    let count = master.count.as_deref().unwrap_or_default();
    let total: SnapshotIndex = count
        .parse()
        .map_err(|error| PassError::Unexpected(bad_count(&key, &master.name, count, &error)))?;
    let group = || seen.resource_snapshots.iter().filter(|s| s.index == master.index);
    let there = group().count();
    if index.is_none() || i64::try_from(there) != Ok(total.get()) {
        return Err(PassError::Expected(incomplete(&key, &master.name, total.get(), there)));
    }
    let mut resources =
        content(&seen.resource_snapshots, master.index.as_deref().unwrap_or_default());
    resources.extend(group().flat_map(|snapshot| &snapshot.enveloped).cloned());
    Ok(resources)
}
