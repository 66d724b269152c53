//! Which requests an API server shows to the guard rails.
//!
//! One webhook configuration with six webhooks, all served at one path. An unanswered
//! request passes after a second: a hub that is down must not lock the cluster it runs on.

use std::collections::BTreeMap;

use flagship_api::keys::label;

use super::super::Operation::{self, Create, Delete, Update};
use super::super::{JOINING, PLACING};
use super::NETWORKING;

/// One webhook of the guard rails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardRail {
    /// Name of the webhook, which a refusal begins with.
    pub name: &'static str,
    /// Whose namespaces it covers; cluster-scoped kinds have none.
    pub namespaces: Option<NamespaceMatch>,
    /// What it is shown.
    pub rules: Vec<ResourceRule>,
}

/// A `matchExpressions` term over the labels of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceMatch {
    /// Label of the namespace.
    pub label: &'static str,
    /// Values of which it must have one.
    pub values: &'static [&'static str],
}

/// A rule of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceRule {
    /// What requests do.
    pub operations: &'static [Operation],
    /// Group, or `*`.
    pub group: &'static str,
    /// Version, or `*`.
    pub version: &'static str,
    /// Plurals, with subresources.
    pub resources: &'static [&'static str],
}

impl GuardRail {
    /// Whether a request is shown to this webhook. `labels` are those of the request's
    /// namespace; a cluster-scoped object has none and is shown by its kind alone.
    pub fn covers(
        &self,
        operation: Operation,
        (group, version, resource): (&str, &str, &str),
        labels: Option<&BTreeMap<String, String>>,
    ) -> bool {
        let here = self.namespaces.is_none_or(|wanted| {
            let value = labels.and_then(|labels| labels.get(wanted.label));
            value.is_some_and(|value| wanted.values.contains(&value.as_str()))
        });
        let matches = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        here && self.rules.iter().any(|rule| {
            rule.operations.contains(&operation)
                && matches(rule.group, group)
                && matches(rule.version, version)
                && rule.resources.iter().any(|one| *one == "*/*" || *one == resource)
        })
    }
}

impl GuardRail {
    /// What a client is told that was refused.
    pub fn refusal(&self, why: &str) -> String {
        super::super::registration::denied(self.name, why)
    }
}

/// Where all guard rails are served.
pub const PATH: &str = "/validate-fleetresourcehandler";
/// Name of their webhook configuration.
pub const CONFIGURATION: &str = "fleet-guard-rail-webhook-configuration";

const ALL: &[Operation] = &[Create, Update, Delete];
const WRITES: &[Operation] = &[Create, Update];
/// Kubernetes puts it on every namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

const fn shown(
    operations: &'static [Operation],
    group: &'static str,
    version: &'static str,
    resources: &'static [&'static str],
) -> ResourceRule {
    ResourceRule { operations, group, version, resources }
}

/// What of a guarded namespace is shown. Leases and Events are left out on purpose: they
/// are written all the time and decide nothing.
const NAMESPACED: &[ResourceRule] = &[
    shown(&[Delete], "*", "*", &["*/*"]),
    shown(
        WRITES,
        "",
        "v1",
        &[
            "bindings",
            "configmaps",
            "endpoints",
            "limitranges",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "podtemplates",
            "pods",
            "pods/status",
            "replicationcontrollers",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
            "secrets",
            "serviceaccounts",
            "serviceaccounts/token",
            "services",
            "services/status",
        ],
    ),
    shown(
        WRITES,
        "apps",
        "v1",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/status",
            "replicasets",
            "replicasets/status",
            "statefulsets",
            "statefulsets/status",
        ],
    ),
    shown(WRITES, "authorization.k8s.io", "v1", &["localsubjectaccessreviews"]),
    shown(
        WRITES,
        "autoscaling",
        "v1",
        &["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
    ),
    shown(WRITES, "batch", "v1", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    shown(WRITES, "discovery.k8s.io", "v1", &["endpointslices"]),
    shown(
        WRITES,
        "networking.k8s.io",
        "v1",
        &["ingresses", "ingresses/status", "networkpolicies", "networkpolicies/status"],
    ),
    shown(WRITES, "policy", "v1", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    shown(WRITES, "rbac.authorization.k8s.io", "v1", &["roles", "rolebindings"]),
    shown(WRITES, "storage.k8s.io", "v1", &["csistoragecapacities"]),
    shown(WRITES, JOINING, "v1beta1", &["internalmemberclusters", "internalmemberclusters/status"]),
    shown(WRITES, PLACING, "v1beta1", &["works", "works/status"]),
    shown(
        WRITES,
        NETWORKING,
        "v1alpha1",
        &[
            "endpointsliceexports",
            "endpointsliceimports",
            "internalserviceexports",
            "internalserviceexports/status",
            "internalserviceimports",
            "internalserviceimports/status",
        ],
    ),
];

/// All guard rails, in the order to list them.
pub fn guard_rails() -> Vec<GuardRail> {
    let cluster = |name, rule| GuardRail { name, namespaces: None, rules: vec![rule] };
    let inside = |name, label, values| GuardRail {
        name,
        namespaces: Some(NamespaceMatch { label, values }),
        rules: NAMESPACED.to_vec(),
    };
    vec![
        cluster(
            "fleet.customresourcedefinition.guardrail.validating",
            shown(ALL, "apiextensions.k8s.io", "v1", &["customresourcedefinitions"]),
        ),
        cluster(
            "fleet.membercluster.guardrail.validating",
            shown(ALL, JOINING, "v1beta1", &["memberclusters", "memberclusters/status"]),
        ),
        inside(
            "fleet.fleetmembernamespacedresources.guardrail.validating",
            label::IS_FLEET_RESOURCE,
            &["true"],
        ),
        inside(
            "fleet.fleetsystemnamespacedresources.guardrail.validating",
            NAME_LABEL,
            &["fleet-system"],
        ),
        inside(
            "fleet.kubenamespacedresources.guardrail.validating",
            NAME_LABEL,
            &["kube-system", "kube-public", "kube-node-lease"],
        ),
        cluster("fleet.namespace.guardrail.validating", shown(ALL, "", "v1", &["namespaces"])),
    ]
}
