//! The kinds Kubernetes brings with it, as data: names, versions, subresources, rules of writing.
//!
//! One row a kind. [`Kind`] is the key that defaulting, preparation and validation
//! match on; everything that routing and discovery need stands in [`BuiltinKind`].
//!
//! Schemas of these kinds live in `schema`, custom resources in `registry`.

/// A kind Kubernetes brings with it, whatever the version it is served in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Kind {
    Namespace,
    ConfigMap,
    Secret,
    Service,
    Endpoints,
    ServiceAccount,
    Pod,
    PodTemplate,
    ReplicationController,
    Node,
    Event,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceQuota,
    LimitRange,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    ControllerRevision,
    Job,
    CronJob,
    HorizontalPodAutoscaler,
    PodDisruptionBudget,
    Ingress,
    IngressClass,
    NetworkPolicy,
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
    PriorityClass,
    StorageClass,
    CsiDriver,
    CsiNode,
    VolumeAttachment,
    RuntimeClass,
    Lease,
    EndpointSlice,
    ValidatingWebhookConfiguration,
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    CustomResourceDefinition,
    ApiService,
}

/// What the server has to know of a kind besides its schema.
#[derive(Debug)]
pub struct BuiltinKind {
    /// The key for defaulting, preparation and validation.
    pub id: Kind,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Versions served in `group`, preferred first.
    pub versions: &'static [&'static str],
    /// The version objects are stored in.
    pub storage_version: &'static str,
    /// Other groups and versions that show the same stored objects.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Kind as written in manifests.
    pub kind: &'static str,
    /// Kind of a list.
    pub list_kind: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
    /// Resource name for one.
    pub singular: &'static str,
    /// Abbreviations kubectl understands.
    pub short_names: &'static [&'static str],
    /// Groups of resources such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Paths below an object.
    pub subresources: &'static [Subresource],
    /// Fields that field selectors may name, beyond name and namespace.
    pub selectable: &'static [Selectable],
    /// What a name must look like.
    pub name_rule: NameRule,
    /// Whether deletion waits for a grace period (pods).
    pub graceful_deletion: bool,
    /// Whether PUT without a resourceVersion overwrites.
    pub unconditional_update: bool,
    /// Whether PUT on a missing object creates it.
    pub create_on_update: bool,
    /// Whether `metadata.generation` counts changes of the specification.
    pub keeps_generation: bool,
    /// Verbs in discovery, in its order.
    pub verbs: &'static [&'static str],
}

/// A path below an object, such as `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subresource {
    /// Last part of the path.
    pub name: &'static str,
    /// Group of the body's kind; `None` when it is the parent's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// Kind of the body; `None` when it is the parent's.
    pub kind: Option<&'static str>,
    /// Verbs in discovery.
    pub verbs: &'static [&'static str],
}

/// A field that field selectors may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selectable {
    /// The name used in selectors.
    pub label: &'static str,
    /// Where the value stands in the object.
    pub path: &'static [&'static str],
    /// The text that stands for an absent value.
    pub absent: &'static str,
}

/// What a name must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 label: at most 63 of `a-z0-9-`.
    DnsLabel,
    /// RFC 1035 label: as a label, but starting with a letter (services).
    Dns1035Label,
    /// RFC 1123 subdomain: labels joined by dots, at most 253.
    Subdomain,
    /// Anything that can stand between slashes (RBAC).
    PathSegment,
}

impl BuiltinKind {
    /// The resource as `plural` or `plural.group`, as stores and errors name it.
    pub fn resource(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Whether there is a `/status` path.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Every group and version the kind is served in, storage group first.
    pub fn served(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        let own = self.versions.iter().map(|version| (self.group, *version));
        own.chain(self.aliases.iter().copied())
    }

    /// `apiVersion` of stored objects.
    pub fn storage_api_version(&self) -> String {
        match self.group {
            "" => self.storage_version.to_owned(),
            group => format!("{group}/{}", self.storage_version),
        }
    }
}

impl Kind {
    /// The row of this kind.
    pub fn info(self) -> &'static BuiltinKind {
        // Rows stand in the order of the enum; a test holds them to it.
        &CATALOG[self as usize]
    }
}

/// All built-in kinds.
pub fn catalog() -> &'static [BuiltinKind] {
    CATALOG
}

/// The built-in kind served under this group, version and kind, if any.
pub fn find(group: &str, version: &str, kind: &str) -> Option<&'static BuiltinKind> {
    CATALOG.iter().find(|row| row.kind == kind && row.served().any(|gv| gv == (group, version)))
}

/// The built-in kind served under this group, version and plural, if any.
pub fn find_resource(group: &str, version: &str, plural: &str) -> Option<&'static BuiltinKind> {
    CATALOG.iter().find(|row| row.plural == plural && row.served().any(|gv| gv == (group, version)))
}

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Namespaces are deleted one at a time.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

const STATUS: Subresource = Subresource {
    name: "status",
    group_version: None,
    kind: None,
    verbs: &["get", "patch", "update"],
};
const SCALE: Subresource = Subresource {
    name: "scale",
    group_version: Some(("autoscaling", "v1")),
    kind: Some("Scale"),
    verbs: &["get", "patch", "update"],
};
const STATUS_ONLY: &[Subresource] = &[STATUS];
const SCALED: &[Subresource] = &[SCALE, STATUS];
const POD_PATHS: &[Subresource] = &[
    Subresource { name: "binding", group_version: None, kind: Some("Binding"), verbs: &["create"] },
    Subresource {
        name: "ephemeralcontainers",
        group_version: None,
        kind: None,
        verbs: &["get", "patch", "update"],
    },
    Subresource {
        name: "eviction",
        group_version: Some(("policy", "v1")),
        kind: Some("Eviction"),
        verbs: &["create"],
    },
    Subresource { name: "log", group_version: None, kind: None, verbs: &["get"] },
    Subresource {
        name: "resize",
        group_version: None,
        kind: None,
        verbs: &["get", "patch", "update"],
    },
    STATUS,
];
const NAMESPACE_PATHS: &[Subresource] = &[
    Subresource { name: "finalize", group_version: None, kind: None, verbs: &["update"] },
    STATUS,
];
const SERVICE_ACCOUNT_PATHS: &[Subresource] = &[Subresource {
    name: "token",
    group_version: Some(("authentication.k8s.io", "v1")),
    kind: Some("TokenRequest"),
    verbs: &["create"],
}];

const fn field(label: &'static str, path: &'static [&'static str]) -> Selectable {
    Selectable { label, path, absent: "" }
}

const POD_FIELDS: &[Selectable] = &[
    Selectable { label: "spec.hostNetwork", path: &["spec", "hostNetwork"], absent: "false" },
    field("spec.nodeName", &["spec", "nodeName"]),
    field("spec.restartPolicy", &["spec", "restartPolicy"]),
    field("spec.schedulerName", &["spec", "schedulerName"]),
    field("spec.serviceAccountName", &["spec", "serviceAccountName"]),
    field("status.nominatedNodeName", &["status", "nominatedNodeName"]),
    field("status.phase", &["status", "phase"]),
    field("status.podIP", &["status", "podIP"]),
];
const EVENT_FIELDS: &[Selectable] = &[
    field("involvedObject.apiVersion", &["involvedObject", "apiVersion"]),
    field("involvedObject.fieldPath", &["involvedObject", "fieldPath"]),
    field("involvedObject.kind", &["involvedObject", "kind"]),
    field("involvedObject.name", &["involvedObject", "name"]),
    field("involvedObject.namespace", &["involvedObject", "namespace"]),
    field("involvedObject.resourceVersion", &["involvedObject", "resourceVersion"]),
    field("involvedObject.uid", &["involvedObject", "uid"]),
    field("reason", &["reason"]),
    field("reportingComponent", &["reportingComponent"]),
    field("source", &["source", "component"]),
    field("type", &["type"]),
];
const REPLICAS_FIELD: &[Selectable] =
    &[Selectable { label: "status.replicas", path: &["status", "replicas"], absent: "0" }];

/// A row with what most kinds have in common; rows below change what differs.
const fn row(
    id: Kind,
    group: &'static str,
    kind: &'static str,
    list_kind: &'static str,
    plural: &'static str,
    singular: &'static str,
) -> BuiltinKind {
    BuiltinKind {
        id,
        group,
        versions: &["v1"],
        storage_version: "v1",
        aliases: &[],
        kind,
        list_kind,
        plural,
        singular,
        short_names: &[],
        categories: &[],
        namespaced: true,
        subresources: &[],
        selectable: &[],
        name_rule: NameRule::Subdomain,
        graceful_deletion: false,
        unconditional_update: true,
        create_on_update: false,
        keeps_generation: false,
        verbs: ALL_VERBS,
    }
}

const APPS: &str = "apps";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

static CATALOG: &[BuiltinKind] = &[
    BuiltinKind {
        short_names: &["ns"],
        namespaced: false,
        subresources: NAMESPACE_PATHS,
        selectable: &[field("status.phase", &["status", "phase"])],
        name_rule: NameRule::DnsLabel,
        verbs: NAMESPACE_VERBS,
        ..row(Kind::Namespace, "", "Namespace", "NamespaceList", "namespaces", "namespace")
    },
    BuiltinKind {
        short_names: &["cm"],
        ..row(Kind::ConfigMap, "", "ConfigMap", "ConfigMapList", "configmaps", "configmap")
    },
    BuiltinKind {
        selectable: &[field("type", &["type"])],
        ..row(Kind::Secret, "", "Secret", "SecretList", "secrets", "secret")
    },
    BuiltinKind {
        short_names: &["svc"],
        categories: &["all"],
        subresources: STATUS_ONLY,
        selectable: &[
            field("spec.clusterIP", &["spec", "clusterIP"]),
            field("spec.type", &["spec", "type"]),
        ],
        name_rule: NameRule::Dns1035Label,
        create_on_update: true,
        ..row(Kind::Service, "", "Service", "ServiceList", "services", "service")
    },
    BuiltinKind {
        short_names: &["ep"],
        create_on_update: true,
        ..row(Kind::Endpoints, "", "Endpoints", "EndpointsList", "endpoints", "endpoints")
    },
    BuiltinKind {
        short_names: &["sa"],
        subresources: SERVICE_ACCOUNT_PATHS,
        unconditional_update: false,
        ..row(
            Kind::ServiceAccount,
            "",
            "ServiceAccount",
            "ServiceAccountList",
            "serviceaccounts",
            "serviceaccount",
        )
    },
    BuiltinKind {
        short_names: &["po"],
        categories: &["all"],
        subresources: POD_PATHS,
        selectable: POD_FIELDS,
        graceful_deletion: true,
        keeps_generation: true,
        ..row(Kind::Pod, "", "Pod", "PodList", "pods", "pod")
    },
    BuiltinKind {
        keeps_generation: true,
        ..row(
            Kind::PodTemplate,
            "",
            "PodTemplate",
            "PodTemplateList",
            "podtemplates",
            "podtemplate",
        )
    },
    BuiltinKind {
        short_names: &["rc"],
        categories: &["all"],
        subresources: SCALED,
        selectable: REPLICAS_FIELD,
        keeps_generation: true,
        ..row(
            Kind::ReplicationController,
            "",
            "ReplicationController",
            "ReplicationControllerList",
            "replicationcontrollers",
            "replicationcontroller",
        )
    },
    BuiltinKind {
        short_names: &["no"],
        namespaced: false,
        subresources: STATUS_ONLY,
        selectable: &[Selectable {
            label: "spec.unschedulable",
            path: &["spec", "unschedulable"],
            absent: "false",
        }],
        ..row(Kind::Node, "", "Node", "NodeList", "nodes", "node")
    },
    BuiltinKind {
        aliases: &[("events.k8s.io", "v1")],
        short_names: &["ev"],
        selectable: EVENT_FIELDS,
        create_on_update: true,
        ..row(Kind::Event, "", "Event", "EventList", "events", "event")
    },
    BuiltinKind {
        short_names: &["pv"],
        namespaced: false,
        subresources: STATUS_ONLY,
        ..row(
            Kind::PersistentVolume,
            "",
            "PersistentVolume",
            "PersistentVolumeList",
            "persistentvolumes",
            "persistentvolume",
        )
    },
    BuiltinKind {
        short_names: &["pvc"],
        subresources: STATUS_ONLY,
        ..row(
            Kind::PersistentVolumeClaim,
            "",
            "PersistentVolumeClaim",
            "PersistentVolumeClaimList",
            "persistentvolumeclaims",
            "persistentvolumeclaim",
        )
    },
    BuiltinKind {
        short_names: &["quota"],
        subresources: STATUS_ONLY,
        ..row(
            Kind::ResourceQuota,
            "",
            "ResourceQuota",
            "ResourceQuotaList",
            "resourcequotas",
            "resourcequota",
        )
    },
    BuiltinKind {
        short_names: &["limits"],
        create_on_update: true,
        ..row(Kind::LimitRange, "", "LimitRange", "LimitRangeList", "limitranges", "limitrange")
    },
    BuiltinKind {
        short_names: &["deploy"],
        categories: &["all"],
        subresources: SCALED,
        keeps_generation: true,
        ..row(Kind::Deployment, APPS, "Deployment", "DeploymentList", "deployments", "deployment")
    },
    BuiltinKind {
        short_names: &["rs"],
        categories: &["all"],
        subresources: SCALED,
        selectable: REPLICAS_FIELD,
        keeps_generation: true,
        ..row(Kind::ReplicaSet, APPS, "ReplicaSet", "ReplicaSetList", "replicasets", "replicaset")
    },
    BuiltinKind {
        short_names: &["sts"],
        categories: &["all"],
        subresources: SCALED,
        // Its pods are named after it, and a pod's host name is a label.
        name_rule: NameRule::DnsLabel,
        keeps_generation: true,
        ..row(
            Kind::StatefulSet,
            APPS,
            "StatefulSet",
            "StatefulSetList",
            "statefulsets",
            "statefulset",
        )
    },
    BuiltinKind {
        short_names: &["ds"],
        categories: &["all"],
        subresources: STATUS_ONLY,
        keeps_generation: true,
        ..row(Kind::DaemonSet, APPS, "DaemonSet", "DaemonSetList", "daemonsets", "daemonset")
    },
    row(
        Kind::ControllerRevision,
        APPS,
        "ControllerRevision",
        "ControllerRevisionList",
        "controllerrevisions",
        "controllerrevision",
    ),
    BuiltinKind {
        categories: &["all"],
        subresources: STATUS_ONLY,
        selectable: &[Selectable {
            label: "status.successful",
            path: &["status", "succeeded"],
            absent: "0",
        }],
        keeps_generation: true,
        ..row(Kind::Job, "batch", "Job", "JobList", "jobs", "job")
    },
    BuiltinKind {
        short_names: &["cj"],
        categories: &["all"],
        subresources: STATUS_ONLY,
        keeps_generation: true,
        ..row(Kind::CronJob, "batch", "CronJob", "CronJobList", "cronjobs", "cronjob")
    },
    BuiltinKind {
        versions: &["v2", "v1"],
        storage_version: "v2",
        short_names: &["hpa"],
        categories: &["all"],
        subresources: STATUS_ONLY,
        ..row(
            Kind::HorizontalPodAutoscaler,
            "autoscaling",
            "HorizontalPodAutoscaler",
            "HorizontalPodAutoscalerList",
            "horizontalpodautoscalers",
            "horizontalpodautoscaler",
        )
    },
    BuiltinKind {
        short_names: &["pdb"],
        subresources: STATUS_ONLY,
        unconditional_update: false,
        keeps_generation: true,
        ..row(
            Kind::PodDisruptionBudget,
            "policy",
            "PodDisruptionBudget",
            "PodDisruptionBudgetList",
            "poddisruptionbudgets",
            "poddisruptionbudget",
        )
    },
    BuiltinKind {
        short_names: &["ing"],
        subresources: STATUS_ONLY,
        keeps_generation: true,
        ..row(Kind::Ingress, NETWORKING, "Ingress", "IngressList", "ingresses", "ingress")
    },
    BuiltinKind {
        namespaced: false,
        keeps_generation: true,
        ..row(
            Kind::IngressClass,
            NETWORKING,
            "IngressClass",
            "IngressClassList",
            "ingressclasses",
            "ingressclass",
        )
    },
    BuiltinKind {
        short_names: &["netpol"],
        keeps_generation: true,
        ..row(
            Kind::NetworkPolicy,
            NETWORKING,
            "NetworkPolicy",
            "NetworkPolicyList",
            "networkpolicies",
            "networkpolicy",
        )
    },
    BuiltinKind {
        name_rule: NameRule::PathSegment,
        create_on_update: true,
        ..row(Kind::Role, RBAC, "Role", "RoleList", "roles", "role")
    },
    BuiltinKind {
        name_rule: NameRule::PathSegment,
        create_on_update: true,
        ..row(
            Kind::RoleBinding,
            RBAC,
            "RoleBinding",
            "RoleBindingList",
            "rolebindings",
            "rolebinding",
        )
    },
    BuiltinKind {
        namespaced: false,
        name_rule: NameRule::PathSegment,
        create_on_update: true,
        ..row(
            Kind::ClusterRole,
            RBAC,
            "ClusterRole",
            "ClusterRoleList",
            "clusterroles",
            "clusterrole",
        )
    },
    BuiltinKind {
        namespaced: false,
        name_rule: NameRule::PathSegment,
        create_on_update: true,
        ..row(
            Kind::ClusterRoleBinding,
            RBAC,
            "ClusterRoleBinding",
            "ClusterRoleBindingList",
            "clusterrolebindings",
            "clusterrolebinding",
        )
    },
    BuiltinKind {
        short_names: &["pc"],
        namespaced: false,
        keeps_generation: true,
        ..row(
            Kind::PriorityClass,
            "scheduling.k8s.io",
            "PriorityClass",
            "PriorityClassList",
            "priorityclasses",
            "priorityclass",
        )
    },
    BuiltinKind {
        short_names: &["sc"],
        namespaced: false,
        ..row(
            Kind::StorageClass,
            STORAGE,
            "StorageClass",
            "StorageClassList",
            "storageclasses",
            "storageclass",
        )
    },
    BuiltinKind {
        namespaced: false,
        unconditional_update: false,
        ..row(Kind::CsiDriver, STORAGE, "CSIDriver", "CSIDriverList", "csidrivers", "csidriver")
    },
    BuiltinKind {
        namespaced: false,
        unconditional_update: false,
        ..row(Kind::CsiNode, STORAGE, "CSINode", "CSINodeList", "csinodes", "csinode")
    },
    BuiltinKind {
        namespaced: false,
        subresources: STATUS_ONLY,
        unconditional_update: false,
        ..row(
            Kind::VolumeAttachment,
            STORAGE,
            "VolumeAttachment",
            "VolumeAttachmentList",
            "volumeattachments",
            "volumeattachment",
        )
    },
    BuiltinKind {
        namespaced: false,
        unconditional_update: false,
        ..row(
            Kind::RuntimeClass,
            "node.k8s.io",
            "RuntimeClass",
            "RuntimeClassList",
            "runtimeclasses",
            "runtimeclass",
        )
    },
    BuiltinKind {
        unconditional_update: false,
        create_on_update: true,
        ..row(Kind::Lease, "coordination.k8s.io", "Lease", "LeaseList", "leases", "lease")
    },
    BuiltinKind {
        keeps_generation: true,
        ..row(
            Kind::EndpointSlice,
            "discovery.k8s.io",
            "EndpointSlice",
            "EndpointSliceList",
            "endpointslices",
            "endpointslice",
        )
    },
    BuiltinKind {
        categories: &["api-extensions"],
        namespaced: false,
        unconditional_update: false,
        keeps_generation: true,
        ..row(
            Kind::ValidatingWebhookConfiguration,
            ADMISSION,
            "ValidatingWebhookConfiguration",
            "ValidatingWebhookConfigurationList",
            "validatingwebhookconfigurations",
            "validatingwebhookconfiguration",
        )
    },
    BuiltinKind {
        categories: &["api-extensions"],
        namespaced: false,
        unconditional_update: false,
        keeps_generation: true,
        ..row(
            Kind::MutatingWebhookConfiguration,
            ADMISSION,
            "MutatingWebhookConfiguration",
            "MutatingWebhookConfigurationList",
            "mutatingwebhookconfigurations",
            "mutatingwebhookconfiguration",
        )
    },
    BuiltinKind {
        categories: &["api-extensions"],
        namespaced: false,
        subresources: STATUS_ONLY,
        unconditional_update: false,
        keeps_generation: true,
        ..row(
            Kind::ValidatingAdmissionPolicy,
            ADMISSION,
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyList",
            "validatingadmissionpolicies",
            "validatingadmissionpolicy",
        )
    },
    BuiltinKind {
        categories: &["api-extensions"],
        namespaced: false,
        unconditional_update: false,
        keeps_generation: true,
        ..row(
            Kind::ValidatingAdmissionPolicyBinding,
            ADMISSION,
            "ValidatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicyBindingList",
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicybinding",
        )
    },
    BuiltinKind {
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        subresources: STATUS_ONLY,
        unconditional_update: false,
        keeps_generation: true,
        ..row(
            Kind::CustomResourceDefinition,
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "CustomResourceDefinitionList",
            "customresourcedefinitions",
            "customresourcedefinition",
        )
    },
    BuiltinKind {
        categories: &["api-extensions"],
        namespaced: false,
        subresources: STATUS_ONLY,
        unconditional_update: false,
        ..row(
            Kind::ApiService,
            "apiregistration.k8s.io",
            "APIService",
            "APIServiceList",
            "apiservices",
            "apiservice",
        )
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_stand_in_the_order_of_the_enum() {
        for (position, row) in catalog().iter().enumerate() {
            assert_eq!(row.id as usize, position, "{}", row.kind);
            assert_eq!(row.id.info().kind, row.kind);
        }
        assert_eq!(Kind::ApiService as usize + 1, catalog().len());
    }

    #[test]
    fn names_are_unique_and_consistent() {
        let mut seen = BTreeSet::new();
        for row in catalog() {
            assert_eq!(row.list_kind, format!("{}List", row.kind));
            assert_eq!(row.singular, row.kind.to_lowercase());
            assert!(row.versions.contains(&row.storage_version), "{}", row.kind);
            for name in row.short_names.iter().chain([&row.plural]) {
                assert!(seen.insert(*name), "{name} stands twice");
            }
            for (group, version) in row.served() {
                assert_eq!(find(group, version, row.kind).map(|r| r.id), Some(row.id));
                assert_eq!(find_resource(group, version, row.plural).map(|r| r.id), Some(row.id));
            }
        }
    }

    #[test]
    fn selectable_fields_are_sorted_as_the_store_keeps_them() {
        for row in catalog() {
            assert!(row.selectable.is_sorted_by_key(|s| s.label), "{}", row.kind);
        }
    }

    #[test]
    fn events_are_found_under_both_groups() {
        let core = find("", "v1", "Event").map(|row| row.resource());
        let events = find("events.k8s.io", "v1", "Event").map(|row| row.resource());
        assert_eq!(core.as_deref(), Some("events"));
        assert_eq!(core, events);
    }
}
