//! The embedded fleet of `flagship_fleet` with what tests and benchmarks need around it:
//! faults, a trace, and the clusters as a person with kubectl sees them.
//!
//! Under paused time everything that follows from a seed happens in the same order every
//! time; with [`FleetConfig::real_time`] the same fleet runs by the machine's clock.
//!
//! ```no_run
//! # async fn story() {
//! use flagship_sim::fleet::{Fleet, FleetConfig};
//! let fleet = Fleet::joined(FleetConfig::of(3)).await;
//! fleet.clusters.hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
//! fleet.clusters.hub.eventually("namespaces", "", "app", |found| found.is_some()).await;
//! # }
//! ```

mod cluster;
mod clusters;
mod config;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use flagship_apiserver::rest::ClusterHandle;
use flagship_fleet::{ClusterHost, EmbeddedFleet};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_store::env::plan::{FaultPlan, Rule};
use flagship_store::env::{Env as ServerEnv, Trace};

pub use cluster::{Cluster, Condition};
pub use clusters::Clusters;
pub use config::FleetConfig;
pub use flagship_fleet::HUB;

/// A fleet in this process. Everything an [`EmbeddedFleet`] can do, it can.
pub struct Fleet {
    /// The fleet as its users see it.
    pub clusters: Clusters,
    /// What goes wrong on purpose, on every cluster. Clusters are called as
    /// [`EmbeddedFleet::cluster_name`] says, callers `hub` and like their member.
    pub faults: Arc<FaultPlan>,
    /// What went on, on every cluster, if the configuration asks for it.
    pub trace: Arc<Trace>,
    embedded: EmbeddedFleet,
}

impl Deref for Fleet {
    type Target = EmbeddedFleet;
    fn deref(&self) -> &EmbeddedFleet {
        &self.embedded
    }
}

impl DerefMut for Fleet {
    fn deref_mut(&mut self) -> &mut EmbeddedFleet {
        &mut self.embedded
    }
}

/// Clocks of a fleet, with what goes wrong and what is written down.
pub(crate) struct Simulation {
    pub env: Env,
    pub server_env: ServerEnv,
    pub faults: Arc<FaultPlan>,
    pub trace: Arc<Trace>,
}

impl Simulation {
    /// By tokio's clock, which tests pause.
    pub fn paused(seed: u64, traced: bool) -> Self {
        Self::with(Env::simulated(seed), ServerEnv::simulated(seed), seed, traced)
    }

    /// By the machine's clock.
    pub fn real_time(seed: u64, traced: bool) -> Self {
        Self::with(Env::system(), ServerEnv::system(), seed, traced)
    }

    fn with(env: Env, plain: ServerEnv, seed: u64, traced: bool) -> Self {
        let trace = Arc::new(if traced { Trace::recording() } else { Trace::off() });
        let faults = Arc::new(FaultPlan::new(seed, plain.clock.clone(), Vec::new()));
        let server_env = plain.with_trace(trace.clone()).with_faults(faults.clone());
        Self { env, server_env, faults, trace }
    }
}

impl Fleet {
    /// A fleet whose controllers run and whose members have joined.
    pub async fn joined(config: FleetConfig) -> Self {
        let mut fleet = Self::new(config).await;
        let user = fleet.clusters.hub.client().clone();
        fleet.start_all(&user).await.unwrap_or_else(|error| panic!("{error}"));
        fleet.all_joined().await;
        fleet
    }

    /// The clusters of a fleet, with our definitions. No controller runs, nobody has joined.
    pub async fn new(config: FleetConfig) -> Self {
        let Simulation { env, server_env, faults, trace } = match config.real_time {
            true => Simulation::real_time(config.seed, config.traced),
            false => Simulation::paused(config.seed, config.traced),
        };
        let (host, prefix) = match config.host {
            Some(host) => (host, String::new()),
            None => ClusterHost::shared(),
        };
        let building = EmbeddedFleet::builder(config.spec).clock(env, server_env);
        let built = building.host(host, prefix).build().await;
        let embedded = built.unwrap_or_else(|error| panic!("{error}"));
        let user = |name: &str, handle: &ClusterHandle| {
            let client = Client::in_process(handle.called_by("user")).named("kubectl");
            Cluster::new(name, client)
        };
        let mut members: BTreeMap<String, Cluster> = embedded
            .handles()
            .iter()
            .map(|(name, handle)| (name.clone(), user(name, handle)))
            .collect();
        let hub = members.remove(HUB).expect("every fleet has a hub");
        let clusters = Clusters { hub, members };
        Self { clusters, faults, trace, embedded }
    }

    /// Creates the MemberCluster of a member, with the labels the configuration gives it.
    pub async fn invite(&self, member: &str) {
        let registered = self.register(self.clusters.hub.client(), member).await;
        registered.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits until every invited member has joined.
    pub async fn all_joined(&self) {
        for member in self.clusters.hub.list("memberclusters", "").await {
            let name = member["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            self.clusters.hub.becomes("memberclusters", "", &name, "Joined", "True").await;
        }
    }

    /// From now on this goes wrong, and nothing else.
    pub fn disturb(&self, rules: Vec<Rule>) {
        self.faults.replace(rules);
    }

    /// Lets time pass.
    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until nothing was written anywhere for `seconds`, which must be less than
    /// the heartbeat period. Gives up after an hour, for a fleet that never rests.
    pub async fn quiet(&self, seconds: u64) {
        let revisions = || -> Vec<u64> {
            self.handles().values().map(|handle| handle.store().revision()).collect()
        };
        let mut last = revisions();
        let mut calm = 0;
        for _ in 0..3600 {
            self.pass(1).await;
            let now = revisions();
            calm = if now == last { calm + 1 } else { 0 };
            if calm >= seconds {
                return;
            }
            last = now;
        }
        panic!("the fleet does not come to rest");
    }
}
