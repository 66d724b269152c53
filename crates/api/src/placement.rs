//! Placements: which resources go to which clusters, and how.
//!
//! The cluster-scoped and the namespaced kind share every type; the former has
//! two rules more. The policy is in `policy`, what is reported in
//! `placement_status`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apply_strategy::{ApplyStrategy, DeleteStrategy, ReportBackStrategy};
use crate::crd::cel::rules;
use crate::crd::shape;
use crate::crd::versions::Edits;
use crate::kinds::{Column, Version, condition, kind};
use crate::null::or_default;
use crate::placement_rules::{
    KEEPS_POLICY, KEEPS_REPORTING_SCOPE, ONE_NAMESPACE_TO_REPORT_TO, ONE_SELECTING_NAMESPACE,
    POLICY_RULES, SELECTING_NAMESPACE_ALONE, SELECTING_NAMESPACE_BY_NAME,
};
use crate::placement_status::{PlacementStatus, envelopes_v1};
use crate::policy::PlacementPolicy;

/// Which resources go to which clusters, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// Resources to place; each term adds what it selects.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-validations" = rules(&[(
        "self.all(x, !(has(x.name) && size(x.name) > 0 && has(x.labelSelector)))",
        "name and labelSelector are mutually exclusive in a resource selector",
    )])))]
    pub resource_selectors: Vec<ResourceSelectorTerm>,

    /// Which clusters to choose; left out, every cluster that has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(POLICY_RULES)))]
    pub policy: Option<PlacementPolicy>,

    /// How changes reach the chosen clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RolloutStrategy>,

    /// How many snapshots to keep, the latest included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 10))]
    pub revision_history_limit: Option<i32>,

    /// Whether the status is also copied into the placed namespace, for people without wider access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = StatusReportingScope::default()))]
    pub status_reporting_scope: Option<StatusReportingScope>,
}

/// Some resources of one kind, by name, by label, or all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelectorTerm {
    /// API group of the resources; empty for the core group.
    pub group: String,

    /// API version of the resources.
    pub version: String,

    /// Kind of the resources.
    pub kind: String,

    /// Name of the one resource; not together with labelSelector.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// Resources by label; not together with name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub label_selector: Option<LabelSelector>,

    /// For namespaces: whether what is inside comes along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = SelectionScope::default()))]
    pub selection_scope: Option<SelectionScope>,
}

/// What selecting a namespace selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectionScope {
    /// The namespace object alone.
    NamespaceOnly,
    /// The namespace and everything in it.
    #[default]
    NamespaceWithResources,
    /// The namespace and what the other terms select in it.
    NamespaceWithResourceSelectors,
}

/// Where the status of a placement can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StatusReportingScope {
    /// On the placement only.
    #[default]
    ClusterScopeOnly,
    /// Also in the placed namespace.
    NamespaceAccessible,
}

/// How changes reach the chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// RollingUpdate moves clusters by itself; External waits for staged update runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = RolloutStrategyType::default(),
        "x-kubernetes-validations" = rules(&[(
            "!(self != 'External' && oldSelf == 'External')",
            "cannot change rollout strategy type from 'External' to other types",
        )]),
    ))]
    pub r#type: Option<RolloutStrategyType>,

    /// Limits of a rolling update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateConfig>,

    /// How manifests meet what is already in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,

    /// What happens to placed resources when the placement is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_strategy: Option<DeleteStrategy>,

    /// Whether the status of placed resources comes back to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(&[(
        "(self == null) || (self.type == 'Mirror' ? size(self.destination) != 0 : true)",
        "when reportBackStrategy.type is 'Mirror', a destination must be specified",
    )])))]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

/// Who moves clusters to a new version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutStrategyType {
    /// The placement itself, a few at a time.
    #[default]
    RollingUpdate,
    /// Staged update runs.
    External,
}

/// Limits of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateConfig {
    /// How many clusters may be without a working copy, as a number or a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::int_or_string", extend("default" = "25%", "pattern" = COUNT_OR_PERCENT))]
    pub max_unavailable: Option<IntOrString>,

    /// How many clusters more than wanted may hold a copy, as a number or a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::int_or_string", extend("default" = "25%", "pattern" = COUNT_OR_PERCENT))]
    pub max_surge: Option<IntOrString>,

    /// How long to wait before resources whose readiness cannot be told count as ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::integer", range(min = 0), extend("default" = 60))]
    pub unavailable_period_seconds: Option<i64>,
}

const COUNT_OR_PERCENT: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";

/// Columns of a placement; its conditions carry the kind in their names.
macro_rules! placement_columns {
    ($prefix:literal) => {
        &[
            Column::text("Gen", ".metadata.generation"),
            Column::wide("Type", ".spec.policy.placementType"),
            Column::text("Scheduled", condition!($prefix "Scheduled", "status")),
            Column::text("Scheduled-Gen", condition!($prefix "Scheduled", "observedGeneration")),
            Column::wide("Work-Synchronized", condition!($prefix "WorkSynchronized", "status")),
            Column::wide(
                "Work-Synchronized-Gen",
                condition!($prefix "WorkSynchronized", "observedGeneration")
            ),
            Column::text("Available", condition!($prefix "Available", "status")),
            Column::text("Available-Gen", condition!($prefix "Available", "observedGeneration")),
            Column::AGE,
        ]
    };
}

kind! {
    /// Places cluster-scoped resources and whole namespaces on chosen clusters.
    pub struct ClusterResourcePlacement {
        /// Which resources go to which clusters, and how.
        #[schemars(extend("x-kubernetes-validations" = rules(&[
            KEEPS_POLICY,
            ONE_NAMESPACE_TO_REPORT_TO,
            KEEPS_REPORTING_SCOPE,
            ONE_SELECTING_NAMESPACE,
            SELECTING_NAMESPACE_BY_NAME,
            SELECTING_NAMESPACE_ALONE,
        ])))]
        spec: required PlacementSpec,
        /// What was selected, which clusters were chosen, and how each is doing.
        status: optional PlacementStatus,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterresourceplacements", short: ["crp"], status_subresource: true,
    versions: [
        Version::named("v1beta1").columns(placement_columns!("ClusterResourcePlacement")),
        Version::named("v1").columns(placement_columns!("ClusterResourcePlacement")).edited(v1),
    ],
    rules: &[],
}

kind! {
    /// Places resources of its own namespace on chosen clusters.
    pub struct ResourcePlacement {
        /// Which resources go to which clusters, and how.
        #[schemars(extend("x-kubernetes-validations" = rules(&[
            KEEPS_POLICY,
            ONE_SELECTING_NAMESPACE,
            SELECTING_NAMESPACE_BY_NAME,
            SELECTING_NAMESPACE_ALONE,
        ])))]
        spec: required PlacementSpec,
        /// What was selected, which clusters were chosen, and how each is doing.
        status: optional PlacementStatus,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "resourceplacements", short: ["rp"], status_subresource: true,
    versions: [
        Version::named("v1beta1").columns(placement_columns!("ResourcePlacement")),
        Version::named("v1").columns(placement_columns!("ResourcePlacement")).edited(v1),
    ],
    rules: &[],
}

/// v1 cannot abandon, cannot report back and has no ConfigMap envelopes.
fn v1(edits: &mut Edits) {
    edits.remove("spec.strategy.deleteStrategy").remove("spec.strategy.reportBackStrategy");
    envelopes_v1(edits);
}
