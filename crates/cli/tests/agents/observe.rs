//! What agents say about themselves: `docs/metrics.md` is held against their `/metrics`, and the
//! dashboard's queries are asked of a real Prometheus that scrapes them.
//!
//! Prometheus and promtool are Debian's; where there are none, that part says so and passes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use expect_test::expect_file;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::process::{Process, STEP, STEPS, free_port};
use super::{CRP, Scene};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// One metric, as its agent describes it.
#[derive(Default)]
struct Family {
    sort: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Everything in a text of Prometheus' format. Lines that are no metrics are left out.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut found: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            current = name.to_owned();
            found.entry(current.clone()).or_default().help = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, sort) = rest.split_once(' ').unwrap();
            found.entry(name.to_owned()).or_default().sort = sort.to_owned();
        } else if !current.is_empty() && line.starts_with(&current) {
            found.entry(current.clone()).or_default().labels.extend(labels(line));
        }
    }
    found
}

/// The names of the labels of a sample.
fn labels(sample: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = sample.split_once('{').map_or("", |(_, rest)| rest);
    while let Some((name, value)) = rest.split_once("=\"") {
        if name != "le" {
            names.push(name.to_owned());
        }
        let mut escaped = false;
        let end = value.find(|letter| {
            let ends = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            ends
        });
        rest = end.map_or("", |end| &value[end + 1..]).trim_start_matches(',');
    }
    names
}

fn table(title: &str, families: &BTreeMap<String, Family>) -> String {
    let mut text =
        format!("\n## {title}\n\n| metric | type | labels | what |\n|---|---|---|---|\n");
    for (name, Family { sort, help, labels }) in families {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
        text.push_str(&format!("| `{name}` | {sort} | {} | {help} |\n", labels.join(", ")));
    }
    text
}

/// A fleet at work: a placement that was rolled out by a run with an approval, and an eviction.
async fn work(scene: &Scene) {
    let hub = scene.hub();
    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
    hub.apply(
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: app}
data: {greeting: hello}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: app}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: app}]
  policy: {placementType: PickAll}
  strategy: {type: External}
",
    )
    .await;
    hub.becomes(CRP, "", "app", "ClusterResourcePlacementScheduled", "True").await;
    hub.apply(
        "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: all}
spec: {stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: Approval}]}]}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: first}
spec: {placementName: app, stagedRolloutStrategyName: all, state: Run}
",
    )
    .await;
    let requests = "clusterapprovalrequests";
    hub.eventually_within(60, requests, "", "first-after-all", |found| found.is_some()).await;
    let approved = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Fine",
        "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    hub.patch_status(requests, "", "first-after-all", approved).await;
    hub.becomes("clusterstagedupdateruns", "", "first", "Succeeded", "True").await;
    hub.apply(
        "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementEviction
metadata: {name: out}
spec: {placementName: app, clusterName: member1}
",
    )
    .await;
    hub.becomes("clusterresourceplacementevictions", "", "out", "Executed", "True").await;
}

/// The metrics of the embedded server: those of the hub's cluster, and those of all connections.
async fn embedded(scene: &Scene) -> String {
    let file = Kubeconfig::read_from(scene.kubeconfig()).unwrap();
    let options = KubeConfigOptions { context: Some("hub".into()), ..Default::default() };
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
    let mut whole = config.clone();
    whole.cluster_url =
        format!("https://{}", config.cluster_url.authority().unwrap()).parse().unwrap();
    let mut text = String::new();
    for config in [config, whole] {
        let client = kube::Client::try_from(config).unwrap();
        let ask = || http::Request::get("/metrics").body(Vec::new()).unwrap();
        text.push_str(&client.request_text(ask()).await.unwrap());
    }
    text
}

/// A replica that does not lead, and that has answered a review: the leader of an embedded server
/// would register webhooks that this server does not reach.
async fn standby_that_answers(scene: &Scene) -> Process {
    let port = free_port();
    let mut standby = scene.start_hub_with(&format!(
        "--enable-webhook=true --webhook-bind-address=127.0.0.1 --webhook-port={port}"
    ));
    standby.is_ready().await;
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.accept_invalid_certs = true;
    let path = "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement";
    let placement = json!({"metadata": {"name": "twice"}, "spec": {"resourceSelectors": [],
        "policy": {"placementType": "PickFixed", "clusterNames": ["a", "a"]}}});
    let kind = json!({"group": "placement.kubernetes-fleet.io", "version": "v1beta1",
        "kind": "ClusterResourcePlacement"});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": "CREATE", "name": "twice", "kind": kind,
            "object": placement}});
    let ask = http::Request::post(path).body(review.to_string().into_bytes()).unwrap();
    let answer: Value = kube::Client::try_from(config).unwrap().request(ask).await.unwrap();
    assert_eq!(answer["response"]["allowed"], false, "{answer}");
    standby
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_say_what_the_documents_and_the_dashboard_know() {
    let scene = Scene::named("observe").await;
    let mut hub = scene.start_hub();
    hub.is_ready().await;
    scene.invite().await;
    let token = scene.token("member1").await;
    let member = scene.start_member(&token);
    scene.hub().becomes("memberclusters", "", "member1", "Joined", "True").await;
    let prometheus = Prometheus::start(&scene.folder, &[("hub", &hub), ("member", &member)]);
    work(&scene).await;

    // It is counted after it is said.
    let evicted = "fleet_workload_eviction_complete";
    for _ in 0..STEPS {
        if hub.metrics().contains(evicted) {
            break;
        }
        tokio::time::sleep(STEP).await;
    }
    let of_standby = standby_that_answers(&scene).await.metrics();
    let (mut of_hub, of_member) = (families(&hub.metrics()), families(&member.metrics()));
    let of_webhooks = families(&of_standby).into_iter();
    of_hub.extend(of_webhooks.filter(|(name, _)| name.contains("_webhook_")));
    let of_server = families(&embedded(&scene).await);
    let page = root().join("docs/metrics.md");
    let written = std::fs::read_to_string(&page).unwrap();
    let head = written.split_inclusive("-->\n").next().unwrap().to_owned();
    let made = [
        head,
        table("The hub agent, `flagship hub`", &of_hub),
        table("A member agent, `flagship member`", &of_member),
        table("The embedded API server of `flagship up`", &of_server),
    ];
    expect_file![page].assert_eq(&made.concat());

    let known = |name: &str| of_hub.contains_key(name) || of_member.contains_key(name);
    for (place, name) in named_in_queries() {
        assert!(known(&name), "{place} asks for {name}, which no agent has");
    }
    let Some(prometheus) = prometheus else { return };
    for (panel, query) in dashboard() {
        let may_be_empty = panel == "Drift and differences";
        prometheus.answers(&query, may_be_empty).await;
    }
}

/// Every query of the dashboard, with the panel it is in.
fn dashboard() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("deploy/monitoring/dashboard.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let word = |of: &Value| of.as_str().unwrap().to_owned();
            queries.push((word(&panel["title"]), word(&target["expr"])));
        }
    }
    assert!(queries.len() > 20, "the dashboard has {} queries", queries.len());
    queries
}

/// Every metric that the dashboard or an alert names, and which of them does.
fn named_in_queries() -> Vec<(String, String)> {
    let mut queries = dashboard();
    for agent in ["hub", "member"] {
        let path = format!("deploy/charts/{agent}-agent/files/alerts.yaml");
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        let rules: Value = serde_saphyr::from_str(&text).unwrap();
        for rule in rules["groups"][0]["rules"].as_array().unwrap() {
            let word = |of: &Value| of.as_str().unwrap().to_owned();
            queries.push((word(&rule["alert"]), word(&rule["expr"])));
        }
    }
    let mut named = Vec::new();
    for (place, query) in queries {
        let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let prefixes = ["fleet_", "flagship_", "workqueue_", "scheduling_", "join_", "leave_"];
        for word in words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))) {
            named.push((place.clone(), word.trim_end_matches("_bucket").to_owned()));
        }
    }
    assert!(named.len() > 30, "{} metrics are named", named.len());
    named
}

#[test]
fn alerts_fire_when_they_should_and_not_before() {
    let tests = ["hub", "member"]
        .map(|agent| root().join(format!("deploy/monitoring/{agent}-alerts-test.yaml")));
    let Ok(answer) = Command::new("promtool").args(["test", "rules"]).args(tests).output() else {
        return say("alerts: not tried, for there is no promtool (Debian: prometheus)");
    };
    let said = [answer.stdout, answer.stderr].concat();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// A real Prometheus; stopped when dropped.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Prometheus {
    /// Scrapes these every second; `None` where there is no Prometheus.
    fn start(folder: &Path, agents: &[(&str, &Process)]) -> Option<Self> {
        let jobs: Vec<Value> = agents
            .iter()
            .map(|(job, agent)| {
                let target = format!("127.0.0.1:{}", agent.metrics_port());
                json!({"job_name": job, "static_configs": [{"targets": [target]}]})
            })
            .collect();
        let rules = ["hub", "member"]
            .map(|agent| root().join(format!("deploy/charts/{agent}-agent/files/alerts.yaml")));
        let config = json!({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": jobs, "rule_files": rules});
        let (file, port) = (folder.join("prometheus.yml"), free_port());
        std::fs::write(&file, config.to_string()).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=error")
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn();
        match child {
            Ok(child) => Some(Self { child, port }),
            Err(_) => {
                say("dashboard: its queries are not asked, for there is no prometheus on PATH");
                None
            }
        }
    }

    /// Waits until a query has an answer; fails at once if it cannot be asked.
    async fn answers(&self, query: &str, may_be_empty: bool) {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let path = format!("/api/v1/query?query={escaped}");
        let mut last = String::new();
        for _ in 0..STEPS {
            last = get(self.port, &path);
            let body = last.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let answer: Value = serde_json::from_str(body).unwrap_or_default();
            assert_ne!(answer["status"], "error", "{query}: {last}");
            let is_there = answer["data"]["result"].as_array().is_some_and(|all| !all.is_empty());
            if is_there || (may_be_empty && answer["status"] == "success") {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
        panic!("{query} has no answer: {last}");
    }
}

/// An answer in one piece; nothing while nobody listens.
fn get(port: u16, path: &str) -> String {
    let asked = || -> std::io::Result<String> {
        let mut socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(socket, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    };
    asked().unwrap_or_default()
}
