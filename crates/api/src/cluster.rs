//! Members of the fleet: the MemberCluster people write, and the
//! InternalMemberCluster through which hub and member agent talk.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::crd::shape;
use crate::crd::versions::Edits;
use crate::kinds::{Column, Version, condition, kind};
use crate::null::or_default;
use crate::policy::TaintEffect;

/// Who the member is and how it takes part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterSpec {
    /// Account the member's agents use on the hub; it is given the rights they need.
    #[schemars(schema_with = "subject")]
    pub identity: Subject,

    /// How often, in seconds, the member says that it is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600), extend("default" = 60))]
    pub heartbeat_period_seconds: Option<i32>,

    /// Marks that keep placements away unless they tolerate them.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub taints: Vec<Taint>,

    /// What is checked when the member is removed from the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_options: Option<DeleteOptions>,
}

/// A mark that keeps placements away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taint {
    /// Key of the taint.
    pub key: String,

    /// Value of the taint.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub value: String,

    /// What the taint does to placements that do not tolerate it.
    pub effect: TaintEffect,
}

/// What is checked when a member is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Strict refuses while services of the member are still exported, Skip does not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DeleteValidationMode::default()))]
    pub validation_mode: Option<DeleteValidationMode>,
}

/// Whether a removal is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeleteValidationMode {
    /// It is not.
    Skip,
    /// It is.
    #[default]
    Strict,
}

/// What the hub tells a member's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InternalMemberClusterSpec {
    /// Join takes part in the fleet, Leave ends that.
    #[schemars(schema_with = "shape::text")]
    pub state: ClusterState,

    /// How often, in seconds, the member says that it is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600), extend("default" = 60))]
    pub heartbeat_period_seconds: Option<i32>,
}

/// Whether a member takes part. The API does not check it, so others occur.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterState {
    /// It does.
    Join,
    /// It no longer does.
    Leave,
    /// Something the agent ignores.
    #[serde(untagged)]
    Other(String),
}

/// How a member is doing and what it has to offer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterStatus {
    /// Whether the member is ready, has joined and reports its properties.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,

    /// Facts about the member by name, such as its node count.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, PropertyValue>,

    /// How much the member has, and how much of it is free.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "ResourceUsage::is_empty"
    )]
    pub resource_usage: ResourceUsage,

    /// Namespaces in the member, each with the name of the AppliedWork that owns it, if any.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, String>,

    /// How each agent on the member is doing.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub agent_status: Vec<AgentStatus>,
}

/// One fact about a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertyValue {
    /// The value, as text.
    pub value: String,

    /// When it was true.
    #[schemars(schema_with = "shape::time")]
    pub observation_time: Time,
}

/// How much a member has, by resource name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// What all nodes have together.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shape::quantities")]
    pub capacity: BTreeMap<String, Quantity>,

    /// What all nodes have together for workloads.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shape::quantities")]
    pub allocatable: BTreeMap<String, Quantity>,

    /// What no workload has asked for yet.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shape::quantities")]
    pub available: BTreeMap<String, Quantity>,

    /// When this was true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::time")]
    pub observation_time: Option<Time>,
}

impl ResourceUsage {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How one agent on a member is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Which agent this is.
    #[schemars(schema_with = "shape::text")]
    pub r#type: AgentType,

    /// Whether the agent has joined and is healthy.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,

    /// When the agent last said that it is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::time")]
    pub last_received_heartbeat: Option<Time>,
}

/// Agents that run on a member. The API does not check it, so others occur.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentType {
    /// Applies Works and reports.
    MemberAgent,
    /// Makes services of several clusters into one.
    MultiClusterServiceAgent,
    /// Exports and imports services.
    ServiceExportImportAgent,
    /// An agent nobody here knows.
    #[serde(untagged)]
    Other(String),
}

fn subject(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "required": ["kind", "name"],
        "properties": {
            "kind": {
                "type": "string",
                "description": "User, Group or ServiceAccount.",
            },
            "apiGroup": {
                "type": "string",
                "description": "API group of the kind; empty for ServiceAccount.",
            },
            "name": {
                "type": "string",
                "description": "Name of the user, group or service account.",
            },
            "namespace": {
                "type": "string",
                "description": "Namespace, for ServiceAccount only.",
            },
        },
    })
}

kind! {
    /// A Kubernetes cluster that takes part in the fleet.
    pub struct MemberCluster {
        /// Who the member is and how it takes part.
        spec: required MemberClusterSpec,
        /// How the member is doing and what it has to offer.
        status: optional MemberClusterStatus,
    }
    group: cluster, version: "v1beta1", scope: Cluster,
    plural: "memberclusters", short: ["cluster"], status_subresource: true,
    versions: [
        Version::named("v1beta1").columns(MEMBER_COLUMNS),
        Version::named("v1").columns(MEMBER_COLUMNS).edited(|edits| {
            edits.remove("spec.deleteOptions").remove("status.namespaces");
        }),
    ],
    rules: &[("size(self.metadata.name) < 64", "metadata.name max length is 63")],
}

kind! {
    /// What the hub and the agent of one member tell each other.
    pub struct InternalMemberCluster {
        /// What the hub tells the agent.
        spec: required InternalMemberClusterSpec,
        /// What the agent tells the hub.
        status: optional MemberClusterStatus,
    }
    group: cluster, version: "v1beta1", scope: Namespaced,
    plural: "internalmemberclusters", short: ["imc"], status_subresource: true,
    versions: [
        Version::named("v1beta1").columns(&[Column::AGE]).edited(plain_conditions),
        Version::named("v1").columns(&[Column::AGE]).edited(|edits| {
            plain_conditions(edits);
            edits.remove("status.namespaces");
        }),
    ],
    rules: &[],
}

/// Conditions of an InternalMemberCluster are replaced as a whole.
fn plain_conditions(edits: &mut Edits) {
    edits
        .unset("status.conditions", "x-kubernetes-list-type")
        .unset("status.conditions", "x-kubernetes-list-map-keys");
}

const MEMBER_COLUMNS: &[Column] = &[
    Column::text("Joined", condition!("Joined", "status")),
    Column::AGE,
    Column::date(
        "Member-Agent-Last-Seen",
        r#".status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat"#,
    ),
    Column::text("Node-Count", r".status.properties.kubernetes-fleet\.io/node-count.value"),
    Column::text("Available-CPU", ".status.resourceUsage.available.cpu"),
    Column::text("Available-Memory", ".status.resourceUsage.available.memory"),
    Column::wide("Allocatable-CPU", ".status.resourceUsage.allocatable.cpu"),
    Column::wide("Allocatable-Memory", ".status.resourceUsage.allocatable.memory"),
];
