//! What the scheduler sees: one placement's policy, the fleet, and the bindings so far.
//!
//! Both scopes become these values at the edge; a namespaced placement differs only
//! by `namespace`. Lists are sorted by name, so that every tie has one answer.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{Binding, Cluster, PolicySnapshot};

/// Everything one scheduling pass may look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The present moment, for heartbeats and health.
    pub now: Timestamp,
    /// Namespace of a namespaced placement; `None` for a cluster-scoped one.
    pub namespace: Option<String>,
    /// Name of the placement.
    pub placement: String,
    /// The latest policy snapshot.
    pub snapshot: Arc<PolicySnapshot>,
    /// All member clusters, leaving ones included, by name. Shared: a fleet is seen by
    /// every pass of every placement.
    pub clusters: Vec<Arc<Cluster>>,
    /// All bindings of the placement, read from the API server and not from a cache, by name.
    pub bindings: Vec<Binding>,
    /// Choices of the operator.
    pub options: Options,
}

impl Observed {
    /// The cluster of that name.
    pub fn cluster(&self, name: &str) -> Option<&Cluster> {
        let at = self.clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(name)).ok()?;
        self.clusters.get(at).map(Arc::as_ref)
    }
}

/// Choices an operator makes for the whole hub.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Count topology domains only over clusters that pass the other filters.
    pub spread_over_feasible_clusters: bool,
}

/// State of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Chosen, not yet given resources.
    Scheduled,
    /// Chosen, and tied to a version of the resources.
    Bound,
    /// No longer chosen; the rollout side deletes it.
    Unscheduled,
    /// Something the API admits and nobody acts on; neither do we.
    Foreign,
}
