//! `flagship apiserver`: empty Kubernetes API servers in one process, for anybody's tests.
//!
//! No fleet and no kinds of ours: each cluster is what a new cluster is to a Go test suite, on a
//! port of its own. The flags are those that envtest gives its kube-apiserver, where they mean
//! something here.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::ArgAction::Set;
use clap::Args;
use flagship_apiserver::auth::group;
use flagship_apiserver::rest::Server;
use flagship_base::names::dns1123_label;
use flagship_edge::{Authority, Config, Credentials, Edge, Kubeconfig};
use flagship_runtime::env::Env;
use flagship_store::env::Env as ServerEnv;
use flagship_workloads::{WorkloadConfig, Workloads};

use crate::agent;

/// Serve empty Kubernetes API servers, for tests
#[derive(Args, Clone, Debug)]
pub struct ApiServer {
    /// A cluster to serve, on a port of its own; may be repeated [default: default]
    #[arg(long = "cluster", value_name = "NAME")]
    clusters: Vec<String>,
    /// Run what a cluster does by itself: namespaces, garbage collection, Deployments, pods
    #[arg(long, default_value_t = false, action = Set)]
    controllers: bool,
    /// The port of the first cluster, those of the others follow; 0 takes any free ones
    #[arg(long, visible_alias = "secure-port", default_value_t = 0)]
    port: u16,
    /// The address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind_address: IpAddr,
    /// Where the kubeconfig is written; without it, it is printed
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A folder with apiserver.crt and apiserver.key to serve with, if they are there
    #[arg(long, value_name = "FOLDER")]
    cert_dir: Option<PathBuf>,
    /// The certificate to serve with
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Whose client certificates are accepted, too
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    #[command(flatten)]
    accepted: Accepted,
}

/// Flags that envtest passes and that mean nothing here.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Accepted for envtest, without effect")]
struct Accepted {
    #[arg(long, hide = true)]
    etcd_servers: Option<String>,
    #[arg(long, hide = true)]
    service_cluster_ip_range: Option<String>,
    #[arg(long, hide = true)]
    allow_privileged: Option<String>,
    #[arg(long, hide = true)]
    advertise_address: Option<String>,
    #[arg(long, hide = true)]
    authorization_mode: Option<String>,
    #[arg(long, hide = true)]
    disable_admission_plugins: Option<String>,
    #[arg(long, hide = true)]
    enable_admission_plugins: Option<String>,
    #[arg(long, hide = true)]
    feature_gates: Option<String>,
    #[arg(long, hide = true)]
    runtime_config: Option<String>,
    #[arg(long, hide = true)]
    insecure_port: Option<String>,
    #[arg(long, hide = true)]
    service_account_issuer: Option<String>,
    #[arg(long, hide = true)]
    service_account_key_file: Option<String>,
    #[arg(long, hide = true)]
    service_account_signing_key_file: Option<String>,
    #[arg(long, hide = true)]
    v: Option<String>,
}

/// Clusters that are served.
struct Running {
    edge: Edge,
    /// Name and address of each cluster.
    clusters: Vec<(String, String)>,
    kubeconfig: Kubeconfig,
}

impl ApiServer {
    /// Serves until told to stop.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        agent::block_on(async move {
            let running = self.start().await?;
            self.tell(&running, out)?;
            agent::told_to_stop().await;
            running.edge.shutdown().await;
            Ok(())
        })
    }

    async fn start(&self) -> anyhow::Result<Running> {
        let names = self.names()?;
        let env = ServerEnv::system();
        let server = Server::new(env.clone());
        let workloads = Workloads::new(WorkloadConfig::default());
        for name in &names {
            let cluster = server.add_cluster(name);
            if self.controllers {
                workloads.spawn(cluster);
            }
        }
        let now = Env::system().now();
        let authority = Authority::create(now)?;
        let shown = self.shown()?;
        // Who signed a certificate that was given is not known; the certificate itself is.
        let trusted = match &shown {
            Some(shown) => shown.certificate.clone(),
            None => authority.certificate_pem().to_owned(),
        };
        let client_authorities = self.client_ca_file.as_deref().map(text).transpose()?;
        let config = Config {
            listen: SocketAddr::new(self.bind_address, 0),
            shown,
            client_authorities: client_authorities.into_iter().collect(),
            ..Config::local(0, authority)
        };
        let edge = Edge::start(&server, &env, config).await?;
        let mut clusters = Vec::new();
        for (at, name) in (0_u16..).zip(&names) {
            let port = match self.port {
                0 => 0,
                first => first.checked_add(at).context("there are not so many ports")?,
            };
            let place = SocketAddr::new(self.bind_address, port);
            edge.open(name, place).await.with_context(|| {
                format!("cluster {name} cannot be served at {place}; --port chooses another")
            })?;
            clusters.push((name.clone(), edge.url(name)));
        }
        let admin = edge.authority().client("flagship-admin", Some(group::MASTERS), now)?;
        let kubeconfig = Kubeconfig::new(&trusted, "flagship-admin", admin, clusters.clone());
        Ok(Running { edge, clusters, kubeconfig })
    }

    fn names(&self) -> anyhow::Result<Vec<String>> {
        if self.clusters.is_empty() {
            return Ok(vec!["default".to_owned()]);
        }
        for (at, name) in self.clusters.iter().enumerate() {
            if let Some(complaint) = dns1123_label(name).first() {
                bail!("--cluster {name}: {complaint}");
            }
            ensure!(!self.clusters[..at].contains(name), "--cluster {name} is given twice");
        }
        Ok(self.clusters.clone())
    }

    /// The certificate that was given to serve with.
    fn shown(&self) -> anyhow::Result<Option<Credentials>> {
        let files = match (&self.tls_cert_file, &self.tls_private_key_file, &self.cert_dir) {
            (Some(certificate), Some(key), _) => Some((certificate.clone(), key.clone())),
            (_, _, Some(folder)) => {
                let files = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
                (files.0.is_file() && files.1.is_file()).then_some(files)
            }
            _ => None,
        };
        let Some((certificate, key)) = files else { return Ok(None) };
        Ok(Some(Credentials { certificate: text(&certificate)?, key: text(&key)? }))
    }

    /// Where the clusters are, for people; the kubeconfig goes to its file or alone to `out`.
    fn tell(&self, running: &Running, out: &mut dyn Write) -> anyhow::Result<()> {
        let Some(path) = &self.kubeconfig else {
            write!(out, "{}", running.kubeconfig.to_yaml())?;
            return Ok(out.flush()?);
        };
        running
            .kubeconfig
            .write(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        for (name, url) in &running.clusters {
            writeln!(out, "{name}  {url}")?;
        }
        writeln!(out, "kubeconfig  {}", path.display())?;
        Ok(out.flush()?)
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use flagship_api::names::ObjectKey;
    use flagship_runtime::client::Client;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use serde_json::json;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("flagship-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn read(line: &str) -> ApiServer {
        agent::read(line).unwrap()
    }

    #[tokio::test]
    async fn empty_clusters_are_served_without_a_path_in_front() {
        let scratch = Scratch::new("bare");
        let file = scratch.0.join("kubeconfig");
        let command = read(&format!(
            "--cluster=one --cluster=two --controllers --kubeconfig={}",
            file.display()
        ));
        let running = command.start().await.unwrap();
        let mut told = Vec::new();
        command.tell(&running, &mut told).unwrap();
        let told = String::from_utf8(told).unwrap();
        for (name, url) in &running.clusters {
            assert!(told.contains(&format!("{name}  {url}\n")), "{told}");
            assert!(!url.trim_start_matches("https://").contains('/'), "{url}");
        }
        let one = Client::from_kubeconfig(Some(&file), Some("one")).await.unwrap();
        let two = Client::from_kubeconfig(Some(&file), Some("two")).await.unwrap();
        let map: ConfigMap = serde_json::from_value(
            json!({"metadata": {"name": "a", "namespace": "default"}, "data": {"k": "v"}}),
        )
        .unwrap();
        one.of::<ConfigMap>().create(&map).await.unwrap();
        let key = ObjectKey::namespaced("default", "a");
        assert!(one.of::<ConfigMap>().find(&key).await.unwrap().is_some());
        assert!(two.of::<ConfigMap>().find(&key).await.unwrap().is_none());
        let spaces = two.of::<Namespace>();
        assert!(spaces.find(&ObjectKey::cluster("fleet-system")).await.unwrap().is_none());
        running.edge.shutdown().await;
    }

    #[tokio::test]
    async fn a_cluster_does_something_by_itself_only_with_controllers() {
        for (line, expected) in [("--controllers", true), ("", false)] {
            let running = read(line).start().await.unwrap();
            let scratch = Scratch::new("controllers");
            let file = scratch.0.join("kubeconfig");
            running.kubeconfig.write(&file).unwrap();
            let client = Client::from_kubeconfig(Some(&file), Some("default")).await.unwrap();
            let space = json!({"metadata": {"name": "team"}});
            let space: Namespace = serde_json::from_value(space).unwrap();
            client.of::<Namespace>().create(&space).await.unwrap();
            // What controllers put into a new namespace.
            let map = ObjectKey::namespaced("team", "kube-root-ca.crt");
            let looks = if expected { 10_000 } else { 100 };
            let mut found = false;
            for _ in 0..looks {
                found |= client.of::<ConfigMap>().find(&map).await.unwrap().is_some();
                if found {
                    break;
                }
            }
            assert_eq!(found, expected, "{line:?}");
            running.edge.shutdown().await;
        }
    }

    #[tokio::test]
    async fn envtests_certificates_and_flags_are_used() {
        let scratch = Scratch::new("envtest");
        let now = Env::system().now();
        let (serving, clients) = (Authority::create(now).unwrap(), Authority::create(now).unwrap());
        let shown = serving.server(&["127.0.0.1".to_owned()], now).unwrap();
        for (name, text) in [
            ("apiserver.crt", &*shown.certificate),
            ("apiserver.key", &*shown.key),
            ("client-cert-auth-ca.crt", clients.certificate_pem()),
        ] {
            fs::write(scratch.0.join(name), text).unwrap();
        }
        let folder = scratch.0.display();
        let command = read(&format!(
            "--advertise-address=127.0.0.1 --etcd-servers=http://127.0.0.1:2379 --cert-dir={folder} \
             --secure-port=0 --disable-admission-plugins=ServiceAccount --allow-privileged=true \
             --service-cluster-ip-range=10.0.0.0/24 --authorization-mode=RBAC --bind-address=127.0.0.1 \
             --client-ca-file={folder}/client-cert-auth-ca.crt --service-account-issuer=https://i \
             --service-account-key-file=a --service-account-signing-key-file=b"
        ));
        let running = command.start().await.unwrap();
        let admin = clients.client("admin", Some(group::MASTERS), now).unwrap();
        let contexts = running.clusters.clone();
        let file = scratch.0.join("kubeconfig");
        let config = Kubeconfig::new(serving.certificate_pem(), "admin", admin, contexts);
        config.write(&file).unwrap();
        let client = Client::from_kubeconfig(Some(&file), Some("default")).await.unwrap();
        let spaces = client.of::<Namespace>();
        assert!(spaces.find(&ObjectKey::cluster("default")).await.unwrap().is_some());
        running.edge.shutdown().await;
    }

    #[test]
    fn names_that_cannot_be_served_are_named() {
        let told = |line: &str| read(line).names().unwrap_err().to_string();
        assert_eq!(told("--cluster=a --cluster=a"), "--cluster a is given twice");
        assert!(told("--cluster=A").starts_with("--cluster A: "));
        assert_eq!(read("").names().unwrap(), ["default"]);
    }
}
