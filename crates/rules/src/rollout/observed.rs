//! What the rules see: one placement, its bindings, and what its clusters should get.

use std::collections::BTreeMap;

use flagship_api::placement_status::ResourceIdentifier;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::Binding;
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
