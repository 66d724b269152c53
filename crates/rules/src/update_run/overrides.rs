//! Which overrides a cluster gets on the way: recorded once, when a run is initialized.

use std::collections::BTreeMap;

use flagship_api::overrides::{OverridePolicy, PlacementRef, PlacementScope};
use flagship_api::placement_status::{NamespacedName, ResourceIdentifier};
use flagship_api::selector::Selector;
use flagship_api::staged_update_status::StageUpdatingStatus;

use super::observed::{ClusterOverride, NamespacedOverride, Observed};
use super::words::Failure;

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
        .filter(|o| resources.iter().any(|resource| touches_widely(o, resource)))
        .collect();
    let narrow: Vec<&NamespacedOverride> = seen
        .overrides
        .iter()
        .filter(|o| is_for(seen, o.spec.placement.as_ref(), Some(&o.key.namespace)))
        .filter(|o| resources.iter().any(|resource| touches(o, resource)))
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

/// A cluster-wide override reaches cluster-scoped resources, and everything in a namespace
/// by the namespace's name.
fn touches_widely(o: &ClusterOverride, resource: &ResourceIdentifier) -> bool {
    let named = |group: &str, version: &str, kind: &str, name: &str| {
        o.spec.cluster_resource_selectors.iter().any(|term| {
            term.group == group && term.version == version && term.kind == kind && term.name == name
        })
    };
    if resource.namespace.is_empty() {
        named(&resource.group, &resource.version, &resource.kind, &resource.name)
    } else {
        named("", "v1", "Namespace", &resource.namespace)
    }
}

fn touches(o: &NamespacedOverride, resource: &ResourceIdentifier) -> bool {
    resource.namespace == o.key.namespace
        && o.spec.resource_selectors.iter().any(|term| {
            term.group == resource.group
                && term.version == resource.version
                && term.kind == resource.kind
                && term.name == resource.name
        })
}

/// Whether any rule is for a cluster with these labels. No selector means no cluster, one
/// without terms every cluster.
fn fits(name: &str, policy: &OverridePolicy, labels: &Labels) -> Result<bool, Failure> {
    for rule in &policy.override_rules {
        let Some(selector) = &rule.cluster_selector else { continue };
        if selector.cluster_selector_terms.is_empty() {
            return Ok(true);
        }
        for term in &selector.cluster_selector_terms {
            let selector = Selector::new(term.label_selector.as_ref()).map_err(|error| {
                let why = format!("override snapshot {name} has a bad cluster selector: {error}");
                Failure::valid_user(why)
            })?;
            if selector.matches(labels) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
