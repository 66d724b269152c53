//! Does the namespace of a namespaced placement exist on a cluster?
//!
//! Cluster-scoped placements bring their namespaces along and are not asked.

use crate::model::Cluster;

/// Why the cluster cannot take objects of this namespace; `None` when it can, or
/// when its agent does not collect namespaces.
pub fn missing(cluster: &Cluster, namespace: Option<&str>) -> Option<&'static str> {
    let namespace = namespace?;
    if !cluster.collects_namespaces {
        return None;
    }
    match &cluster.namespaces {
        None => Some("cluster has no namespace information available"),
        Some(known) if !known.contains_key(namespace) => {
            Some("target namespace does not exist on cluster")
        }
        Some(_) => None,
    }
}
