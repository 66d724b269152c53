//! Runs that wait, stop, fail or move: each section of the troubleshooting guides.

use expect_test::expect;
use flagship_api::condition::Generation;
use serde_json::{Value, json};

use super::*;

const VALID: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: ";

fn failed(message: &str) -> Facts {
    run(
        "Run",
        json!({"conditions": [
            initialized(),
            condition("Progressing", "False", "UpdateRunFailed", "The stages are aborted due to a non-recoverable error", 60),
            condition("Succeeded", "False", "UpdateRunFailed", message, 60),
        ]}),
    )
}

fn waiting(task: Value, seconds: i64) -> Facts {
    let strategy = json!({"stages": [{
        "name": "staging",
        "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "5m0s"}],
    }]});
    run(
        "Run",
        json!({
            "conditions": [initialized(), condition("Progressing", "False", "UpdateRunWaiting", "", seconds)],
            "stagedUpdateStrategySnapshot": strategy,
            "stagesStatus": [{
                "stageName": "staging",
                "clusters": [],
                "startTime": ago(500),
                "afterStageTaskStatus": task,
                "conditions": [condition("Progressing", "False", "StageUpdatingWaiting", "", seconds)],
            }],
        }),
    )
}

#[test]
fn every_final_message_has_a_cause() {
    for (detail, cause) in [
        ("parent placement not found", Cause::PlacementMissing),
        (
            "parent placement does not have an external rollout strategy, current strategy: RollingUpdate",
            Cause::PlacementNotExternal,
        ),
        ("referenced updateStrategy not found: `/example-strategy`", Cause::StrategyMissing),
        ("cluster `member-1` appears in more than one stages", Cause::ClusterInTwoStages),
        (
            "some clusters are not placed in any stage, total 1, showing up to 10: member3",
            Cause::ClusterInNoStage,
        ),
        (
            "no resourceSnapshots with index `1` found for placement `/example-placement`",
            Cause::SnapshotMissing,
        ),
        (
            "the before stage tasks are invalid, updateStrategy: `/s`, stage: x, err: e",
            Cause::StrategyInvalid,
        ),
        (
            "policy snapshot `example-placement-0` not fully scheduled yet",
            Cause::PlacementNotScheduled,
        ),
        ("anything else", Cause::RunFailed),
    ] {
        let found = explain(&failed(&format!("{VALID}{detail}")));
        assert_eq!((found.cause, found.because.as_str()), (cause, detail));
        assert_eq!(found.state, State::Failed);
        assert!(!found.hints.is_empty(), "{detail}");
    }
}

#[test]
fn a_missing_snapshot_is_explained_as_the_guide_does() {
    let message = format!(
        "{VALID}no resourceSnapshots with index `1` found for placement `/example-placement`"
    );
    let facts = run(
        "Run",
        json!({"conditions": [condition("Initialized", "False", "UpdateRunInitializedFailed", &message, 5)]}),
    );
    expect![[r#"
        example-run could not be initialized: the resource snapshot does not exist.
        failed SNAPSHOT_MISSING: the resource snapshot does not exist
        because no resourceSnapshots with index `1` found for placement `/example-placement`
          run example-run: Initialized=False  UpdateRunInitializedFailed
        look: see which versions exist: kubectl --context hub get clusterresourcesnapshots -l kubernetes-fleet.io/parent-CRP=example-placement
        then: roll out what is on the hub now: flagship run example-placement
    "#]]
    .assert_eq(&read(&facts));
}

#[test]
fn a_preempted_run_names_the_one_that_took_over() {
    let mut facts = failed(
        "cannot continue the updateRun: failed to process the request due to a client error: the binding of the updating cluster `member2` in the stage `staging` is not up-to-date with the desired status, please check the status of binding `example-placement-member2-e1a567da` and see if there is a concurrent updateRun referencing the same placement and updating the same cluster",
    );
    let signal = |run: &str| {
        let message = format!(
            "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, updateRun: {run}"
        );
        json!({"conditions": [condition("RolloutStarted", "True", "RolloutStarted", &message, 60)]})
    };
    facts.bindings = vec![binding("member2", signal("example-run-1"))];
    let found = explain(&facts);
    assert_eq!(
        found.headline,
        "example-run failed: example-run-1 took over member2 in stage staging."
    );
    assert_eq!(found.hints[0].command, "flagship status example-run-1");
    facts.rivals = vec!["example-run-1".into()];
    assert_eq!(explain(&facts).hints[0].command, "flagship watch example-run-1");
    // Nobody else signed: a hand has been on the binding.
    facts.bindings = vec![binding("member2", signal("example-run"))];
    let found = explain(&facts);
    assert_eq!(found.cause, Cause::Preempted);
    assert_eq!(
        found.hints[0].command,
        "kubectl --context hub get crb example-placement-member2-e1a567da -o yaml"
    );
}

#[test]
fn a_hub_that_takes_no_report_down_is_silent_and_a_single_stale_member_is_not() {
    let told = |heard: [i64; 2], reported: [i64; 2]| {
        let mut facts = run("Run", json!({"conditions": [initialized()]}));
        for (at, name) in ["member1", "member2"].into_iter().enumerate() {
            let reported = Some(ago(reported[at]).parse().unwrap());
            facts.clusters.insert(name.into(), ClusterFacts { reported, ..member(heard[at]) });
        }
        explain(&facts).cause
    };
    assert_eq!(told([300, 310], [10, 5]), Cause::HubSilent);
    assert_ne!(told([300, 10], [10, 10]), Cause::HubSilent);
    assert_ne!(told([300, 310], [300, 310]), Cause::HubSilent, "they are all away");
}

#[test]
fn a_run_without_a_state_waits_to_be_started() {
    let facts = run("Initialize", json!({"conditions": [initialized()]}));
    expect![[r#"
        example-run is initialized and has not been started.
        waiting NOT_STARTED: spec.state is Initialize: the stages are computed, and nothing is rolled out
          run example-run: Initialized=True  UpdateRunInitializedSuccessfully
        fix: start it: flagship resume example-run
    "#]]
    .assert_eq(&read(&facts));
}

#[test]
fn an_open_approval_comes_before_a_wait() {
    let created =
        condition("ApprovalRequestCreated", "True", "StageTaskApprovalRequestCreated", "", 90);
    let facts = waiting(
        json!([
            {"type": "Approval", "approvalRequestName": "example-run-after-staging", "conditions": [created]},
            {"type": "TimedWait"},
        ]),
        90,
    );
    expect![[r#"
        example-run waits for an approval after stage staging for 1m30s.
        waiting APPROVAL_MISSING: nobody has approved example-run-after-staging
        because the stage also waits until 2026-02-11T22:29:30Z
          run example-run: Progressing=False  UpdateRunWaiting
          stage staging: Progressing=False  StageUpdatingWaiting
          approval example-run-after-staging: not approved
        fix: approve it: flagship approve example-run staging
        look: see the request: kubectl --context hub describe careq example-run-after-staging
    "#]]
    .assert_eq(&read(&facts));
}

#[test]
fn an_approval_for_generation_zero_is_found_out() {
    let task = json!([{"type": "Approval", "approvalRequestName": "example-run-after-staging"}]);
    let mut facts = waiting(task, 90);
    let approved = json!({"conditions": [{
        "type": "Approved", "status": "True", "reason": "approved", "message": "",
        "observedGeneration": 0, "lastTransitionTime": ago(30),
    }]});
    facts.approvals.insert(
        "example-run-after-staging".into(),
        ApprovalFacts {
            generation: Generation(1),
            status: serde_json::from_value(approved).unwrap(),
        },
    );
    assert_eq!(explain(&facts).cause, Cause::ApprovalStale);
}

#[test]
fn a_timed_wait_says_when_it_ends() {
    let done =
        condition("ApprovalRequestApproved", "True", "StageTaskApprovalRequestApproved", "", 60);
    let task = json!([
        {"type": "Approval", "approvalRequestName": "a", "conditions": [done]},
        {"type": "TimedWait"},
    ]);
    expect![[r#"
        example-run waits 3m31s more after stage staging.
        waiting TIMED_WAIT: the wait after stage staging ends at 2026-02-11T22:29:30Z
          run example-run: Progressing=False  UpdateRunWaiting
          stage staging: Progressing=False  StageUpdatingWaiting
    "#]]
    .assert_eq(&read(&waiting(task, 90)));
}

#[test]
fn a_stopped_run_is_resumed() {
    let facts = run(
        "Stop",
        json!({"conditions": [initialized(), condition("Progressing", "False", "UpdateRunStopped", "The update run has been stopped", 20)]}),
    );
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::Stopped, State::Waiting));
    assert_eq!(found.hints[0].command, "flagship resume example-run");
}

#[test]
fn a_run_nobody_looks_at_means_a_silent_hub() {
    let facts = run("Run", json!({"conditions": []}));
    expect![[r#"
        example-run does not move: the hub's controllers have been silent for 10m00s.
        stuck HUB_SILENT: the hub's controllers do not answer
        because generation 1 of the run has not been looked at
          run example-run: no conditions yet
        fix: start the embedded fleet: flagship up
        or: look at the controllers on a real hub: kubectl --context hub -n fleet-system get pods
    "#]]
    .assert_eq(&read(&facts));
}

#[test]
fn a_run_that_is_not_there_is_said_so() {
    let found = explain(&facts(Subject::Run(ObjectKey::namespaced("app", "x"))));
    assert_eq!(found.headline, "there is no run app/x.");
    assert_eq!(found.hints[0].command, "kubectl --context hub -n app get sur");
}
