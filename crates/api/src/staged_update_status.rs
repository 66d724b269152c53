//! What an update run reports about itself, its stages and their clusters.
//!
//! Conditions carry the story: `Initialized`, `Progressing` and `Succeeded` on a
//! run, the last two on a stage, `Started` and `Succeeded` on a cluster. Nothing
//! here is written by people.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apply_strategy::ApplyStrategy;
use crate::condition::Condition;
use crate::crd::shape;
use crate::null::or_default;
use crate::placement_status::NamespacedName;
use crate::staged_update::{StageTaskType, UpdateStrategySpec};

/// How far a run has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateRunStatus {
    /// Index of the policy snapshot the clusters were taken from.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub policy_snapshot_index_used: String,

    /// How many clusters the placement had chosen when the run was initialized.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "shape::integer")]
    pub policy_observed_cluster_count: i64,

    /// Index of the resource snapshot being rolled out.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub resource_snapshot_index_used: String,

    /// The placement's apply strategy as it was when the run was initialized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_strategy: Option<ApplyStrategy>,

    /// The strategy as it was when the run was initialized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged_update_strategy_snapshot: Option<UpdateStrategySpec>,

    /// Progress of each stage, in the strategy's order.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub stages_status: Vec<StageUpdatingStatus>,

    /// Progress of the last stage, which removes resources from clusters no longer chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_stage_status: Option<StageUpdatingStatus>,

    /// Whether the run is initialized, progressing and succeeded.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,
}

fn is_zero(count: &i64) -> bool {
    *count == 0
}

/// How far one stage has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageUpdatingStatus {
    /// Name of the stage.
    pub stage_name: String,

    /// Clusters of the stage in the order they are updated; an empty list is written as such.
    #[serde(deserialize_with = "or_default")]
    pub clusters: Vec<ClusterUpdatingStatus>,

    /// Progress of what must happen after the stage.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub after_stage_task_status: Vec<StageTaskStatus>,

    /// Progress of what must happen before the stage.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1))]
    pub before_stage_task_status: Vec<StageTaskStatus>,

    /// When the first cluster of the stage was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::time")]
    pub start_time: Option<Time>,

    /// When the stage and what follows it were done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::time")]
    pub end_time: Option<Time>,

    /// Whether the stage is progressing and has succeeded.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,
}

/// How far one cluster has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpdatingStatus {
    /// Name of the cluster.
    pub cluster_name: String,

    /// Namespaced overrides that apply to this cluster, by snapshot.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_override_snapshots: Vec<NamespacedName>,

    /// Cluster-wide overrides that apply to this cluster, by snapshot.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_override_snapshots: Vec<String>,

    /// Whether the update of this cluster has started and succeeded.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,
}

/// How far one task before or after a stage has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageTaskStatus {
    /// What kind of task it is.
    pub r#type: StageTaskType,

    /// Approval request made for the task, if it is an Approval.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub approval_request_name: String,

    /// Whether approval was asked for and given, or the wait is over.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,
}
