//! One embedded cluster with its controllers, and the questions stories ask.

#![allow(clippy::unwrap_used)] // a story that cannot be told has failed

use std::sync::Arc;
use std::time::Duration;

use flagship_apiserver::rest::{ClusterHandle, DeleteOptions, Local, Propagation, Server};
use flagship_store::env::{Env, Trace};
use flagship_store::{Limits, ObjectKey, Scope, Store};
use flagship_workloads::{Running, WorkloadConfig, Workloads};
use serde_json::{Value, json};

/// A running cluster.
#[allow(dead_code)] // not every story needs every part
pub struct TestCluster {
    pub cluster: ClusterHandle,
    pub user: Local,
    pub env: Env,
    pub running: Option<Running>,
    pub workloads: Workloads,
    _server: Server,
}

#[allow(dead_code)] // not every story asks every question
impl TestCluster {
    pub fn new(seed: u64, config: WorkloadConfig) -> Self {
        Self::in_env(Env::simulated(seed), config)
    }

    pub fn in_env(env: Env, config: WorkloadConfig) -> Self {
        Self::build(env, Limits::default(), config)
    }

    pub fn with_limits(seed: u64, limits: Limits, config: WorkloadConfig) -> Self {
        Self::build(Env::simulated(seed), limits, config)
    }

    fn build(env: Env, limits: Limits, config: WorkloadConfig) -> Self {
        let env = env.with_trace(Arc::new(Trace::recording()));
        let server = Server::new(env.clone());
        let cluster = server.add_cluster_with("member1", Store::new(env.clone(), limits));
        let workloads = Workloads::new(config);
        let running = Some(workloads.spawn(cluster.clone()));
        let user = cluster.local("user");
        Self { cluster, user, env, running, workloads, _server: server }
    }

    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub async fn create(&self, resource: &str, object: Value) -> Value {
        let space = object["metadata"]["namespace"].as_str().unwrap_or("").to_owned();
        let made = self.user.create(resource, &space, object).await;
        made.unwrap_or_else(|error| panic!("{resource}: {error:?}"))
    }

    /// Changes an object as `kubectl edit` would.
    pub async fn edit(&self, resource: &str, name: &str, change: impl Fn(&mut Value)) {
        for _ in 0..10 {
            let mut object = self.get(resource, "default", name);
            change(&mut object);
            match self.user.update(resource, object).await {
                Ok(_) => return,
                Err(error) if error.code == 409 => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("never accepted");
    }

    pub async fn delete(&self, resource: &str, space: &str, name: &str, how: Propagation) {
        let options = DeleteOptions { propagation: Some(how), ..DeleteOptions::default() };
        self.user.delete(resource, space, name, options).await.unwrap();
    }

    pub fn find(&self, resource: &str, space: &str, name: &str) -> Option<Value> {
        let stored = self.cluster.store().get(resource, &ObjectKey::new(space, name))?;
        serde_json::from_slice(&stored.json).ok()
    }

    pub fn get(&self, resource: &str, space: &str, name: &str) -> Value {
        self.find(resource, space, name).unwrap_or_else(|| panic!("no {resource} {space}/{name}"))
    }

    pub fn list(&self, resource: &str, space: &str) -> Vec<Value> {
        let scope = if space.is_empty() { Scope::All } else { Scope::Namespace(space) };
        let items = self.cluster.store().list(resource, scope).items;
        items.iter().map(|s| serde_json::from_slice(&s.json).unwrap()).collect()
    }

    pub fn names(&self, resource: &str, space: &str) -> Vec<String> {
        let name = |o: &Value| o["metadata"]["name"].as_str().unwrap().to_owned();
        self.list(resource, space).iter().map(name).collect()
    }

    /// `Type=Status Reason: message`, with generated suffixes hidden.
    pub fn conditions(&self, resource: &str, name: &str) -> Vec<String> {
        let object = self.get(resource, "default", name);
        let text = |c: &Value, key: &str| c[key].as_str().unwrap_or("").to_owned();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let all = conditions.iter().map(|c| {
            let message = self.neat(&text(c, "message"));
            format!("{}={} {}: {message}", text(c, "type"), text(c, "status"), text(c, "reason"))
        });
        all.collect()
    }

    /// Generated parts of names are nobody's business.
    pub fn neat(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for set in self.list("replicasets.apps", "") {
            let name = set["metadata"]["name"].as_str().unwrap();
            let (front, _) = name.rsplit_once('-').unwrap();
            text = text.replace(name, &format!("{front}-#"));
        }
        text
    }

    /// Events as `kubectl get events` shows them: type, reason, kind, message, count.
    pub fn events(&self, space: &str) -> Vec<String> {
        let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
        let mut all: Vec<(String, String)> = Vec::new();
        for e in self.list("events", space) {
            let line = format!(
                "{} {} {}: {} (x{})",
                text(&e["type"]),
                text(&e["reason"]),
                text(&e["involvedObject"]["kind"]),
                self.neat(&text(&e["message"])),
                e["count"]
            );
            all.push((text(&e["firstTimestamp"]), line));
        }
        all.sort();
        all.into_iter().map(|(_, line)| line).collect()
    }

    pub fn revision(&self) -> u64 {
        self.cluster.store().revision()
    }
}

#[allow(dead_code)] // not every story deploys
pub fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": name, "image": image}]}},
        },
    })
}
