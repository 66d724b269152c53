//! Real API servers on loopback, and the ways in.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flagship_api::kinds;
use flagship_api::names::ObjectKey;
use flagship_runtime::client::{Client, ResourceType};
use flagship_sim::fleet::Cluster;
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// The servers; stopped when dropped.
pub struct Servers {
    script: Child,
    pub folder: PathBuf,
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Told, not killed: it stops the servers it started.
        drop(Command::new("kill").arg(self.script.id().to_string()).status());
        drop(self.script.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Starts a hub and members of these names for a test, and waits until they answer.
pub fn start(test: &str, members: &[&str]) -> Servers {
    let folder = folder(test);
    let mut script = script("real-fleet");
    script.arg(&folder).arg("hub").args(members);
    Servers::of(script, folder)
}

/// A script of the repository.
pub fn script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name))
}

/// Where the servers of a test keep everything.
pub fn folder(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("flagship-real-{test}-{}", std::process::id()))
}

impl Servers {
    /// Those that a script starts, once it says that they are ready.
    pub fn of(mut script: Command, folder: PathBuf) -> Self {
        let mut script =
            script.stdout(Stdio::piped()).spawn().expect("the script is in the repository");
        let out = script.stdout.take().expect("it was asked for");
        let first = BufReader::new(out).lines().next();
        let servers = Self { script, folder };
        assert_eq!(first.map(Result::unwrap).as_deref(), Some("ready"), "see what it said above");
        servers
    }
}

/// A client with all rights, which calls itself this.
pub async fn connect(servers: &Servers, cluster: &str, who: &str) -> Client {
    let kubeconfig = servers.folder.join("kubeconfig");
    Client::from_kubeconfig(Some(&kubeconfig), Some(cluster)).await.unwrap().named(who)
}

/// The token of a member's service account, as its agent would be given it.
pub async fn token(hub: &Cluster, account: &str) -> String {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": account, "namespace": "fleet-system"}});
    hub.apply_object(&account).await;
    let name = account["metadata"]["name"].as_str().unwrap_or_default();
    let tokens = ResourceType {
        group: String::new(),
        version: "v1".into(),
        plural: format!("serviceaccounts/{name}/token"),
        kind: "TokenRequest".into(),
    };
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600}});
    let key = ObjectKey::namespaced("fleet-system", name);
    let made = hub.client().manifests(tokens).create(&key, &request).await.unwrap();
    made["status"]["token"].as_str().unwrap_or_default().to_owned()
}

/// A client of the hub with such a token, and nothing else.
pub async fn with_token(servers: &Servers, token: &str) -> Client {
    let mut file = Kubeconfig::read_from(servers.folder.join("kubeconfig")).unwrap();
    for user in &mut file.auth_infos {
        user.auth_info =
            Some(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() });
    }
    let options = KubeConfigOptions { context: Some("hub".into()), ..Default::default() };
    let config = Config::from_custom_kubeconfig(file, &options).await.unwrap();
    Client::from_config(config).unwrap().named("flagship-member")
}

/// Makes a cluster serve kinds of ours.
pub async fn install(cluster: &Cluster, wanted: impl Fn(&str) -> bool) {
    for info in kinds::all().iter().filter(|info| wanted(info.kind)) {
        define(cluster, &flagship_api::crd::definition(info)).await;
    }
}

/// Makes a cluster serve a kind.
pub async fn define(cluster: &Cluster, definition: &Value) {
    cluster.apply_object(definition).await;
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let served = |found: Option<&Value>| {
        let conditions = found.and_then(|found| found["status"]["conditions"].as_array());
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    };
    cluster.eventually("customresourcedefinitions", "", name, served).await;
}
