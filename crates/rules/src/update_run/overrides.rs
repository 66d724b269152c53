//! Which overrides a cluster gets on the way: recorded once, when a run is initialized.

use std::collections::BTreeMap;

use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::staged_update_status::StageUpdatingStatus;

use super::messages::Failure;
use super::observed::Observed;
use crate::overrides::belonging::{BadSelector, concerning};

/// Writes the names of the overrides that fit resources and cluster into every entry.
pub fn record(
    seen: &Observed,
    resources: &[ResourceIdentifier],
    stages: &mut [StageUpdatingStatus],
) -> Result<(), Failure> {
    let placement = seen.run.placement_key();
    let concerning = concerning(&placement, resources, &seen.cluster_overrides, &seen.overrides);
    let labels: BTreeMap<_, _> =
        seen.clusters.iter().map(|cluster| (cluster.name.as_str(), &cluster.labels)).collect();
    for cluster in stages.iter_mut().flat_map(|stage| &mut stage.clusters) {
        let Some(labels) = labels.get(cluster.cluster_name.as_str()) else { continue };
        let chosen = concerning.on(labels).map_err(|BadSelector { snapshot, cause }| {
            Failure::valid_user(format!(
                "override snapshot {snapshot} has a bad cluster selector: {cause}"
            ))
        })?;
        cluster.cluster_resource_override_snapshots = chosen.wide;
        cluster.resource_override_snapshots = chosen.narrow;
    }
    Ok(())
}
