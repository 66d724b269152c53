//! The catalogue itself: one row a kind, in the order of [`Kind`].

use super::{BuiltinKind, Kind, NameRule, Selectable, Subresource};

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
/// A path out of the server: options in place of an object.
const fn remote(name: &'static str, kind: &'static str) -> Subresource {
    Subresource { name, group_version: None, kind: Some(kind), verbs: &["create", "get"] }
}
/// The same for one that passes on whatever comes.
const fn proxy(kind: &'static str) -> Subresource {
    let verbs = &["create", "delete", "get", "patch", "update"];
    Subresource { name: "proxy", group_version: None, kind: Some(kind), verbs }
}
const STATUS_ONLY: &[Subresource] = &[STATUS];
const NODE_PATHS: &[Subresource] = &[proxy("NodeProxyOptions"), STATUS];
const SERVICE_PATHS: &[Subresource] = &[proxy("ServiceProxyOptions"), STATUS];
const SCALED: &[Subresource] = &[SCALE, STATUS];
const POD_PATHS: &[Subresource] = &[
    remote("attach", "PodAttachOptions"),
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
    remote("exec", "PodExecOptions"),
    Subresource { name: "log", group_version: None, kind: None, verbs: &["get"] },
    remote("portforward", "PodPortForwardOptions"),
    proxy("PodProxyOptions"),
    Subresource {
        name: "resize",
        group_version: None,
        kind: None,
        verbs: &["get", "patch", "update"],
    },
    STATUS,
];
const CERTIFICATE_PATHS: &[Subresource] = &[
    Subresource {
        name: "approval",
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
        orphans_by_default: false,
        unconditional_update: true,
        create_on_update: false,
        keeps_generation: false,
        verbs: ALL_VERBS,
    }
}

const APPS: &str = "apps";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
const DEVICES: &str = "resource.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

pub(super) static CATALOG: &[BuiltinKind] = &[
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
        subresources: SERVICE_PATHS,
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
        unconditional_update: true,
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
        orphans_by_default: true,
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
        subresources: NODE_PATHS,
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
        orphans_by_default: true,
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
        short_names: &["csr"],
        namespaced: false,
        subresources: CERTIFICATE_PATHS,
        selectable: &[field("spec.signerName", &["spec", "signerName"])],
        name_rule: NameRule::PathSegment,
        ..row(
            Kind::CertificateSigningRequest,
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "CertificateSigningRequestList",
            "certificatesigningrequests",
            "certificatesigningrequest",
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
    BuiltinKind {
        namespaced: false,
        subresources: STATUS_ONLY,
        keeps_generation: true,
        ..row(
            Kind::FlowSchema,
            FLOW_CONTROL,
            "FlowSchema",
            "FlowSchemaList",
            "flowschemas",
            "flowschema",
        )
    },
    BuiltinKind {
        namespaced: false,
        subresources: STATUS_ONLY,
        keeps_generation: true,
        ..row(
            Kind::PriorityLevelConfiguration,
            FLOW_CONTROL,
            "PriorityLevelConfiguration",
            "PriorityLevelConfigurationList",
            "prioritylevelconfigurations",
            "prioritylevelconfiguration",
        )
    },
    BuiltinKind {
        namespaced: false,
        keeps_generation: true,
        ..row(
            Kind::DeviceClass,
            DEVICES,
            "DeviceClass",
            "DeviceClassList",
            "deviceclasses",
            "deviceclass",
        )
    },
    BuiltinKind {
        subresources: STATUS_ONLY,
        ..row(
            Kind::ResourceClaim,
            DEVICES,
            "ResourceClaim",
            "ResourceClaimList",
            "resourceclaims",
            "resourceclaim",
        )
    },
    row(
        Kind::ResourceClaimTemplate,
        DEVICES,
        "ResourceClaimTemplate",
        "ResourceClaimTemplateList",
        "resourceclaimtemplates",
        "resourceclaimtemplate",
    ),
    BuiltinKind {
        namespaced: false,
        keeps_generation: true,
        selectable: &[
            field("spec.driver", &["spec", "driver"]),
            field("spec.nodeName", &["spec", "nodeName"]),
        ],
        ..row(
            Kind::ResourceSlice,
            DEVICES,
            "ResourceSlice",
            "ResourceSliceList",
            "resourceslices",
            "resourceslice",
        )
    },
];
