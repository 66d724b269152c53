//! `flagship install`, `join`, `leave` and `uninstall` as a person runs them, with two contexts.
//!
//! Embedded clusters run no pods, so the test does what a kubelet would: it starts the binary with
//! exactly the arguments and environment of the Deployments that were applied, and with nothing but
//! the rights of their service accounts.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use flagship_sim::fleet::{Cluster, HUB};
use kube::api::PostParams;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::Scene;
use super::process::{BINARY, Process, free_port};

const DEPLOYMENTS: &str = "deployments";
const SYSTEM: &str = "fleet-system";

impl Scene {
    /// A kubeconfig whose user is a service account of a cluster, and nobody else.
    async fn as_account(&self, cluster: &str, account: &str) -> PathBuf {
        let file = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let options = KubeConfigOptions { context: Some(cluster.into()), ..Default::default() };
        let config = Config::from_custom_kubeconfig(file, &options).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        type Account = k8s_openapi::api::core::v1::ServiceAccount;
        let accounts = kube::Api::<Account>::namespaced(client, SYSTEM);
        let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
        let made = accounts.create_token_request(account, &PostParams::default(), &request).await;
        let token = made.unwrap().status.unwrap().token.unwrap();
        let text = std::fs::read_to_string(self.kubeconfig()).unwrap();
        let mut file: Value = serde_saphyr::from_str(&text).unwrap();
        let user = json!({"name": account, "user": {"token": token}});
        file["users"].as_array_mut().unwrap().push(user);
        let contexts = file["contexts"].as_array_mut().unwrap();
        let own = contexts.iter_mut().find(|context| context["name"] == cluster).unwrap();
        own["context"]["user"] = json!(account);
        file["current-context"] = json!(cluster);
        let path = self.folder.join(format!("{cluster}-{account}.kubeconfig"));
        std::fs::write(&path, serde_saphyr::to_string(&file).unwrap()).unwrap();
        path
    }

    /// Runs a command to its end.
    async fn run(&self, line: &str) -> Output {
        let mut command = self.command(line);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Starts a command that will wait.
    fn begin(&self, line: &str) -> Child {
        self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&*BINARY);
        command.args(line.split_whitespace()).env("KUBECONFIG", self.kubeconfig());
        command
    }

    /// Starts a container of an applied Deployment, with the rights of its pods.
    async fn start(&self, cluster: &Cluster, agent: &str, container: usize, more: &str) -> Process {
        let is_there = |found: Option<&Value>| found.is_some();
        cluster.eventually_within(60, DEPLOYMENTS, SYSTEM, agent, is_there).await;
        let deployment = cluster.get(DEPLOYMENTS, SYSTEM, agent).await;
        let pod = &deployment["spec"]["template"]["spec"];
        let account = pod["serviceAccountName"].as_str().unwrap();
        let kubeconfig = self.as_account(cluster.name(), account).await;
        let container = &pod["containers"][container];
        let words = |of: &Value| -> Vec<String> {
            of.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
        };
        let mut flags = words(&container["command"])[1..].to_vec();
        flags.extend(words(&container["args"]));
        flags.push(format!("--kubeconfig={}", kubeconfig.display()));
        flags.extend(more.split_whitespace().map(str::to_owned));
        let token = self.folder.join("token").display().to_string();
        let environment: Vec<(String, String)> = container["env"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|variable| {
                let name = variable["name"].as_str().unwrap().to_owned();
                // The pod's namespace is no fixed text, and the shared volume is a folder here.
                let value = match name.as_str() {
                    "POD_NAMESPACE" => SYSTEM.to_owned(),
                    "CONFIG_PATH" => token.clone(),
                    _ => variable["value"].as_str().unwrap().to_owned(),
                };
                (name, value)
            })
            .collect();
        let environment: Vec<(&str, String)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let (health, metrics) = (free_port(), free_port());
        let at = |flag: &str, port: u16| format!("--{flag}-bind-address=127.0.0.1:{port}");
        match agent {
            "hub-agent" => {
                flags.extend([at("health-probe", health), at("metrics", metrics)]);
            }
            _ if flags.iter().any(|flag| flag == "member") => flags.extend([
                at("hub-health-probe", health),
                at("hub-metrics", metrics),
                "--health-probe-bind-address=0".to_owned(),
                "--metrics-bind-address=0".to_owned(),
            ]),
            _ => {}
        }
        Process::start(&flags.join(" "), &environment, health, metrics)
    }
}

fn said(output: &Output) -> String {
    let text = [output.stdout.clone(), output.stderr.clone()].concat();
    String::from_utf8(text).unwrap()
}

async fn ends(child: Child) -> (bool, String) {
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let output = output.await.unwrap();
    (output.status.success(), said(&output))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_becomes_a_hub_and_another_its_member_and_both_go_back() {
    let scene = Scene::named("joining").await;
    let (hub, member) = (scene.hub(), scene.member());

    let checked = scene.run("install --context hub --check").await;
    assert!(checked.status.success(), "{}", said(&checked));
    assert!(said(&checked).contains("✔ rights       enough to install"), "{}", said(&checked));
    let installing =
        scene.begin("install --context hub --without-webhooks --image flagship:test --timeout 2m");
    let mut controllers = scene.start(hub, "hub-agent", 0, "").await;
    // Embedded hubs run no Deployments, so that nobody else says how many pods are ready.
    let ready = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1});
    hub.patch_status(DEPLOYMENTS, SYSTEM, "hub-agent", ready).await;
    let (well, text) = ends(installing).await;
    assert!(well, "{text}\n{}", controllers.said());
    assert!(text.ends_with("hub is a hub; `flagship join` adds members\n"), "{text}");

    // What cannot work is said before anything is written.
    hub.apply_object(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "nobody", "namespace": SYSTEM}}))
        .await;
    let powerless = scene.as_account(HUB, "nobody").await;
    let powerless = format!("--kubeconfig {}", powerless.display());
    let east = "join east --hub-context hub --member-context member1";
    for (line, words) in [
        (
            "join east --hub-context hubb --member-context member1".to_owned(),
            "error: the kubeconfig has no context hubb; it has: hub, member1",
        ),
        (
            "join east --hub-context hub --member-context hub".to_owned(),
            "error: both contexts lead to ",
        ),
        (
            format!("{east} {powerless}"),
            "error: the user of context hub may not: patch memberclusters.cluster.kubernetes-fleet.io, ",
        ),
        (
            "leave east --hub-context hub".to_owned(),
            "error: no member is called east on hub; there are: none",
        ),
        ("install --kubeconfig /nowhere".to_owned(), "error: cannot read the kubeconfig /nowhere"),
    ] {
        let refused = scene.run(&line).await;
        assert!(!refused.status.success(), "{line}");
        assert!(said(&refused).contains(words), "{line}: {}", said(&refused));
    }
    assert_eq!(hub.list("memberclusters", "").await, Vec::<Value>::new());
    assert!(member.find(DEPLOYMENTS, SYSTEM, "member-agent").await.is_none());
    let printed = scene.run(&format!("{east} --print")).await;
    assert!(said(&printed).contains("kind: MemberCluster"), "{}", said(&printed));
    assert_eq!(hub.list("memberclusters", "").await, Vec::<Value>::new());

    let joining =
        scene.begin(&format!("{east} --label region=east --image flagship:test --timeout 2m"));
    let token = format!("--file-path={}", scene.folder.join("token").display());
    let sidecar = scene.start(member, "member-agent", 1, &token).await;
    for _ in 0..super::process::STEPS {
        if scene.folder.join("token").is_file() {
            break;
        }
        tokio::time::sleep(super::process::STEP).await;
    }
    let mut agent = scene.start(member, "member-agent", 0, "").await;
    let (well, text) = ends(joining).await;
    assert!(well, "{text}\n{}\n{}", agent.said(), sidecar.said());
    assert!(text.ends_with("east has joined\n"), "{text}");
    let east_cluster = hub.get("memberclusters", "", "east").await;
    assert_eq!(east_cluster["metadata"]["labels"]["region"], "east");

    // The same again changes nothing; another name for the same cluster is refused.
    let again = scene.run(&format!("{east} --label region=east --image flagship:test")).await;
    assert!(said(&again).ends_with("east has joined\n"), "{}", said(&again));
    for (line, words) in [
        (
            "join west --hub-context hub --member-context member1",
            "is a member already, as east: `flagship leave east` first",
        ),
        (
            "uninstall --context hub",
            "1 member(s) are still there: east; `flagship leave` them first",
        ),
    ] {
        let refused = scene.run(line).await;
        assert!(said(&refused).contains(words), "{line}: {}", said(&refused));
    }

    // What is placed there stays when it leaves, as with KubeFleet.
    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
    hub.apply(
        "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: app}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: app}]
  policy: {placementType: PickAll}
",
    )
    .await;
    hub.becomes(super::CRP, "", "app", "ClusterResourcePlacementAvailable", "True").await;
    assert!(member.find("namespaces", "", "app").await.is_some());
    let left =
        scene.run("leave east --hub-context hub --member-context member1 --timeout 2m").await;
    assert!(said(&left).ends_with("the agent is gone from member1\n"), "{}", said(&left));
    assert!(member.find("namespaces", "", "app").await.is_some());
    assert!(member.find(DEPLOYMENTS, SYSTEM, "member-agent").await.is_none());
    assert!(hub.find("serviceaccounts", SYSTEM, "east-hub-cluster-access").await.is_none());
    assert!(agent.stops().await, "{}", agent.said());

    let gone = scene.run("uninstall --context hub").await;
    assert!(said(&gone).ends_with("the agent is gone from hub\n"), "{}", said(&gone));
    assert!(hub.find(DEPLOYMENTS, SYSTEM, "hub-agent").await.is_none());
    controllers.stops().await;
}
