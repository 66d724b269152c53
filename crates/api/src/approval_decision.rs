//! ClusterApproval and Approval: what one person says to one approval request.
//!
//! Where a rollout policy asks for approvals, the hub counts these and answers the request
//! itself. Who says it is written by admission and cannot be chosen; when, by the server as
//! the object's creation time. Nothing of it can be changed later.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rules;
use crate::kinds::{Column, Version, kind};
use crate::null::or_default;

/// What somebody says to an approval request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self == oldSelf",
        "what somebody has said stays as it is: delete it, or create another one, the last one counts",
    ),
    (
        "self.decision != 'Reject' || (has(self.reason) && size(self.reason) > 0)",
        "say why: set reason, those who wait for it read it",
    ),
    (
        "!has(self.breakGlass) || !self.breakGlass || (has(self.reason) && size(self.reason) > 0)",
        "whoever breaks the glass says why: set reason",
    ),
])))]
pub struct ApprovalSpec {
    /// Name of the approval request.
    #[schemars(length(min = 1, max = 253))]
    pub request: String,

    /// UID of the approval request: one that is made anew has to be approved anew.
    #[serde(rename = "requestUID")]
    #[schemars(length(min = 1, max = 64))]
    pub request_uid: String,

    /// The hash of the plan that is approved, as the request has it.
    #[schemars(length(min = 1, max = 64))]
    pub plan_hash: String,

    /// What is said.
    pub decision: Decision,

    /// Why, for those who read the record.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub reason: String,

    /// Whether it is to count by the rules for emergencies.
    #[serde(default, skip_serializing_if = "is_false")]
    pub break_glass: bool,

    /// Who says it; the server writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Person>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What somebody says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Decision {
    /// The stage may go on.
    Approve,
    /// It may not.
    Reject,
}

/// Somebody, as the server knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Person {
    /// The name.
    #[schemars(length(min = 1, max = 253))]
    pub user: String,

    /// The UID, where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub uid: String,

    /// The groups.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(max = 253)))]
    pub groups: Vec<String>,
}

const COLUMNS: &[Column] = &[
    Column::text("Request", ".spec.request"),
    Column::text("Decision", ".spec.decision"),
    Column::text("By", ".spec.by.user"),
    Column::text("Reason", ".spec.reason"),
    Column::wide("Break-Glass", ".spec.breakGlass"),
    Column::AGE,
];

kind! {
    /// What one person says to one ClusterApprovalRequest.
    pub struct ClusterApproval {
        /// What is said, about what, and by whom.
        spec: required ApprovalSpec,
    }
    group: flagship, version: "v1alpha1", scope: Cluster,
    plural: "clusterapprovals", short: ["capv"], status_subresource: false,
    versions: [Version::named("v1alpha1").columns(COLUMNS)],
    rules: &[],
}

kind! {
    /// What one person says to one ApprovalRequest.
    pub struct Approval {
        /// What is said, about what, and by whom.
        spec: required ApprovalSpec,
    }
    group: flagship, version: "v1alpha1", scope: Namespaced,
    plural: "approvals", short: ["apv"], status_subresource: false,
    versions: [Version::named("v1alpha1").columns(COLUMNS)],
    rules: &[],
}
