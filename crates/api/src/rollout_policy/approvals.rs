//! The section `approvals` of a policy: who may let a stage begin or end, and how many of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DURATION;
use crate::crd::cel::rules;
use crate::null::or_default;

/// Who may approve, and how many of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!has(self.then) || has(self.expiresAfter)",
        "then says nothing while approvals do not expire: set expiresAfter, such as 24h",
    ),
    (
        "!has(self.users) || size(self.users) == 0 || (has(self.groups) && size(self.groups) > 0) || size(self.users) >= self.required",
        "more people must approve than are named: name more users, name groups, or lower required",
    ),
])))]
pub struct ApprovalRules {
    /// How many different people must approve.
    #[schemars(range(min = 1, max = 20))]
    pub required: i32,

    /// Groups whose members may approve; with no groups and no users, everybody may.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(min = 1, max = 253)))]
    pub groups: Vec<String>,

    /// People who may approve, by the name that the server knows them by.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(min = 1, max = 253)))]
    pub users: Vec<String>,

    /// Whether who created or started the run does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_author: Option<bool>,

    /// Whether everybody must say why; left out, who wants to may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonRule>,

    /// After how long an approval is worth nothing, such as 24h; left out, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules(DURATION)))]
    pub expires_after: Option<String>,

    /// What follows when an approval expires before there are enough; left out, the run waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Expired>,

    /// Who may let a stage go on in an emergency; left out, nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<BreakGlass>,
}

/// Whether everybody must say why.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum ReasonRule {
    /// Who wants to may.
    Optional,
    /// An approval without a reason does not count.
    Required,
}

/// What follows when approvals expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Expired {
    /// The run waits for new ones.
    Wait,
    /// The run fails.
    Stop,
}

/// Who may let a stage go on in an emergency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BreakGlass {
    /// Groups whose members may.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 253)))]
    pub groups: Vec<String>,

    /// How many different people of them it takes; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub required: Option<i32>,
}
