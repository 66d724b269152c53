//! What the rules see: one placement, its bindings, and what its clusters should get.

use std::collections::BTreeMap;

use flagship_api::binding::{BindingState, ResourceBindingSpec};
use flagship_api::condition::Generation;
use flagship_api::placement_status::ResourceIdentifier;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use super::standing::Standing;
use crate::overrides::{ClusterOverride, NamespacedOverride};
use crate::placement::{Placement, ResourceSnapshot};

/// Everything one pass over a placement may look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The present moment.
    pub now: Timestamp,
    /// The placement.
    pub placement: Placement,
    /// Its bindings, in any order, not older than the last write to them.
    pub bindings: Vec<Binding>,
    /// Its resource snapshots, in any order.
    pub resource_snapshots: Vec<ResourceSnapshot>,
    /// What envelopes in those snapshots carry, by snapshot.
    pub enveloped: BTreeMap<String, Vec<ResourceIdentifier>>,
    /// Labels of the clusters that bindings name; more do no harm.
    pub clusters: BTreeMap<String, BTreeMap<String, String>>,
    /// Latest ClusterResourceOverrideSnapshots.
    pub cluster_overrides: Vec<ClusterOverride>,
    /// Latest ResourceOverrideSnapshots.
    pub overrides: Vec<NamespacedOverride>,
}

/// A binding of either scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Annotation `previous-binding-state`; says something on Unscheduled ones only.
    pub previous: Option<String>,
    /// What the cluster is to get.
    pub spec: ResourceBindingSpec,
    /// How the delivery is doing.
    pub conditions: Vec<Condition>,
}

impl Binding {
    /// The cluster it is for.
    pub fn cluster(&self) -> &str {
        &self.spec.target_cluster
    }

    /// How the delivery is doing, in short.
    pub fn standing(&self) -> Standing {
        Standing::of(&self.conditions, Generation(self.generation))
    }

    /// Whether it is in this state.
    pub fn is(&self, state: BindingState) -> bool {
        self.spec.state == state
    }
}
