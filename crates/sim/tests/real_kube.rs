//! The stories of delivery on real API servers: a hub and three members on loopback.
//!
//! `scripts/real-kube` builds the servers once; `scripts/real-fleet` runs them. They have
//! no nodes, so a stand-in below plays the kubelet: it says of every pod what a node would.
//! Run with `cargo test -p flagship-sim --features real-kube --test real_kube`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flagship_api::kinds;
use flagship_api::names::ObjectKey;
use flagship_hub::Hub;
use flagship_member::Member;
use flagship_rules::placement::Batching;
use flagship_runtime::client::{Client, ResourceType};
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_sim::fleet::{Cluster, World};
use flagship_sim::stories;
use jiff::SignedDuration;
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

/// The servers; stopped when dropped.
struct Servers {
    script: Child,
    folder: PathBuf,
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Told, not killed: it stops the servers it started.
        drop(Command::new("kill").arg(self.script.id().to_string()).status());
        drop(self.script.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn start() -> Servers {
    let folder = std::env::temp_dir().join(format!("flagship-real-{}", std::process::id()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/real-fleet");
    let mut script = Command::new(script)
        .arg(&folder)
        .arg("hub")
        .args(MEMBERS)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the script is in the repository");
    let out = script.stdout.take().expect("it was asked for");
    let first = BufReader::new(out).lines().next();
    let servers = Servers { script, folder };
    assert_eq!(first.map(Result::unwrap).as_deref(), Some("ready"), "see what it said above");
    servers
}

async fn connect(servers: &Servers, cluster: &str, who: &str) -> Client {
    let kubeconfig = servers.folder.join("kubeconfig");
    Client::from_kubeconfig(Some(&kubeconfig), Some(cluster)).await.unwrap().named(who)
}

/// The token of a member's service account, as its agent would be given it.
async fn token(hub: &Cluster, account: &str) -> String {
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
async fn with_token(servers: &Servers, token: &str) -> Client {
    let mut file = Kubeconfig::read_from(servers.folder.join("kubeconfig")).unwrap();
    for user in &mut file.auth_infos {
        user.auth_info =
            Some(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() });
    }
    let options = KubeConfigOptions { context: Some("hub".into()), ..Default::default() };
    let config = Config::from_custom_kubeconfig(file, &options).await.unwrap();
    Client::from_config(config).unwrap().named("flagship-member")
}

async fn install(cluster: &Cluster, wanted: impl Fn(&str) -> bool) {
    for info in kinds::all().iter().filter(|info| wanted(info.kind)) {
        cluster.apply_object(&flagship_api::crd::definition(info)).await;
        let name = format!("{}.{}", info.plural, info.group);
        let served = |found: Option<&Value>| {
            let conditions = found.and_then(|found| found["status"]["conditions"].as_array());
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == "Established" && condition["status"] == "True"
            })
        };
        cluster.eventually("customresourcedefinitions", "", &name, served).await;
    }
}

/// Says of every pod what a node would say a moment after it got it.
async fn play_kubelet(member: Cluster) {
    loop {
        for pod in member.list("pods", "").await {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let space = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            if pod["status"]["containerStatuses"].is_null() {
                member.patch_status("pods", space, name, status_of(&pod)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn status_of(pod: &Value) -> Value {
    let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let readable = |image: &str| !image.contains("::");
    let good = containers.iter().all(|c| readable(c["image"].as_str().unwrap_or_default()));
    let statuses: Vec<Value> = containers
        .iter()
        .map(|container| {
            let state = match readable(container["image"].as_str().unwrap_or_default()) {
                true => json!({"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}),
                false => json!({"waiting": {"reason": "InvalidImageName"}}),
            };
            json!({
                "name": container["name"], "image": container["image"], "imageID": "",
                "ready": good, "restartCount": 0, "state": state,
            })
        })
        .collect();
    let status = if good { "True" } else { "False" };
    json!({
        "phase": if good { "Running" } else { "Pending" },
        "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": pod["metadata"]["creationTimestamp"]}],
        "containerStatuses": statuses,
    })
}

#[tokio::test]
async fn the_stories_of_delivery_hold_on_real_api_servers() {
    let servers = start();
    let hub = Cluster::new("hub", connect(&servers, "hub", "kubectl").await);
    install(&hub, |_| true).await;
    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: fleet-system}}").await;
    let (env, metrics) = (Env::system(), Metrics::default());
    let mut options = flagship_hub::Options { batching: Batching::NONE, ..Default::default() };
    options.update_runs.stuck_after = SignedDuration::from_secs(5);
    let mut controllers = JoinSet::new();
    let client = connect(&servers, "hub", "flagship-hub").await;
    let controller = Hub::new(client, env.clone(), metrics.clone(), options);
    controllers.spawn(async move { controller.run(std::future::pending()).await });
    let (mut members, mut credentials) = (BTreeMap::new(), BTreeMap::new());
    for name in MEMBERS {
        let cluster = Cluster::new(name, connect(&servers, name, "kubectl").await);
        install(&cluster, |kind| kind == "AppliedWork").await;
        let own = connect(&servers, name, "flagship-member").await;
        // With nothing but what the hub gives a member: all stories are told with it.
        let account = format!("{name}-agent");
        let at_hub = with_token(&servers, &token(&hub, &account).await).await;
        credentials.insert(name, at_hub.clone());
        let options = flagship_member::Options::default();
        let agent = Member::new(name, own, at_hub, env.clone(), metrics.clone(), options);
        controllers.spawn(async move { agent.run(std::future::pending()).await });
        controllers.spawn(play_kubelet(cluster.clone()));
        hub.apply_object(&json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
            "kind": "MemberCluster",
            "metadata": {"name": name},
            "spec": {"identity": {"kind": "ServiceAccount", "name": account, "namespace": "fleet-system"},
                "heartbeatPeriodSeconds": 60},
        }))
        .await;
        hub.becomes("memberclusters", "", name, "Joined", "True").await;
        members.insert(name.to_owned(), cluster);
    }
    let world = World { hub, members };
    eprintln_story("a member's credentials do only their part");
    stories::credentials::do_only_their_part(&world, "member1", &credentials["member1"]).await;
    for (name, story) in stories::ALL {
        eprintln_story(name);
        story(&world).await;
    }
}

/// Which story was told last is the first thing one wants to know.
#[allow(clippy::print_stderr)]
fn eprintln_story(name: &str) {
    eprintln!("real API servers: {name}");
}
