//! A hub and its members in this process: embedded servers, the real controllers, and
//! workloads that run on the members.
//!
//! Under paused time everything that follows from a seed happens in the same order every
//! time; with [`FleetConfig::real_time`] the same fleet runs by the machine's clock. Each
//! actor (the hub's controllers, the agent of each member) can be stopped, killed and
//! started on its own.
//!
//! ```no_run
//! # async fn story() {
//! use flagship_sim::fleet::{Fleet, FleetConfig};
//! let fleet = Fleet::joined(FleetConfig::of(3)).await;
//! fleet.world.hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
//! fleet.world.hub.eventually("namespaces", "", "app", |found| found.is_some()).await;
//! # }
//! ```
//!
//! [`World`] is what stories are told with; [`Ground`] shares compiled definitions between
//! fleets.

mod actors;
mod cluster;
mod config;
mod door;
mod ground;
mod world;

use std::sync::Arc;
use std::time::Duration;

use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_hub::Hub;
use flagship_member::Member;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_store::env::plan::{Plan, Rule};
use flagship_store::env::{Env as ServerEnv, Trace};
use flagship_workloads::{WorkloadConfig, Workloads};
use std::collections::BTreeMap;

use actors::Actors;
pub use cluster::{Cluster, Condition};
pub use config::FleetConfig;
pub use door::HubDoor;
pub use ground::Ground;
pub use world::World;

/// The actor that runs the hub's controllers.
pub const HUB: &str = "hub";

/// A fleet in this process.
pub struct Fleet {
    /// The fleet as its users see it.
    pub world: World,
    /// Time and chance of all controllers.
    pub env: Env,
    /// What all controllers count.
    pub metrics: Metrics,
    /// What goes wrong on purpose, on every cluster. Clusters are called as
    /// [`Fleet::cluster_name`] says, actors `hub` and like their member.
    pub faults: Arc<Plan>,
    /// What went on, on every cluster, if the configuration asks for it.
    pub trace: Arc<Trace>,
    config: FleetConfig,
    ground: Ground,
    prefix: String,
    handles: BTreeMap<String, ClusterHandle>,
    actors: Actors,
}

impl Fleet {
    /// A fleet whose actors run and whose members have joined.
    pub async fn joined(config: FleetConfig) -> Self {
        let mut fleet = Self::new(config);
        fleet.start(HUB);
        for member in fleet.config.members.clone() {
            fleet.start(&member);
            fleet.invite(&member).await;
        }
        fleet.all_joined().await;
        fleet
    }

    /// The clusters of a fleet, with our definitions. No actor runs, nobody has joined.
    /// Needs a runtime.
    pub fn new(config: FleetConfig) -> Self {
        let (ground, prefix) = match &config.ground {
            Some(ground) => (ground.clone(), String::new()),
            None => Ground::shared(),
        };
        let trace = Arc::new(if config.traced { Trace::recording() } else { Trace::off() });
        let (env, plain) = if config.real_time {
            (Env::system(), ServerEnv::system())
        } else {
            (Env::simulated(config.seed), ServerEnv::simulated(config.seed))
        };
        let faults = Arc::new(Plan::new(config.seed, plain.clock.clone(), Vec::new()));
        let server_env = plain.with_trace(trace.clone()).with_faults(faults.clone());
        let mut handles = BTreeMap::new();
        let hub = ground.hub(&format!("{prefix}{HUB}"), server_env.clone());
        if config.guarded {
            HubDoor::install(&hub, config.hub.admission());
        }
        Workloads::new(WorkloadConfig::hub()).spawn(hub.clone());
        let running = Workloads::new(config.workloads.clone());
        for member in &config.members {
            let handle = ground.member(&format!("{prefix}{member}"), server_env.clone());
            running.spawn(handle.clone());
            handles.insert(member.clone(), handle);
        }
        handles.insert(HUB.to_owned(), hub);
        let user = |name: &str, handle: &ClusterHandle| {
            let client = Client::in_process(handle.called_by("user")).named("kubectl");
            Cluster::new(name, client)
        };
        let mut clusters: BTreeMap<String, Cluster> =
            handles.iter().map(|(name, handle)| (name.clone(), user(name, handle))).collect();
        let hub = clusters.remove(HUB).expect("the hub was inserted above");
        let world = World { hub, members: clusters };
        let metrics = Metrics::default();
        let actors = Actors::default();
        Self { world, env, metrics, faults, trace, config, ground, prefix, handles, actors }
    }

    /// Creates the MemberCluster of a member, with the labels the configuration gives it.
    pub async fn invite(&self, member: &str) {
        let labels = self.config.labels.get(member).cloned().unwrap_or_default();
        let object = serde_json::json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
            "kind": "MemberCluster",
            "metadata": {"name": member, "labels": labels},
            "spec": {
                "identity": {"kind": "User", "name": format!("{member}-agent")},
                "heartbeatPeriodSeconds": self.config.heartbeat_seconds,
            },
        });
        self.world.hub.apply_object(&object).await;
    }

    /// Waits until every invited member has joined.
    pub async fn all_joined(&self) {
        for member in self.world.hub.list("memberclusters", "").await {
            let name = member["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            self.world.hub.becomes("memberclusters", "", &name, "Joined", "True").await;
        }
    }

    /// Starts an actor: the hub's controllers, or the agent of a member.
    pub fn start(&mut self, actor: &str) {
        let client = |cluster: &str| {
            let handle = &self.handles[cluster];
            Client::in_process(handle.called_by(actor)).named(actor)
        };
        let (env, metrics) = (self.env.clone(), self.metrics.clone());
        if actor == HUB {
            let hub = Hub::new(client(HUB), env, metrics, self.config.hub.clone());
            self.actors.start(HUB, |stop| async move { hub.run(stop).await });
        } else {
            let options = self.config.member.clone();
            let (own, hub) = (client(actor), client(HUB));
            let member = Member::new(actor, own, hub, env, metrics, options);
            self.actors.start(actor, |stop| async move { member.run(stop).await });
        }
    }

    /// Asks an actor to stop, and waits until it has.
    pub async fn stop(&mut self, actor: &str) {
        self.actors.stop(actor).await;
    }

    /// Ends an actor as a crash would.
    pub async fn kill(&mut self, actor: &str) {
        self.actors.kill(actor).await;
    }

    /// From now on this goes wrong, and nothing else.
    pub fn disturb(&self, rules: Vec<Rule>) {
        self.faults.replace(rules);
    }

    /// The embedded cluster behind the hub or a member, for those who inspect or disturb it.
    pub fn handle(&self, cluster: &str) -> &ClusterHandle {
        &self.handles[cluster]
    }

    /// The server that all clusters stand on, for those who give it a socket.
    pub fn server(&self) -> &Server {
        self.ground.server()
    }

    /// What faults, traces and the server call a cluster.
    pub fn cluster_name(&self, cluster: &str) -> String {
        format!("{}{cluster}", self.prefix)
    }

    /// Lets time pass.
    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until nothing was written anywhere for `seconds`, which must be less than
    /// the heartbeat period. Gives up after an hour, for a fleet that never rests.
    pub async fn quiet(&self, seconds: u64) {
        let revisions = || -> Vec<u64> {
            self.handles.values().map(|handle| handle.store().revision()).collect()
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

impl Drop for Fleet {
    fn drop(&mut self) {
        for cluster in self.handles.keys() {
            self.ground.remove(&self.cluster_name(cluster));
        }
    }
}
