//! What the rules see: one placement, its bindings, and what its clusters should get.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{Binding, Cluster, ResourceSnapshot};
use crate::overrides::{ClusterOverride, NamespacedOverride};
use crate::placement::Placement;

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
    pub resource_snapshots: Vec<Arc<ResourceSnapshot>>,
    /// The clusters that bindings name, by name; more do no harm.
    pub clusters: BTreeMap<String, Arc<Cluster>>,
    /// Latest ClusterResourceOverrideSnapshots.
    pub cluster_overrides: Vec<ClusterOverride>,
    /// Latest ResourceOverrideSnapshots.
    pub overrides: Vec<NamespacedOverride>,
}
