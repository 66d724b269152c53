//! The embedded fleet as `flagship up` wants it: by the machine's clock, kept in the data
//! folder, behind TLS.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use flagship_api::cluster::MemberCluster;
use flagship_apiserver::rest::ClusterHandle;
use flagship_edge::{Authority, Config, Edge, EdgeError};
use flagship_fleet::{
    Candidate, ClusterLimits, EmbeddedFleet, FleetError, FleetSpec, HUB, Storage,
};
use flagship_hub::policies;
use flagship_rules::placement::Batching;
use flagship_runtime::client::{Client, Selection};
use flagship_runtime::env::Env;
use flagship_store::durable::Durable;
use flagship_workloads::WorkloadConfig;
use tokio::task::JoinHandle;

use super::audit::AuditLog;
use super::backup;
use super::folder::Folder;
use super::labels::Labels;
use super::members::Nodes;
use crate::agent::HubChoices;

/// What a fleet is made of.
pub struct Shape {
    /// Names of the members.
    pub members: Vec<String>,
    /// Nodes of each.
    pub nodes: Nodes,
    /// Where it listens.
    pub port: u16,
    /// Whether each cluster has a port of its own, too.
    pub port_per_cluster: bool,
    /// Labels of the members.
    pub labels: Labels,
    /// Whether nothing is kept.
    pub ephemeral: bool,
    /// The keys that everything kept is encrypted with.
    pub encryption_key_file: Option<PathBuf>,
    /// Bytes for the past of all clusters.
    pub memory_budget: usize,
    /// How long a cluster may take before its run counts as stuck.
    pub stuck_after: Duration,
    /// Whether and how it is logged who did what.
    pub audit: AuditLog,
    /// How long changes are collected into one version.
    pub batching: Batching,
    /// What else is chosen for the hub.
    pub hub: HubChoices,
    /// Admission policies of the hub.
    pub policies: Option<policies::Config>,
}

/// A fleet that runs.
pub struct Fleet {
    embedded: EmbeddedFleet,
    user: Client,
    /// Members that have not joined, and why.
    pub left: BTreeMap<String, String>,
    /// Labels of the members, as they stand on the hub.
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    /// Tries again to register members, looks at the store from time to time.
    tasks: Vec<JoinHandle<()>>,
}

/// How often members say that they are alive: a member that falls silent is noticed soon.
const HEARTBEAT_SECONDS: u32 = 15;
/// With more members than this, heartbeats come once a minute, KubeFleet's default: they are
/// most of what a large fleet writes while nothing happens.
const FREQUENT_HEARTBEATS: usize = 100;
/// And those that fall due within such a span are sent together.
const HEARTBEATS_TOGETHER: Duration = Duration::from_secs(2);
/// How long no member may join before something is wrong with those that are left.
const JOINING: Duration = Duration::from_secs(60);

impl Shape {
    pub(super) fn spec(&self) -> anyhow::Result<FleetSpec> {
        let mut spec = FleetSpec::named(self.members.clone());
        spec.labels =
            self.members.iter().map(|name| (name.clone(), self.labels.all_of(name))).collect();
        if self.members.len() <= FREQUENT_HEARTBEATS {
            spec.heartbeat_seconds = HEARTBEAT_SECONDS;
        } else {
            spec.member.heartbeats_together = HEARTBEATS_TOGETHER;
        }
        spec.hub.update_runs.stuck_after =
            self.stuck_after.try_into().context("--stuck-after is too long")?;
        spec.hub.batching = self.batching;
        self.hub.choose(&mut spec.hub);
        // How many members are looked at side by side follows from it.
        spec.hub.max_fleet_size = spec.hub.max_fleet_size.max(self.members.len());
        spec.policies = self.policies.clone();
        spec.workloads = WorkloadConfig { nodes: self.nodes.each(), ..WorkloadConfig::default() };
        spec.nodes = self.nodes.named().clone();
        spec.limits = ClusterLimits::within(self.memory_budget, self.members.len());
        Ok(spec)
    }
}

impl Fleet {
    /// Starts everything and waits until every member has joined, or cannot.
    pub async fn start(shape: &Shape, folder: &Folder) -> anyhow::Result<Self> {
        let kept = match shape.ephemeral {
            true => None,
            false => Some(super::open_store(&folder.data(), shape.encryption_key_file.as_deref())?),
        };
        let storage = kept.clone().map_or(Storage::Ephemeral, Storage::Durable);
        // Keys beside no store would look like a store that was lost.
        let authority = match shape.ephemeral {
            true => Authority::create(Env::system().now()),
            false => Authority::at(&folder.certificates(), Env::system().now()),
        };
        let authority = authority.context("the fleet's certificates cannot be used")?;
        let config = Config {
            audit: shape.audit.open()?,
            backup: kept.clone().map(|kept| backup::on_request(kept, folder)),
            ..Config::local(shape.port, authority)
        };
        let building = EmbeddedFleet::builder(shape.spec()?).storage(storage).edge(config);
        let mut embedded = match building.build().await {
            Ok(embedded) => embedded,
            Err(FleetError::Edge(EdgeError::Listen { address, source })) => bail!(
                "port {} cannot be used: {source}. Stop whoever has it, or pass --port.",
                address.port()
            ),
            Err(error) => return Err(error.into()),
        };
        if shape.port_per_cluster {
            open_ports(&embedded, shape).await?;
        }
        let user = embedded.client(HUB, "flagship");
        embedded.start_controllers();
        // A webhook that refuses everything must not keep out whoever could remove it.
        let mut joining = embedded.joining(embedded.unguarded_client(HUB, "flagship"));
        joining.until(JOINING).await;
        let told = |left: &Candidate| (left.name.clone(), left.why.clone());
        let left = joining.left().iter().map(told).collect();
        let labels = labels_of(&user).await;
        let mut tasks = vec![tokio::spawn(joining.go_on())];
        tasks.extend(looks(kept, embedded.handles().values().cloned().collect()));
        Ok(Self { embedded, user, left, labels, tasks })
    }

    /// A client of the hub, as its user.
    pub fn hub(&self) -> &Client {
        &self.user
    }

    fn edge(&self) -> &Edge {
        self.embedded.edge().expect("it was built with one")
    }

    /// Where a cluster is served.
    pub fn url(&self, cluster: &str) -> String {
        self.edge().url(cluster)
    }

    /// Writes the kubeconfig, the hub being the current context. What else is in a file that a
    /// person named stays there.
    pub fn write_kubeconfig(&self, path: &Path, named: bool) -> anyhow::Result<()> {
        let mut kubeconfig = self.edge().kubeconfig()?.with_current("hub");
        if named && path.exists() {
            let there = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            kubeconfig = kubeconfig.merged_into(&there).map_err(|why| {
                anyhow::anyhow!(
                    "cannot add the contexts of this fleet to {}: {why}. Name another --kubeconfig.",
                    path.display()
                )
            })?;
        }
        kubeconfig.write(path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Lets passes under way finish, then closes the edge and the data file.
    pub async fn stop(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.embedded.shutdown().await;
    }
}

/// The labels that members have; none of a hub that cannot be read.
async fn labels_of(hub: &Client) -> BTreeMap<String, BTreeMap<String, String>> {
    let listed = hub.of::<MemberCluster>().list(&Selection::all()).await;
    let listed = listed.map_or_else(|_| Vec::new(), |all| all.items);
    let labels = |member: MemberCluster| {
        Some((member.metadata.name?, member.metadata.labels.unwrap_or_default()))
    };
    listed.into_iter().filter_map(labels).collect()
}

/// Gives the hub the second port after the common one, as the first is the console's, and each
/// member the next.
async fn open_ports(embedded: &EmbeddedFleet, shape: &Shape) -> anyhow::Result<()> {
    let Some(edge) = embedded.edge() else { return Ok(()) };
    let names = std::iter::once(HUB).chain(shape.members.iter().map(String::as_str));
    for (at, name) in (2_u16..).zip(names) {
        let port = match shape.port {
            0 => 0,
            common => {
                common.checked_add(at).context("--port-per-cluster: there are not so many ports")?
            }
        };
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let opened = edge.open(&embedded.cluster_name(name), place).await;
        opened.with_context(|| format!("--port-per-cluster: {name} cannot have port {port}"))?;
    }
    Ok(())
}

/// Looks at Events and at the store from time to time, each in a task of its own.
fn looks(kept: Option<Durable>, clusters: Vec<ClusterHandle>) -> Vec<JoinHandle<()>> {
    let mut tasks = vec![tokio::spawn(expire_events(clusters))];
    tasks.extend(kept.map(|kept| tokio::spawn(scrub(kept))));
    tasks
}

/// How often Events are looked at, whether their hour has passed.
const EXPIRING: Duration = Duration::from_secs(60);

async fn expire_events(clusters: Vec<ClusterHandle>) {
    loop {
        tokio::time::sleep(EXPIRING).await;
        clusters.iter().for_each(ClusterHandle::expire_events);
    }
}

/// How often everything on the disk is looked at.
const SCRUBBING: Duration = Duration::from_secs(3600);

async fn scrub(kept: Durable) {
    loop {
        tokio::time::sleep(SCRUBBING).await;
        let kept = kept.clone();
        match tokio::task::spawn_blocking(move || kept.scrub()).await {
            Ok(Ok(())) => tracing::info!("the store was looked at and is whole"),
            Ok(Err(damage)) => {
                tracing::error!("what is served is right, but a restart would fail: {damage}");
            }
            Err(why) => tracing::error!(%why, "the store could not be looked at"),
        }
    }
}

#[cfg(test)]
mod tests {
    use flagship_apiserver::rest::Server;
    use flagship_store::env::Env as ServerEnv;
    use flagship_store::{Limits, Scope};
    use serde_json::json;

    use super::*;

    /// How many seconds pass until it is so.
    async fn seconds_until(is_so: impl Fn() -> bool) -> u64 {
        let mut passed = 0;
        while !is_so() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            passed += 1;
            assert!(passed < 2 * 3600, "it does not happen");
        }
        passed
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_looked_at_every_minute() {
        let cluster = Server::new(ServerEnv::simulated(1)).add_cluster("hub");
        let event = json!({"metadata": {"name": "said"}, "reason": "Said",
            "involvedObject": {"namespace": "default"}});
        cluster.local("somebody").create("events", "default", event).await.unwrap();
        let _tasks = looks(None, vec![cluster.clone()]);
        let events = || cluster.store().list("events", Scope::All).items.len();
        let passed = seconds_until(|| events() == 0).await;
        assert!((3600..3662).contains(&passed), "after {passed} s");
    }

    #[tokio::test(start_paused = true)]
    async fn the_store_is_looked_at_every_hour() {
        let folder = std::env::temp_dir().join(format!("flagship-looks-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("data.redb");
        let kept = Durable::open(&file).unwrap();
        let env = ServerEnv::simulated(1);
        let store = kept.store("hub", env.clone(), Limits::default()).unwrap();
        let cluster = Server::new(env).add_cluster_with("hub", store);
        let map = json!({"metadata": {"name": "precious"}});
        cluster.local("somebody").create("configmaps", "default", map).await.unwrap();
        let _tasks = looks(Some(kept.clone()), Vec::new());
        tokio::time::sleep(Duration::from_secs(2 * 3600 + 60)).await;
        assert_eq!(kept.trouble(), None);
        // Somebody else writes into the file.
        let mut bytes = std::fs::read(&file).unwrap();
        let name = b"\"name\":\"precious\"";
        while let Some(at) = bytes.windows(name.len()).position(|window| window == name) {
            bytes[at + 8] = b'x';
        }
        std::fs::write(&file, bytes).unwrap();
        let passed = seconds_until(|| kept.trouble().is_some()).await;
        assert!((3500..3600).contains(&passed), "after {passed} s");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn clusters_remember_as_much_as_the_memory_budget_says() {
        let limits = |line: &str| {
            let up = crate::agent::read::<crate::up::Up>(line).unwrap();
            up.shape().unwrap().spec().unwrap().limits
        };
        let within = ClusterLimits::within;
        assert_eq!(limits("--members=20 --memory-budget=16Mi"), within(16 << 20, 20));
        assert_eq!(limits("--members=20"), within(128 << 20, 20));
    }
}
