//! What the rules see: one eviction, the placement it names, and all of its bindings.

use flagship_api::condition::Condition;
use flagship_api::eviction::{ClusterResourcePlacementEviction, PlacementDisruptionBudgetSpec};
use flagship_api::keys::own;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::Binding;
use crate::placement::Placement;

/// Everything one pass over an eviction may look at. Nothing but the eviction itself may
/// come from a cache: the verdict is final.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The present moment.
    pub now: Timestamp,
    /// The eviction.
    pub eviction: Eviction,
    /// The placement it names.
    pub placement: Option<Placement>,
    /// All bindings of that placement.
    pub bindings: Vec<Binding>,
    /// The budget of that placement.
    pub budget: Option<PlacementDisruptionBudgetSpec>,
}

/// An eviction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Eviction {
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.placementName`.
    pub placement: String,
    /// `spec.clusterName`.
    pub cluster: String,
    /// The binding that was about to be deleted when the eviction was last written.
    pub intended: Option<String>,
    /// What was said of it.
    pub conditions: Vec<Condition>,
}

impl Eviction {
    /// What the rules read of an eviction.
    pub fn read(from: &ClusterResourcePlacementEviction) -> Self {
        let notes = from.metadata.annotations.as_ref();
        Self {
            generation: from.metadata.generation.unwrap_or_default(),
            placement: from.spec.placement_name.clone(),
            cluster: from.spec.cluster_name.clone(),
            intended: notes.and_then(|notes| notes.get(own::EVICTED_BINDING)).cloned(),
            conditions: from.status.as_ref().map(|s| s.conditions.clone()).unwrap_or_default(),
        }
    }
}
