//! `flagship up`: a hub, its members and all controllers in one process.
//!
//! `folder` keeps what survives, `fleet` puts the parts together, `demo` gives a newcomer
//! something to look at. The controllers are the very ones of `flagship hub` and
//! `flagship member`; only the API servers are embedded.

mod audit;
mod backup;
mod demo;
mod fleet;
mod folder;
mod labels;
mod log;
mod members;
mod memory;
mod restore;
mod rotate;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use flagship_rules::placement::Batching;
use flagship_store::durable::{Durable, Keys};

use crate::agent;
use crate::commands::{Connect, console};
use audit::AuditLog;
pub use backup::Backup;
use fleet::{Fleet, Shape};
use folder::Folder;
use labels::{Labels, on_one_line, read_label};
use members::{GivenNodes, Nodes, read_nodes};
pub use restore::Restore;
pub use rotate::RotateKeys;

/// Start a hub and its members in one process
#[derive(Args, Clone, Debug)]
pub struct Up {
    /// How many member clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=50_000))]
    members: u16,
    /// The name of a member, instead of member1 and so on; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "members")]
    member: Vec<String>,
    /// How many nodes each member has, or one member, as member3=4; may be repeated [default: 2]
    #[arg(long, value_name = "[MEMBER=]COUNT", value_parser = read_nodes)]
    nodes: Vec<GivenNodes>,
    /// The port of all API servers; 0 takes any free one
    #[arg(long, default_value_t = 6440)]
    port: u16,
    /// The port of the console; the one after --port by default, 0 takes any free one
    #[arg(long, value_name = "PORT")]
    console_port: Option<u16>,
    /// Serve each cluster on a port of its own, too, so that a server's address has no path:
    /// those from the second after --port, or any free ones
    #[arg(long)]
    port_per_cluster: bool,
    /// Where everything is kept
    #[arg(long, default_value = ".flagship", value_name = "FOLDER")]
    data_dir: PathBuf,
    /// A kubeconfig to add the contexts to; one in the data folder is written by default
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A label of a new member, as member1=environment=staging; may be repeated. Members that
    /// exist keep the labels they have
    #[arg(long, value_name = "MEMBER=KEY=VALUE", value_parser = read_label)]
    labels: Vec<(String, String, String)>,
    /// Keep nothing: faster, and gone when the process ends
    #[arg(long)]
    ephemeral: bool,
    /// Encrypt everything that is kept with the first key of this file
    #[arg(long, value_name = "FILE", conflicts_with = "ephemeral")]
    encryption_key_file: Option<PathBuf>,
    #[command(flatten)]
    audit: AuditLog,
    /// Memory for the past of all clusters, which watches go on from
    #[arg(long, default_value = "128Mi", value_name = "BYTES", value_parser = memory::bytes)]
    memory_budget: usize,
    /// How long a cluster may take before its run counts as stuck
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = agent::duration)]
    stuck_after: std::time::Duration,
    /// Least time between two versions of a placement's resources
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = agent::duration)]
    resource_snapshot_creation_minimum_interval: std::time::Duration,
    /// How long changes are collected into one version
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = agent::duration)]
    resource_changes_collection_duration: std::time::Duration,
    #[command(flatten)]
    hub: agent::HubChoices,
    /// Also create a sample application, a placement, a strategy and a first run
    #[arg(long)]
    demo: bool,
}

/// Stop the fleet that runs in this folder
#[derive(Args, Clone, Debug)]
pub struct Down {
    /// Where everything is kept
    #[arg(long, default_value = ".flagship", value_name = "FOLDER")]
    data_dir: PathBuf,
}

/// Remove everything the fleet in this folder kept
#[derive(Args, Clone, Debug)]
pub struct Reset {
    /// Where everything is kept
    #[arg(long, default_value = ".flagship", value_name = "FOLDER")]
    data_dir: PathBuf,
}

impl Reset {
    /// Removes the folder.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match folder::clear(&self.data_dir)? {
            true => writeln!(out, "removed {}", self.data_dir.display())?,
            false => writeln!(out, "nothing was kept in {}", self.data_dir.display())?,
        }
        Ok(())
    }
}

impl Up {
    /// Runs until told to stop.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let shape = self.shape()?;
        let folder = Folder::take(&self.data_dir)?;
        log::begin(&self.data_dir);
        say_what_was_shared(&folder.was_shared, out)?;
        if !self.ephemeral {
            folder.refuse_lost_store()?;
        }
        agent::block_on(self.work(shape, &folder, out))
    }

    /// What the flags ask for, or what is wrong with them.
    fn shape(&self) -> anyhow::Result<Shape> {
        let mut complaints = agent::Complaints::default();
        let seconds = std::time::Duration::from_secs;
        self.hub.check(&mut complaints);
        complaints.lasts(
            "resource-snapshot-creation-minimum-interval",
            self.resource_snapshot_creation_minimum_interval,
            seconds(0)..=seconds(300),
        );
        complaints.lasts(
            "resource-changes-collection-duration",
            self.resource_changes_collection_duration,
            seconds(0)..=seconds(60),
        );
        complaints.settle()?;
        let members = members::names(&self.member, self.members)?;
        let labels = Labels::given(&self.labels);
        labels.must_be_of(&members)?;
        Ok(Shape {
            nodes: Nodes::given(&self.nodes, &members)?,
            members,
            port: self.port,
            port_per_cluster: self.port_per_cluster,
            labels,
            ephemeral: self.ephemeral,
            encryption_key_file: self.encryption_key_file.clone(),
            memory_budget: self.memory_budget,
            stuck_after: self.stuck_after,
            audit: self.audit.clone(),
            batching: Batching {
                minimum_interval: agent::signed(self.resource_snapshot_creation_minimum_interval),
                collection: agent::signed(self.resource_changes_collection_duration),
            },
            hub: self.hub.clone(),
            policies: self.hub.policies()?,
        })
    }

    async fn work(self, shape: Shape, folder: &Folder, out: &mut dyn Write) -> anyhow::Result<()> {
        let kubeconfig = self.kubeconfig.clone().unwrap_or_else(|| folder.kubeconfig());
        let fleet = Fleet::start(&shape, folder).await?;
        if let Err(why) = fleet.write_kubeconfig(&kubeconfig, self.kubeconfig.is_some()) {
            // The one of the last start does, too; on a full disk there may be no other.
            if !kubeconfig.exists() {
                return Err(why);
            }
            tracing::warn!("{why:#}");
        }
        if self.demo {
            demo::create(fleet.hub()).await?;
        }
        let console = self.console(folder, &kubeconfig).await?;
        self.greet(&fleet, &shape, &kubeconfig, &console.link, out)?;
        agent::told_to_stop().await;
        drop(console);
        writeln!(out, "stopping")?;
        out.flush()?;
        fleet.stop().await;
        Ok(())
    }

    /// The console, as whoever has the kubeconfig. Its key outlives a restart, so that an
    /// open page finds its way back.
    async fn console(&self, folder: &Folder, kubeconfig: &Path) -> anyhow::Result<console::Served> {
        let key = match self.ephemeral {
            true => console::new_key()?,
            false => console::kept_key(&folder.console_key())?,
        };
        let hub = Connect::at(kubeconfig, "hub").hub().await?;
        let after = if self.port == 0 { 0 } else { self.port.saturating_add(1) };
        let listener = match self.console_port {
            Some(port) => console::listen(port).await?,
            // Nobody asked for this very port: another is as good.
            None => match console::listen(after).await {
                Ok(listener) => listener,
                Err(_) => console::listen(0).await?,
            },
        };
        console::serve(hub, listener, key)
    }

    fn greet(
        &self,
        fleet: &Fleet,
        shape: &Shape,
        kubeconfig: &Path,
        console: &str,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        let members = shape.members.len();
        writeln!(out, "Flagship {version}: a hub and {members} member cluster(s), in one process")?;
        writeln!(out)?;
        writeln!(out, "  hub       {}   ready", fleet.url("hub"))?;
        for name in shape.members.iter().take(SHOWN) {
            let labels = fleet.labels.get(name).map(on_one_line).unwrap_or_default();
            let state = if fleet.left.contains_key(name) { "not joined" } else { "joined" };
            writeln!(out, "  {name:<9} {} node(s)   {labels:<28} {state}", shape.nodes.of(name))?;
        }
        if members > SHOWN {
            let all = if fleet.left.is_empty() { ", all joined" } else { "" };
            writeln!(out, "  …         and {} more{all}", members - SHOWN)?;
        }
        say_who_is_left(&fleet.left, out)?;
        for name in &shape.members {
            let has = fleet.labels.get(name);
            if let Some(command) = has.and_then(|has| shape.labels.not_taken(name, has)) {
                writeln!(out, "  {name} keeps the labels it had; to change them:  {command}")?;
            }
        }
        writeln!(out)?;
        let contexts = match shape.members.first() {
            Some(first) => format!(", {first}, …"),
            None => String::new(),
        };
        writeln!(out, "  kubeconfig   {}   (contexts: hub{contexts})", kubeconfig.display())?;
        writeln!(out, "  console      {console}")?;
        let state = if self.ephemeral {
            "in memory only".to_owned()
        } else {
            format!("{}   (survives restarts; `flagship reset` clears it)", self.data_dir.display())
        };
        writeln!(out, "  state        {state}")?;
        writeln!(out)?;
        writeln!(out, "Try:")?;
        writeln!(out, "  export KUBECONFIG={}", absolute(kubeconfig).display())?;
        if self.demo {
            writeln!(out, "  kubectl --context hub get csur")?;
            writeln!(out, "  flagship watch {}", demo::RUN)?;
        } else {
            writeln!(out, "  kubectl --context hub get memberclusters")?;
            writeln!(out, "  flagship clusters")?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Members that are listed one by one.
const SHOWN: usize = 8;

fn say_who_is_left(left: &BTreeMap<String, String>, out: &mut dyn Write) -> anyhow::Result<()> {
    for (name, why) in left {
        writeln!(out, "  {name} has not joined: {why}. It is tried again in the background.")?;
    }
    Ok(())
}

fn say_what_was_shared(shared: &[PathBuf], out: &mut dyn Write) -> anyhow::Result<()> {
    if !shared.is_empty() {
        let paths: Vec<String> = shared.iter().map(|path| path.display().to_string()).collect();
        writeln!(out, "other users of this machine could read {}", paths.join(", "))?;
        writeln!(
            out,
            "that is repaired: only you can from now on. If somebody else may have, see `flagship rotate-keys`"
        )?;
        writeln!(out)?;
    }
    Ok(())
}

/// Opens what a fleet keeps, with the keys of a file if there is one.
fn open_store(path: &Path, key_file: Option<&Path>) -> anyhow::Result<Durable> {
    Ok(Durable::open_with(path, read_keys(key_file)?)?)
}

fn read_keys(file: Option<&Path>) -> anyhow::Result<Keys> {
    match file {
        Some(file) => Keys::read(file).map_err(anyhow::Error::msg),
        None => Ok(Keys::default()),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl Down {
    /// Asks the fleet to stop and waits until it has.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match folder::stop_other(&self.data_dir)? {
            Some(pid) => {
                writeln!(out, "stopped the fleet in {} (pid {pid})", self.data_dir.display())?;
            }
            None => writeln!(out, "no fleet runs in {}", self.data_dir.display())?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flagship_api::names::ObjectKey;
    use flagship_runtime::client::Client;
    use jiff::SignedDuration;
    use k8s_openapi::api::core::v1::Namespace;

    use super::*;

    fn read(line: &str) -> Up {
        agent::read(line).unwrap()
    }

    fn refused(line: &str) -> String {
        read(line).shape().map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn the_hubs_flags_and_those_of_members_reach_the_fleet() {
        let line = "--member=east --member=west --nodes=3 --nodes=west=5 --labels=west=tier=gold \
            --force-delete-wait-time=2m --enable-workload --enable-pdbs=false \
            --resource-snapshot-creation-minimum-interval=30s \
            --resource-changes-collection-duration=15s";
        let spec = read(line).shape().unwrap().spec().unwrap();
        assert_eq!(spec.members, ["east", "west"]);
        assert_eq!((spec.workloads.nodes, spec.nodes.get("west")), (3, Some(&5)));
        assert_eq!(spec.labels["west"]["tier"], "gold");
        assert_eq!(spec.labels["west"]["environment"], "production");
        assert!(spec.hub.selection.workloads_run_here);
        assert!(!spec.hub.pod_disruption_budgets);
        assert_eq!(spec.hub.membership.force_delete_wait, SignedDuration::from_mins(2));
        let batching = Batching {
            minimum_interval: SignedDuration::from_secs(30),
            collection: SignedDuration::from_secs(15),
        };
        assert_eq!(spec.hub.batching, batching);
    }

    #[test]
    fn flags_that_cannot_be_meant_are_refused_before_anything_starts() {
        assert_eq!(
            refused("--members=2 --labels=member3=a=b"),
            "--labels names member3; the members are member1 to member2"
        );
        assert_eq!(
            refused("--nodes=member7=5"),
            "--nodes names member7, which is no member of this fleet"
        );
        let refusal = refused("--force-delete-wait-time=1s");
        assert!(refusal.contains("force-delete-wait-time"), "{refusal}");
        let refusal = refused("--resource-changes-collection-duration=2m");
        assert!(refusal.contains("resource-changes-collection-duration"), "{refusal}");
    }

    #[tokio::test]
    async fn each_cluster_may_have_a_port_of_its_own() {
        let scratch = std::env::temp_dir().join(format!("flagship-ports-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&scratch));
        let shape = read("--members=1 --port=0 --port-per-cluster --ephemeral").shape().unwrap();
        let folder = Folder::take(&scratch).unwrap();
        let fleet = Fleet::start(&shape, &folder).await.unwrap();
        let kubeconfig = scratch.join("kubeconfig");
        fleet.write_kubeconfig(&kubeconfig, false).unwrap();
        for cluster in ["hub", "member1"] {
            let url = fleet.url(cluster);
            // `kubectl get --raw /api` asks the server itself: a path in front would be lost.
            assert!(!url.trim_start_matches("https://").contains('/'), "{url}");
            let client = Client::from_kubeconfig(Some(&kubeconfig), Some(cluster)).await.unwrap();
            let spaces = client.of::<Namespace>();
            assert!(spaces.find(&ObjectKey::cluster("default")).await.unwrap().is_some());
        }
        assert_ne!(fleet.url("hub"), fleet.url("member1"));
        fleet.stop().await;
        drop(folder);
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    fn said(say: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> String {
        let mut out = Vec::new();
        say(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn who_could_read_the_folder_and_who_has_not_joined_is_said() {
        let shared = [PathBuf::from(".flagship"), PathBuf::from(".flagship/data.redb")];
        let told = said(|out| say_what_was_shared(&shared, out));
        assert!(told.contains("could read .flagship, .flagship/data.redb\n"), "{told}");
        assert!(told.contains("`flagship rotate-keys`"), "{told}");
        assert_eq!(said(|out| say_what_was_shared(&[], out)), "");
        let left = [("member1".to_owned(), "it is being deleted, held by x/y".to_owned())].into();
        let told = "  member1 has not joined: it is being deleted, held by x/y. It is tried again in the background.\n";
        assert_eq!(said(|out| say_who_is_left(&left, out)), told);
    }
}
