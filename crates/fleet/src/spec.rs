//! What a fleet is made of.

use std::collections::BTreeMap;

use flagship_rules::placement::Batching;
use flagship_workloads::WorkloadConfig;

use crate::ClusterLimits;

/// The shape of a fleet. What it runs on, [`FleetBuilder`](crate::FleetBuilder) is told.
#[derive(Clone)]
pub struct FleetSpec {
    /// Names of the members.
    pub members: Vec<String>,
    /// Labels of their MemberClusters.
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    /// How often members say that they are alive.
    pub heartbeat_seconds: u32,
    /// Choices for the hub.
    pub hub: flagship_hub::Options,
    /// Whether the hub judges writes and fills in as its webhooks would.
    pub hub_admission: bool,
    /// Admission policies that the hub's API server holds: `--enable-admission-policy-manager`.
    pub policies: Option<flagship_hub::policies::Config>,
    /// Choices for every member agent.
    pub member: flagship_member::Options,
    /// What runs on every member.
    pub workloads: WorkloadConfig,
    /// Nodes of members that have another number than the rest.
    pub nodes: BTreeMap<String, u32>,
    /// How much of the past the API servers remember.
    pub limits: ClusterLimits,
    /// Under which names controllers come to the API servers.
    pub callers: Callers,
}

/// The names of controllers in managed fields, events, traces and faults.
#[derive(Clone, Copy, Debug)]
pub struct Callers {
    /// The hub's controllers.
    pub hub: &'static str,
    /// What follows the name of a member in the name of its agent.
    pub agent_suffix: &'static str,
}

impl Callers {
    /// Like the processes of a fleet whose parts run apart.
    pub const PROCESSES: Self = Self { hub: "flagship-hub", agent_suffix: "-agent" };
    /// Like the clusters they work for.
    pub const CLUSTERS: Self = Self { hub: crate::HUB, agent_suffix: "" };
}

impl FleetSpec {
    /// Members of these names.
    pub fn named(members: Vec<String>) -> Self {
        // A person's edits become a version at once: what KubeFleet collects for half a
        // minute only makes an embedded fleet slow.
        let hub = flagship_hub::Options { batching: Batching::NONE, ..Default::default() };
        Self {
            members,
            labels: BTreeMap::new(),
            heartbeat_seconds: 60,
            hub,
            hub_admission: true,
            policies: None,
            member: flagship_member::Options::default(),
            workloads: WorkloadConfig::default(),
            nodes: BTreeMap::new(),
            limits: ClusterLimits::default(),
            callers: Callers::PROCESSES,
        }
    }
}
