//! What stories of rollouts do and ask, on top of a hub.

#![allow(clippy::unwrap_used)] // a story that cannot be told has failed

use flagship_apiserver::rest::{PatchKind, WriteOptions};
use flagship_hub::Options;
use flagship_rules::placement::Batching;
use serde_json::{Value, json};

use flagship_sim::testing::{CLUSTERS, CRB, CRP, RB, RP, TestHub, WORK, text};

pub const CRS: &str = "clusterresourcesnapshots.placement.kubernetes-fleet.io";
pub const CRO: &str = "clusterresourceoverrides.placement.kubernetes-fleet.io";
pub const RO: &str = "resourceoverrides.placement.kubernetes-fleet.io";
pub const CROS: &str = "clusterresourceoverridesnapshots.placement.kubernetes-fleet.io";
pub const ROS: &str = "resourceoverridesnapshots.placement.kubernetes-fleet.io";

/// A hub with healthy members `m1`, `m2`, ... and a ConfigMap `app/settings`.
pub struct Story {
    test_hub: TestHub,
    /// Where placements and bindings are: cluster-wide, or in namespace `app`.
    pub side: Side,
}

/// The kinds of a scope.
#[derive(Clone, Copy)]
pub struct Side {
    pub placements: &'static str,
    pub bindings: &'static str,
    pub space: &'static str,
}

pub const CLUSTER_WIDE: Side = Side { placements: CRP, bindings: CRB, space: "" };
pub const IN_NAMESPACE: Side = Side { placements: RP, bindings: RB, space: "app" };

flagship_sim::acts_as_test_hub!(Story);

impl Story {
    /// The story says what becomes of bindings.
    pub async fn begin(seed: u64, side: Side, members: usize) -> Self {
        Self::begin_with(seed, side, members, false).await
    }

    /// The hub makes Works of bindings, and the story says what becomes of those.
    pub async fn delivering(seed: u64, side: Side, members: usize) -> Self {
        Self::begin_with(seed, side, members, true).await
    }

    async fn begin_with(seed: u64, side: Side, members: usize, work: bool) -> Self {
        let mut test_hub = TestHub::new(seed).await;
        for member in 1..=members {
            let env = if member == 1 { "canary" } else { "prod" };
            test_hub.cluster(&format!("m{member}"), json!({"env": env})).await;
        }
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "app", "name": "settings"}, "data": {"key": "v0"}});
        test_hub.create("configmaps", object).await;
        // Every change is a version.
        test_hub.options = Options { batching: Batching::NONE, ..Options::default() };
        test_hub.options.controllers.work = work;
        let mut story = Self { test_hub, side };
        story.start_as("hub").await;
        story
    }

    /// Placement `web` of namespace `app`, or of what is in it, on all clusters unless the
    /// spec says otherwise.
    pub async fn places(&self, spec: Value) {
        let Side { placements, space, .. } = self.side;
        let selector =
            if space.is_empty() { ("Namespace", "app") } else { ("ConfigMap", "settings") };
        let (kind, name) = selector;
        let selector = json!([{"group": "", "version": "v1", "kind": kind, "name": name}]);
        let mut whole = json!({"resourceSelectors": selector});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let mut meta = json!({"name": "web"});
        if !space.is_empty() {
            meta["namespace"] = json!(space);
        }
        self.create(placements, json!({"metadata": meta, "spec": whole})).await;
        self.settle().await;
    }

    pub async fn edits_placement(&self, spec: Value) {
        let Side { placements, space, .. } = self.side;
        self.patch(placements, space, "web", json!({"spec": spec})).await;
        self.settle().await;
    }

    /// A new version of what is placed.
    pub async fn changes(&self, value: &str) {
        let patch = json!({"data": {"key": value}});
        self.patch("configmaps", "app", "settings", patch).await;
        self.settle().await;
    }

    /// Bindings by cluster: `m1 Bound 0 [overrides] RolloutStarted=True`.
    pub fn told(&self) -> Vec<String> {
        let all = self.bindings_of(self.side.bindings, "web");
        all.iter().map(binding_line).collect()
    }

    pub fn binding(&self, cluster: &str) -> Value {
        let all = self.bindings_of(self.side.bindings, "web");
        let live = |b: &&Value| b["metadata"]["deletionTimestamp"].is_null();
        let on = |b: &&Value| b["spec"]["targetCluster"] == cluster;
        let mut found: Vec<&Value> = all.iter().filter(on).collect();
        found.sort_by_key(|b| !live(b));
        found[0].clone()
    }

    /// What the member says through the work generator, about the binding as it is: every
    /// step up to this one is True, this one as told.
    pub async fn says(&self, cluster: &str, kind: &str, told: &str, message: &str) {
        let binding = self.binding(cluster);
        let meta = &binding["metadata"];
        let mut conditions =
            binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|c| c["type"] == "RolloutStarted");
        let good = [
            ("Overridden", "NoOverrideSpecified"),
            ("WorkSynchronized", "AllWorkSynced"),
            ("Applied", "AllWorkHaveBeenApplied"),
        ];
        let mut say = |kind: &str, status: &str, reason: &str, message: &str| {
            conditions.push(json!({"type": kind, "status": status, "reason": reason,
                "message": message, "observedGeneration": meta["generation"],
                "lastTransitionTime": self.now()}));
        };
        for (step, reason) in good {
            if step == kind {
                break;
            }
            say(step, "True", reason, "");
        }
        let (status, reason) = told.split_once(' ').unwrap();
        say(kind, status, reason, message);
        let name = text(&meta["name"]);
        self.patch_binding_status(&name, json!({"conditions": conditions})).await;
    }

    async fn patch_binding_status(&self, name: &str, status: Value) {
        let Side { bindings, space, .. } = self.side;
        let (kind, options) = (PatchKind::Merge, WriteOptions::default());
        let patch = json!({"status": status});
        let done = self.user.patch(bindings, space, name, "status", kind, patch, &options).await;
        done.unwrap();
    }

    /// All is well on the cluster.
    pub async fn works(&self, cluster: &str) {
        self.says(cluster, "Available", "True AllWorkAreAvailable", "").await;
        self.settle().await;
    }

    /// It was applied, and nobody can tell whether it works.
    pub async fn is_applied(&self, cluster: &str) {
        self.says(cluster, "Available", "True NotAllWorkAreAvailabilityTrackable", "").await;
    }

    /// It was applied, and does not work.
    pub async fn is_down(&self, cluster: &str) {
        let message = "Work object web-work is not yet available";
        self.says(cluster, "Available", "False NotAllWorkAreAvailable", message).await;
        self.settle().await;
    }

    /// The member has applied its Work, and all of it works.
    pub async fn member_is_fine(&self, cluster: &str) {
        let space = format!("fleet-member-{cluster}");
        for work in self.list(WORK, &space) {
            let meta = &work["metadata"];
            let said = [("Applied", "AllManifestsApplied"), ("Available", "AllManifestsAvailable")];
            let said = said.map(|(kind, reason)| {
                json!({"type": kind, "status": "True", "reason": reason, "message": "",
                    "observedGeneration": meta["generation"], "lastTransitionTime": self.now()})
            });
            let status = json!({"status": {"conditions": said}});
            let (kind, options) = (PatchKind::Merge, WriteOptions::default());
            let name = text(&meta["name"]);
            let done = self.user.patch(WORK, &space, &name, "status", kind, status, &options).await;
            done.unwrap();
        }
        self.settle().await;
    }

    /// `type status reason: message` of one condition of a cluster's binding.
    pub fn said(&self, cluster: &str, kind: &str) -> String {
        let binding = self.binding(cluster);
        let all = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let Some(found) = all.iter().find(|c| c["type"] == kind) else { return String::new() };
        let [status, reason, message] =
            ["status", "reason", "message"].map(|field| text(&found[field]));
        format!("{status} {reason}: {message}")
    }

    /// The ConfigMap as the cluster is to have it; `None` if it is to have none.
    pub fn manifest(&self, cluster: &str) -> Option<Value> {
        let works = self.list(WORK, &format!("fleet-member-{cluster}"));
        let mut all = works.iter().flat_map(|work| {
            work["spec"]["workload"]["manifests"].as_array().cloned().unwrap_or_default()
        });
        all.find(|manifest| manifest["kind"] == "ConfigMap")
    }

    /// Every cluster works with what it has.
    pub async fn all_work(&self) {
        for cluster in self.list(CLUSTERS, "") {
            self.works(&text(&cluster["metadata"]["name"])).await;
        }
    }

    /// What the work generator does with a binding that is being deleted: nothing is left
    /// behind, so that it may go. Here it guards no binding; the scheduler does.
    pub async fn lets_go(&self, name: &str) {
        let Side { bindings, space, .. } = self.side;
        self.patch(bindings, space, name, json!({"metadata": {"finalizers": null}})).await;
        self.settle().await;
    }

    pub async fn cro(&self, name: &str, spec: Value) {
        self.create(CRO, json!({"metadata": {"name": name}, "spec": spec})).await;
        self.settle().await;
    }

    pub async fn ro(&self, name: &str, spec: Value) {
        let meta = json!({"name": name, "namespace": "app"});
        self.create(RO, json!({"metadata": meta, "spec": spec})).await;
        self.settle().await;
    }

    /// Snapshots of overrides: `name latest`.
    pub fn frozen(&self, resource: &str) -> Vec<String> {
        let line = |snapshot: &Value| {
            let meta = &snapshot["metadata"];
            let latest = &meta["labels"]["kubernetes-fleet.io/is-latest-snapshot"];
            let mark = if latest == "true" { " latest" } else { "" };
            format!("{}{mark}", text(&meta["name"]))
        };
        self.list(resource, "").iter().map(line).collect()
    }

    pub fn rollout_passes(&self) -> u64 {
        let wide = self.passes("cluster-resource-placement-rollout-controller");
        wide + self.passes("resource-placement-rollout-controller")
    }
}

fn binding_line(binding: &Value) -> String {
    let (meta, spec) = (&binding["metadata"], &binding["spec"]);
    let snapshot = text(&spec["resourceSnapshotName"]);
    let index = snapshot.strip_prefix("web-").and_then(|rest| rest.strip_suffix("-snapshot"));
    let mut line = format!(
        "{} {} {}",
        text(&spec["targetCluster"]),
        text(&spec["state"]),
        index.unwrap_or("-")
    );
    let wide = spec["clusterResourceOverrideSnapshots"].as_array().into_iter().flatten();
    let narrow = spec["resourceOverrideSnapshots"].as_array().into_iter().flatten();
    let names = wide.map(text).chain(narrow.map(|key| text(&key["name"]))).collect::<Vec<_>>();
    if !names.is_empty() {
        line.push_str(&format!(" with {}", names.join(" ")));
    }
    let conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let started = conditions.iter().find(|c| c["type"] == "RolloutStarted");
    if let Some(started) = started {
        let fresh = started["observedGeneration"] == meta["generation"];
        let word = match (started["status"] == "True", fresh) {
            (true, true) => " started",
            (false, true) => " held back",
            (_, false) => " (stale)",
        };
        line.push_str(word);
    }
    if !meta["deletionTimestamp"].is_null() {
        line.push_str(" deleting");
    }
    line
}

/// A rolling update with these limits.
pub fn rolling(unavailable: Value, surge: Value) -> Value {
    json!({"strategy": {"type": "RollingUpdate", "rollingUpdate":
        {"maxUnavailable": unavailable, "maxSurge": surge}}})
}

/// Adds a label everywhere, or on clusters with that `env`.
pub fn labelling(env: Option<&str>, value: &str) -> Value {
    let terms =
        env.map_or(json!([]), |env| json!([{"labelSelector": {"matchLabels": {"env": env}}}]));
    json!({"overrideRules": [{
        "clusterSelector": {"clusterSelectorTerms": terms},
        "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels", "value": {"k": value}}],
    }]})
}

/// A cluster-wide override of namespace `app` for placement `web`.
pub fn of_namespace(policy: Value) -> Value {
    json!({
        "placement": {"name": "web"},
        "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}],
        "policy": policy,
    })
}

/// An override of the ConfigMap for placement `web` of that scope.
pub fn of_settings(scope: &str, policy: Value) -> Value {
    json!({
        "placement": {"name": "web", "scope": scope},
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"}],
        "policy": policy,
    })
}
