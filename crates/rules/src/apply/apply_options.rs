//! What holds for every manifest of a Work: the strategy and the owner.

use flagship_api::apply_strategy::{
    ApplyStrategy, ApplyStrategyType, ComparisonOption, WhenToApply, WhenToTakeOver,
};
use flagship_api::defaults::effective_apply_strategy;
use flagship_api::keys::group;
use flagship_api::names::SYSTEM_NAMESPACE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::owners::APPLIED_WORK;

/// How manifests meet what is there, and who owns what they become.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplyOptions {
    /// Whether to merge, apply or only compare.
    pub strategy: ApplyStrategyType,
    /// Which fields count in a comparison.
    pub comparison: ComparisonOption,
    /// Whether drifted objects are overwritten.
    pub when_to_apply: WhenToApply,
    /// Whether objects that were there before become ours.
    pub when_to_take_over: WhenToTakeOver,
    /// Whether server-side apply wins every conflict.
    pub force: bool,
    /// Whether others may own an object besides us.
    pub allow_co_ownership: bool,
    /// The reference that marks an object as ours.
    pub owner: OwnerReference,
    /// The namespace on the member in which the agent itself lives.
    pub home: String,
}

impl ApplyOptions {
    /// The terms of a Work whose AppliedWork has this name and UID. What the strategy leaves
    /// open is filled in; nothing of that is written back.
    pub fn new(strategy: Option<&ApplyStrategy>, applied_work: &str, uid: &str) -> Self {
        let strategy = effective_apply_strategy(strategy);
        Self {
            strategy: strategy.r#type.unwrap_or_default(),
            comparison: strategy.comparison_option.unwrap_or_default(),
            when_to_apply: strategy.when_to_apply.unwrap_or_default(),
            when_to_take_over: strategy.when_to_take_over.unwrap_or_default(),
            force: strategy.server_side_apply_config.is_some_and(|config| config.force),
            allow_co_ownership: strategy.allow_co_ownership,
            owner: OwnerReference {
                api_version: group::PLACEMENT_V1BETA1.to_owned(),
                kind: APPLIED_WORK.to_owned(),
                name: applied_work.to_owned(),
                uid: uid.to_owned(),
                block_owner_deletion: Some(true),
                controller: None,
            },
            home: SYSTEM_NAMESPACE.to_owned(),
        }
    }

    /// The same for an agent that lives in another namespace than the usual one.
    #[must_use]
    pub fn at_home_in(self, namespace: &str) -> Self {
        Self { home: namespace.to_owned(), ..self }
    }

    /// Whether nothing is to be applied.
    pub fn only_compares(&self) -> bool {
        self.strategy == ApplyStrategyType::ReportDiff
    }
}
