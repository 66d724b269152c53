//! A hub on the embedded server under paused time, and the questions stories ask.

#![allow(clippy::unwrap_used)] // a story that cannot be told has failed
#![allow(dead_code)] // not every story asks every question

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use flagship_apiserver::rest::{
    ClusterHandle, DeleteOptions, Local, PatchKind, Server, WriteOptions,
};
use flagship_hub::{Hub, Options, Readiness};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_store::env::plan::{Plan, Rule};
use flagship_store::env::{Env as ServerEnv, Trace};
use flagship_store::{Change, Encoded, Expect, Head, Limits, ObjectKey, Scope, Store, Write};
use flagship_workloads::{WorkloadConfig, Workloads};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinHandle;

pub const CLUSTERS: &str = "memberclusters.cluster.kubernetes-fleet.io";
pub const CRP: &str = "clusterresourceplacements.placement.kubernetes-fleet.io";
pub const RP: &str = "resourceplacements.placement.kubernetes-fleet.io";
pub const CSPS: &str = "clusterschedulingpolicysnapshots.placement.kubernetes-fleet.io";
pub const SPS: &str = "schedulingpolicysnapshots.placement.kubernetes-fleet.io";
pub const CRB: &str = "clusterresourcebindings.placement.kubernetes-fleet.io";
pub const RB: &str = "resourcebindings.placement.kubernetes-fleet.io";
pub const IMC: &str = "internalmemberclusters.cluster.kubernetes-fleet.io";
pub const WORK: &str = "works.placement.kubernetes-fleet.io";

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// All worlds of a process share one server, so that our definitions are checked and
/// compiled once: every world begins with copies of what the keeper has.
static SERVER: LazyLock<Server> = LazyLock::new(|| Server::new(ServerEnv::simulated(0)));
static KEEPER: OnceCell<Keeper> = OnceCell::const_new();
static WORLDS: AtomicU64 = AtomicU64::new(0);

/// The cluster that took our definitions, and how it keeps them.
struct Keeper {
    _cluster: ClusterHandle,
    definitions: Vec<(ObjectKey, Head, Encoded)>,
}

async fn keeper() -> Keeper {
    let cluster = SERVER.add_cluster("keeper");
    let user = cluster.local("user");
    for definition in flagship_api::crd::all() {
        user.create(DEFINITIONS, "", definition).await.unwrap();
    }
    let kept = cluster.store().list(DEFINITIONS, Scope::All).items;
    let copied = kept.iter().map(|definition| {
        let object: Value = serde_json::from_slice(&definition.json).unwrap();
        let key = ObjectKey::new(String::new(), text(&object["metadata"]["name"]));
        (key, Head::of(&object, Default::default()), Encoded::new(&object))
    });
    Keeper { definitions: copied.collect(), _cluster: cluster }
}

/// A store that knows our kinds.
async fn stocked(env: ServerEnv) -> Arc<Store> {
    let store = Store::new(env, Limits::default());
    for (key, head, json) in &KEEPER.get_or_init(keeper).await.definitions {
        let change = Change::Put { head: head.clone(), json: json.clone() };
        let (resource, key) = (DEFINITIONS.into(), key.clone());
        let write = Write { resource: &resource, key, expect: Expect::Absent, change };
        store.commit(write).unwrap();
    }
    store
}

/// Writes an object past every check.
fn put(store: &Store, resource: &str, object: &Value) {
    let resources = store.resources();
    let known = resources.iter().find(|known| known.as_ref() == resource);
    let resource = known.cloned().unwrap_or_else(|| resource.into());
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or("").to_owned();
    let key = ObjectKey::new(text("namespace"), text("name"));
    let expect = match store.get(&resource, &key) {
        Some(there) => Expect::At(there.revision),
        None => Expect::Absent,
    };
    let (head, json) = (Head::of(object, Default::default()), Encoded::new(object));
    let change = Change::Put { head, json };
    store.commit(Write { resource: &resource, key, expect, change }).unwrap();
}

/// One hub, its users, and what went on.
pub struct World {
    pub hub: ClusterHandle,
    pub user: Local,
    pub env: Env,
    pub metrics: Metrics,
    pub faults: Arc<Plan>,
    trace: Arc<Trace>,
    running: BTreeMap<String, Running>,
    name: String,
}

impl Drop for World {
    fn drop(&mut self) {
        SERVER.remove_cluster(&self.name);
    }
}

struct Running {
    hub: Hub,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl World {
    /// An empty hub with our definitions; no controller runs yet.
    pub async fn new(seed: u64) -> Self {
        let trace = Arc::new(Trace::recording());
        let plain = ServerEnv::simulated(seed).with_trace(trace.clone());
        let faults = Arc::new(Plan::new(seed, plain.clock.clone(), Vec::new()));
        let name = format!("hub-{}", WORLDS.fetch_add(1, Ordering::Relaxed));
        let store = stocked(plain.with_faults(faults.clone())).await;
        let hub = SERVER.add_cluster_with(&name, store);
        let user = hub.local("user");
        for namespace in ["fleet-system", "app"] {
            let object = json!({"metadata": {"name": namespace}});
            user.create("namespaces", "", object).await.unwrap();
        }
        let (env, metrics) = (Env::simulated(seed), Metrics::default());
        let running = BTreeMap::new();
        let cleaning = Workloads::new(WorkloadConfig { nodes: 0, ..WorkloadConfig::default() });
        cleaning.spawn(hub.clone());
        Self { hub, user, env, metrics, faults, trace, running, name }
    }

    /// The same, with all controllers but the one of placements, whose part the story plays.
    pub async fn running(seed: u64) -> Self {
        Self::running_with(seed, without_placement()).await
    }

    /// The same, with controllers.
    pub async fn running_with(seed: u64, options: Options) -> Self {
        let mut world = Self::new(seed).await;
        world.start("hub", options);
        world.settle().await;
        world
    }

    /// Starts a hub under a name that traces and faults know it by.
    pub fn start(&mut self, name: &str, options: Options) {
        let client = Client::in_process(self.hub.called_by(name)).named(name);
        let hub = Hub::new(client, self.env.clone(), self.metrics.clone(), options);
        let (stop, stopped) = oneshot::channel();
        let running = hub.clone();
        let task = tokio::spawn(async move { running.run(async { drop(stopped.await) }).await });
        self.running.insert(name.to_owned(), Running { hub, stop, task });
    }

    /// How far a hub says it has come.
    pub fn ready(&self, name: &str) -> Readiness {
        self.running[name].hub.ready()
    }

    /// Asks a hub to stop, and waits until it has.
    pub async fn stop(&mut self, name: &str) {
        let running = self.running.remove(name).unwrap();
        running.stop.send(()).unwrap();
        running.task.await.unwrap();
    }

    /// Ends a hub as a crash would.
    pub async fn kill(&mut self, name: &str) {
        let running = self.running.remove(name).unwrap();
        running.task.abort();
        assert!(running.task.await.unwrap_err().is_cancelled());
    }

    pub fn disturb(&self, rules: Vec<Rule>) {
        self.faults.replace(rules);
    }

    /// Enough for everything that follows from what was done.
    pub async fn settle(&self) {
        self.pass(10).await;
    }

    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub async fn create(&self, resource: &str, mut object: Value) -> Value {
        if let Some(info) = flagship_api::kinds::find(resource) {
            object["apiVersion"] = json!(format!("{}/v1beta1", info.group));
            object["kind"] = json!(info.kind);
        }
        let space = object["metadata"]["namespace"].as_str().unwrap_or("").to_owned();
        let made = self.user.create(resource, &space, object).await;
        made.unwrap_or_else(|error| panic!("{resource}: {error:?}"))
    }

    pub async fn patch(&self, resource: &str, space: &str, name: &str, patch: Value) {
        self.merge(resource, space, name, "", patch).await;
    }

    pub async fn patch_status(&self, resource: &str, name: &str, status: Value) {
        self.merge(resource, "", name, "status", json!({"status": status})).await;
    }

    /// What the agent of a member says. Without a hub nobody passes it on, so that is
    /// done here.
    pub async fn agent_says(&self, name: &str, status: Value) {
        let status = json!({"status": status});
        self.merge(IMC, &format!("fleet-member-{name}"), name, "status", status.clone()).await;
        if self.running.is_empty() {
            self.merge(CLUSTERS, "", name, "status", status).await;
        }
    }

    /// A user patches an object or one of its subresources.
    pub async fn user_patches(
        &self,
        resource: &str,
        space: &str,
        name: &str,
        sub: &str,
        patch: Value,
    ) {
        self.merge(resource, space, name, sub, patch).await;
    }

    async fn merge(&self, resource: &str, space: &str, name: &str, sub: &str, patch: Value) {
        let options = WriteOptions::default();
        let kind = PatchKind::Merge;
        let done = self.user.patch(resource, space, name, sub, kind, patch, &options).await;
        done.unwrap_or_else(|error| panic!("{resource} {name}: {error:?}"));
    }

    pub async fn delete(&self, resource: &str, space: &str, name: &str) {
        self.user.delete(resource, space, name, DeleteOptions::default()).await.unwrap();
    }

    pub fn find(&self, resource: &str, space: &str, name: &str) -> Option<Value> {
        let stored = self.hub.store().get(resource, &ObjectKey::new(space, name))?;
        serde_json::from_slice(&stored.json).ok()
    }

    pub fn get(&self, resource: &str, space: &str, name: &str) -> Value {
        self.find(resource, space, name).unwrap_or_else(|| panic!("no {resource} {space}/{name}"))
    }

    pub fn list(&self, resource: &str, space: &str) -> Vec<Value> {
        let scope = if space.is_empty() { Scope::All } else { Scope::Namespace(space) };
        let items = self.hub.store().list(resource, scope).items;
        items.iter().map(|s| serde_json::from_slice(&s.json).unwrap()).collect()
    }

    /// Puts an object past every check, as an older version of the server might have.
    pub fn smuggle(&self, resource: &str, mut object: Value) {
        object["metadata"]["uid"] = json!(format!("smuggled-{}", object["metadata"]["name"]));
        put(self.hub.store(), resource, &object);
    }

    /// Puts another version of an object past every check.
    pub fn put(&self, resource: &str, object: &Value) {
        put(self.hub.store(), resource, object);
    }

    /// A cluster that has joined and is healthy.
    pub async fn cluster(&self, name: &str, labels: Value) {
        self.newcomer(name, labels).await;
        self.joins(name).await;
    }

    /// A cluster whose agent has not been heard of. Its place on the hub is there, so that
    /// it can be heard with and without controllers.
    pub async fn newcomer(&self, name: &str, labels: Value) {
        let object = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"identity": {"kind": "User", "name": name}},
        });
        let space = format!("fleet-member-{name}");
        let labels = json!({"kubernetes-fleet.io/is-fleet-resource": "true"});
        let namespace = json!({"metadata": {"name": space, "labels": labels}});
        self.create("namespaces", namespace).await;
        let meta = json!({"name": name, "namespace": space});
        let spec = json!({"state": "Join", "heartbeatPeriodSeconds": 60});
        self.create(IMC, json!({"metadata": meta, "spec": spec})).await;
        self.create(CLUSTERS, object).await;
    }

    pub async fn joins(&self, name: &str) {
        let agent = self.agent("True");
        self.agent_says(name, json!({"agentStatus": [agent]})).await;
    }

    /// Deletes a cluster, and its agent says goodbye.
    pub async fn leaves(&self, name: &str) {
        self.delete(CLUSTERS, "", name).await;
        self.settle().await;
        let agent = self.agent("False");
        self.agent_says(name, json!({"agentStatus": [agent]})).await;
        self.settle().await;
    }

    fn agent(&self, joined: &str) -> Value {
        let now = self.now();
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "reason": "Agent", "message": "",
                "lastTransitionTime": now})
        };
        json!({"type": "MemberAgent", "lastReceivedHeartbeat": now,
            "conditions": [condition("Joined", joined), condition("Healthy", "True")]})
    }

    /// All clusters say that they are alive, once a minute for so many minutes.
    pub async fn heartbeats(&self, minutes: u64) {
        for _ in 0..minutes {
            for internal in self.list(IMC, "") {
                if let Some(agent) = internal["status"]["agentStatus"].get(0) {
                    let mut agent = agent.clone();
                    agent["lastReceivedHeartbeat"] = json!(self.now());
                    let name = text(&internal["metadata"]["name"]);
                    self.agent_says(&name, json!({"agentStatus": [agent]})).await;
                }
            }
            self.pass(60).await;
        }
    }

    pub fn now(&self) -> String {
        let now = self.env.now();
        format!("{}Z", now.to_string().split(['.', 'Z']).next().unwrap())
    }

    /// A cluster-scoped placement with its first policy.
    pub async fn places(&self, name: &str, policy: Value) {
        let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
        let mut spec = json!({"resourceSelectors": selector});
        if !policy.is_null() {
            spec["policy"] = policy.clone();
        }
        self.create(CRP, json!({"metadata": {"name": name}, "spec": spec})).await;
        self.policy(name, 0, policy).await;
    }

    /// A namespaced placement with its first policy.
    pub async fn places_in(&self, space: &str, name: &str, policy: Value) {
        let selector = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}]);
        let meta = json!({"name": name, "namespace": space});
        let spec = json!({"resourceSelectors": selector, "policy": policy});
        self.create(RP, json!({"metadata": meta, "spec": spec})).await;
        let mut snapshot = snapshot(name, 0, policy);
        snapshot["metadata"]["namespace"] = json!(space);
        self.create(SPS, snapshot).await;
    }

    /// The policy of a placement from now on, as the placement controller would write it.
    pub async fn policy(&self, placement: &str, index: u64, policy: Value) {
        if index > 0 {
            let old = format!("{placement}-{}", index - 1);
            let labels = json!({"kubernetes-fleet.io/is-latest-snapshot": "false"});
            self.patch(CSPS, "", &old, json!({"metadata": {"labels": labels}})).await;
        }
        self.create(CSPS, snapshot(placement, index, policy)).await;
    }

    pub async fn wants(&self, snapshot: &str, clusters: u64) {
        let notes = json!({"kubernetes-fleet.io/number-of-clusters": clusters.to_string()});
        self.patch(CSPS, "", snapshot, json!({"metadata": {"annotations": notes}})).await;
    }

    /// What the rollout side does to a fresh binding.
    pub async fn bind_all(&self, placement: &str) {
        for binding in self.bindings_of(CRB, placement) {
            if binding["spec"]["state"] == "Scheduled" {
                let spec = json!({"state": "Bound", "resourceSnapshotName": "web-0-snapshot"});
                let name = binding["metadata"]["name"].as_str().unwrap();
                self.patch(CRB, "", name, json!({"spec": spec})).await;
            }
        }
    }

    pub fn bindings_of(&self, resource: &str, placement: &str) -> Vec<Value> {
        let mut all = self.list(resource, "");
        let parent = "kubernetes-fleet.io/parent-CRP";
        all.retain(|binding| binding["metadata"]["labels"][parent] == placement);
        all.sort_by_key(|binding| text(&binding["spec"]["targetCluster"]));
        all
    }

    /// `cluster state of policy`, with what else matters, by cluster.
    pub fn bindings(&self, placement: &str) -> Vec<String> {
        self.bindings_of(CRB, placement).iter().map(line).collect()
    }

    /// The name of the binding of a placement on a cluster.
    pub fn binding_on(&self, placement: &str, cluster: &str) -> String {
        let all = self.bindings_of(CRB, placement);
        let found = all.iter().find(|b| b["spec"]["targetCluster"] == cluster);
        text(&found.unwrap()["metadata"]["name"])
    }

    /// What a policy snapshot says, line by line.
    pub fn decision(&self, resource: &str, space: &str, snapshot: &str) -> String {
        let status = &self.get(resource, space, snapshot)["status"];
        let mut lines = Vec::new();
        for condition in status["conditions"].as_array().into_iter().flatten() {
            lines.push(format!(
                "{} {}: {} (generation {})",
                text(&condition["status"]),
                text(&condition["reason"]),
                text(&condition["message"]),
                status["observedCRPGeneration"],
            ));
        }
        for decision in status["targetClusters"].as_array().into_iter().flatten() {
            let mark = if decision["selected"] == true { "+" } else { "-" };
            lines.push(format!("{mark} {}", text(&decision["reason"])));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Events about a kind, as `Type Reason name: message (xN)`.
    pub fn events(&self, kind: &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for e in self.list("events", "") {
            let about = &e["involvedObject"];
            if about["kind"] != kind {
                continue;
            }
            all.push(format!(
                "{} {} {}: {} (x{})",
                text(&e["type"]),
                text(&e["reason"]),
                text(&about["name"]),
                text(&e["message"]),
                e["count"]
            ));
        }
        all.sort();
        all
    }

    /// Everything that happened, in order, whatever this world is called.
    pub fn story(&self) -> Vec<String> {
        let own = format!(" {}/", self.name);
        self.trace.lines().iter().map(|line| line.replacen(&own, " hub/", 1)).collect()
    }

    /// What the caller has asked of the server so far: `verb resource name code`.
    pub fn calls(&self, who: &str) -> Vec<String> {
        let lines = self.trace.lines();
        let words = lines.iter().map(|line| line.split(' ').collect::<Vec<_>>());
        let own = words.filter(|words| words[1] == who);
        own.map(|words| {
            let mut place = words[3].splitn(4, '/').skip(1);
            let resource = place.next().unwrap().split('.').next().unwrap();
            let (space, name) = (place.next().unwrap(), place.next().unwrap());
            let name = if space.is_empty() { name.to_owned() } else { format!("{space}/{name}") };
            format!("{} {resource} {name} {}", words[2], words[5])
        })
        .collect()
    }

    /// The writes among them.
    pub fn writes(&self, who: &str) -> Vec<String> {
        let reads = ["get ", "list ", "watch "];
        let mut calls = self.calls(who);
        calls.retain(|call| !reads.iter().any(|read| call.starts_with(read)));
        calls
    }

    /// The writes of the scheduler among them: everything about placements.
    pub fn scheduling_writes(&self, who: &str) -> Vec<String> {
        let mut writes = self.writes(who);
        let ours =
            ["clusterresource", "resourcebinding", "resourceplacement", "snapshot", "events"];
        writes.retain(|write| ours.iter().any(|word| write.contains(word)));
        writes
    }
}

/// Options of a hub whose policy snapshots a story writes itself.
pub fn without_placement() -> Options {
    let mut options = without_delivery();
    options.controllers.placement = false;
    options
}

/// Options of a hub whose bindings a story moves and reports on itself.
pub fn without_delivery() -> Options {
    let mut options = Options::default();
    options.controllers.rollout = false;
    options.controllers.work = false;
    options
}

/// One binding in a line.
pub fn line(binding: &Value) -> String {
    let spec = &binding["spec"];
    let previous =
        &binding["metadata"]["annotations"]["kubernetes-fleet.io/previous-binding-state"];
    let mut line = format!(
        "{} {} {}",
        text(&spec["targetCluster"]),
        text(&spec["state"]),
        text(&spec["schedulingPolicySnapshotName"])
    );
    if let Some(previous) = previous.as_str() {
        line.push_str(&format!(" was {previous}"));
    }
    if !binding["metadata"]["deletionTimestamp"].is_null() {
        line.push_str(" deleting");
    }
    line
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn snapshot(placement: &str, index: u64, policy: Value) -> Value {
    let mut notes = json!({"kubernetes-fleet.io/CRP-generation": (index + 1).to_string()});
    if let Some(count) = policy["numberOfClusters"].as_u64() {
        notes["kubernetes-fleet.io/number-of-clusters"] = json!(count.to_string());
    }
    let mut spec = json!({"policyHash": "aGFzaA=="});
    if !policy.is_null() {
        spec["policy"] = policy;
    }
    json!({
        "metadata": {
            "name": format!("{placement}-{index}"),
            "labels": {
                "kubernetes-fleet.io/parent-CRP": placement,
                "kubernetes-fleet.io/is-latest-snapshot": "true",
                "kubernetes-fleet.io/policy-index": index.to_string(),
            },
            "annotations": notes,
        },
        "spec": spec,
    })
}
