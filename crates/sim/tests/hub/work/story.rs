//! What stories of Works do and ask, on top of a hub.

use flagship_apiserver::rest::{PatchKind, WriteOptions};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use flagship_sim::testing::{CRB, RB, TestHub, WORK, text, without_profiles};

pub const CRS: &str = "clusterresourcesnapshots.placement.kubernetes-fleet.io";
pub const RS: &str = "resourcesnapshots.placement.kubernetes-fleet.io";
pub const RO_SNAPSHOTS: &str = "resourceoverridesnapshots.placement.kubernetes-fleet.io";

/// A hub with two healthy members; the story plays placements, scheduler and rollout.
pub struct Story {
    test_hub: TestHub,
}

flagship_sim::acts_as_test_hub!(Story);

/// Which scope a story is told in, so that each is told in both.
#[derive(Clone, Copy)]
pub struct Told {
    pub binding: &'static str,
    pub snapshot: &'static str,
    pub space: &'static str,
    /// What Works of placement `web` start with.
    pub base: &'static str,
}

pub const CLUSTER_WIDE: Told = Told { binding: CRB, snapshot: CRS, space: "", base: "web" };
pub const IN_NAMESPACE: Told = Told { binding: RB, snapshot: RS, space: "app", base: "app.web" };

impl Story {
    /// Only the work generator and membership run.
    pub async fn new(seed: u64) -> Self {
        let mut options = without_profiles();
        options.controllers.placement = false;
        options.controllers.scheduling = false;
        options.controllers.rollout = false;
        let mut test_hub = TestHub::new(seed).await;
        for member in ["m1", "m2"] {
            test_hub.cluster(member, json!({"env": "prod"})).await;
        }
        test_hub.options = options;
        Self { test_hub }
    }

    /// The same, running.
    pub async fn running(seed: u64) -> Self {
        let mut story = Self::new(seed).await;
        story.start_as("hub").await;
        story
    }

    /// A snapshot group of placement `web`: one list of manifests per object.
    pub async fn snapshots(&self, told: Told, index: u64, groups: &[Vec<Value>]) {
        for (at, manifests) in groups.iter().enumerate() {
            self.snapshot(told, index, at, groups.len(), manifests).await;
        }
    }

    /// One object of a snapshot group; the first is the master.
    pub async fn snapshot(
        &self,
        told: Told,
        index: u64,
        at: usize,
        count: usize,
        manifests: &[Value],
    ) {
        let (name, notes) = match at {
            0 => {
                let notes = json!({
                    "kubernetes-fleet.io/resource-hash": "h",
                    "kubernetes-fleet.io/number-of-resource-snapshots": count.to_string(),
                    "kubernetes-fleet.io/number-of-enveloped-object": "0",
                });
                (format!("web-{index}-snapshot"), notes)
            }
            at => {
                let place = (at - 1).to_string();
                let notes = json!({"kubernetes-fleet.io/subindex-of-resource-snapshot": place});
                (format!("web-{index}-{}", at - 1), notes)
            }
        };
        let labels = json!({
            "kubernetes-fleet.io/parent-CRP": "web",
            "kubernetes-fleet.io/resource-index": index.to_string(),
        });
        let mut meta = json!({"name": name, "labels": labels, "annotations": notes});
        if !told.space.is_empty() {
            meta["namespace"] = json!(told.space);
        }
        let object = json!({"metadata": meta, "spec": {"selectedResources": manifests}});
        self.create(told.snapshot, object).await;
    }

    /// A snapshot of an override in namespace `app`, for one ConfigMap on every cluster.
    pub async fn override_snapshot(&self, name: &str, target: &str, mut rule: Value) {
        rule["clusterSelector"] = json!({"clusterSelectorTerms": []});
        let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": target});
        let spec = json!({"resourceSelectors": [selector], "policy": {"overrideRules": [rule]}});
        let object = json!({"metadata": {"name": name, "namespace": "app"},
            "spec": {"overrideSpec": spec, "overrideHash": ByteString(spec.to_string().into_bytes())}});
        self.create(RO_SNAPSHOTS, object).await;
    }

    /// A binding of placement `web` as the scheduler leaves it.
    pub async fn scheduled(&self, told: Told, name: &str, cluster: &str) {
        let mut meta = json!({"name": name, "labels": {"kubernetes-fleet.io/parent-CRP": "web"}});
        if !told.space.is_empty() {
            meta["namespace"] = json!(told.space);
        }
        let spec = json!({
            "state": "Scheduled", "resourceSnapshotName": "", "targetCluster": cluster,
            "schedulingPolicySnapshotName": "web-0",
            "clusterDecision": {"clusterName": cluster, "selected": true, "reason": "picked"},
        });
        self.create(told.binding, json!({"metadata": meta, "spec": spec})).await;
    }

    /// What the rollout does to a binding: spec, then the start signal.
    pub async fn bound(&self, told: Told, name: &str, index: u64) {
        let snapshot = format!("web-{index}-snapshot");
        let strategy = json!({"type": "ClientSideApply", "comparisonOption": "PartialComparison",
            "whenToApply": "Always", "whenToTakeOver": "Always"});
        let spec = json!({"state": "Bound", "resourceSnapshotName": snapshot,
            "applyStrategy": strategy});
        self.patch(told.binding, told.space, name, json!({"spec": spec})).await;
        self.started(told, name).await;
    }

    /// The start signal for the present generation.
    pub async fn started(&self, told: Told, name: &str) {
        let object = self.get(told.binding, told.space, name);
        let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "RolloutStarted");
        conditions.push(json!({"type": "RolloutStarted", "status": "True",
            "reason": "RolloutStarted", "message": "started", "lastTransitionTime": self.now(),
            "observedGeneration": object["metadata"]["generation"]}));
        self.says(told.binding, told.space, name, json!({"conditions": conditions})).await;
    }

    /// A fresh binding with everything it needs.
    pub async fn delivers(&self, told: Told, name: &str, cluster: &str, index: u64) {
        self.scheduled(told, name, cluster).await;
        self.bound(told, name, index).await;
        self.settle().await;
    }

    /// Writes a status.
    pub async fn says(&self, resource: &str, space: &str, name: &str, status: Value) {
        let (options, kind) = (WriteOptions::default(), PatchKind::Merge);
        let patch = json!({"status": status});
        let done = self.user.patch(resource, space, name, "status", kind, patch, &options).await;
        done.unwrap_or_else(|error| panic!("{resource} {name}: {error:?}"));
    }

    /// What the member says of a Work: conditions as `(type, status, reason)` about its
    /// present content, and what became of its manifests.
    pub async fn member_says(
        &self,
        member: &str,
        work: &str,
        conditions: &[(&str, &str, &str)],
        manifests: Value,
    ) {
        let space = format!("fleet-member-{member}");
        let generation = self.get(WORK, &space, work)["metadata"]["generation"].clone();
        let told = conditions.iter().map(|(kind, status, reason)| {
            json!({"type": kind, "status": status, "reason": reason, "message": "",
                "observedGeneration": generation, "lastTransitionTime": self.now()})
        });
        let conditions: Vec<Value> = told.collect();
        let status = json!({"conditions": conditions, "manifestConditions": manifests});
        self.says(WORK, &space, work, status).await;
    }

    /// All is well with a Work.
    pub async fn member_is_fine(&self, member: &str, work: &str) {
        let fine = [
            ("Applied", "True", "AllManifestsApplied"),
            ("Available", "True", "AllManifestsAvailable"),
        ];
        self.member_says(member, work, &fine, json!([])).await;
    }

    /// `type status reason (generation): message`, one for each condition of a binding.
    pub fn conditions(&self, told: Told, name: &str) -> Vec<String> {
        let object = self.get(told.binding, told.space, name);
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let line = |c: &Value| {
            let [kind, status, reason, message] =
                ["type", "status", "reason", "message"].map(|field| text(&c[field]));
            format!("{kind} {status} {reason} ({}): {message}", c["observedGeneration"])
        };
        conditions.iter().map(line).collect()
    }

    /// The same without what somebody else says.
    pub fn ours(&self, told: Told, name: &str) -> Vec<String> {
        let mut all = self.conditions(told, name);
        all.retain(|line| !line.starts_with("RolloutStarted"));
        all
    }

    /// Works of a member, as `name (index, generation): manifests`.
    pub fn works(&self, member: &str) -> Vec<String> {
        let all = self.list(WORK, &format!("fleet-member-{member}"));
        let line = |work: &Value| {
            let meta = &work["metadata"];
            let index = text(&meta["labels"]["kubernetes-fleet.io/parent-resource-snapshot-index"]);
            let manifests = work["spec"]["workload"]["manifests"].as_array().cloned();
            let names: Vec<String> = manifests
                .unwrap_or_default()
                .iter()
                .map(|one| format!("{} {}", text(&one["kind"]), text(&one["metadata"]["name"])))
                .collect();
            let going = if meta["deletionTimestamp"].is_null() { "" } else { " deleting" };
            let (name, generation) = (text(&meta["name"]), &meta["generation"]);
            format!("{name} ({index}, {generation}){going}: {}", names.join(", "))
        };
        all.iter().map(line).collect()
    }
}

/// A ConfigMap in namespace `app`.
pub fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "app"}, "data": {"key": value}})
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
