//! One embedded fleet, assembled once: a hub and its members on the embedded API server,
//! workloads on the members, and the controllers of `flagship hub` and `flagship member`.
//!
//! [`FleetSpec`] says what the fleet is, [`FleetBuilder`] what it runs on: clock, storage
//! and edge. The controllers of the hub and the agent of each member can be stopped, killed
//! and started on their own. `flagship up` runs it by the machine's clock, in a file and
//! behind TLS; scenarios and benchmarks run it in memory, most of them under paused time.

mod build;
mod cluster_host;
mod error;
mod hub_admission;
mod joining;
mod limits;
mod spec;
mod tasks;

use std::collections::BTreeMap;

use flagship_api::cluster::MemberCluster;
use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::member_cluster;
use flagship_api::names::ObjectKey;
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_edge::Edge;
use flagship_hub::Hub;
use flagship_member::Member;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use serde_json::{Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};

pub use build::FleetBuilder;
pub use cluster_host::{ClusterHost, Storage};
pub use error::FleetError;
pub use hub_admission::HubAdmission;
pub use joining::{Candidate, Joining};
pub use limits::ClusterLimits;
pub use spec::{Callers, FleetSpec};
use tasks::ControllerTasks;

/// The hub, as a cluster and as the controllers that work on it.
pub const HUB: &str = "hub";

/// A fleet in this process.
pub struct EmbeddedFleet {
    /// Time and chance of all controllers.
    pub env: Env,
    /// What all controllers count.
    pub metrics: Metrics,
    spec: FleetSpec,
    host: ClusterHost,
    prefix: String,
    handles: BTreeMap<String, ClusterHandle>,
    edge: Option<Edge>,
    tasks: ControllerTasks,
}

impl EmbeddedFleet {
    /// A fleet by the machine's clock, in memory and without an edge, unless the builder is
    /// told otherwise.
    pub fn builder(spec: FleetSpec) -> FleetBuilder {
        FleetBuilder::new(spec)
    }

    /// Starts the hub's controllers and the agents of all members, and registers the members
    /// on the hub in the name of its user.
    pub async fn start_all(&mut self, user: &Client) -> Result<(), FleetError> {
        self.start(HUB);
        for member in self.spec.members.clone() {
            self.start(&member);
            self.register(user, &member).await?;
        }
        Ok(())
    }

    /// Starts the hub's controllers and the agents of all members.
    pub fn start_controllers(&mut self) {
        self.start(HUB);
        for member in self.spec.members.clone() {
            self.start(&member);
        }
    }

    /// Applies the MemberCluster of a member, with the labels it shall have.
    pub async fn register(&self, user: &Client, member: &str) -> Result<(), FleetError> {
        let object = self.registration(member);
        let applied =
            user.of::<MemberCluster>().apply(&ObjectKey::cluster(member), &object, true).await;
        let member = member.to_owned();
        applied.map(drop).map_err(|source| FleetError::Register { member, source })
    }

    /// The MemberCluster that registers a member.
    pub fn registration(&self, member: &str) -> Value {
        let labels = self.spec.labels.get(member).cloned().unwrap_or_default();
        json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
            "kind": "MemberCluster",
            "metadata": {"name": member, "labels": labels},
            "spec": {
                "identity": {
                    "kind": "User",
                    "name": format!("{member}-agent"),
                    "apiGroup": "rbac.authorization.k8s.io",
                },
                "heartbeatPeriodSeconds": self.spec.heartbeat_seconds,
            },
        })
    }

    /// The members as they are to be registered, through a client of the hub.
    pub fn joining(&self, hub: Client) -> Joining {
        let members = self.spec.members.iter();
        let store = self.handle(HUB).store().clone();
        Joining::new(hub, store, members.map(|name| (name.clone(), self.registration(name))))
    }

    /// Starts the hub's controllers, or the agent of a member.
    pub fn start(&mut self, name: &str) {
        if name == HUB {
            let options = self.spec.hub.clone();
            self.start_hub(HUB, self.spec.callers.hub, options);
            return;
        }
        let caller = format!("{name}{}", self.spec.callers.agent_suffix);
        let (own, hub) = (self.client(name, &caller), self.client(HUB, &caller));
        let (env, metrics) = (self.env.clone(), self.metrics.clone());
        let member = Member::new(name, own, hub, env, metrics, self.spec.member.clone());
        self.tasks.start(name, |stop| async move { member.run(stop).await });
    }

    /// Starts controllers of the hub beside others, for those who let several compete.
    pub fn start_hub(&mut self, name: &str, caller: &str, options: flagship_hub::Options) -> Hub {
        let (env, metrics) = (self.env.clone(), self.metrics.clone());
        let hub = Hub::new(self.client(HUB, caller), env, metrics, options);
        let running = hub.clone();
        self.tasks.start(name, |stop| async move { running.run(stop).await });
        hub
    }

    /// Asks controllers to stop, and waits until they have.
    pub async fn stop(&mut self, name: &str) {
        self.tasks.stop(name).await;
    }

    /// Ends controllers as a crash would.
    pub async fn kill(&mut self, name: &str) {
        self.tasks.kill(name).await;
    }

    /// A client of a cluster, under this name as a caller and as a manager of fields.
    pub fn client(&self, cluster: &str, caller: &str) -> Client {
        client_of(self.handles[cluster].called_by(caller)).named(caller)
    }

    /// The same for whoever sets the fleet up: webhooks and policies of users are not asked.
    pub fn unguarded_client(&self, cluster: &str, caller: &str) -> Client {
        let handle = self.handles[cluster].unguarded().called_by(caller);
        client_of(handle).named(caller)
    }

    /// The embedded clusters by name, the hub among them.
    pub fn handles(&self) -> &BTreeMap<String, ClusterHandle> {
        &self.handles
    }

    /// The embedded cluster behind the hub or a member, for those who inspect or disturb it.
    pub fn handle(&self, cluster: &str) -> &ClusterHandle {
        &self.handles[cluster]
    }

    /// The server that all clusters stand on.
    pub fn server(&self) -> &Server {
        self.host.server()
    }

    /// What faults, traces and the server call a cluster.
    pub fn cluster_name(&self, cluster: &str) -> String {
        format!("{}{cluster}", self.prefix)
    }

    /// The way in from the network, if the fleet has one.
    pub fn edge(&self) -> Option<&Edge> {
        self.edge.as_ref()
    }

    /// Lets passes under way finish, ends connections, and closes the storage.
    pub async fn shutdown(mut self) {
        self.tasks.stop_all().await;
        if let Some(edge) = self.edge.take() {
            edge.shutdown().await;
        }
        if let Err(refusal) = self.host.close_storage() {
            tracing::error!(%refusal, "the last changes could not be stored");
        }
    }
}

/// A client of an embedded cluster. By one thread requests wait in line for a task, so that other
/// tasks run in between as they would if the server were elsewhere.
fn client_of(handle: ClusterHandle) -> Client {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Client::in_process(handle),
        _ => Client::direct(handle),
    }
}

/// Whether the hub says of a member that it has joined.
pub fn has_joined(member: Option<&MemberCluster>) -> bool {
    let conditions =
        member.and_then(|member| member.status.as_ref()).map(|status| &status.conditions);
    let joined = conditions.and_then(|conditions| conditions.of_type(member_cluster::JOINED));
    joined.is_some_and(|joined| ConditionStatus::of(joined) == ConditionStatus::True)
}

impl Drop for EmbeddedFleet {
    fn drop(&mut self) {
        for cluster in self.handles.keys() {
            self.host.remove(&self.cluster_name(cluster));
        }
    }
}
