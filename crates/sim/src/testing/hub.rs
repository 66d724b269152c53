//! A hub on the embedded server under paused time, and the questions tests ask it.
//!
//! No member is there: tests play the members. `hub_members` has what members and placements
//! do on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flagship_apiserver::rest::{ClusterHandle, DeleteOptions, Local, PatchKind, WriteOptions};
use flagship_fleet::{Callers, ClusterHost, EmbeddedFleet, FleetSpec, HUB};
use flagship_hub::{Hub, Options, Readiness};
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_store::env::Trace;
use flagship_store::env::plan::{FaultPlan, Rule};
use flagship_store::{Change, Encoded, Expect, Head, ObjectKey, Scope, Store, Write};
use serde_json::{Value, json};

use super::{CLUSTERS, IMC, text, without_placement};
use crate::fleet::Simulation;

/// One hub, its users, and what went on.
pub struct TestHub {
    /// The cluster.
    pub hub: ClusterHandle,
    /// A person who works on it.
    pub user: Local,
    /// Time and chance of all controllers.
    pub env: Env,
    /// What all controllers count.
    pub metrics: Metrics,
    /// Options of the controllers that are started without others.
    pub options: Options,
    /// What goes wrong on purpose.
    pub faults: Arc<FaultPlan>,
    trace: Arc<Trace>,
    running: BTreeMap<String, Hub>,
    fleet: EmbeddedFleet,
}

impl TestHub {
    /// An empty hub with our definitions; no controller runs yet.
    pub async fn new(seed: u64) -> Self {
        let Simulation { env, server_env, faults, trace } = Simulation::paused(seed, true);
        let (host, prefix) = ClusterHost::shared();
        let spec = FleetSpec {
            callers: Callers::CLUSTERS,
            hub_admission: false,
            ..FleetSpec::named(Vec::new())
        };
        let building = EmbeddedFleet::builder(spec).clock(env.clone(), server_env);
        let fleet = building.host(host, prefix).build().await.unwrap();
        let hub = fleet.handle(HUB).clone();
        let user = hub.local("user");
        let object = json!({"metadata": {"name": "app"}});
        user.create("namespaces", "", object).await.unwrap();
        let (metrics, running) = (fleet.metrics.clone(), BTreeMap::new());
        let options = Options::default();
        Self { hub, user, env, metrics, options, faults, trace, running, fleet }
    }

    /// The same, with all controllers but the one of placements, whose part the test plays.
    pub async fn running(seed: u64) -> Self {
        Self::running_with(seed, without_placement()).await
    }

    /// The same, with controllers.
    pub async fn running_with(seed: u64, options: Options) -> Self {
        let mut hub = Self::new(seed).await;
        hub.start("hub", options);
        hub.settle().await;
        hub
    }

    /// Starts the hub's controllers under a name that traces and faults know them by.
    pub fn start(&mut self, name: &str, options: Options) {
        let hub = self.fleet.start_hub(name, name, options);
        self.running.insert(name.to_owned(), hub);
    }

    /// Starts controllers with the options of this hub, and lets them do what there is to do.
    pub async fn start_as(&mut self, name: &str) {
        self.start(name, self.options.clone());
        self.settle().await;
    }

    /// How far controllers say they have come.
    pub fn ready(&self, name: &str) -> Readiness {
        self.running[name].ready()
    }

    /// Asks controllers to stop, and waits until they have.
    pub async fn stop(&mut self, name: &str) {
        self.running.remove(name).unwrap();
        self.fleet.stop(name).await;
    }

    /// Ends controllers as a crash would.
    pub async fn kill(&mut self, name: &str) {
        self.running.remove(name).unwrap();
        self.fleet.kill(name).await;
    }

    /// From now on this goes wrong, and nothing else.
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
            object["apiVersion"] = json!(format!("{}/{}", info.group, info.versions[0].name));
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

    /// Everything that happened, in order, whatever its cluster is called.
    pub fn story(&self) -> Vec<String> {
        let own = format!(" {}/", self.fleet.cluster_name(HUB));
        self.trace.lines().iter().map(|line| line.replacen(&own, " hub/", 1)).collect()
    }

    /// Passes of a controller so far, by the metric that counts them.
    pub fn passes(&self, controller: &str) -> u64 {
        let wanted = format!("fleet_workload_reconcile_total{{controller=\"{controller}\"");
        let printed = self.metrics.render();
        let lines = printed.lines().filter(|line| line.starts_with(&wanted));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
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
