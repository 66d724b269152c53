//! What absent fields mean.
//!
//! [`SchemaDefaults`] is what the API server fills in by the schema: a default
//! inside an object only counts where that object is given. Placements and apply
//! strategies have a second layer, filled in at admission or in memory, because
//! objects may have been admitted without it; both layers may be applied any
//! number of times. No controller ever writes defaults back.

use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::apply_strategy::{
    ApplyStrategy, ApplyStrategyType, DeleteStrategy, ServerSideApplyConfig,
};
use crate::cluster::{DeleteOptions, InternalMemberClusterSpec, MemberClusterSpec};
use crate::overrides::{
    ClusterResourceOverrideSnapshotSpec, ClusterResourceOverrideSpec, OverridePolicy, OverrideRule,
    PlacementRef, ResourceOverrideSnapshotSpec, ResourceOverrideSpec,
};
use crate::placement::{
    PlacementSpec, ResourceSelectorTerm, RollingUpdateConfig, RolloutStrategy, RolloutStrategyType,
};
use crate::policy::{PlacementPolicy, Toleration, TopologySpreadConstraint};
use crate::staged_update::{StageConfig, UpdateRunSpec, UpdateStrategySpec};

mod objects;

/// How many snapshots a placement keeps, the latest included.
pub const REVISION_HISTORY_LIMIT: i32 = 10;

/// `maxUnavailable` and `maxSurge` of a rolling update.
pub const ROLLING_UPDATE_SHARE: &str = "25%";

/// How long resources that cannot be tracked count as unavailable.
pub const UNAVAILABLE_PERIOD_SECONDS: i64 = 60;

/// How often a member says that it is alive.
pub const HEARTBEAT_PERIOD_SECONDS: i32 = 60;

/// How many clusters of a stage are updated at a time.
pub const MAX_CONCURRENCY: i32 = 1;

/// Largest difference a spread constraint allows.
pub const MAX_SKEW: i32 = 1;

/// Fills in what the API server would, by the schema alone.
pub trait SchemaDefaults {
    /// Fills in absent fields; a second time changes nothing.
    fn fill_schema_defaults(&mut self);
}

impl<T: SchemaDefaults> SchemaDefaults for Option<T> {
    fn fill_schema_defaults(&mut self) {
        if let Some(inner) = self {
            inner.fill_schema_defaults();
        }
    }
}

impl<T: SchemaDefaults> SchemaDefaults for Vec<T> {
    fn fill_schema_defaults(&mut self) {
        for item in self {
            item.fill_schema_defaults();
        }
    }
}

fn fill<T: Default>(field: &mut Option<T>) {
    field.get_or_insert_with(T::default);
}

/// Fills in everything a placement leaves open, as admission does and as every
/// controller must assume where admission did not: a missing policy picks all
/// clusters, a missing strategy is a rolling update by client-side apply.
pub fn complete_placement(spec: &mut PlacementSpec) {
    fill(&mut spec.policy);
    fill(&mut spec.strategy);
    if let Some(strategy) = &mut spec.strategy {
        fill(&mut strategy.r#type);
        if strategy.r#type == Some(RolloutStrategyType::RollingUpdate) {
            fill(&mut strategy.rolling_update);
        }
        complete_apply_strategy(strategy.apply_strategy.get_or_insert_default());
    }
    spec.fill_schema_defaults();
}

/// Fills in everything an apply strategy leaves open, the settings of
/// server-side apply included.
pub fn complete_apply_strategy(strategy: &mut ApplyStrategy) {
    strategy.fill_schema_defaults();
    if strategy.r#type == Some(ApplyStrategyType::ServerSideApply) {
        strategy.server_side_apply_config.get_or_insert(ServerSideApplyConfig { force: false });
    }
}

/// The apply strategy in force: the given one completed, or the default one.
pub fn effective_apply_strategy(given: Option<&ApplyStrategy>) -> ApplyStrategy {
    let mut strategy = given.cloned().unwrap_or_default();
    complete_apply_strategy(&mut strategy);
    strategy
}

/// How many snapshots to keep, the latest included: at least one, whatever the
/// spec says.
pub fn revision_history_limit(spec: &PlacementSpec) -> usize {
    let limit = spec.revision_history_limit.unwrap_or(REVISION_HISTORY_LIMIT);
    usize::try_from(limit).unwrap_or(0).max(1)
}

/// A member's identity as the server will store it in a role binding; without
/// this the binding would differ from the wish for ever.
pub fn complete_identity(identity: &mut Subject) {
    let implied = matches!(identity.kind.as_str(), "User" | "Group");
    if implied && identity.api_group.as_deref().unwrap_or_default().is_empty() {
        identity.api_group = Some("rbac.authorization.k8s.io".to_owned());
    }
}

impl SchemaDefaults for PlacementSpec {
    fn fill_schema_defaults(&mut self) {
        self.resource_selectors.fill_schema_defaults();
        self.policy.fill_schema_defaults();
        self.strategy.fill_schema_defaults();
        self.revision_history_limit.get_or_insert(REVISION_HISTORY_LIMIT);
        fill(&mut self.status_reporting_scope);
    }
}

impl SchemaDefaults for ResourceSelectorTerm {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.selection_scope);
    }
}

impl SchemaDefaults for PlacementPolicy {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.placement_type);
        self.topology_spread_constraints.fill_schema_defaults();
        self.tolerations.fill_schema_defaults();
    }
}

impl SchemaDefaults for TopologySpreadConstraint {
    fn fill_schema_defaults(&mut self) {
        self.max_skew.get_or_insert(MAX_SKEW);
        fill(&mut self.when_unsatisfiable);
    }
}

impl SchemaDefaults for Toleration {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.operator);
    }
}

impl SchemaDefaults for RolloutStrategy {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.r#type);
        self.rolling_update.fill_schema_defaults();
        self.apply_strategy.fill_schema_defaults();
        self.delete_strategy.fill_schema_defaults();
    }
}

impl SchemaDefaults for RollingUpdateConfig {
    fn fill_schema_defaults(&mut self) {
        let share = || IntOrString::String(ROLLING_UPDATE_SHARE.to_owned());
        self.max_unavailable.get_or_insert_with(share);
        self.max_surge.get_or_insert_with(share);
        self.unavailable_period_seconds.get_or_insert(UNAVAILABLE_PERIOD_SECONDS);
    }
}

impl SchemaDefaults for ApplyStrategy {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.comparison_option);
        fill(&mut self.when_to_apply);
        fill(&mut self.r#type);
        fill(&mut self.when_to_take_over);
    }
}

impl SchemaDefaults for DeleteStrategy {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.propagation_policy);
    }
}

impl SchemaDefaults for UpdateRunSpec {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.state);
    }
}

impl SchemaDefaults for UpdateStrategySpec {
    fn fill_schema_defaults(&mut self) {
        self.stages.fill_schema_defaults();
    }
}

impl SchemaDefaults for StageConfig {
    fn fill_schema_defaults(&mut self) {
        self.max_concurrency.get_or_insert(IntOrString::Int(MAX_CONCURRENCY));
    }
}

impl SchemaDefaults for ClusterResourceOverrideSpec {
    fn fill_schema_defaults(&mut self) {
        self.placement.fill_schema_defaults();
        self.cluster_resource_selectors.fill_schema_defaults();
        self.policy.fill_schema_defaults();
    }
}

impl SchemaDefaults for ResourceOverrideSpec {
    fn fill_schema_defaults(&mut self) {
        self.placement.fill_schema_defaults();
        self.policy.fill_schema_defaults();
    }
}

impl SchemaDefaults for PlacementRef {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.scope);
    }
}

impl SchemaDefaults for OverridePolicy {
    fn fill_schema_defaults(&mut self) {
        self.override_rules.fill_schema_defaults();
    }
}

impl SchemaDefaults for OverrideRule {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.override_type);
    }
}

impl SchemaDefaults for ClusterResourceOverrideSnapshotSpec {
    fn fill_schema_defaults(&mut self) {
        self.override_spec.fill_schema_defaults();
    }
}

impl SchemaDefaults for ResourceOverrideSnapshotSpec {
    fn fill_schema_defaults(&mut self) {
        self.override_spec.fill_schema_defaults();
    }
}

impl SchemaDefaults for MemberClusterSpec {
    fn fill_schema_defaults(&mut self) {
        self.heartbeat_period_seconds.get_or_insert(HEARTBEAT_PERIOD_SECONDS);
        self.delete_options.fill_schema_defaults();
    }
}

impl SchemaDefaults for DeleteOptions {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.validation_mode);
    }
}

impl SchemaDefaults for InternalMemberClusterSpec {
    fn fill_schema_defaults(&mut self) {
        self.heartbeat_period_seconds.get_or_insert(HEARTBEAT_PERIOD_SECONDS);
    }
}

#[cfg(test)]
mod tests;
