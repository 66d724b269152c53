//! Approval requests: how a person lets an update run past a gate.
//!
//! The run creates the request; a person sets the condition `Approved` for its
//! generation; the run answers with `ApprovalAccepted`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::crd::cel::immutable;
use crate::crd::shape;
use crate::kinds::{Column, Version, condition, kind};
use crate::null::or_default;

/// Which stage of which run asks for approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = immutable("The spec field is immutable")))]
pub struct ApprovalRequestSpec {
    /// Name of the update run that asks.
    pub parent_stage_rollout: String,

    /// Name of the stage it asks for.
    pub target_stage: String,
}

/// Whether approval was given and taken note of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequestStatus {
    /// Approved is set by a person, ApprovalAccepted by the run.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,
}

kind! {
    /// Asks a person to let a ClusterStagedUpdateRun past a stage.
    pub struct ClusterApprovalRequest {
        /// Which stage of which run asks.
        spec: required ApprovalRequestSpec,
        /// Whether approval was given and taken note of.
        status: optional ApprovalRequestStatus,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterapprovalrequests", short: ["careq"], status_subresource: true,
    versions: [
        Version::named("v1beta1").columns(COLUMNS),
        Version::named("v1").columns(COLUMNS),
        Version::named("v1alpha1").columns(COLUMNS),
    ],
    rules: &[],
}

kind! {
    /// Asks a person to let a StagedUpdateRun past a stage.
    pub struct ApprovalRequest {
        /// Which stage of which run asks.
        spec: required ApprovalRequestSpec,
        /// Whether approval was given and taken note of.
        status: optional ApprovalRequestStatus,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "approvalrequests", short: ["areq"], status_subresource: true,
    versions: [Version::named("v1beta1").columns(COLUMNS), Version::named("v1").columns(COLUMNS)],
    rules: &[],
}

const COLUMNS: &[Column] = &[
    Column::text("Update-Run", ".spec.parentStageRollout"),
    Column::text("Stage", ".spec.targetStage"),
    Column::text("Approved", condition!("Approved", "status")),
    Column::AGE,
];
