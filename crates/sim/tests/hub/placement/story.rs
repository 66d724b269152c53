//! What stories of placements do and ask, on top of a hub.

use flagship_apiserver::rest::{PatchKind, WriteOptions};
use flagship_hub::Options;
use flagship_rules::placement::Batching;
use serde_json::{Value, json};

use flagship_sim::testing::{CRB, CRP, RP, TestHub, text, without_delivery};

pub const CRS: &str = "clusterresourcesnapshots.placement.kubernetes-fleet.io";
pub const RS: &str = "resourcesnapshots.placement.kubernetes-fleet.io";
pub const RUNS: &str = "clusterstagedupdateruns.placement.kubernetes-fleet.io";
pub const COPIES: &str = "clusterresourceplacementstatuses.placement.kubernetes-fleet.io";
pub const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A hub with two healthy members.
pub struct Story {
    test_hub: TestHub,
}

flagship_sim::acts_as_test_hub!(Story);

impl Story {
    /// Only cluster-scoped placements are served, and every change is a version.
    pub async fn cluster_wide(seed: u64) -> Self {
        let options =
            Options { resource_placement: false, batching: Batching::NONE, ..without_delivery() };
        Self::begin(TestHub::new(seed).await, options).await
    }

    /// Placements of both scopes, and every change is a version.
    pub async fn both_scopes(seed: u64) -> Self {
        let options = Options { batching: Batching::NONE, ..without_delivery() };
        Self::begin(TestHub::new(seed).await, options).await
    }

    async fn begin(mut test_hub: TestHub, options: Options) -> Self {
        for member in ["member1", "member2"] {
            test_hub.cluster(member, json!({})).await;
        }
        test_hub.options = options;
        Self { test_hub }
    }

    /// Starts the hub and lets it find its feet.
    pub async fn starts(mut self) -> Self {
        self.start_as("hub").await;
        self
    }

    /// A cluster-scoped placement.
    pub async fn crp(&self, name: &str, spec: Value) {
        self.create(CRP, json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    /// A namespaced placement.
    pub async fn rp(&self, name: &str, spec: Value) {
        let meta = json!({"name": name, "namespace": "app"});
        self.create(RP, json!({"metadata": meta, "spec": spec})).await;
    }

    /// Makes a definition let everything pass below a path.
    pub async fn loosen(&self, definition: &str, path: &str) {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let patch = json!([{"op": "replace", "path": path, "value": open}]);
        let (kind, options) = (PatchKind::Json, WriteOptions::default());
        let done = self.user.patch(DEFINITIONS, "", definition, "", kind, patch, &options).await;
        done.unwrap_or_else(|error| panic!("{definition}: {error:?}"));
    }

    pub async fn namespace(&self, name: &str, labels: Value) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": labels}});
        self.create("namespaces", object).await;
    }

    pub async fn map(&self, space: &str, name: &str, value: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": space, "name": name}, "data": {"key": value}});
        self.create("configmaps", object).await;
    }

    pub async fn change(&self, space: &str, name: &str, value: &str) {
        self.patch("configmaps", space, name, json!({"data": {"key": value}})).await;
    }

    /// Index and selected resources as the status tells them: `0: Namespace app, ...`.
    pub fn version(&self, resource: &str, space: &str, name: &str) -> String {
        let status = &self.get(resource, space, name)["status"];
        let listed = status["selectedResources"].as_array().cloned().unwrap_or_default();
        let names: Vec<String> = listed
            .iter()
            .map(|one| format!("{} {}", text(&one["kind"]), text(&one["name"])))
            .collect();
        format!("{}: {}", text(&status["observedResourceIndex"]), names.join(", "))
    }

    /// `type status reason (generation): message`, one for each condition of a placement.
    pub fn conditions(&self, resource: &str, space: &str, name: &str) -> Vec<String> {
        let conditions = &self.get(resource, space, name)["status"]["conditions"];
        let told = |c: &Value| {
            let words = ["type", "status", "reason"].map(|field| text(&c[field]));
            let [kind, status, reason] = words;
            let kind = kind.replace("ClusterResourcePlacement", "");
            let kind = kind.replace("ResourcePlacement", "");
            format!("{kind} {status} {reason} ({})", c["observedGeneration"])
        };
        conditions.as_array().into_iter().flatten().map(told).collect()
    }

    /// What the condition of a placement says.
    pub fn message(&self, resource: &str, space: &str, name: &str, kind: &str) -> String {
        let conditions = self.get(resource, space, name)["status"]["conditions"].clone();
        let all = conditions.as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|c| text(&c["type"]).ends_with(kind));
        text(&found.unwrap_or(&Value::Null)["message"])
    }

    /// Snapshots by name, the latest marked.
    pub fn snapshots(&self, resource: &str) -> Vec<String> {
        let all = self.list(resource, "");
        let named = all.iter().map(|snapshot| {
            let meta = &snapshot["metadata"];
            let latest = &meta["labels"]["kubernetes-fleet.io/is-latest-snapshot"];
            let mark = if latest == "true" { " latest" } else { "" };
            format!("{}{mark}", text(&meta["name"]))
        });
        named.collect()
    }

    /// What the rollout side does: every binding of the placement gets the latest version
    /// and all is well with it.
    pub async fn rolls_out(&self, placement: &str, snapshot: &str) {
        for binding in self.bindings_of(CRB, placement) {
            let name = text(&binding["metadata"]["name"]);
            let spec = json!({"state": "Bound", "resourceSnapshotName": snapshot});
            self.patch(CRB, "", &name, json!({"spec": spec})).await;
            let generation = self.get(CRB, "", &name)["metadata"]["generation"].clone();
            let now = self.now();
            let steps = [
                ("RolloutStarted", "RolloutStarted"),
                ("Overridden", "NoOverrideSpecified"),
                ("WorkSynchronized", "AllWorkSynced"),
                ("Applied", "AllWorkHaveBeenApplied"),
                ("Available", "AllWorkAreAvailable"),
            ];
            let told = steps.map(|(kind, reason)| {
                json!({"type": kind, "status": "True", "reason": reason, "message": "",
                    "observedGeneration": generation, "lastTransitionTime": now})
            });
            self.patch_status(CRB, &name, json!({"conditions": told})).await;
        }
    }
}

/// Selects a namespace and all that is in it.
pub fn namespace(name: &str) -> Value {
    json!({"group": "", "version": "v1", "kind": "Namespace", "name": name})
}

/// Selects a ConfigMap by name.
pub fn map(name: &str) -> Value {
    json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": name})
}

/// Places on all clusters what the selectors select.
pub fn everywhere(selectors: &[Value]) -> Value {
    json!({"resourceSelectors": selectors, "policy": {"placementType": "PickAll"}})
}
