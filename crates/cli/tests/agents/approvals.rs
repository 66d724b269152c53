//! Ways to get past a rollout policy on a real API server, with the binary as the hub and its
//! webhooks. Everybody has every right there, so nothing but these stands in their way.
//!
//! The ways are those of an embedded hub. `scripts/real-kube` builds the servers; run it by
//! `cargo test --test agents -- --ignored approvals`.

use std::path::PathBuf;
use std::time::Duration;

use flagship_api::kinds;
use flagship_api::names::ObjectKey;
use flagship_runtime::client::{Client, Merge, Propagation, ResourceType};
use flagship_runtime::env::Env;
use flagship_sim::fleet::Cluster;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::servers::{Servers, connect, define, start, token};
use super::tenant::{SYSTEM, joined, prepared, refuses_at_once, start_hub};
use super::ways_past::{REQUEST, REQUESTS, RUNS, Try, WORDS, attempts, rules, word};

/// How long the hub may take to answer what was stored.
const SOON: Duration = Duration::from_secs(30);

/// Somebody who the API server is told to take the sender for.
async fn person(servers: &Servers, who: &str) -> Client {
    let (user, group) = who.split_once('@').unwrap_or((who, "nobody"));
    let mut headers = HeaderMap::new();
    for (name, value) in [("impersonate-user", user), ("impersonate-group", group)] {
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    connect(servers, "hub", "kubectl").await.with_headers(headers)
}

fn of(resource: &str) -> ResourceType {
    let info = kinds::find(resource).expect("a kind of the table");
    ResourceType {
        group: info.group.to_owned(),
        version: info.versions[0].name.to_owned(),
        plural: info.plural.to_owned(),
        kind: info.kind.to_owned(),
    }
}

async fn made(user: &Client, resource: &str, object: &Value) -> Result<(), String> {
    let key = ObjectKey::cluster(object["metadata"]["name"].as_str().unwrap());
    let made = user.manifests(of(resource)).create(&key, object).await;
    made.map(drop).map_err(|refused| refused.says)
}

async fn tries(user: &Client, at: usize, request: &Value, attempt: Try) -> Result<(), String> {
    match attempt {
        Try::Say(more) => made(user, WORDS, &word(request, &format!("word-{at}"), &more)).await,
        Try::Make(resource, kind, spec) => {
            let object = json!({"apiVersion": "flagship.dev/v1alpha1", "kind": kind,
                "metadata": {"name": format!("made-{at}")}, "spec": spec});
            made(user, resource, &object).await
        }
        Try::Patch(resource, name, "", patch) => {
            let objects = user.manifests(of(resource));
            let patched = objects.patch(&ObjectKey::cluster(name), Merge::Json, &patch).await;
            patched.map(drop).map_err(|refused| refused.says)
        }
        Try::Patch(resource, name, _, patch) => {
            let objects = user.of_type::<Value>(of(resource));
            let patched = objects.patch_status_anyway(&ObjectKey::cluster(name), patch).await;
            patched.map(drop).map_err(|error| error.in_full())
        }
        Try::Delete(resource, name) => {
            let objects = user.of_type::<Value>(of(resource));
            let key = ObjectKey::cluster(name);
            let deleted = objects.delete_anyway(&key, Propagation::Background).await;
            deleted.map(drop).map_err(|error| error.in_full())
        }
    }
}

async fn run(hub: &Cluster) -> Value {
    hub.get(RUNS, "", "r").await
}

/// How the gate before the first stage stands, as the run says.
async fn stands(hub: &Cluster) -> String {
    let run = run(hub).await;
    let task = &run["status"]["stagesStatus"][0]["beforeStageTaskStatus"][0];
    let told = task["conditions"].as_array().cloned().unwrap_or_default();
    let told = told.into_iter().find(|told| told["type"] == "ApprovalRequestCreated");
    told.map_or_else(String::new, |told| told["message"].as_str().unwrap().to_owned())
}

async fn begun(hub: &Cluster) -> bool {
    let cluster = &run(hub).await["status"]["stagesStatus"][0]["clusters"][0];
    cluster["conditions"].as_array().is_some_and(|told| !told.is_empty())
}

/// Waits until the run says this of its gate; what it says in the end.
async fn comes_to(hub: &Cluster, told: &str) -> String {
    let began = Instant::now();
    loop {
        let now = stands(hub).await;
        if now.contains(told) || began.elapsed() > SOON {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A kubeconfig with which the hub has a name of its own.
async fn of_the_hub(servers: &Servers, hub: &Cluster) -> PathBuf {
    let bound = |name: &str, subject: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "cluster-admin"}})
    };
    let account = json!({"kind": "ServiceAccount", "name": "hub-agent", "namespace": SYSTEM});
    hub.apply_object(&bound("hub-agent", account)).await;
    for group in ["managers", "interns", "leads", "nobody"] {
        let subject = json!({"kind": "Group", "name": group,
            "apiGroup": "rbac.authorization.k8s.io"});
        hub.apply_object(&bound(group, subject)).await;
    }
    let token = token(hub, "hub-agent").await;
    let known = std::fs::read_to_string(servers.folder.join("kubeconfig")).unwrap();
    let users = known.lines().find(|line| line.starts_with("users:")).unwrap();
    let own = format!("users: [{{name: admin, user: {{token: {token}}}}}]");
    let file = servers.folder.join("hub-agent.kubeconfig");
    std::fs::write(&file, known.replace(users, &own)).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers that scripts/real-kube builds; scripts/nightly runs it"]
async fn ways_to_get_past_the_policy_on_a_real_server() {
    let servers = start("approvals", &["member1"]);
    let hub = prepared(&servers).await;
    for definition in flagship_api::crd::policies() {
        define(&hub, &definition).await;
    }
    let mut process = start_hub(&of_the_hub(&servers, &hub).await, true);
    process.is_ready().await;
    let (clusters, agents) = joined(&servers, hub, &["member1"]).await;
    let hub = &clusters.hub;
    assert!(refuses_at_once(hub, true).await, "{}", process.said());
    hub.patch("memberclusters", "", "member1", json!({"metadata": {"labels": {"env": "canary"}}}))
        .await;
    hub.apply_object(&json!({"apiVersion": "flagship.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": {"name": "strict"}, "spec": {"approvals": rules()}}))
        .await;
    hub.apply(
        "
        {apiVersion: v1, kind: Namespace, metadata: {name: app}}
---
        apiVersion: placement.kubernetes-fleet.io/v1beta1
        kind: ClusterResourcePlacement
        metadata: {name: web}
        spec:
          resourceSelectors: [{group: '', version: v1, kind: Namespace, name: app}]
          policy: {placementType: PickAll}
          strategy: {type: External}
---
        apiVersion: placement.kubernetes-fleet.io/v1beta1
        kind: ClusterStagedUpdateStrategy
        metadata: {name: plan}
        spec: {stages: [{name: canary, labelSelector: {matchLabels: {env: canary}}}]}
        ",
    )
    .await;
    // A name that somebody writes on their own run is written over.
    let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": "r", "annotations": {"flagship.dev/created-by": "zoe"}},
        "spec": {"placementName": "web", "stagedRolloutStrategyName": "plan", "state": "Run"}});
    made(&person(&servers, "carol@managers").await, RUNS, &object).await.unwrap();
    let asked = |found: Option<&Value>| found.is_some();
    let request = hub.eventually_within(60, REQUESTS, "", REQUEST, asked).await.unwrap();
    let tested = json!({"reason": "tested"});
    let alice = person(&servers, "alice@managers").await;
    made(&alice, WORDS, &word(&request, "alice", &tested)).await.unwrap();
    let told = comes_to(hub, "1 of 2 approvals, by alice").await;
    assert!(told.contains("1 of 2 approvals, by alice"), "{told}\n{}", process.said());

    let all = attempts(&format!("{:.0}", Env::system().now()));
    assert!(all.len() >= 30, "{}", all.len());
    for (at, (what, who, attempt, told)) in all.into_iter().enumerate() {
        let answer = tries(&person(&servers, who).await, at, &request, attempt).await;
        let stored = answer.is_ok();
        match (told.strip_prefix("refused: "), answer) {
            (Some(why), Err(says)) => assert!(says.contains(why), "{what}: {says}"),
            (None, Ok(())) => {
                let said = comes_to(hub, told).await;
                assert!(said.contains(told), "{what}: {said}");
            }
            (expected, answer) => panic!("{what}: {answer:?} is not {expected:?}"),
        }
        assert!(!begun(hub).await, "{what} gets past the policy");
        // One word that does not count hides no other.
        let word = format!("word-{at}");
        if stored && hub.find(WORDS, "", &word).await.is_some() {
            hub.delete(WORDS, "", &word).await;
        }
    }
    // The honest way is still open.
    let request = hub.eventually_within(60, REQUESTS, "", REQUEST, asked).await.unwrap();
    for name in ["alice", "bob"] {
        let user = person(&servers, &format!("{name}@managers")).await;
        made(&user, WORDS, &word(&request, &format!("{name}-again"), &tested)).await.unwrap();
    }
    let began = Instant::now();
    while !begun(hub).await {
        assert!(began.elapsed() < SOON, "{}", stands(hub).await);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    drop(agents);
    assert!(process.stops().await, "{}", process.said());
}
