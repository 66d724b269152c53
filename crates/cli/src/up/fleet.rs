//! The parts of an embedded fleet, put together: API servers, workloads, controllers.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use flagship_api::cluster::MemberCluster;
use flagship_api::condition::{Conditions, Truth};
use flagship_api::condition_type::member_cluster;
use flagship_api::names::ObjectKey;
use flagship_api::work::AppliedWork;
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_edge::{Authority, Config, Edge, EdgeError};
use flagship_hub::Hub;
use flagship_member::Member;
use flagship_rules::placement::Batching;
use flagship_runtime::client::{Client, ResourceType};
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_sim::fleet::HubDoor;
use flagship_store::Limits;
use flagship_store::durable::Durable;
use flagship_store::env::Env as ServerEnv;
use flagship_workloads::{WorkloadConfig, Workloads};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::folder::Folder;
use super::labels::Labels;

/// What a fleet is made of.
pub struct Shape {
    /// Names of the members.
    pub members: Vec<String>,
    /// Nodes of each.
    pub nodes: u32,
    /// Where it listens.
    pub port: u16,
    /// Labels of the members.
    pub labels: Labels,
    /// Whether nothing is kept.
    pub ephemeral: bool,
    /// How long a cluster may take before its run counts as stuck.
    pub stuck_after: Duration,
}

/// A fleet that runs.
pub struct Fleet {
    edge: Edge,
    hub: Client,
    stop: CancellationToken,
    /// The hub's controllers and the agents of the members.
    controllers: JoinSet<()>,
    /// Where writes go, unless nothing is kept.
    kept: Option<Durable>,
}

/// How often members say that they are alive.
const HEARTBEAT_SECONDS: u32 = 15;
/// How long the members may take to join before something is wrong.
const JOINING: Duration = Duration::from_secs(60);
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl Fleet {
    /// Starts everything and waits until every member has joined.
    pub async fn start(shape: &Shape, folder: &Folder) -> anyhow::Result<Self> {
        let env = Env::system();
        let server_env = ServerEnv::system();
        let server = Server::new(server_env.clone());
        let kept = match shape.ephemeral {
            true => None,
            false => Some(Durable::open(&folder.data())?),
        };
        let add = |name: &str| -> anyhow::Result<ClusterHandle> {
            Ok(match &kept {
                None => server.add_cluster(name),
                Some(kept) => {
                    let store = kept.store(name, server_env.clone(), Limits::default())?;
                    server.add_cluster_with(name, store)
                }
            })
        };
        let hub = add("hub")?;
        install(&hub, |_| true).await?;
        make_system_namespace(&hub).await?;
        let mut options =
            flagship_hub::Options { batching: Batching::NONE, ..flagship_hub::Options::default() };
        options.update_runs.stuck_after =
            shape.stuck_after.try_into().context("--stuck-after is too long")?;
        HubDoor::install(&hub, options.admission());
        Workloads::new(WorkloadConfig::hub()).spawn(hub.clone());
        let config = WorkloadConfig { nodes: shape.nodes, ..WorkloadConfig::default() };
        let workloads = Workloads::new(config);
        let mut members = Vec::new();
        for name in &shape.members {
            let handle = add(name)?;
            install(&handle, is_needed_by_members).await?;
            workloads.spawn(handle.clone());
            members.push((name.clone(), handle));
        }
        let edge = listen(&server, &server_env, shape.port, folder, &env).await?;

        let stop = CancellationToken::new();
        let mut controllers = JoinSet::new();
        let metrics = Metrics::default();
        let own = |handle: &ClusterHandle, name: &str| {
            Client::in_process(handle.called_by(name)).named(name)
        };
        let controller = Hub::new(own(&hub, "flagship-hub"), env.clone(), metrics.clone(), options);
        let stopped = stop.clone();
        controllers.spawn(async move { controller.run(stopped.cancelled()).await });
        let user = own(&hub, "flagship");
        for (name, handle) in &members {
            let agent = format!("{name}-agent");
            let (at_home, at_hub) = (own(handle, &agent), own(&hub, &agent));
            let options = flagship_member::Options::default();
            let member = Member::new(name, at_home, at_hub, env.clone(), metrics.clone(), options);
            let stopped = stop.clone();
            controllers.spawn(async move { member.run(stopped.cancelled()).await });
            invite(&user, name, shape).await?;
        }
        let fleet = Self { edge, hub: user, stop, controllers, kept };
        fleet.wait_until_joined(&shape.members).await?;
        Ok(fleet)
    }

    /// A client of the hub, as its user.
    pub fn hub(&self) -> &Client {
        &self.hub
    }

    /// Where a cluster is served.
    pub fn url(&self, cluster: &str) -> String {
        self.edge.url(cluster)
    }

    /// Writes the kubeconfig, the hub being the current context.
    pub fn write_kubeconfig(&self, path: &Path) -> anyhow::Result<()> {
        let kubeconfig = self.edge.kubeconfig()?.with_current("hub");
        kubeconfig.write(path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Lets passes under way finish, then closes the doors.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.controllers.join_next().await.is_some() {}
        self.edge.shutdown().await;
        if let Some(refusal) = self.kept.and_then(|kept| kept.close().err()) {
            tracing::error!(%refusal, "the last changes could not be stored");
        }
    }

    async fn wait_until_joined(&self, members: &[String]) -> anyhow::Result<()> {
        let clusters = self.hub.of::<MemberCluster>();
        let joining = async {
            for name in members {
                while !has_joined(clusters.find(&ObjectKey::cluster(name)).await?.as_ref()) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            anyhow::Ok(())
        };
        match tokio::time::timeout(JOINING, joining).await {
            Ok(joined) => joined,
            Err(_) => bail!("the members did not join within a minute"),
        }
    }
}

fn has_joined(member: Option<&MemberCluster>) -> bool {
    let conditions =
        member.and_then(|member| member.status.as_ref()).map(|status| &status.conditions);
    let joined = conditions.and_then(|conditions| conditions.of_type(member_cluster::JOINED));
    joined.is_some_and(|joined| Truth::of(joined) == Truth::True)
}

async fn listen(
    server: &Server,
    server_env: &ServerEnv,
    port: u16,
    folder: &Folder,
    env: &Env,
) -> anyhow::Result<Edge> {
    let authority = Authority::at(&folder.certificates(), env.now())
        .context("the fleet's certificates cannot be used")?;
    match Edge::start(server, server_env, Config::local(port, authority)).await {
        Ok(edge) => Ok(edge),
        Err(EdgeError::Listen { address, source }) => bail!(
            "port {} cannot be used: {source}. Stop whoever has it, or pass --port.",
            address.port()
        ),
        Err(error) => Err(error.into()),
    }
}

/// Gives a cluster our definitions; those it has are brought up to date.
async fn install(cluster: &ClusterHandle, wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let system = cluster.local("flagship-installer");
    for definition in flagship_api::crd::all() {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if !wanted(&name) {
            continue;
        }
        let present = system.get(DEFINITIONS, "", &name).await.ok();
        let done = match present {
            None => system.create(DEFINITIONS, "", definition).await.map(drop),
            Some(present) if present["spec"] == definition["spec"] => Ok(()),
            Some(mut present) => {
                present["spec"] = definition["spec"].clone();
                system.update(DEFINITIONS, present).await.map(drop)
            }
        };
        done.map_err(|error| anyhow::anyhow!("cannot install {name}: {error:?}"))?;
    }
    Ok(())
}

fn is_needed_by_members(definition: &str) -> bool {
    let applied = ResourceType::of::<AppliedWork>();
    definition == format!("{}.{}", applied.plural, applied.group)
}

async fn make_system_namespace(hub: &ClusterHandle) -> anyhow::Result<()> {
    let name = flagship_api::names::SYSTEM_NAMESPACE;
    let system = hub.local("flagship-installer");
    if system.get("namespaces", "", name).await.is_ok() {
        return Ok(());
    }
    let namespace = json!({"metadata": {"name": name}});
    let made = system.create("namespaces", "", namespace).await;
    made.map(drop).map_err(|error| anyhow::anyhow!("cannot create namespace {name}: {error:?}"))
}

/// Registers a member on the hub, and sets the labels that were asked for.
async fn invite(hub: &Client, name: &str, shape: &Shape) -> anyhow::Result<()> {
    let object: Value = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": shape.labels.all_of(name)},
        "spec": {
            "identity": {"kind": "User", "name": format!("{name}-agent"), "apiGroup": "rbac.authorization.k8s.io"},
            "heartbeatPeriodSeconds": HEARTBEAT_SECONDS,
        },
    });
    let clusters = hub.of::<MemberCluster>();
    clusters
        .apply(&ObjectKey::cluster(name), &object, true)
        .await
        .with_context(|| format!("cannot register {name}"))?;
    Ok(())
}
