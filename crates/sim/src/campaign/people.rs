//! What people do to the fleet of a story. What the server refuses them is part of it.

use std::time::Duration;

use flagship_api::kinds::find;
use flagship_apiserver::rest::{ClusterHandle, DeleteOptions, Local, PatchKind, WriteOptions};
use flagship_base::machinery::status::ApiError;
use flagship_runtime::env::Env;
use flagship_store::{Change, Encoded, Expect, Head, ObjectKey, Scope as Within, Write};
use serde_json::{Value, json};

use super::books::EVICTIONS;
use super::judge::PLACEMENT;
use super::story::{MemberStory, StageStory, What};
use crate::testing::{CLUSTERS, CRP, Scope};

/// What a Secret of the story holds, which must appear nowhere else.
pub const HIDDEN: &str = "do-not-tell-anybody";

/// The same as a Secret stores it.
pub const HIDDEN_STORED: &str = "ZG8tbm90LXRlbGwtYW55Ym9keQ==";

/// Whoever works on the hub.
#[derive(Clone)]
pub struct People {
    hub: ClusterHandle,
    user: Local,
    env: Env,
    scope: Scope,
    /// Seconds between the heartbeats of members.
    heartbeat: u64,
}

impl People {
    /// On a hub, in a scope.
    pub fn new(hub: ClusterHandle, env: Env, scope: Scope, heartbeat: u64) -> Self {
        let user = hub.local("people");
        Self { hub, user, env, scope, heartbeat }
    }

    /// What is placed, how it is rolled out, and where. `rolling` for a second placement that
    /// is rolled out without runs.
    pub async fn prepare(&self, stages: &[StageStory], rolling: bool) {
        let made = [
            ("namespaces", json!({"metadata": {"name": "app"}})),
            (
                "configmaps",
                json!({"metadata": {"name": "c", "namespace": "app"}, "data": {"v": "0"}}),
            ),
            (
                "secrets",
                json!({"metadata": {"name": "s", "namespace": "app"},
                    "data": {"password": HIDDEN_STORED}}),
            ),
        ];
        for (resource, object) in made {
            self.create(resource, object).await.expect("an empty hub takes it");
        }
        let spec = json!({"stages": stages.iter().map(stage).collect::<Vec<_>>()});
        let plan = json!({"metadata": self.scope.meta("plan"), "spec": spec});
        self.create(&self.scope.strategies(), plan).await.expect("a strategy that is allowed");
        self.place().await.expect("a placement that is allowed");
        if rolling {
            let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app",
                "selectionScope": "NamespaceOnly"}]);
            let rolling = json!({"maxUnavailable": 1, "unavailablePeriodSeconds": 5});
            let spec = json!({"resourceSelectors": selector,
                "policy": {"placementType": "PickAll"},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
            let side = json!({"metadata": {"name": "side"}, "spec": spec});
            self.create(CRP, side).await.expect("a placement that is allowed");
        }
    }

    async fn place(&self) -> Result<Value, ApiError> {
        let kind = |kind: &str, name: &str| json!({"group": "", "version": "v1", "kind": kind, "name": name});
        let selectors = match self.scope.space {
            "" => json!([kind("Namespace", "app")]),
            _ => json!([kind("ConfigMap", "c"), kind("Secret", "s")]),
        };
        let spec = json!({"resourceSelectors": selectors,
            "policy": {"placementType": "PickAll"}, "strategy": {"type": "External"}});
        let object = json!({"metadata": self.scope.meta(PLACEMENT), "spec": spec});
        self.create(self.scope.placements, object).await
    }

    /// Registers a member.
    pub async fn register(&self, member: &MemberStory) -> Result<Value, ApiError> {
        let identity = json!({"kind": "User", "name": format!("{}-agent", member.name),
            "apiGroup": "rbac.authorization.k8s.io"});
        let spec = json!({"identity": identity, "heartbeatPeriodSeconds": self.heartbeat});
        let meta = json!({"name": member.name, "labels": {"env": member.env}});
        self.create(CLUSTERS, json!({"metadata": meta, "spec": spec})).await
    }

    /// Does something. What the server says to it is for the story in words.
    pub async fn act(&self, what: &What) -> Result<(), ApiError> {
        let (runs, space) = (self.scope.runs(), self.scope.space);
        match what {
            What::Run { name, state, index } => {
                let mut spec = json!({"placementName": PLACEMENT,
                    "stagedRolloutStrategyName": "plan", "state": state});
                if !index.is_empty() {
                    spec["resourceSnapshotIndex"] = json!(index);
                }
                let object = json!({"metadata": self.scope.meta(name), "spec": spec});
                self.create(&runs, object).await?;
            }
            What::SetState { run, state } => {
                self.patch(&runs, space, run, "", json!({"spec": {"state": state}})).await?;
            }
            What::DeleteRun(run) => self.delete(&runs, space, run).await?,
            What::Approve(nth) => self.answer(*nth, 0).await?,
            What::ApproveWrongly(nth) => self.answer(*nth, 7).await?,
            What::TakeBack(nth) => {
                if let Some(request) = self.nth(*nth) {
                    let name = text(&request["metadata"]["name"]);
                    let said = request["status"]["conditions"].as_array().cloned();
                    let mut said = said.unwrap_or_default();
                    said.retain(|condition| condition["type"] != "Approved");
                    let patch = json!({"status": {"conditions": said}});
                    self.patch(&self.scope.approvals(), space, &name, "status", patch).await?;
                }
            }
            What::DeleteRequest(nth) => {
                if let Some(request) = self.nth(*nth) {
                    let name = text(&request["metadata"]["name"]);
                    self.delete(&self.scope.approvals(), space, &name).await?;
                }
            }
            What::ApproveEarly { run, stage } => {
                let name = format!("{run}-before-{stage}");
                let spec = json!({"parentStageRollout": run, "targetStage": stage});
                let object = json!({"metadata": self.scope.meta(&name), "spec": spec});
                let made = self.create(&self.scope.approvals(), object).await?;
                self.approve(&made, 0).await?;
            }
            What::Edit(value) => {
                let data = json!({"data": {"v": value.to_string()}});
                self.patch("configmaps", "app", "c", "", data).await?;
            }
            What::EditStrategy(at_once) => {
                let resource = self.scope.strategies();
                let Some(mut plan) = self.find(&resource, space, "plan") else { return Ok(()) };
                for stage in plan["spec"]["stages"].as_array_mut().into_iter().flatten() {
                    stage["maxConcurrency"] = json!(at_once);
                }
                self.user.update(&resource, plan).await?;
            }
            What::Relabel { member, env } => {
                let labels = json!({"metadata": {"labels": {"env": env}}});
                self.patch(CLUSTERS, "", member, "", labels).await?;
            }
            What::Join(member) => drop(self.register(member).await?),
            What::Leave(member) => self.delete(CLUSTERS, "", member).await?,
            What::Evict(member) => {
                let name = format!("out-{member}-{}", self.env.now().as_second());
                let spec = json!({"placementName": PLACEMENT, "clusterName": member});
                self.create(EVICTIONS, json!({"metadata": {"name": name}, "spec": spec})).await?;
            }
            What::Replace => {
                self.delete(self.scope.placements, space, PLACEMENT).await?;
                let people = self.clone();
                tokio::spawn(async move {
                    // Its bindings and Works go first.
                    for _ in 0..20 {
                        tokio::time::sleep(Duration::from_secs(60)).await;
                        if people.place().await.is_ok() {
                            return;
                        }
                    }
                });
            }
            What::Malformed(name) => self.smuggle(name),
            // What happens to machines is not done by people.
            What::Regress { .. } | What::Crash { .. } | What::SetClock { .. } => {}
        }
        Ok(())
    }

    /// The true time.
    pub fn now(&self) -> jiff::Timestamp {
        self.env.now()
    }

    /// Approves whatever is asked.
    pub async fn approve_all(&self) {
        for request in self.requests() {
            // Somebody else may have been faster.
            drop(self.approve(&request, 0).await);
        }
    }

    async fn answer(&self, nth: usize, off: i64) -> Result<(), ApiError> {
        match self.nth(nth) {
            Some(request) => self.approve(&request, off).await,
            None => Ok(()),
        }
    }

    /// Approves a request, for a generation that is off by so many.
    async fn approve(&self, request: &Value, off: i64) -> Result<(), ApiError> {
        let meta = &request["metadata"];
        let generation = meta["generation"].as_i64().unwrap_or(1) + off;
        let mut said = request["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let given = |condition: &Value| {
            condition["type"] == "Approved" && condition["observedGeneration"] == generation
        };
        if said.iter().any(given) {
            return Ok(());
        }
        said.retain(|condition| condition["type"] != "Approved");
        let now = self.env.now();
        let now = format!("{}Z", now.to_string().split(['.', 'Z']).next().unwrap_or_default());
        said.push(json!({"type": "Approved", "status": "True", "reason": "lgtm", "message": "",
            "observedGeneration": generation, "lastTransitionTime": now}));
        let patch = json!({"status": {"conditions": said}});
        let (space, name) = (self.scope.space, text(&meta["name"]));
        self.patch(&self.scope.approvals(), space, &name, "status", patch).await
    }

    fn requests(&self) -> Vec<Value> {
        let all = self.hub.store().list(&self.scope.approvals(), Within::All).items;
        all.iter().filter_map(|stored| serde_json::from_slice(&stored.json).ok()).collect()
    }

    fn nth(&self, nth: usize) -> Option<Value> {
        let all = self.requests();
        let at = nth.checked_rem(all.len())?;
        all.into_iter().nth(at)
    }

    /// Stores a run past every check that nobody can read.
    fn smuggle(&self, name: &str) {
        let resource = self.scope.runs();
        let info = find(&resource).expect("a kind of ours");
        let mut meta = self.scope.meta(name);
        meta["uid"] = json!(format!("smuggled-{name}"));
        let object = json!({"apiVersion": format!("{}/v1beta1", info.group), "kind": info.kind,
            "metadata": meta, "spec": {"placementName": ["not", "a", "name"], "state": 7}});
        let store = self.hub.store();
        let resources = store.resources();
        let known = resources.iter().find(|known| known.as_ref() == resource);
        let resource = known.cloned().unwrap_or_else(|| resource.as_str().into());
        let change = Change::Put {
            head: Head::of(&object, Default::default()),
            json: Encoded::new(&object),
        };
        let key = ObjectKey::new(self.scope.space, name);
        // There may be one of that name already.
        drop(store.commit(Write { resource: &resource, key, expect: Expect::Absent, change }));
    }

    fn find(&self, resource: &str, space: &str, name: &str) -> Option<Value> {
        let stored = self.hub.store().get(resource, &ObjectKey::new(space, name))?;
        serde_json::from_slice(&stored.json).ok()
    }

    async fn create(&self, resource: &str, mut object: Value) -> Result<Value, ApiError> {
        if let Some(info) = find(resource) {
            object["apiVersion"] = json!(format!("{}/v1beta1", info.group));
            object["kind"] = json!(info.kind);
        }
        let space = text(&object["metadata"]["namespace"]);
        self.user.create(resource, &space, object).await
    }

    async fn patch(
        &self,
        resource: &str,
        space: &str,
        name: &str,
        sub: &str,
        patch: Value,
    ) -> Result<(), ApiError> {
        let (options, kind) = (WriteOptions::default(), PatchKind::Merge);
        self.user.patch(resource, space, name, sub, kind, patch, &options).await.map(drop)
    }

    async fn delete(&self, resource: &str, space: &str, name: &str) -> Result<(), ApiError> {
        self.user.delete(resource, space, name, DeleteOptions::default()).await.map(drop)
    }
}

fn stage(story: &StageStory) -> Value {
    let mut stage = json!({"name": story.name,
        "labelSelector": {"matchLabels": {"env": story.name}}});
    stage["maxConcurrency"] = match story.at_once.parse::<u64>() {
        Ok(number) => json!(number),
        Err(_) => json!(story.at_once),
    };
    if story.approve_before {
        stage["beforeStageTasks"] = json!([{"type": "Approval"}]);
    }
    let mut after = Vec::new();
    if story.approve_after {
        after.push(json!({"type": "Approval"}));
    }
    if story.wait > 0 {
        after.push(json!({"type": "TimedWait", "waitTime": format!("{}s", story.wait)}));
    }
    if !after.is_empty() {
        stage["afterStageTasks"] = json!(after);
    }
    stage
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
