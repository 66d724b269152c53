//! One server and the commands that are run against it.

use std::path::Path;
use std::sync::Arc;

use flagship_apiserver::rest::Server;
use flagship_edge::{Authority, Config, Edge, Kubeconfig};
use flagship_sim::fleet::{Fleet, HUB};
use flagship_store::env::{Entropy, Env};
use flagship_workloads::{Running, WorkloadConfig, Workloads};
use jiff::SignedDuration;

use super::shell::Shell;

/// A running server, and where commands against it are typed.
pub struct Session {
    edge: Edge,
    _workloads: Option<Running>,
    pub shell: Shell,
}

impl Session {
    pub async fn start(name: &str, kubectl: &Path) -> Self {
        // Names that are drawn are the same each time; the moment is the machine's.
        let env = Env { entropy: Arc::new(Entropy::seeded(7)), ..Env::system() };
        let server = Server::new(env.clone());
        let cluster = server.add_cluster("hub");
        let at_once = SignedDuration::ZERO;
        let workloads = Workloads::new(WorkloadConfig {
            ready_after: at_once,
            start_after: at_once,
            stop_after: at_once,
            job_runs_for: at_once,
            missing_images: vec!["missing*".to_owned()],
            ..WorkloadConfig::default()
        });
        let workloads = workloads.spawn(cluster);
        let edge = serve(&server, &env).await;
        let kubeconfig = edge.kubeconfig().unwrap();
        let session = Self::of(name, kubectl, edge, &kubeconfig, Some(workloads));
        let definitions: Vec<String> = flagship_api::crd::all()
            .iter()
            .map(|definition| serde_saphyr::to_string(definition).unwrap())
            .collect();
        std::fs::write(session.shell.folder().join("crds.yaml"), definitions.join("---\n"))
            .unwrap();
        session
    }

    /// With the clusters of a fleet, called `hub` and like its members. The fleet may live
    /// by a time of its own; certificates are dated by the one that kubectl knows.
    pub async fn with(name: &str, kubectl: &Path, fleet: &Fleet) -> Self {
        let env = Env::system();
        let edge = serve(fleet.server(), &env).await;
        let admin = edge.authority().client("admin", Some("system:masters"), env.clock.now());
        let names =
            std::iter::once(HUB).chain(fleet.clusters.members().map(|member| member.name()));
        let contexts =
            names.map(|name| (name.to_owned(), edge.url(&fleet.cluster_name(name)))).collect();
        let authority = edge.authority().certificate_pem();
        let kubeconfig = Kubeconfig::new(authority, "admin", admin.unwrap(), contexts);
        Self::of(name, kubectl, edge, &kubeconfig, None)
    }

    fn of(
        name: &str,
        kubectl: &Path,
        edge: Edge,
        kubeconfig: &Kubeconfig,
        workloads: Option<Running>,
    ) -> Self {
        let shell = Shell::open(name, kubectl);
        kubeconfig.write(&shell.folder().join("kubeconfig")).unwrap();
        Self { edge, _workloads: workloads, shell }
    }

    pub async fn end(self) {
        drop(self.shell);
        self.edge.shutdown().await;
    }
}

async fn serve(server: &Server, env: &Env) -> Edge {
    let authority = Authority::create(env.clock.now()).unwrap();
    Edge::start(server, env, Config::local(0, authority)).await.unwrap()
}
