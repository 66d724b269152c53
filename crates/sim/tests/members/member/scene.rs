//! One member that has joined, and words for what happens there.

use flagship_sim::fleet::{Cluster, Condition, Fleet, FleetConfig};
use serde_json::{Value, json};

pub const SPACE: &str = "fleet-member-member1";
pub const FINALIZER: &str = "kubernetes-fleet.io/work-cleanup";

pub struct Scene {
    pub fleet: Fleet,
}

impl Scene {
    pub async fn new() -> Self {
        Self::with(FleetConfig::of(1)).await
    }

    pub async fn with(mut config: FleetConfig) -> Self {
        // The story plays the hub's part, but for membership.
        config.hub.controllers.placement = false;
        config.hub.controllers.scheduling = false;
        config.hub.controllers.work = false;
        Self { fleet: Fleet::joined(config).await }
    }

    pub fn hub(&self) -> &Cluster {
        &self.fleet.clusters.hub
    }

    pub fn member(&self) -> &Cluster {
        self.fleet.clusters.member("member1")
    }

    /// Writes a Work.
    pub async fn work(&self, name: &str, manifests: &[Value]) {
        self.work_with(name, json!({}), manifests).await;
    }

    /// Writes a Work with a strategy.
    pub async fn work_with(&self, name: &str, strategy: Value, manifests: &[Value]) {
        let mut spec = json!({"workload": {"manifests": manifests}});
        if strategy != json!({}) {
            spec["applyStrategy"] = strategy;
        }
        self.write(name, spec).await;
    }

    pub async fn write(&self, name: &str, spec: Value) {
        let work = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
            "metadata": {"name": name, "namespace": SPACE}, "spec": spec,
        });
        self.hub().apply_object(&work).await;
    }

    /// Waits until the hub was told how the Work is, and hands it out.
    pub async fn becomes(&self, name: &str, kind: &str, status: &str) -> Value {
        self.hub().becomes("works", SPACE, name, kind, status).await
    }

    /// Writes a Work and waits until it is available.
    pub async fn given(&self, name: &str, manifests: &[Value]) {
        self.work(name, manifests).await;
        self.becomes(name, "Available", "True").await;
    }

    /// What the hub was told about a Work, line by line.
    pub async fn told(&self, name: &str) -> String {
        let work = self.hub().get("works", SPACE, name).await;
        let mut lines = conditions(&work["status"]);
        for entry in work["status"]["manifestConditions"].as_array().into_iter().flatten() {
            let of = &entry["identifier"];
            let word = |key: &str| of[key].as_str().unwrap_or("-").to_owned();
            lines.push(format!(
                "{} {} {} {}/{}",
                of["ordinal"],
                word("kind"),
                word("resource"),
                word("namespace"),
                word("name")
            ));
            lines.extend(conditions(entry).iter().map(|line| format!("  {line}")));
            let found = [
                ("drift", "driftDetails", "observedDrifts"),
                ("diff", "diffDetails", "observedDiffs"),
            ];
            for (what, details, list) in found {
                for one in entry[details][list].as_array().into_iter().flatten() {
                    let side = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
                    let (path, member) = (side("path"), side("valueInMember"));
                    let hub = side("valueInHub");
                    lines.push(format!("  {what} {path} member={member} hub={hub}"));
                }
            }
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    pub async fn finalizers(&self, name: &str) -> Value {
        self.hub().get("works", SPACE, name).await["metadata"]["finalizers"].clone()
    }

    /// The AppliedWork of a Work.
    pub async fn applied_work(&self, name: &str) -> Value {
        self.member().get("appliedworks", "", name).await
    }

    /// Writes of the agent to the member so far: `verb resource namespace/name code`.
    pub fn writes(&self) -> Vec<String> {
        let own = format!("{}/", self.fleet.cluster_name("member1"));
        let lines = self.fleet.trace.lines();
        let mut writes = Vec::new();
        for line in &lines {
            let words: Vec<&str> = line.split(' ').collect();
            let Some(place) = words[3].strip_prefix(&own) else { continue };
            if words[1] == "member1" && !["get", "list", "watch"].contains(&words[2]) {
                writes.push(format!("{} {place} {}", words[2], words[5]));
            }
        }
        writes
    }
}

fn conditions(of: &Value) -> Vec<String> {
    let all = of["conditions"].as_array().into_iter().flatten();
    all.map(|one| Condition::read(one).to_string()).collect()
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "app"}, "data": data})
}

pub fn deployment(name: &str, image: &str, replicas: u64) -> Value {
    let container = json!({"name": "web", "image": image});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "app"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}})
}

pub fn widget_definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object",
                    "properties": {"spec": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

pub fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "app"}, "spec": spec})
}
