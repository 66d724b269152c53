//! What stories of update runs do and ask, in either scope.

use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_hub::Options;
use flagship_rules::placement::selection::TypeRules;
use flagship_rules::update_run::laws;
use serde_json::{Value, json};

pub use flagship_sim::testing::{CLUSTER, NAMESPACED, SCOPES, Scope};
use flagship_sim::testing::{TestHub, text, without_profiles};

/// A hub with three members: `m2` is the canary, `m1` and `m3` are production.
pub struct Story {
    test_hub: TestHub,
    pub scope: Scope,
}

flagship_sim::acts_as_test_hub!(Story);

impl Story {
    /// The placement `web` is there, nothing is rolled out, the hub runs.
    pub async fn begin(scope: Scope) -> Self {
        Self::begin_with(scope, without_profiles()).await
    }

    pub async fn begin_with(scope: Scope, options: Options) -> Self {
        let mut story = Self::prepared(scope, options).await;
        story.place("web", json!({"placementType": "PickAll"})).await;
        story.start_as("hub").await;
        story
    }

    /// The same, with another policy of the placement.
    pub async fn picking(scope: Scope, policy: Value) -> Self {
        let mut story = Self::prepared(scope, without_profiles()).await;
        story.place("web", policy).await;
        story.start_as("hub").await;
        story
    }

    /// The same by another chance.
    pub async fn seeded(scope: Scope, seed: u64) -> Self {
        let mut story = Self::on(TestHub::new(seed).await, scope, without_profiles()).await;
        story.place("web", json!({"placementType": "PickAll"})).await;
        story.start_as("hub").await;
        story
    }

    /// Before there is a placement, and before the hub runs.
    pub async fn prepared(scope: Scope, options: Options) -> Self {
        Self::on(TestHub::new(1).await, scope, options).await
    }

    async fn on(mut test_hub: TestHub, scope: Scope, options: Options) -> Self {
        for (name, env) in [("m1", "prod"), ("m2", "canary"), ("m3", "prod")] {
            test_hub.cluster(name, json!({"env": env})).await;
        }
        let meta = json!({"name": "c", "namespace": "app"});
        test_hub.create("configmaps", json!({"metadata": meta, "data": {"v": "1"}})).await;
        // The story plays the members, and what the hub makes of their words.
        test_hub.options = options;
        test_hub.options.controllers.work = false;
        // Few kinds to watch: stories are many.
        let types = TypeRules::read("", "v1/Namespace,ConfigMap").expect("two kinds");
        test_hub.options.selection.types = types;
        Self { test_hub, scope }
    }

    /// A placement that is left to update runs.
    pub async fn place(&self, name: &str, policy: Value) {
        let selector = match self.scope.space {
            "" => json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]),
            _ => json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}]),
        };
        let spec = json!({"resourceSelectors": selector, "policy": policy,
            "strategy": {"type": "External"}});
        let object = json!({"metadata": self.scope.meta(name), "spec": spec});
        self.create(self.scope.placements, object).await;
    }

    /// The strategy `plan`.
    pub async fn strategy(&self, stages: Value) {
        let object = json!({"metadata": self.scope.meta("plan"), "spec": {"stages": stages}});
        self.create(&self.scope.strategies(), object).await;
    }

    /// Canary, then production, nothing between them.
    pub async fn two_stages(&self) {
        self.strategy(json!([stage("canary", json!({})), stage("prod", json!({}))])).await;
    }

    /// A run of `web` by `plan`; fields of the spec may be added.
    pub async fn run(&self, name: &str, more: Value) {
        let mut spec = json!({"placementName": "web", "stagedRolloutStrategyName": "plan"});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let object = json!({"metadata": self.scope.meta(name), "spec": spec});
        self.create(&self.scope.runs(), object).await;
        self.soon().await;
    }

    pub async fn set_state(&self, run: &str, state: &str) {
        let patch = json!({"spec": {"state": state}});
        self.patch(&self.scope.runs(), self.scope.space, run, patch).await;
        self.soon().await;
    }

    /// A moment that is shorter than every timer of a run.
    pub async fn soon(&self) {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }

    pub fn object(&self, run: &str) -> Value {
        self.get(&self.scope.runs(), self.scope.space, run)
    }

    pub fn status(&self, run: &str) -> UpdateRunStatus {
        serde_json::from_value(self.object(run)["status"].clone()).unwrap_or_default()
    }

    /// Where a run stands, without times and messages.
    pub fn told(&self, run: &str) -> String {
        laws::ending(&self.status(run))
    }

    /// `status reason: message` of a condition of the run.
    pub fn said(&self, run: &str, kind: &str) -> String {
        said(&self.object(run)["status"]["conditions"], kind)
    }

    /// A stage of a run; the one that deletes is called `delete`.
    pub fn stage(&self, run: &str, name: &str) -> Value {
        let status = self.object(run)["status"].clone();
        if name == "delete" {
            return status["deletionStageStatus"].clone();
        }
        let stages = status["stagesStatus"].as_array().cloned().unwrap_or_default();
        stages.into_iter().find(|stage| stage["stageName"] == name).unwrap_or_default()
    }

    pub fn binding(&self, cluster: &str) -> Value {
        self.binding_of("web", cluster)
    }

    pub fn binding_of(&self, placement: &str, cluster: &str) -> Value {
        let all = self.bindings_of(self.scope.bindings, placement);
        all.into_iter().find(|b| b["spec"]["targetCluster"] == cluster).unwrap_or_default()
    }

    /// What every binding of `web` holds: `cluster state snapshot`.
    pub fn holds(&self) -> Vec<String> {
        let all = self.bindings_of(self.scope.bindings, "web");
        let line = |b: &Value| {
            let spec = &b["spec"];
            let words = ["targetCluster", "state", "resourceSnapshotName"];
            words.map(|field| text(&spec[field])).join(" ").trim().to_owned()
        };
        all.iter().map(line).collect()
    }

    /// A member says how it is doing with what was delivered to it.
    pub async fn reports(&self, cluster: &str, kind: &str, status: &str, reason: &str) {
        self.report_on("web", cluster, kind, status, reason).await;
    }

    pub async fn report_on(
        &self,
        placement: &str,
        cluster: &str,
        kind: &str,
        status: &str,
        reason: &str,
    ) {
        let binding = self.binding_of(placement, cluster);
        let name = text(&binding["metadata"]["name"]);
        let mut conditions =
            binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|c| c["type"] != kind);
        conditions.push(json!({"type": kind, "status": status, "reason": reason, "message": "",
            "observedGeneration": binding["metadata"]["generation"],
            "lastTransitionTime": self.now()}));
        self.set_status(self.scope.bindings, &name, json!({"conditions": conditions})).await;
        self.soon().await;
    }

    /// A member is done with what was delivered to it.
    pub async fn works(&self, cluster: &str) {
        self.reports(cluster, "Available", "True", "AllWorkAreAvailable").await;
    }

    /// Members are done with everything that was delivered, until nothing more is.
    pub async fn all_work(&self) {
        loop {
            let bindings = self.list(self.scope.bindings, "");
            let waiting = bindings.iter().find(|binding| is_waiting(binding));
            let Some(binding) = waiting else { return };
            let parent = &binding["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"];
            let cluster = text(&binding["spec"]["targetCluster"]);
            self.report_on(&text(parent), &cluster, "Available", "True", "AllWorkAreAvailable")
                .await;
        }
    }

    /// A person approves a request, for this generation of it.
    pub async fn approve_at(&self, request: &str, generation: u64) {
        let approved = json!({"type": "Approved", "status": "True", "reason": "lgtm",
            "message": "", "observedGeneration": generation, "lastTransitionTime": self.now()});
        let mut conditions = self.request(request)["status"]["conditions"].clone();
        match conditions.as_array_mut() {
            Some(conditions) => conditions.push(approved),
            None => conditions = json!([approved]),
        }
        self.set_status(&self.scope.approvals(), request, json!({"conditions": conditions})).await;
        self.soon().await;
    }

    pub async fn approve(&self, request: &str) {
        self.approve_at(request, 1).await;
    }

    pub fn request(&self, name: &str) -> Value {
        self.find(&self.scope.approvals(), self.scope.space, name).unwrap_or_default()
    }

    pub fn requests(&self) -> Vec<String> {
        let all = self.list(&self.scope.approvals(), "");
        all.iter().map(|request| text(&request["metadata"]["name"])).collect()
    }

    pub fn resource_snapshots(&self) -> Vec<String> {
        let all = self.list(&self.scope.snapshots(), "");
        all.iter().map(|snapshot| text(&snapshot["metadata"]["name"])).collect()
    }

    /// Somebody edits what is selected.
    pub async fn new_version(&self, value: &str) {
        self.patch("configmaps", "app", "c", json!({"data": {"v": value}})).await;
    }

    /// A run without stops brings version 0 to everybody.
    pub async fn first_version(&self) {
        self.run("first", json!({"state": "Run"})).await;
        self.all_work().await;
        assert!(self.said("first", "Succeeded").starts_with("True"), "{}", self.told("first"));
    }

    /// Events about runs, or about approval requests.
    pub fn events_of(&self, kind: &str) -> Vec<String> {
        let kind = if self.scope.space.is_empty() { format!("Cluster{kind}") } else { kind.into() };
        self.events(&kind)
    }

    async fn set_status(&self, resource: &str, name: &str, status: Value) {
        let patch = json!({"status": status});
        self.user_patches(resource, self.scope.space, name, "status", patch).await;
    }
}

/// Whether something was delivered that is neither done nor given up.
fn is_waiting(binding: &Value) -> bool {
    let conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is = |kind: &str| {
        conditions.iter().any(|c| {
            c["type"] == kind
                && c["status"] == "True"
                && c["observedGeneration"] == binding["metadata"]["generation"]
        })
    };
    binding["spec"]["state"] == "Bound" && is("RolloutStarted") && !is("Available")
}

/// A policy that names its clusters.
pub fn fixed(clusters: &[&str]) -> Value {
    json!({"placementType": "PickFixed", "clusterNames": clusters})
}

/// A stage for the clusters of one environment.
pub fn stage(env: &str, more: Value) -> Value {
    let mut stage = json!({"name": env, "labelSelector": {"matchLabels": {"env": env}}});
    for (key, value) in more.as_object().into_iter().flatten() {
        stage[key] = value.clone();
    }
    stage
}

/// `status reason: message` of a condition.
pub fn said(conditions: &Value, kind: &str) -> String {
    let mut all = conditions.as_array().into_iter().flatten();
    let found = all.find(|condition| condition["type"] == kind);
    found.map_or_else(String::new, |condition| {
        let [status, reason, message] =
            ["status", "reason", "message"].map(|f| text(&condition[f]));
        format!("{status} {reason}: {message}")
    })
}
