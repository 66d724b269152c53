//! What a placement reports: what was selected, which clusters were chosen, and
//! what went wrong where.
//!
//! Empty texts and lists are left out when written, so an absent field and an
//! empty one are the same. Bindings report with the same pieces.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::crd::shape;
use crate::crd::versions::Edits;
use crate::kinds::{Column, Version, kind};
use crate::null::or_default;

/// What was selected, which clusters were chosen, and how each is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// Resources selected, in the order they were taken up.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub selected_resources: Vec<ResourceIdentifier>,

    /// Index of the resource snapshot all of this is about; empty while clusters differ.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub observed_resource_index: String,

    /// How each chosen cluster is doing.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub placement_statuses: Vec<PerClusterPlacementStatus>,

    /// How the placement as a whole is doing, step by step.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,
}

impl PlacementStatus {
    /// Every condition in it.
    pub fn conditions_mut(&mut self) -> impl Iterator<Item = &mut Condition> {
        let of_clusters = self.placement_statuses.iter_mut().flat_map(|cluster| {
            let failed = cluster.failed_placements.iter_mut().map(|failed| &mut failed.condition);
            cluster.conditions.iter_mut().chain(failed)
        });
        self.conditions.iter_mut().chain(of_clusters)
    }
}

/// How one chosen cluster is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerClusterPlacementStatus {
    /// Name of the cluster; left out for a cluster that is wanted but was not found.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,

    /// Index of the resource snapshot this cluster has or is getting.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub observed_resource_index: String,

    /// Namespaced overrides that apply here, by snapshot.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub applicable_resource_overrides: Vec<NamespacedName>,

    /// Cluster-wide overrides that apply here, by snapshot.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub applicable_cluster_resource_overrides: Vec<String>,

    /// Resources that could not be applied or are not available.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub failed_placements: Vec<FailedResourcePlacement>,

    /// Resources somebody has edited in the member.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub drifted_placements: Vec<DriftedResourcePlacement>,

    /// Resources that differ from the hub and were not overwritten.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub diffed_placements: Vec<DiffedResourcePlacement>,

    /// How this cluster is doing, step by step.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::condition_list")]
    pub conditions: Vec<Condition>,
}

/// One resource, and the envelope it came in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceIdentifier {
    /// API group; left out for the core group.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub group: String,

    /// API version.
    pub version: String,

    /// Kind.
    pub kind: String,

    /// Name.
    pub name: String,

    /// Namespace; left out for cluster-scoped resources.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,

    /// Envelope the resource was wrapped in, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<EnvelopeIdentifier>,
}

/// An object that carries resources without creating them on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvelopeIdentifier {
    /// Name of the envelope.
    pub name: String,

    /// Namespace of the envelope; left out if it has none.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,

    /// What kind of envelope it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = EnvelopeType::default()))]
    pub r#type: Option<EnvelopeType>,
}

/// Kinds of envelopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EnvelopeType {
    /// A ConfigMap with a marker annotation; no longer made.
    #[default]
    ConfigMap,
    /// A ClusterResourceEnvelope.
    ClusterResourceEnvelope,
    /// A ResourceEnvelope.
    ResourceEnvelope,
}

/// A namespaced object, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespacedName {
    /// Name of the object.
    pub name: String,

    /// Namespace of the object.
    pub namespace: String,
}

/// A resource that could not be applied or is not available.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedResourcePlacement {
    /// The resource.
    #[serde(flatten)]
    pub resource: ResourceIdentifier,

    /// What is wrong with it: Applied or Available is False.
    #[schemars(schema_with = "shape::condition")]
    pub condition: Condition,
}

/// A resource somebody has edited in the member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedResourcePlacement {
    /// The resource.
    #[serde(flatten)]
    pub resource: ResourceIdentifier,

    /// When the edits were last looked at.
    #[schemars(schema_with = "shape::time")]
    pub observation_time: Time,

    /// Generation of the resource in the member at that time.
    pub target_cluster_observed_generation: i64,

    /// When edits were first found.
    #[schemars(schema_with = "shape::time")]
    pub first_drifted_observed_time: Time,

    /// The edits, field by field.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub observed_drifts: Vec<PatchDetail>,
}

/// A resource that differs from the hub and was not overwritten.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffedResourcePlacement {
    /// The resource.
    #[serde(flatten)]
    pub resource: ResourceIdentifier,

    /// When the differences were last looked at.
    #[schemars(schema_with = "shape::time")]
    pub observation_time: Time,

    /// Generation of the resource in the member at that time, if it exists there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster_observed_generation: Option<i64>,

    /// When differences were first found.
    #[schemars(schema_with = "shape::time")]
    pub first_diffed_observed_time: Time,

    /// The differences, field by field.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub observed_diffs: Vec<PatchDetail>,
}

/// One field that differs between hub and member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchDetail {
    /// JSON pointer to the field.
    pub path: String,

    /// Its value in the member; left out if it is not there.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub value_in_member: String,

    /// Its value on the hub; left out if it is not there.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub value_in_hub: String,
}

kind! {
    /// A copy of a ClusterResourcePlacement's status for readers in the placed namespace.
    pub struct ClusterResourcePlacementStatus {
        /// The status, as the placement of the same name had it.
        source_status: required PlacementStatus,
        /// When it was copied.
        #[schemars(schema_with = "shape::time")]
        last_updated_time: required Time,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "clusterresourceplacementstatuses", short: ["crps"], status_subresource: false,
    versions: [
        Version::named("v1beta1").columns(COLUMNS),
        Version::named("v1").columns(COLUMNS).edited(envelopes_v1),
    ],
    rules: &[],
}

const COLUMNS: &[Column] = &[
    Column::text("Resource-Index", ".sourceStatus.observedResourceIndex"),
    Column::text("Last-Updated", ".lastUpdatedTime"),
    Column::AGE,
];

/// v1 knows no ConfigMap envelopes, and so no default.
pub(crate) fn envelopes_v1(edits: &mut Edits) {
    edits.unset("envelope.type", "default").set(
        "envelope.type",
        "enum",
        vec!["ClusterResourceEnvelope", "ResourceEnvelope"],
    );
}
