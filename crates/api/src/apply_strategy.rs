//! How manifests meet what is already in a member cluster.
//!
//! Chosen on a placement, copied to bindings, Works and runs. Every enum's
//! default is the API's default; absence means that default.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::null::or_default;

/// How to apply, compare and take over resources in a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyStrategy {
    /// Whether to compare only the fields in the manifest or every field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = ComparisonOption::default()))]
    pub comparison_option: Option<ComparisonOption>,

    /// Whether to apply at all once the copy in the member has drifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = WhenToApply::default()))]
    pub when_to_apply: Option<WhenToApply>,

    /// How to write: a three-way merge, a server-side apply, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = ApplyStrategyType::default()))]
    pub r#type: Option<ApplyStrategyType>,

    /// Whether the resource in the member may have other owners besides Flagship.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub allow_co_ownership: bool,

    /// Settings used only when the type is ServerSideApply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply_config: Option<ServerSideApplyConfig>,

    /// Whether to take over a resource that exists in the member already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = WhenToTakeOver::default()))]
    pub when_to_take_over: Option<WhenToTakeOver>,
}

/// Which fields count when a manifest and a live object are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComparisonOption {
    /// The fields the manifest sets.
    #[default]
    PartialComparison,
    /// Every field.
    FullComparison,
}

/// When a manifest is applied again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenToApply {
    /// On every pass; drift is overwritten.
    #[default]
    Always,
    /// Only while nobody has edited the copy in the member.
    IfNotDrifted,
}

/// How a manifest is written to a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplyStrategyType {
    /// A three-way merge computed by the agent.
    #[default]
    ClientSideApply,
    /// Server-side apply.
    ServerSideApply,
    /// Nothing is written; differences are reported.
    ReportDiff,
}

/// What happens to a resource that was in the member before us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenToTakeOver {
    /// It becomes ours and is overwritten.
    #[default]
    Always,
    /// It becomes ours only if it is as the manifest says.
    IfNoDiff,
    /// It is left alone.
    Never,
}

/// Settings of server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSideApplyConfig {
    /// Whether to win conflicts with other field managers.
    #[serde(default, deserialize_with = "or_default")]
    pub force: bool,
}

/// What is left in a member when a resource is no longer placed there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteStrategy {
    /// Whether placed resources are deleted or left behind when the placement is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DeletePropagationPolicy::default()))]
    pub propagation_policy: Option<DeletePropagationPolicy>,
}

/// What happens to placed resources when their placement is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletePropagationPolicy {
    /// They stay in the member clusters.
    Abandon,
    /// They are deleted too.
    #[default]
    Delete,
}

/// Whether and where the status of placed resources comes back to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
// The type is required and has a default: who leaves it out gets the default,
// as the server fills it in before it checks.
#[schemars(extend("required" = ["type"]))]
pub struct ReportBackStrategy {
    /// Whether the status in the member is copied back to the hub.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(extend("default" = ReportBackStrategyType::default()))]
    pub r#type: ReportBackStrategyType,

    /// Where the copy goes; needed when the type is Mirror.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<ReportBackDestination>,
}

/// Whether status comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReportBackStrategyType {
    /// It does not.
    #[default]
    Disabled,
    /// It is copied.
    Mirror,
}

/// Where status comes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReportBackDestination {
    /// The status of the resource on the hub.
    OriginalResource,
    /// The status of the Work that carries it.
    #[serde(rename = "WorkAPI")]
    WorkApi,
}
