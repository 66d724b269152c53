//! Which resources an override names.
//!
//! A cluster-wide override that names a namespace means everything in it too. An override
//! in a namespace reaches only what lives there.

use flagship_api::overrides::ResourceSelector;
use flagship_api::placement_status::ResourceIdentifier;

use super::{ClusterOverride, NamespacedOverride};

/// Whether a cluster-wide override is about this resource, or about its namespace.
pub fn selects_wide(o: &ClusterOverride, resource: &ResourceIdentifier) -> bool {
    let named = |group: &str, version: &str, kind: &str, name: &str| {
        o.spec.cluster_resource_selectors.iter().any(|term| {
            term.group == group && term.version == version && term.kind == kind && term.name == name
        })
    };
    match resource.namespace.as_str() {
        "" => named(&resource.group, &resource.version, &resource.kind, &resource.name),
        namespace => named("", "v1", "Namespace", namespace),
    }
}

/// Whether an override in a namespace is about this resource.
pub fn selects_namespaced(o: &NamespacedOverride, resource: &ResourceIdentifier) -> bool {
    resource.namespace == o.key.namespace
        && o.spec.resource_selectors.iter().any(
            |ResourceSelector { group, version, kind, name }| {
                *group == resource.group
                    && *version == resource.version
                    && *kind == resource.kind
                    && *name == resource.name
            },
        )
}
