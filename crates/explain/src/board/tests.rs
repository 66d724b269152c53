//! Boards of one run at the moments a person looks.

use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-02-11T22:10:00Z".parse().unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, at: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "",
        "observedGeneration": 1, "lastTransitionTime": format!("2026-02-11T22:{at}Z"),
    })
}

fn board(state: &str, status: Value) -> Board {
    let spec = json!({"placementName": "demo", "stagedRolloutStrategyName": "s", "state": state});
    let created = "2026-02-11T22:00:00Z".parse().unwrap();
    Board::of(
        "demo-run",
        Some(created),
        &serde_json::from_value(spec).unwrap(),
        &serde_json::from_value(status).unwrap(),
        now(),
    )
}

fn initialized() -> Value {
    condition("Initialized", "True", "UpdateRunInitializedSuccessfully", "00:01")
}

#[test]
fn the_phase_is_read_from_the_conditions() {
    let progressing = |status: &str, reason: &str| json!({"conditions": [initialized(), condition("Progressing", status, reason, "01:00")]});
    for (state, status, phase) in [
        ("Run", json!({}), Phase::Pending),
        ("Initialize", json!({"conditions": [initialized()]}), Phase::Initialized),
        ("Run", json!({"conditions": [initialized()]}), Phase::Running),
        ("Run", progressing("True", "UpdateRunProgressing"), Phase::Running),
        ("Run", progressing("False", "UpdateRunWaiting"), Phase::Waiting),
        ("Run", progressing("False", "UpdateRunStuck"), Phase::Stuck),
        ("Stop", progressing("Unknown", "UpdateRunStopping"), Phase::Stopping),
        ("Stop", progressing("False", "UpdateRunStopped"), Phase::Stopped),
        (
            "Run",
            json!({"conditions": [condition("Initialized", "False", "UpdateRunInitializedFailed", "00:01")]}),
            Phase::Failed,
        ),
        (
            "Run",
            json!({"conditions": [initialized(), condition("Succeeded", "True", "UpdateRunSucceeded", "05:00")]}),
            Phase::Succeeded,
        ),
    ] {
        assert_eq!(board(state, status.clone()).phase, phase, "{status}");
    }
}

#[test]
fn a_run_in_its_second_stage_shows_what_is_done_moving_and_ahead() {
    let done = condition("Succeeded", "True", "ClusterUpdatingSucceeded", "02:00");
    let started = condition("Started", "True", "ClusterUpdatingStarted", "09:30");
    let approved =
        condition("ApprovalRequestApproved", "True", "StageTaskApprovalRequestApproved", "03:00");
    let board = board(
        "Run",
        json!({
            "resourceSnapshotIndexUsed": "2",
            "conditions": [initialized(), condition("Progressing", "True", "UpdateRunProgressing", "01:00")],
            "stagedUpdateStrategySnapshot": {"stages": [
                {"name": "staging", "afterStageTasks": [{"type": "Approval"}]},
                {"name": "canary", "afterStageTasks": [{"type": "TimedWait", "waitTime": "30s"}]},
            ]},
            "stagesStatus": [
                {
                    "stageName": "staging",
                    "startTime": "2026-02-11T22:01:00Z",
                    "clusters": [{"clusterName": "member2", "conditions": [started, done]}],
                    "afterStageTaskStatus": [{"type": "Approval", "approvalRequestName": "demo-run-after-staging", "conditions": [approved]}],
                    "conditions": [condition("Succeeded", "True", "StageUpdatingSucceeded", "03:00")],
                },
                {
                    "stageName": "canary",
                    "startTime": "2026-02-11T22:09:30Z",
                    "clusters": [{"clusterName": "member1", "conditions": [started]}, {"clusterName": "member3"}],
                    "afterStageTaskStatus": [{"type": "TimedWait"}],
                    "conditions": [condition("Progressing", "True", "StageUpdatingStarted", "09:30")],
                },
            ],
            "deletionStageStatus": {"stageName": "kubernetes-fleet.io/deleteStage", "clusters": []},
        }),
    );
    assert_eq!((board.snapshot.as_str(), board.seconds), ("2", 600));
    assert_eq!(board.clusters(), (1, 3));
    assert_eq!(board.stage_number(), 2);
    let marks: Vec<Mark> =
        board.stages.iter().flat_map(|stage| &stage.cells).map(|cell| cell.mark).collect();
    assert_eq!(marks, [Mark::Done, Mark::Updating, Mark::Queued]);
    assert_eq!(board.stages[1].cells[0].seconds, Some(30));
    assert_eq!(board.stages[0].gates[0].state, GateState::Passed);
    assert_eq!(
        (board.stages[1].gates[0].state, board.stages[1].gates[0].wait.as_str()),
        (GateState::Ahead, "30s")
    );
}

#[test]
fn a_running_wait_says_what_is_left() {
    let board = board(
        "Run",
        json!({
            "conditions": [initialized(), condition("Progressing", "False", "UpdateRunWaiting", "09:50")],
            "stagedUpdateStrategySnapshot": {"stages": [
                {"name": "staging", "afterStageTasks": [{"type": "TimedWait", "waitTime": "30s"}]},
            ]},
            "stagesStatus": [{
                "stageName": "staging",
                "startTime": "2026-02-11T22:01:00Z",
                "clusters": [],
                "afterStageTaskStatus": [{"type": "TimedWait"}],
                "conditions": [condition("Progressing", "False", "StageUpdatingWaiting", "09:50")],
            }],
        }),
    );
    let gate = &board.stages[0].gates[0];
    assert_eq!((gate.state, gate.seconds_left), (GateState::Closed, Some(21)));
}

#[test]
fn a_run_that_has_ended_counts_neither_seconds_nor_waits() {
    let started = condition("Started", "True", "ClusterUpdatingStarted", "01:00");
    let board = board(
        "Run",
        json!({
            "conditions": [initialized(), condition("Succeeded", "False", "UpdateRunFailed", "03:00")],
            "stagedUpdateStrategySnapshot": {"stages": [
                {"name": "staging", "afterStageTasks": [{"type": "TimedWait", "waitTime": "30m"}]},
                {"name": "canary"},
            ]},
            "stagesStatus": [
                {
                    "stageName": "staging",
                    "startTime": "2026-02-11T22:00:30Z",
                    "clusters": [],
                    "afterStageTaskStatus": [{"type": "TimedWait"}],
                    "conditions": [condition("Progressing", "False", "StageUpdatingWaiting", "00:50")],
                },
                {
                    "stageName": "canary",
                    "clusters": [{"clusterName": "member1", "conditions": [started]}],
                    "conditions": [condition("Succeeded", "False", "StageUpdatingFailed", "03:00")],
                },
            ],
        }),
    );
    assert_eq!(board.seconds, 180);
    let cell = &board.stages[1].cells[0];
    assert_eq!((cell.mark, cell.seconds), (Mark::Left, Some(120)));
    let gate = &board.stages[0].gates[0];
    assert_eq!((gate.state, gate.seconds_left), (GateState::Ahead, None));
}

#[test]
fn a_stuck_run_that_was_told_to_stop_shows_both() {
    let status = json!({"conditions": [initialized(),
        condition("Progressing", "False", "UpdateRunStuck", "01:00")]});
    let told = board("Stop", status.clone());
    assert_eq!((told.phase, told.stopping), (Phase::Stuck, true));
    assert!(!board("Run", status).stopping);
}

#[test]
fn clusters_that_do_not_get_on_carry_their_cause() {
    let started = condition("Started", "True", "ClusterUpdatingStarted", "09:30");
    let status = json!({
        "conditions": [initialized()],
        "stagesStatus": [{"stageName": "a", "clusters": [
            {"clusterName": "member1", "conditions": [started]},
            {"clusterName": "member2", "conditions": [started]},
        ]}],
    });
    let causes = [("member2".to_owned(), Cause::ImageNotFound)].into();
    let board = board("Run", status).marking(&causes);
    let cells: Vec<_> =
        board.stages[0].cells.iter().map(|cell| (cell.mark, cell.cause.as_deref())).collect();
    assert_eq!(cells, [(Mark::Updating, None), (Mark::Stuck, Some("IMAGE_NOT_FOUND"))]);
}

#[test]
fn policies_add_budgets_and_deadlines_and_a_skipped_cluster_says_why() {
    let started = condition("Started", "True", "ClusterUpdatingStarted", "09:00");
    let with = |message: &str, reason: &str| {
        let mut told = condition("Succeeded", "False", reason, "09:30");
        told["message"] = json!(message);
        told
    };
    let failed = with("Failed under policy p: not available within 1m0s", "ClusterUpdatingFailed");
    let skipped = with("Skipped by bob: later", "ClusterSkipped");
    let mut frozen = condition("Progressing", "False", "UpdateRunFrozen", "09:40");
    frozen["message"] = json!("Frozen by alice until it is lifted, freeze f: incident");
    let status = json!({
        "conditions": [initialized(), frozen],
        "stagesStatus": [
            {"stageName": "a", "clusters": [{"clusterName": "a1", "conditions": [started, failed]}],
                "conditions": [condition("Succeeded", "True", "StageUpdatingSucceeded", "09:30")]},
            {"stageName": "b", "clusters": [
                {"clusterName": "b1", "conditions": [started]},
                {"clusterName": "b2", "conditions": [skipped]}]},
            {"stageName": "c", "clusters": [{"clusterName": "c1"}]},
        ],
    });
    let policy = json!({"name": "p", "spec": {"failure": {"progressDeadline": "5m",
        "budget": {"run": 2, "stage": 1}}}});
    let adopted: Adopted = serde_json::from_value(json!({"policies": [policy]})).unwrap();
    let late = "2026-02-11T22:09:20Z".parse().unwrap();
    let read = serde_json::from_value(status.clone()).unwrap();
    let board = board("Run", status).following(&adopted, &read, |_| Some(late));
    let says: Vec<&str> = board.budgets.iter().map(|budget| budget.says.as_str()).collect();
    let budgets = [
        "stage a: 1 of 1 spent by a1",
        "stage b: 1 may fail, none has",
        "the run: 1 of 2 spent by a1",
    ];
    assert_eq!(says, budgets);
    let (cell, deadline, more) = board.first_deadline().unwrap();
    assert_eq!((cell.cluster.as_str(), more), ("b1", 0));
    assert_eq!(deadline.to_string(), "2026-02-11T22:14:20Z", "from when it was told to begin");
    assert_eq!(board.skipped().collect::<Vec<_>>(), [("b2", "Skipped by bob: later")]);
    let frozen = "Frozen by alice until it is lifted, freeze f: incident";
    assert_eq!(board.frozen.as_deref(), Some(frozen));
}
