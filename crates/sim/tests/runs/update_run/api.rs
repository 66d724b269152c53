//! What the API takes and refuses of runs, strategies and approval requests, line by line of
//! the checklist. That every rule of every version holds is checked in `tests/crd`; these are
//! the values people try. No controller runs.

use flagship_apiserver::rest::{PatchKind, WriteOptions};
use serde_json::{Value, json};

use crate::update_run::story::{SCOPES, Scope, stage};
use flagship_sim::testing::TestHub;

/// One server for a scope's questions; names do not matter.
struct Desk {
    hub: TestHub,
    scope: Scope,
    asked: u32,
}

impl Desk {
    async fn open(scope: Scope) -> Self {
        Self { hub: TestHub::new(1).await, scope, asked: 0 }
    }

    fn next(&mut self) -> String {
        self.asked += 1;
        format!("n{}", self.asked)
    }

    /// Creates an object; what was stored, or why not.
    async fn create(&self, resource: &str, name: &str, spec: Value) -> Result<Value, String> {
        let info = flagship_api::kinds::find(resource).expect("a kind of ours");
        let object = json!({"apiVersion": format!("{}/v1beta1", info.group), "kind": info.kind,
            "metadata": self.scope.meta(name), "spec": spec});
        let made = self.hub.user.create(resource, self.scope.space, object).await;
        made.map_err(|error| error.message)
    }

    async fn patch(&self, resource: &str, name: &str, spec: Value) -> Result<Value, String> {
        let (space, patch) = (self.scope.space, json!({"spec": spec}));
        let options = WriteOptions::default();
        let user = &self.hub.user;
        let done = user.patch(resource, space, name, "", PatchKind::Merge, patch, &options).await;
        done.map_err(|error| error.message)
    }

    async fn run(&mut self, more: Value) -> Result<Value, String> {
        let name = self.next();
        self.create(&self.scope.runs(), &name, run(more)).await
    }

    async fn stage(&mut self, more: Value) -> Result<Value, String> {
        let name = self.next();
        let stages = json!({"stages": [stage("canary", more)]});
        self.create(&self.scope.strategies(), &name, stages).await
    }
}

fn run(more: Value) -> Value {
    let mut spec = json!({"placementName": "web", "stagedRolloutStrategyName": "plan"});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

#[track_caller]
fn refused(answer: Result<Value, String>, why: &str) {
    match answer {
        Ok(taken) => panic!("taken: {taken}, not refused with {why:?}"),
        Err(message) => assert!(message.contains(why), "{message}\nis not\n{why}"),
    }
}

#[track_caller]
fn taken(answer: Result<Value, String>) -> Value {
    answer.unwrap_or_else(|message| panic!("{message}"))
}

// checklist 13.1 run name of 63 accepted, 64 rejected; placementName, resourceSnapshotIndex,
// stagedRolloutStrategyName immutable; state mutable
#[tokio::test(start_paused = true)]
async fn names_of_runs_and_what_may_change() {
    for scope in SCOPES {
        let mut desk = Desk::open(scope).await;
        let runs = scope.runs();
        taken(desk.create(&runs, &"x".repeat(63), run(json!({}))).await);
        let long = desk.create(&runs, &"x".repeat(64), run(json!({}))).await;
        refused(long, "metadata.name max length is 63");
        taken(desk.run(json!({"placementName": "p".repeat(255)})).await);
        let long = desk.run(json!({"placementName": "p".repeat(256)})).await;
        refused(long, "spec.placementName: Too long: may not be more than 255 bytes");
        taken(desk.create(&runs, "r", run(json!({"resourceSnapshotIndex": "0"}))).await);
        for field in ["placementName", "resourceSnapshotIndex", "stagedRolloutStrategyName"] {
            let changed = desk.patch(&runs, "r", json!({field: "other"})).await;
            refused(changed, &format!("{field} is immutable"));
        }
        taken(desk.patch(&runs, "r", json!({"state": "Run"})).await);
    }
}

// checklist 13.1 state omitted -> Initialize; invalid state rejected; the six transitions
#[tokio::test(start_paused = true)]
async fn states_and_the_ways_between_them() {
    for scope in SCOPES {
        let mut desk = Desk::open(scope).await;
        assert_eq!(taken(desk.run(json!({})).await)["spec"]["state"], "Initialize");
        let odd = desk.run(json!({"state": "Pause"})).await;
        refused(odd, "supported values: \"Initialize\", \"Run\", \"Stop\"");
        for (from, to, may) in [
            ("Initialize", "Run", true),
            ("Run", "Stop", true),
            ("Stop", "Run", true),
            ("Initialize", "Stop", false),
            ("Run", "Initialize", false),
            ("Stop", "Initialize", false),
        ] {
            let made = taken(desk.run(json!({"state": from})).await);
            let name = made["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let moved = desk.patch(&scope.runs(), &name, json!({"state": to})).await;
            if may {
                assert_eq!(taken(moved)["metadata"]["generation"], 2);
                continue;
            }
            let why = format!("invalid state transition: cannot transition from {from} to {to}");
            refused(moved, &why);
        }
    }
}

// checklist 13.1 strategy: valid stages; 32 stages rejected; stage name too long / bad
// characters; 3 after-tasks; 2 before-tasks
#[tokio::test(start_paused = true)]
async fn how_many_stages_and_tasks() {
    for scope in SCOPES {
        let mut desk = Desk::open(scope).await;
        let stages = |count: usize| {
            let named = |n: usize| json!({"name": format!("s{n}"), "labelSelector": {}});
            json!({"stages": (0..count).map(named).collect::<Vec<_>>()})
        };
        taken(desk.create(&scope.strategies(), "most", stages(31)).await);
        let many = desk.create(&scope.strategies(), "many", stages(32)).await;
        refused(many, "spec.stages: Too many: 32: must have at most 31 items");
        taken(desk.stage(json!({"name": "s".repeat(63)})).await);
        refused(
            desk.stage(json!({"name": "s".repeat(64)})).await,
            "Too long: may not be more than 63",
        );
        for bad in ["Canary", "can-ary", ""] {
            let named = desk.stage(json!({"name": bad})).await;
            refused(named, "should match '^[a-z0-9]+$'");
        }
        let approval = json!({"type": "Approval"});
        let wait = json!({"type": "TimedWait", "waitTime": "1m"});
        taken(desk.stage(json!({"afterStageTasks": [approval, wait]})).await);
        let three = desk.stage(json!({"afterStageTasks": [approval, wait, wait]})).await;
        refused(three, "Too many: 3: must have at most 2 items");
        taken(desk.stage(json!({"beforeStageTasks": [approval]})).await);
        let two = desk.stage(json!({"beforeStageTasks": [approval, approval]})).await;
        refused(two, "Too many: 2: must have at most 1 item");
    }
}

// checklist 13.1 after Approval with waitTime, after TimedWait without, before TimedWait:
// rejected on create and on update
#[tokio::test(start_paused = true)]
async fn tasks_that_contradict_themselves() {
    for scope in SCOPES {
        let mut desk = Desk::open(scope).await;
        let strategies = scope.strategies();
        taken(
            desk.create(&strategies, "plan", json!({"stages": [stage("canary", json!({}))]})).await,
        );
        for (tasks, why) in [
            (
                json!({"afterStageTasks": [{"type": "Approval", "waitTime": "1m"}]}),
                "AfterStageTaskType is Approval, waitTime is not allowed",
            ),
            (
                json!({"afterStageTasks": [{"type": "TimedWait"}]}),
                "AfterStageTaskType is TimedWait, waitTime is required",
            ),
            (
                json!({"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1m"}]}),
                "BeforeStageTaskType cannot be TimedWait",
            ),
            (
                json!({"beforeStageTasks": [{"type": "Approval", "waitTime": "1m"}]}),
                "AfterStageTaskType is Approval, waitTime is not allowed",
            ),
        ] {
            refused(desk.stage(tasks.clone()).await, why);
            let edited = json!({"stages": [stage("canary", tasks)]});
            refused(desk.patch(&strategies, "plan", edited).await, why);
        }
    }
}

// checklist 13.1 maxConcurrency and waitTime values
#[tokio::test(start_paused = true)]
async fn numbers_shares_and_waits() {
    for scope in SCOPES {
        let mut desk = Desk::open(scope).await;
        let made = taken(desk.stage(json!({})).await);
        assert_eq!(made["spec"]["stages"][0]["maxConcurrency"], 1);
        for good in [json!(1), json!(100), json!(1000), json!("1%"), json!("70%"), json!("100%")] {
            taken(desk.stage(json!({"maxConcurrency": good})).await);
        }
        for bad in [json!(0), json!(-1)] {
            let made = desk.stage(json!({"maxConcurrency": bad})).await;
            refused(made, "maxConcurrency must be at least 1");
        }
        for bad in ["0", "50", "0%", "101%", "-1%", "1.5%"] {
            let made = desk.stage(json!({"maxConcurrency": bad})).await;
            refused(made, "should match '^(100|[1-9][0-9]?)%$'");
        }
        let waiting =
            |wait: &str| json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": wait}]});
        for good in ["0s", "1h30m", "0.5s", "90m"] {
            taken(desk.stage(waiting(good)).await);
        }
        for bad in ["0abc", "1", "1d", "01h", "-1s", ""] {
            refused(desk.stage(waiting(bad)).await, "waitTime");
        }
    }
}

// checklist 13.1 approval request created; spec update rejected; External -> RollingUpdate
#[tokio::test(start_paused = true)]
async fn requests_and_strategies_of_placements_that_stay() {
    for scope in SCOPES {
        let desk = Desk::open(scope).await;
        let spec = json!({"parentStageRollout": "r", "targetStage": "canary"});
        taken(desk.create(&scope.approvals(), "a", spec).await);
        let other = desk.patch(&scope.approvals(), "a", json!({"targetStage": "prod"})).await;
        refused(other, "The spec field is immutable");
        let selector = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}]);
        let spec = json!({"resourceSelectors": selector, "strategy": {"type": "External"}});
        taken(desk.create(scope.placements, "web", spec).await);
        let rolling = json!({"strategy": {"type": "RollingUpdate"}});
        let why = "cannot change rollout strategy type from 'External' to other types";
        refused(desk.patch(scope.placements, "web", rolling).await, why);
    }
}
