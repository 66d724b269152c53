//! Gates between stages: people who approve, and time that passes.

use flagship_api::staged_update_status::StageTaskStatus;
use serde_json::{Value, json};

use crate::update_run::story::{SCOPES, Scope, Story, said, stage};
use flagship_sim::testing::text;

const BEFORE: &str = "False UpdateRunWaiting: The updateRun is waiting for before-stage tasks in stage canary to complete";
const AFTER: &str = "False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage canary to complete";

async fn gated(scope: Scope, tasks: Value) -> Story {
    let story = Story::begin(scope).await;
    story.strategy(json!([stage("canary", tasks), stage("prod", json!({}))])).await;
    story.run("r", json!({"state": "Run"})).await;
    story
}

fn tasks(story: &Story, stage: &str, side: &str) -> Vec<StageTaskStatus> {
    serde_json::from_value(story.stage("r", stage)[side].clone()).unwrap_or_default()
}

// checklist 13.5 before approval only; nothing rolls out and no startTime before approval
#[tokio::test(start_paused = true)]
async fn nothing_begins_before_somebody_approves() {
    for scope in SCOPES {
        let story = gated(scope, json!({"beforeStageTasks": [{"type": "Approval"}]})).await;
        assert_eq!(story.said("r", "Progressing"), BEFORE);
        let canary = story.stage("r", "canary");
        assert_eq!(
            said(&canary["conditions"], "Progressing"),
            "False StageUpdatingWaiting: Not all before-stage tasks are completed, waiting for approval"
        );
        assert!(canary.get("startTime").is_none());
        assert_eq!(story.holds(), ["m1 Scheduled", "m2 Scheduled", "m3 Scheduled"]);
        // Scenario 16: what a pending approval looks like.
        let task = &canary["beforeStageTaskStatus"][0];
        assert_eq!(task["approvalRequestName"], "r-before-canary");
        assert_eq!(
            said(&task["conditions"], "ApprovalRequestCreated"),
            "True StageTaskApprovalRequestCreated: ApprovalRequest object is created"
        );
        // Scenario 15: how requests are found.
        let request = story.request("r-before-canary");
        assert_eq!(
            request["metadata"]["labels"],
            json!({
                "kubernetes-fleet.io/isLatestUpdateRunApproval": "true",
                "kubernetes-fleet.io/targetUpdateRun": "r",
                "kubernetes-fleet.io/targetUpdatingStage": "canary",
                "kubernetes-fleet.io/taskType": "beforeStage",
            })
        );
        assert_eq!(request["spec"], json!({"parentStageRollout": "r", "targetStage": "canary"}));
        assert!(request["metadata"].get("ownerReferences").is_none());
        assert!(request["metadata"].get("finalizers").is_none());
        story.approve("r-before-canary").await;
        assert_eq!(
            said(&story.request("r-before-canary")["status"]["conditions"], "ApprovalAccepted"),
            "True ApprovalRequestApprovalAccepted: The approval request has been approved and cannot be reverted"
        );
        let task = &story.stage("r", "canary")["beforeStageTaskStatus"][0];
        assert_eq!(
            said(&task["conditions"], "ApprovalRequestApproved"),
            "True StageTaskApprovalRequestApproved: ApprovalRequest object is approved"
        );
        assert!(story.holds()[1].starts_with("m2 Bound"), "{:?}", story.holds());
        assert!(story.stage("r", "canary").get("startTime").is_some());
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

// checklist 13.5 after approval only, TimedWait; 13.5 metrics
#[tokio::test(start_paused = true)]
async fn a_stage_ends_when_time_has_passed_and_somebody_approved() {
    for scope in SCOPES {
        let after = json!([{"type": "TimedWait", "waitTime": "1m"}, {"type": "Approval"}]);
        let story = gated(scope, json!({"afterStageTasks": after})).await;
        assert_eq!(story.requests(), [] as [String; 0]);
        story.works("m2").await;
        assert_eq!(story.said("r", "Progressing"), AFTER);
        assert_eq!(story.requests(), ["r-after-canary"]);
        let canary = story.stage("r", "canary");
        assert_eq!(
            said(&canary["conditions"], "Progressing"),
            "False StageUpdatingWaiting: All clusters in the stage are updated, waiting for after-stage tasks to complete"
        );
        let [wait, _] = &tasks(&story, "canary", "afterStageTaskStatus")[..] else { panic!() };
        assert_eq!(wait.conditions, []);
        let snapshot = &story.object("r")["status"]["stagedUpdateStrategySnapshot"];
        assert_eq!(snapshot["stages"][0]["afterStageTasks"][0]["waitTime"], "1m0s");
        story.pass(50).await;
        story.approve("r-after-canary").await;
        assert_eq!(story.said("r", "Progressing"), AFTER);
        story.pass(12).await;
        let [wait, approval] = &tasks(&story, "canary", "afterStageTaskStatus")[..] else {
            panic!()
        };
        let done = &wait.conditions[0];
        assert_eq!(
            (done.type_.as_str(), done.reason.as_str()),
            ("WaitTimeElapsed", "AfterStageTaskWaitTimeElapsed")
        );
        let stopped: Value = canary["conditions"][0]["lastTransitionTime"].clone();
        let stopped: jiff::Timestamp = text(&stopped).parse().unwrap();
        let waited = done.last_transition_time.0.duration_since(stopped);
        // Times have whole seconds, and a wait is never shorter than asked.
        assert_eq!(waited.as_secs(), 61);
        assert_eq!(approval.conditions.len(), 2);
        assert!(story.holds()[0].starts_with("m1 Bound"), "{:?}", story.holds());
        let metrics = story.metrics.render();
        let name = "fleet_workload_update_run_approval_request_latency_seconds_count";
        let count =
            format!("{name}{{namespace=\"{}\",name=\"r\",taskType=\"afterStage\"}} 1", scope.space);
        assert!(metrics.contains(&count), "{metrics}");
        let name = "fleet_workload_update_run_stage_cluster_updating_duration_seconds_count";
        assert!(metrics.contains(&format!("{name}{{namespace=\"{}\",name=\"r\"}} 1", scope.space)));
    }
}

// checklist 13.5 both before and after tasks
#[tokio::test(start_paused = true)]
async fn a_run_passes_four_gates() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let tasks = json!({"beforeStageTasks": [{"type": "Approval"}],
            "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "5s"}]});
        story.strategy(json!([stage("canary", tasks.clone()), stage("prod", tasks)])).await;
        story.run("r", json!({"state": "Run"})).await;
        for env in ["canary", "prod"] {
            story.approve(&format!("r-before-{env}")).await;
            story.all_work().await;
            story.pass(6).await;
            story.approve(&format!("r-after-{env}")).await;
        }
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
        let mut requests = story.requests();
        requests.sort();
        assert_eq!(
            requests,
            ["r-after-canary", "r-after-prod", "r-before-canary", "r-before-prod"]
        );
    }
}

// checklist 13.5 pending request deleted; accepted request deleted
#[tokio::test(start_paused = true)]
async fn a_pending_request_comes_back_and_an_accepted_one_does_not() {
    for scope in SCOPES {
        let tasks = json!({"beforeStageTasks": [{"type": "Approval"}], "afterStageTasks": [{"type": "Approval"}]});
        let story = gated(scope, tasks).await;
        let first = story.request("r-before-canary")["metadata"]["uid"].clone();
        story.delete(&scope.approvals(), scope.space, "r-before-canary").await;
        story.soon().await;
        assert_ne!(story.request("r-before-canary")["metadata"]["uid"], first);
        story.approve("r-before-canary").await;
        story.delete(&scope.approvals(), scope.space, "r-before-canary").await;
        story.soon().await;
        assert_eq!(story.requests(), [] as [String; 0]);
        story.works("m2").await;
        story.approve("r-after-canary").await;
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
    }
}

// checklist 13.2 other edits of a request do not wake its run; scenario 14
#[tokio::test(start_paused = true)]
async fn an_approval_of_another_generation_is_none_and_is_said() {
    for scope in SCOPES {
        let story = gated(scope, json!({"afterStageTasks": [{"type": "Approval"}]})).await;
        story.works("m2").await;
        let before = story.writes("hub").len();
        story.approve_at("r-after-canary", 0).await;
        assert_eq!(story.said("r", "Progressing"), AFTER);
        let request = story.request("r-after-canary");
        assert_eq!(said(&request["status"]["conditions"], "ApprovalAccepted"), "");
        let told = "approval request r-after-canary is approved for generation 0 and has generation 1; approve it with observedGeneration 1";
        let warned = |kind: &str| {
            let events = story.events_of(kind);
            events.into_iter().filter(|event| event.contains(told)).collect::<Vec<_>>()
        };
        // Said once on the run and once on the request, however often it is looked at.
        story.pass(600).await;
        assert_eq!(warned("StagedUpdateRun").len(), 1);
        assert!(warned("StagedUpdateRun")[0].ends_with("(x1)"));
        assert_eq!(warned("ApprovalRequest").len(), 1);
        let writes = story.writes("hub")[before..].to_vec();
        let writes: Vec<_> = writes.iter().filter(|w| !w.contains("memberclusters")).collect();
        assert_eq!(writes.len(), 2, "{writes:?}");
        let right = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "lgtm",
            "message": "", "observedGeneration": 1, "lastTransitionTime": story.now()}]}});
        story
            .user_patches(&scope.approvals(), scope.space, "r-after-canary", "status", right)
            .await;
        story.soon().await;
        assert!(story.holds()[0].starts_with("m1 Bound"));
    }
}

// checklist 13.5 request of somebody else; law S3
#[tokio::test(start_paused = true)]
async fn a_request_from_before_the_run_does_not_count() {
    for (scope, earlier) in SCOPES.into_iter().flat_map(|scope| [0, 5].map(|s| (scope, s))) {
        let story = Story::begin(scope).await;
        let spec = json!({"parentStageRollout": "r", "targetStage": "canary"});
        let object = json!({"metadata": scope.meta("r-before-canary"), "spec": spec});
        story.create(&scope.approvals(), object).await;
        story.approve("r-before-canary").await;
        let made = story.request("r-before-canary")["metadata"]["uid"].clone();
        story.pass(earlier).await;
        let tasks = json!({"beforeStageTasks": [{"type": "Approval"}]});
        story.strategy(json!([stage("canary", tasks), stage("prod", json!({}))])).await;
        story.run("r", json!({"state": "Run"})).await;
        assert_eq!(story.said("r", "Progressing"), BEFORE);
        assert_eq!(story.holds()[1], "m2 Scheduled");
        let events = story.events_of("StagedUpdateRun");
        let told = "was not made by the hub for this update run and does not count";
        assert!(events.iter().any(|event| event.contains(told)), "{events:?}");
        // The hub has made its own, and only that one opens the gate.
        story.soon().await;
        assert_ne!(story.request("r-before-canary")["metadata"]["uid"], made);
        assert_eq!(story.holds()[1], "m2 Scheduled");
        story.approve("r-before-canary").await;
        assert!(story.holds()[1].starts_with("m2 Bound"));
    }
}

// law L4: a hub that was late has made it after its run was gone
#[tokio::test(start_paused = true)]
async fn a_request_of_a_run_that_is_gone_is_replaced_by_the_next_run_of_the_name() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let mut meta = scope.meta("r-before-canary");
        meta["annotations"] = json!({"flagship.dev/update-run-uid": "uid-of-another"});
        meta["labels"] = json!({"kubernetes-fleet.io/targetUpdateRun": "r"});
        let spec = json!({"parentStageRollout": "r", "targetStage": "canary"});
        story.create(&scope.approvals(), json!({"metadata": meta, "spec": spec})).await;
        story.approve("r-before-canary").await;
        let left = story.request("r-before-canary")["metadata"]["uid"].clone();
        let tasks = json!({"beforeStageTasks": [{"type": "Approval"}]});
        story.strategy(json!([stage("canary", tasks), stage("prod", json!({}))])).await;
        story.run("r", json!({"state": "Run"})).await;
        assert_eq!(story.said("r", "Progressing"), BEFORE);
        let request = story.request("r-before-canary");
        assert_ne!(request["metadata"]["uid"], left);
        assert_eq!(said(&request["status"]["conditions"], "Approved"), "");
        assert_eq!(story.holds()[1], "m2 Scheduled");
        let events = story.events_of("StagedUpdateRun");
        let told = "was made for an earlier update run of this name (UID uid-of-another)";
        assert!(events.iter().any(|event| event.contains(told)), "{events:?}");
        story.approve("r-before-canary").await;
        assert!(story.holds()[1].starts_with("m2 Bound"));
    }
}

// checklist 13.5 request with wrong stage or wrong run
#[tokio::test(start_paused = true)]
async fn a_request_of_our_name_for_another_stage_ends_the_run() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let spec = json!({"parentStageRollout": "r", "targetStage": "elsewhere"});
        let object = json!({"metadata": scope.meta("r-before-canary"), "spec": spec});
        story.create(&scope.approvals(), object).await;
        let tasks = json!({"beforeStageTasks": [{"type": "Approval"}]});
        story.strategy(json!([stage("canary", tasks), stage("prod", json!({}))])).await;
        story.run("r", json!({"state": "Run"})).await;
        let (request, run) = (scope.slashed("r-before-canary"), scope.slashed("r"));
        assert_eq!(
            story.said("r", "Succeeded"),
            format!(
                "False UpdateRunFailed: cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the approval request task `{request}` is targeting update run `{run}` and stage `elsewhere`, want target update run `{run} and stage `canary`"
            )
        );
    }
}

// law S3: an approval that was accepted cannot be taken back, and whoever tries is told so
#[tokio::test(start_paused = true)]
async fn an_approval_that_is_taken_back_too_late_changes_nothing_and_is_said() {
    for scope in SCOPES {
        let story = gated(scope, json!({"beforeStageTasks": [{"type": "Approval"}]})).await;
        story.approve("r-before-canary").await;
        let accepted = "Normal ApprovalRequestApprovalAccepted r-before-canary: approval request r-before-canary is accepted for good, stage canary begins (x1)";
        assert_eq!(story.events_of("ApprovalRequest"), [accepted]);
        let mut conditions = story.request("r-before-canary")["status"]["conditions"].clone();
        conditions.as_array_mut().unwrap().retain(|c| c["type"] != "Approved");
        let taken_back = json!({"status": {"conditions": conditions}});
        let (resource, space) = (scope.approvals(), scope.space);
        story.user_patches(&resource, space, "r-before-canary", "status", taken_back).await;
        story.pass(120).await;
        let told = "Warning ApprovalWithdrawnTooLate r-before-canary: the approval of r-before-canary was accepted for stage canary and cannot be taken back; set spec.state to Stop to hold the update run (x1)";
        assert_eq!(story.events_of("ApprovalRequest"), [accepted, told]);
        let on_run = story.events_of("StagedUpdateRun");
        assert!(on_run.iter().any(|event| event.contains("ApprovalWithdrawnTooLate r: ")));
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
    }
}
