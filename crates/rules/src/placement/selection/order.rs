//! The order selected resources stand in, by kind first.
//!
//! It exists so that equal selections have equal hashes; members apply in an order of
//! their own. The table must never change: it is part of every hash.

use flagship_api::placement_status::ResourceIdentifier;

use super::hub::Kind;

const RANKS: [&str; 32] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// What a resource is sorted by: rank of its kind, its type, its place. Unknown kinds
/// come last, by their full type; known ones ignore the group until all else is equal.
pub fn sort_key(of: &ResourceIdentifier) -> (usize, String, String) {
    let kind = Kind::new(&of.group, &of.version, &of.kind);
    let place = format!("{}/{}", of.namespace, of.name);
    match RANKS.iter().position(|known| *known == of.kind) {
        Some(rank) => (rank, kind.api_version(), place),
        None => (RANKS.len(), kind.to_string(), place),
    }
}
