//! The order in which manifests are applied: what others need comes first.
//!
//! Waves go one after the other, the manifests of a wave side by side. A failure stops
//! nothing, and no wave waits until the one before it works.

use std::collections::BTreeMap;

use super::apply_options::ApplyOptions;
use super::manifest::Manifest;

/// The wave of everything that has no place of its own.
pub const LAST_WAVE: u16 = 999;

/// Groups whose resources have places; elsewhere a familiar name means nothing.
const GROUPS: [&str; 12] = [
    "",
    "networking.k8s.io",
    "scheduling.k8s.io",
    "policy",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "rbac.authorization.k8s.io",
    "apps",
    "autoscaling",
    "apiregistration.k8s.io",
    "admissionregistration.k8s.io",
    "batch",
];

/// The manifests to process, as places in the list, wave by wave. Those in trouble are in no
/// wave; where nothing is applied, one wave has them all.
pub fn waves(manifests: &[Manifest], terms: &ApplyOptions) -> Vec<Vec<usize>> {
    let mut waves: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (at, manifest) in manifests.iter().enumerate() {
        if manifest.untried.is_none() {
            let of = &manifest.identifier;
            let wave = if terms.only_compares() { 0 } else { wave(&of.group, &of.resource) };
            waves.entry(wave).or_default().push(at);
        }
    }
    waves.into_values().collect()
}

fn wave(group: &str, resource: &str) -> u16 {
    if !GROUPS.contains(&group) {
        return LAST_WAVE;
    }
    match resource {
        "namespaces" | "priorityclasses" => 0,
        "networkpolicies"
        | "resourcequotas"
        | "limitranges"
        | "podsecuritypolicies"
        | "poddisruptionbudgets"
        | "serviceaccounts"
        | "secrets"
        | "configmaps"
        | "storageclasses"
        | "persistentvolumes"
        | "persistentvolumeclaims"
        | "customresourcedefinitions"
        | "ingressclasses" => 1,
        "clusterroles" | "roles" => 2,
        "clusterrolebindings" | "rolebindings" => 3,
        "services"
        | "daemonsets"
        | "pods"
        | "replicationcontrollers"
        | "replicasets"
        | "deployments"
        | "horizontalpodautoscalers"
        | "statefulsets"
        | "jobs"
        | "cronjobs"
        | "ingresses" => 4,
        "apiservices" | "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => 5,
        _ => LAST_WAVE,
    }
}
