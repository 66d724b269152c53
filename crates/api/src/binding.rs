//! Bindings: one placement's resources on one cluster.
//!
//! The scheduler makes them, the rollout moves them, the work generator reports
//! through them. Both kinds share every type.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apply_strategy::ApplyStrategy;
use crate::condition::Condition;
use crate::crd::shape;
use crate::kinds::{Column, Version, condition, kind};
use crate::null::or_default;
use crate::placement_status::{
    DiffedResourcePlacement, DriftedResourcePlacement, FailedResourcePlacement, NamespacedName,
    envelopes_v1,
};
use crate::snapshot::ClusterDecision;

/// What one cluster is to get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    /// Scheduled is chosen only, Bound is to hold the resources, Unscheduled is to lose them.
    #[schemars(schema_with = "shape::text")]
    pub state: BindingState,

    /// Resource snapshot the cluster is to hold; empty until a rollout sets it.
    pub resource_snapshot_name: String,

    /// Namespaced overrides to apply on the way, by snapshot.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_override_snapshots: Vec<NamespacedName>,

    /// Cluster-wide overrides to apply on the way, by snapshot.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub cluster_resource_override_snapshots: Vec<String>,

    /// Policy snapshot that led to this choice.
    pub scheduling_policy_snapshot_name: String,

    /// Cluster that was chosen.
    pub target_cluster: String,

    /// How and why it was chosen.
    pub cluster_decision: Arc<ClusterDecision>,

    /// How manifests meet what is already in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
}

/// How far a choice has become real. The API does not check it, so others occur.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindingState {
    /// Chosen; nothing is delivered yet.
    #[default]
    Scheduled,
    /// Resources are delivered and kept.
    Bound,
    /// No longer chosen; resources are to go.
    Unscheduled,
    /// Something nobody acts on.
    #[serde(untagged)]
    Other(String),
}

/// How the delivery to one cluster is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
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

    /// How the delivery is doing, step by step.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::conditions")]
    pub conditions: Vec<Condition>,
}

impl ResourceBindingStatus {
    /// Every condition in it.
    pub fn conditions_mut(&mut self) -> impl Iterator<Item = &mut Condition> {
        let failed = self.failed_placements.iter_mut().map(|failed| &mut failed.condition);
        self.conditions.iter_mut().chain(failed)
    }
}

kind! {
    /// The resources of a ClusterResourcePlacement on one cluster.
    pub struct ClusterResourceBinding {
        /// What the cluster is to get.
        spec: required ResourceBindingSpec,
        /// How the delivery is doing.
        status: optional ResourceBindingStatus,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterresourcebindings", short: ["crb"], status_subresource: true,
    versions: [
        Version::named("v1beta1").columns(COLUMNS),
        Version::named("v1").columns(COLUMNS).edited(envelopes_v1),
    ],
    rules: &[],
}

kind! {
    /// The resources of a ResourcePlacement on one cluster.
    pub struct ResourceBinding {
        /// What the cluster is to get.
        spec: required ResourceBindingSpec,
        /// How the delivery is doing.
        status: optional ResourceBindingStatus,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "resourcebindings", short: ["rb"], status_subresource: true,
    versions: [Version::named("v1beta1").columns(COLUMNS)],
    rules: &[],
}

const COLUMNS: &[Column] = &[
    Column::text("WorkSynchronized", condition!("WorkSynchronized", "status")),
    Column::text("ResourcesApplied", condition!("Applied", "status")),
    Column::wide("ResourceAvailable", condition!("Available", "status")),
    Column::AGE,
];
