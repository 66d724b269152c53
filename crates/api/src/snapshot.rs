//! Snapshots: what was selected, and the policy clusters were chosen by, frozen.
//!
//! A new version of either is a new object; nothing here is edited after it is
//! made, except the status the scheduler writes to a policy snapshot. Override
//! snapshots are in `overrides`.

use std::sync::Arc;

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::crd::shape;
use crate::kinds::{Column, Version, kind};
use crate::null::or_default;
use crate::policy::PlacementPolicy;
use crate::raw_json::RawJson;

/// The selected resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSnapshotSpec {
    /// The selected resources without server-set fields, sorted by kind.
    #[serde(deserialize_with = "or_default")]
    #[schemars(schema_with = "shape::manifests")]
    pub selected_resources: Vec<RawJson>,
}

/// Whatever there is to say about a resource snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSnapshotStatus {
    /// Conditions of the snapshot; none are in use.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,
}

/// The policy clusters are chosen by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicySnapshotSpec {
    /// The policy as it was; left out if the placement had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,

    /// Hash of the policy without its number of clusters, to tell whether it has changed.
    #[schemars(schema_with = "shape::bytes")]
    pub policy_hash: ByteString,
}

/// What the scheduler decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicySnapshotStatus {
    /// Generation of the placement the decisions are for.
    #[serde(rename = "observedCRPGeneration")]
    pub observed_crp_generation: i64,

    /// Whether scheduling is complete.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,

    /// Decisions about clusters, chosen ones first.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub target_clusters: Vec<Arc<ClusterDecision>>,
}

/// Why one cluster was chosen or not.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// Name of the cluster.
    pub cluster_name: String,

    /// Whether it was chosen.
    pub selected: bool,

    /// How it ranked among the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_score: Option<ClusterScore>,

    /// Why, as a sentence for people.
    pub reason: String,
}

/// How a cluster ranked.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScore {
    /// Points for matching preferences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_score: Option<i32>,

    /// Points for spreading evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_score: Option<i32>,
}

kind! {
    /// The resources a ClusterResourcePlacement selected at one time, or part of them.
    pub struct ClusterResourceSnapshot {
        /// The selected resources.
        spec: required ResourceSnapshotSpec,
        /// Whatever there is to say about the snapshot.
        status: optional ResourceSnapshotStatus,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterresourcesnapshots", short: ["crs"], status_subresource: true,
    versions: [Version::named("v1beta1").columns(COLUMNS), Version::named("v1").columns(COLUMNS)],
    rules: &[],
}

kind! {
    /// The resources a ResourcePlacement selected at one time, or part of them.
    pub struct ResourceSnapshot {
        /// The selected resources.
        spec: required ResourceSnapshotSpec,
        /// Whatever there is to say about the snapshot.
        status: optional ResourceSnapshotStatus,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "resourcesnapshots", short: ["rs"], status_subresource: true,
    versions: [Version::named("v1beta1").columns(COLUMNS)],
    rules: &[],
}

kind! {
    /// The policy of a ClusterResourcePlacement at one time, and the clusters chosen by it.
    pub struct ClusterSchedulingPolicySnapshot {
        /// The policy.
        spec: required SchedulingPolicySnapshotSpec,
        /// The clusters chosen by it.
        status: optional SchedulingPolicySnapshotStatus,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterschedulingpolicysnapshots", short: ["csps"], status_subresource: true,
    versions: [Version::named("v1beta1").columns(COLUMNS), Version::named("v1").columns(COLUMNS)],
    rules: &[],
}

kind! {
    /// The policy of a ResourcePlacement at one time, and the clusters chosen by it.
    pub struct SchedulingPolicySnapshot {
        /// The policy.
        spec: required SchedulingPolicySnapshotSpec,
        /// The clusters chosen by it.
        status: optional SchedulingPolicySnapshotStatus,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "schedulingpolicysnapshots", short: ["sps"], status_subresource: true,
    versions: [Version::named("v1beta1").columns(COLUMNS)],
    rules: &[],
}

const COLUMNS: &[Column] = &[Column::text("Gen", ".metadata.generation"), Column::AGE];
