//! Runs on real members: hub, agents and workloads in one process, three members, `m2` the
//! canary. Told in both scopes, and at every step the placement's whole status is read.
//!
//! `images` has Deployments; everywhere else a ConfigMap is enough.

mod choices;
mod images;
mod leaving;
mod overrides;
mod versions;

use flagship_rules::placement::selection::TypeRules;
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use flagship_sim::stories::rows;
use serde_json::{Value, json};

use crate::update_run::story::{NAMESPACED, Scope, said, stage};
use flagship_sim::testing::text;

/// The ConfigMap `c` in namespace `app`, and the placement `web` that brings it to members.
pub struct Team {
    pub fleet: Fleet,
    pub scope: Scope,
}

impl Team {
    /// A placement with these parts of a spec, that nobody has rolled out yet. Its strategy
    /// is that of the reference suite: an approval and five seconds after the canary, an
    /// approval before the rest.
    pub async fn placing(scope: Scope, spec: Value) -> Self {
        let mut config = FleetConfig::named(&["m1", "m2", "m3"]);
        for (member, env) in [("m1", "prod"), ("m2", "canary"), ("m3", "prod")] {
            config = config.labelled(member, "env", env);
        }
        // Few kinds to watch: stories are many.
        config.hub.selection.types =
            TypeRules::read("", "v1/Namespace,ConfigMap").expect("two kinds");
        let team = Self { fleet: Fleet::joined(config).await, scope };
        let hub = &team.fleet.clusters.hub;
        hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
        team.edit("1").await;
        if scope.space == NAMESPACED.space {
            team.lay_ground().await;
        }
        let after = json!({"afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "5s"}]});
        let before = json!({"beforeStageTasks": [{"type": "Approval"}]});
        team.strategy("plan", json!([stage("canary", after), stage("prod", before)])).await;
        team.place(spec).await;
        team
    }

    /// The same, for every cluster and left to runs.
    pub async fn begin(scope: Scope) -> Self {
        Self::placing(scope, external(json!({"placementType": "PickAll"}))).await
    }

    /// Namespaces are not brought by what is in them.
    async fn lay_ground(&self) {
        let hub = &self.fleet.clusters.hub;
        hub.apply(
            "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: ground}
spec:
  resourceSelectors: [{group: '', kind: Namespace, version: v1, name: app, selectionScope: NamespaceOnly}]
",
        )
        .await;
        let kind = "ClusterResourcePlacementAvailable";
        hub.becomes("clusterresourceplacements", "", "ground", kind, "True").await;
    }

    async fn apply(&self, resource: &str, name: &str, spec: Value) {
        let info = flagship_api::kinds::find(resource).expect("a kind of ours");
        let object = json!({"apiVersion": format!("{}/v1beta1", info.group), "kind": info.kind,
            "metadata": self.scope.meta(name), "spec": spec});
        self.fleet.clusters.hub.apply_object(&object).await;
    }

    pub async fn strategy(&self, name: &str, stages: Value) {
        self.apply(&self.scope.strategies(), name, json!({"stages": stages})).await;
    }

    /// Writes the placement, and waits until it is scheduled.
    pub async fn place(&self, spec: Value) {
        let selector = match self.scope.space {
            "" => json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]),
            _ => json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}]),
        };
        let mut whole = json!({"resourceSelectors": selector});
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        self.apply(self.scope.placements, "web", whole).await;
        let (space, kind) = (self.scope.space, format!("{}Scheduled", self.prefix()));
        self.fleet.clusters.hub.becomes(self.scope.placements, space, "web", &kind, "True").await;
        self.fleet.pass(5).await;
    }

    /// Somebody edits what is placed.
    pub async fn edit(&self, version: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "app"}, "data": {"v": version}});
        self.fleet.clusters.hub.apply_object(&object).await;
        self.fleet.pass(1).await;
    }

    /// A run by `plan`; fields of the spec may be added.
    pub async fn run(&self, name: &str, more: Value) {
        let mut spec = json!({"placementName": "web", "stagedRolloutStrategyName": "plan",
            "state": "Run"});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.apply(&self.scope.runs(), name, spec).await;
        self.fleet.pass(5).await;
    }

    pub async fn set_state(&self, run: &str, state: &str) {
        let (space, patch) = (self.scope.space, json!({"spec": {"state": state}}));
        self.fleet.clusters.hub.patch(&self.scope.runs(), space, run, patch).await;
        self.fleet.pass(5).await;
    }

    /// A run from its creation to its end, with everything approved on the way.
    pub async fn rolls_out(&self, name: &str, more: Value) {
        self.run(name, more).await;
        self.ends(name).await;
        let told = said(&self.status(name).await["conditions"], "Succeeded");
        assert!(told.starts_with("True"), "{name}: {told}");
    }

    /// Approves what is asked until the run has ended.
    pub async fn ends(&self, run: &str) {
        for _ in 0..60 {
            for request in self.open_requests().await {
                self.approve(&request).await;
            }
            if !said(&self.status(run).await["conditions"], "Succeeded").is_empty() {
                self.fleet.pass(5).await;
                return;
            }
            self.fleet.pass(5).await;
        }
        panic!("{run} does not end: {:#}", self.status(run).await);
    }

    /// Requests that nobody has answered.
    pub async fn open_requests(&self) -> Vec<String> {
        let all = self.fleet.clusters.hub.list(&self.scope.approvals(), self.scope.space).await;
        let open = all.iter().filter(|r| said(&r["status"]["conditions"], "Approved").is_empty());
        open.map(|request| text(&request["metadata"]["name"])).collect()
    }

    // checklist 13.7 approval through the CLI plugin
    /// Approves as `kubectl fleet approve` does: reads the request, sets the condition with
    /// the generation it read, and writes the status back whole.
    pub async fn approve(&self, request: &str) {
        let resource = self.scope.approvals();
        let mut object = self.fleet.clusters.hub.get(&resource, self.scope.space, request).await;
        let kind = if self.scope.space.is_empty() { "Cluster" } else { "" };
        let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "Approved");
        conditions.push(json!({
            "type": "Approved", "status": "True",
            "observedGeneration": object["metadata"]["generation"],
            "reason": format!("{kind}ApprovalRequestApproved"),
            "message": format!("{kind}ApprovalRequest has been approved"),
            "lastTransitionTime": self.fleet.env.now().to_string().split('.').next().map(|now| format!("{}Z", now.trim_end_matches('Z'))),
        }));
        object["status"] = json!({"conditions": conditions});
        let plugin = self.fleet.handle(HUB).local("kubectl-fleet");
        plugin.update_status(&resource, object).await.expect("nobody else writes it");
        self.fleet.pass(2).await;
    }

    pub async fn status(&self, run: &str) -> Value {
        let run = self.fleet.clusters.hub.get(&self.scope.runs(), self.scope.space, run).await;
        run["status"].clone()
    }

    /// What the members hold: the version on each, `-` where there is none.
    pub async fn held(&self) -> String {
        let mut versions = Vec::new();
        for member in ["m1", "m2", "m3"] {
            let found = self.fleet.clusters.member(member).find("configmaps", "app", "c").await;
            versions.push(found.map_or("-".to_owned(), |map| text(&map["data"]["v"])));
        }
        versions.join(" ")
    }

    pub async fn snapshots(&self) -> Vec<String> {
        let all = self.fleet.clusters.hub.list(&self.scope.snapshots(), self.scope.space).await;
        let names = all.iter().map(|snapshot| text(&snapshot["metadata"]["name"]));
        names.filter(|name| name.starts_with("web-")).collect()
    }

    /// Clusters in the deletion stage of a run.
    pub async fn withdrawn(&self, run: &str) -> Vec<String> {
        let status = self.status(run).await;
        let going = rows(&status["deletionStageStatus"], "clusters");
        going.map(|cluster| text(&cluster["clusterName"])).collect()
    }

    fn prefix(&self) -> &'static str {
        if self.scope.space.is_empty() { "ClusterResourcePlacement" } else { "ResourcePlacement" }
    }

    // checklist 13.7 placement status at every step compared whole
    /// The whole status of the placement, without times; both scopes read alike. Of the
    /// messages only those that explain an Unknown are told.
    pub async fn told(&self) -> String {
        let hub = &self.fleet.clusters.hub;
        let placement = hub.get(self.scope.placements, self.scope.space, "web").await;
        let status = &placement["status"];
        let generation = &placement["metadata"]["generation"];
        let selected = self.selected(rows(status, "selectedResources"));
        let mut lines = vec![format!("index {}, selected {selected}", index(status))];
        let words = rows(status, "conditions").map(|condition| {
            let told = word(condition, generation);
            let told = told.trim_start_matches(self.prefix());
            match &condition["status"] {
                unknown if unknown == "Unknown" => {
                    format!("{told}: {}", text(&condition["message"]))
                }
                _ => told.to_owned(),
            }
        });
        lines.push(in_short(words.collect()));
        for cluster in rows(status, "placementStatuses") {
            let words = rows(cluster, "conditions").map(|c| word(c, generation)).collect();
            let name = text(&cluster["clusterName"]);
            lines.push(format!("{name} {}: {}", index(cluster), in_short(words)));
            for wide in rows(cluster, "applicableClusterResourceOverrides") {
                lines.push(format!("  overridden by {}", text(wide)));
            }
            for narrow in rows(cluster, "applicableResourceOverrides") {
                let (space, name) = (text(&narrow["namespace"]), text(&narrow["name"]));
                lines.push(format!("  overridden by {space}/{name}"));
            }
            for diff in rows(cluster, "diffedPlacements") {
                let differ = rows(diff, "observedDiffs").map(|one| {
                    let (hub, member) = (text(&one["valueInHub"]), text(&one["valueInMember"]));
                    format!(" {} hub={hub} member={member}", text(&one["path"]))
                });
                let differ: String = differ.collect();
                lines.push(format!(
                    "  differs {} {}:{differ}",
                    text(&diff["kind"]),
                    text(&diff["name"])
                ));
            }
            for failed in rows(cluster, "failedPlacements") {
                lines.push(format!("  failed {} {}", text(&failed["kind"]), text(&failed["name"])));
            }
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// `all` for exactly what the placement selects.
    fn selected<'a>(&self, found: impl Iterator<Item = &'a Value>) -> String {
        let mut names: Vec<String> = found
            .map(|one| {
                format!("{} {}/{}", text(&one["kind"]), text(&one["namespace"]), text(&one["name"]))
            })
            .collect();
        names.sort();
        let all: &[&str] = match self.scope.space {
            "" => &["ConfigMap app/c", "Namespace /app"],
            _ => &["ConfigMap app/c"],
        };
        match names.as_slice() {
            [] => "nothing".to_owned(),
            names if names == all => "all".to_owned(),
            names => names.join(", "),
        }
    }
}

/// What conditions say together, where there is a word for it; it stands for all of them.
const WORDS: [(&str, &str); 4] = [
    (
        "Scheduled=True/SchedulingPolicyFulfilled RolloutStarted=True/RolloutStarted Overridden=True/NoOverrideSpecified WorkSynchronized=True/WorkSynchronized Applied=True/ApplySucceeded Available=True/ResourceAvailable",
        "completed",
    ),
    (
        "Scheduled=True/SchedulingPolicyFulfilled RolloutStarted=Unknown/RolloutControlledByExternalController: Rollout is controlled by an external controller and ",
        "undecided: ",
    ),
    (
        "Scheduled=True/Scheduled RolloutStarted=True/RolloutStarted Overridden=True/NoOverrideSpecified WorkSynchronized=True/AllWorkSynced Applied=True/AllWorkHaveBeenApplied Available=True/AllWorkAreAvailable",
        "available",
    ),
    ("Scheduled=True/Scheduled RolloutStarted=Unknown/RolloutStartedUnknown", "pending"),
];

fn in_short(words: Vec<String>) -> String {
    let whole = words.join(" ");
    // The same with overrides differs in one reason.
    let plain = whole.replace("OverriddenSucceeded", "NoOverrideSpecified");
    let overridden = if plain == whole { "" } else { ", overridden" };
    let short = WORDS.iter().find_map(|(long, short)| Some((plain.strip_prefix(long)?, *short)));
    match short {
        Some((rest, short)) => format!("{short}{rest}{overridden}"),
        None => whole,
    }
}

/// A placement that is left to runs.
pub fn external(policy: Value) -> Value {
    json!({"policy": policy, "strategy": {"type": "External"}})
}

fn index(of: &Value) -> String {
    match text(&of["observedResourceIndex"]) {
        none if none.is_empty() => "-".to_owned(),
        some => some,
    }
}

/// `Type=Status/Reason`, with a mark if it is not about the present generation.
fn word(condition: &Value, generation: &Value) -> String {
    let [kind, status, reason] = ["type", "status", "reason"].map(|field| text(&condition[field]));
    let old = if condition["observedGeneration"] == *generation { "" } else { " (old)" };
    format!("{kind}={status}/{reason}{old}")
}
