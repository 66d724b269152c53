//! What the scheduler sees: one placement's policy, the fleet, and the bindings so far.
//!
//! Both scopes become these values at the edge; a namespaced placement differs only
//! by `namespace`. Lists are sorted by name, so that every tie has one answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::policy::PlacementPolicy;
use flagship_base::go_number::atoi;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::decision::{Decision, Verdict};
use super::facts::Facts;
use crate::model::Binding;

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
    pub snapshot: Snapshot,
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

/// The policy snapshot, and what the last pass recorded in its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Name; bindings of another name are obsolete.
    pub name: String,
    /// The policy; absent means PickAll.
    pub policy: Option<PlacementPolicy>,
    /// Annotation `number-of-clusters`, as written. It, and not the policy, says how many.
    pub number_of_clusters: Option<String>,
    /// Annotation `CRP-generation`, as written: the placement generation this pass answers.
    pub placement_generation: Option<String>,
    /// What the status says now.
    pub recorded: Option<Recorded>,
}

/// The status of a snapshot as last written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// `status.observedCRPGeneration`.
    pub placement_generation: i64,
    /// `status.targetClusters`.
    pub decisions: Vec<Decision>,
    /// The condition `Scheduled`.
    pub verdict: Option<Verdict>,
}

/// What the scheduler reads of a MemberCluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    pub labels: Facts,
    /// Whether it is being deleted.
    pub leaving: bool,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// What its member agent last said; `None` before the first word.
    pub agent: Option<Agent>,
    /// `status.properties`, values only.
    pub properties: Facts,
    /// `status.resourceUsage.capacity`.
    pub capacity: Facts,
    /// `status.resourceUsage.allocatable`.
    pub allocatable: Facts,
    /// `status.resourceUsage.available`.
    pub available: Facts,
    /// Whether the agent collects namespaces at all.
    pub collects_namespaces: bool,
    /// `status.namespaces`; `None` when never reported.
    pub namespaces: Option<BTreeMap<String, String>>,
}

/// A taint of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    /// Key, never empty.
    pub key: String,
    /// Value, may be empty.
    pub value: String,
    /// Effect as printed; only `NoSchedule` exists.
    pub effect: String,
}

/// The last word of a cluster's member agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// When it was last heard.
    pub heartbeat: Timestamp,
    /// Whether condition `Joined` is True; missing counts as no.
    pub joined: bool,
    /// Condition `Healthy`, and since when; `None` when missing.
    pub health: Option<Health>,
}

/// The agent's condition `Healthy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Whether it is True.
    pub healthy: bool,
    /// When it last changed.
    pub since: Timestamp,
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

impl Snapshot {
    /// The placement generation that it answers, if that can be read.
    pub fn generation(&self) -> Option<i64> {
        self.placement_generation.as_deref().and_then(|text| atoi(text).ok())
    }
}
