//! Which overrides a cluster gets on the way: recorded once, when a run is initialized.

use std::collections::BTreeMap;

use flagship_api::overrides::{OverridePolicy, PlacementRef, PlacementScope};
use flagship_api::placement_status::{NamespacedName, ResourceIdentifier};
use flagship_api::staged_update_status::StageUpdatingStatus;

use super::observed::{ClusterOverride, NamespacedOverride, Observed};
use super::words::Failure;
use crate::overrides::clusters;
use crate::overrides::selection::{selects_namespaced, selects_wide};

type Labels = BTreeMap<String, String>;

/// Writes the names of the overrides that fit resources and cluster into every entry.
pub fn record(
    seen: &Observed,
    resources: &[ResourceIdentifier],
    stages: &mut [StageUpdatingStatus],
) -> Result<(), Failure> {
    let wide: Vec<&ClusterOverride> = seen
        .cluster_overrides
        .iter()
        .filter(|o| is_for(seen, o.spec.placement.as_ref(), None))
        .filter(|o| resources.iter().any(|resource| selects_wide(o, resource)))
        .collect();
    let narrow: Vec<&NamespacedOverride> = seen
        .overrides
        .iter()
        .filter(|o| is_for(seen, o.spec.placement.as_ref(), Some(&o.key.namespace)))
        .filter(|o| resources.iter().any(|resource| selects_namespaced(o, resource)))
        .collect();
    let labels: BTreeMap<&str, &Labels> =
        seen.clusters.iter().map(|cluster| (cluster.name.as_str(), &cluster.labels)).collect();
    for cluster in stages.iter_mut().flat_map(|stage| &mut stage.clusters) {
        let Some(labels) = labels.get(cluster.cluster_name.as_str()) else { continue };
        let mut names = Vec::new();
        for o in &wide {
            if fits(&o.name, &o.spec.policy, labels)? {
                names.push(o.name.clone());
            }
        }
        names.sort_unstable();
        let mut keys: Vec<NamespacedName> = Vec::new();
        for o in &narrow {
            if fits(&o.key.name, &o.spec.policy, labels)? {
                keys.push(o.key.clone());
            }
        }
        keys.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        cluster.cluster_resource_override_snapshots = names;
        cluster.resource_override_snapshots = keys;
    }
    Ok(())
}

/// Whether an override is meant for this placement. One in a namespace that names a
/// namespaced placement means the placement beside it.
fn is_for(seen: &Observed, placement: Option<&PlacementRef>, namespace: Option<&str>) -> bool {
    let Some(named) = placement else { return true };
    if named.name != seen.run.spec.placement_name {
        return false;
    }
    match named.scope.unwrap_or_default() {
        PlacementScope::Cluster => seen.run.namespace.is_none(),
        PlacementScope::Namespaced => {
            seen.run.namespace.is_some() && namespace == seen.run.namespace.as_deref()
        }
    }
}

fn fits(name: &str, policy: &OverridePolicy, labels: &Labels) -> Result<bool, Failure> {
    clusters::is_for(policy, labels).map_err(|cause| {
        Failure::valid_user(format!("override snapshot {name} has a bad cluster selector: {cause}"))
    })
}
