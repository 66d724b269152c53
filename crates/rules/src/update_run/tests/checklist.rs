//! Lines of the specification's checklist that are a table or one look at a pass. Each
//! test names its line.

use std::sync::Arc;

use flagship_api::binding::BindingState;
use flagship_api::condition::{ConditionStatus, Generation};
use flagship_api::staged_update::StageTaskType;
use flagship_api::staged_update::UpdateRunState::{Initialize, Run, Stop};
use flagship_api::staged_update_status::{StageTaskStatus, StageUpdatingStatus};
use serde_json::{Value, json};

use super::fixture::{Fixture, both_scopes, said, start, strategy};
use crate::update_run::max_concurrency::concurrency;
use crate::update_run::messages::Failure;
use crate::update_run::stages::{after_tasks, before_tasks};
use crate::update_run::status::ConditionWriter;
use crate::update_run::{Action, Plan, plan};

const ABORT: &str = "cannot continue the updateRun: ";
const UNEXP: &str = "unexpected behavior which cannot be handled by the controller: ";

pub fn writer() -> ConditionWriter {
    ConditionWriter { generation: Generation(1), now: start() }
}

fn tasks(value: Value) -> Vec<flagship_api::staged_update::StageTask> {
    serde_json::from_value(value).unwrap()
}

fn series(plan: &Plan) -> String {
    let series = plan.series.as_ref().unwrap();
    format!("{} {}", series.reason, series.failure_type)
}

/// A run over every cluster at once, up to this moment.
pub fn started(fixture: &mut Fixture) -> usize {
    let stage = json!({"name": "all", "labelSelector": {}, "maxConcurrency": 3});
    fixture.strategy = Some(strategy(json!([stage])));
    let run = fixture.create("r", "1", Run);
    fixture.settle(run);
    run
}

// checklist 13.3: before-tasks two tasks, wrong type, Approval with duration; after-tasks nil
#[test]
fn what_tasks_a_stage_may_have() {
    let (approval, wait) =
        (json!({"type": "Approval"}), |time: &str| json!({"type": "TimedWait", "waitTime": time}));
    for (given, told) in [
        (json!([]), Ok(())),
        (json!([approval]), Ok(())),
        (json!([approval, approval]), Err("beforeStageTasks can have at most one task")),
        (
            json!([wait("1m")]),
            Err(
                "task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval",
            ),
        ),
        (
            json!([{"type": "Approval", "waitTime": "1m"}]),
            Err("task 0 of type Approval cannot have wait duration set"),
        ),
    ] {
        assert_eq!(before_tasks(&tasks(given.clone())), told.map_err(str::to_owned), "{given}");
    }
    for (given, told) in [
        (json!([]), Ok(())),
        (json!([approval, wait("1m")]), Ok(())),
        (
            json!([wait("1m"), wait("2m")]),
            Err("afterStageTasks cannot have two tasks of the same type: TimedWait"),
        ),
        (
            json!([approval, {"type": "TimedWait"}]),
            Err("task 1 of type TimedWait has wait duration set to nil"),
        ),
        (json!([wait("0s")]), Err("task 0 of type TimedWait has wait duration <= 0")),
    ] {
        assert_eq!(after_tasks(&tasks(given.clone())), told.map_err(str::to_owned), "{given}");
    }
}

// checklist 13.3: all Unscheduled with latest policy -> 0 vs 10 mismatch
#[test]
fn nothing_selected_of_what_the_policy_wants() {
    both_scopes(|mut fixture| {
        let policy = json!({"placementType": "PickN", "numberOfClusters": 10});
        fixture.policy_snapshots[0].policy = Some(serde_json::from_value(policy).unwrap());
        fixture.policy_snapshots[0].number_of_clusters = Some("10".into());
        for cluster in ["m1", "m2", "m3"] {
            fixture.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
        }
        let run = fixture.create("r", "1", Initialize);
        fixture.settle(run);
        assert!(fixture.said(run, "Initialized").ends_with(
            "the number of selected bindings 0 is not equal to the observed cluster count 10"
        ));
    });
}

// checklist 13.5: maxConcurrency arithmetic
#[test]
fn how_many_clusters_of_a_stage_go_together() {
    for (most, clusters, together) in [
        (json!(2), 5, Some(2)),
        (json!(5), 5, Some(5)),
        (json!(9), 5, Some(9)),
        (json!("50%"), 4, Some(2)),
        (json!("1%"), 1, Some(1)),
        (json!("99%"), 1, Some(1)),
        (json!("33%"), 10, Some(3)),
        (json!("100%"), 7, Some(7)),
        (json!("25%"), 7, Some(1)),
        (json!("50%"), 0, Some(1)),
        (json!("50"), 4, None),
        (Value::Null, 4, Some(1)),
    ] {
        let stage = json!({"name": "s", "maxConcurrency": most});
        let config = &strategy(json!([stage])).stages[0];
        let found = concurrency(config, clusters).map_err(|failure| match failure {
            Failure::Final(text) => assert!(text.starts_with(ABORT), "{text}"),
            other => panic!("{other:?}"),
        });
        assert_eq!(found.ok(), together, "{most} of {clusters}");
    }
}

// checklist 13.5: single stage with no tasks, before approval, TimedWait, after approval only
#[test]
fn one_stage_with_one_kind_of_task() {
    let approval = json!([{"type": "Approval"}]);
    let wait = json!([{"type": "TimedWait", "waitTime": "7s"}]);
    for (tasks, requests) in [
        (json!({}), vec![]),
        (json!({"beforeStageTasks": approval}), vec!["r-before-all"]),
        (json!({"afterStageTasks": wait}), vec![]),
        (json!({"afterStageTasks": approval}), vec!["r-after-all"]),
    ] {
        both_scopes(|mut fixture| {
            let mut stage = json!({"name": "all", "labelSelector": {}});
            stage.as_object_mut().unwrap().extend(tasks.as_object().unwrap().clone());
            fixture.strategy = Some(strategy(json!([stage])));
            let run = fixture.create("r", "1", Run);
            fixture.run_to_the_end(run);
            assert!(fixture.said(run, "Succeeded").starts_with("True"), "{tasks}");
            let asked: Vec<_> = fixture.approvals.iter().map(|a| a.name.as_str()).collect();
            assert_eq!(asked, requests, "{tasks}");
        });
    }
}

// checklist 13.5: two stages, every task, 5+5 clusters one by one, 3 deletions, success
#[test]
fn ten_clusters_one_by_one_then_three_deletions() {
    both_scopes(|mut fixture| {
        for at in 4..=10 {
            let env = if at <= 7 { "canary" } else { "prod" };
            fixture.join(&format!("m{at}"), &[("env", env), ("order", &at.to_string())]);
        }
        for cluster in ["x1", "x2", "x3"] {
            fixture.bind(cluster);
            fixture.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
        }
        let tasks = |env: &str| {
            json!({"name": env, "labelSelector": {"matchLabels": {"env": env}},
                "beforeStageTasks": [{"type": "Approval"}],
                "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "4s"}]})
        };
        fixture.strategy = Some(strategy(json!([tasks("canary"), tasks("prod")])));
        let run = fixture.create("r", "1", Run);
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"), "{}", fixture.told(run));
        let stages = &fixture.status(run).stages_status;
        assert_eq!([stages[0].clusters.len(), stages[1].clusters.len()], [5, 5]);
        assert_eq!((fixture.approvals.len(), fixture.bindings.len()), (4, 10));
    });
}

// checklist 13.5: apply failure -> stuck (condition + metric), then forced back -> user_error
#[test]
fn a_failing_cluster_is_stuck_and_one_that_is_taken_back_ends_the_run() {
    both_scopes(|mut fixture| {
        let run = started(&mut fixture);
        fixture.report("Applied", ConditionStatus::False);
        fixture.later(301);
        assert_eq!(series(&fixture.settle(run)), "UpdateRunStuck internal_error");
        fixture.edit("m2", |spec| spec.state = BindingState::Scheduled);
        assert_eq!(series(&fixture.settle(run)), "UpdateRunFailed user_error");
    });
}

// checklist 13.5: DiffReported=False -> stuck
#[test]
fn a_diff_that_cannot_be_reported_is_stuck() {
    both_scopes(|mut fixture| {
        let run = started(&mut fixture);
        fixture.report("DiffReported", ConditionStatus::False);
        fixture.later(301);
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with(
            "False UpdateRunStuck: The updateRun is stuck waiting for m1, m2, m3 cluster(s) in stage all"
        ));
    });
}

// checklist 13.5 and 13.6: previously failed cluster, in Run and while stopping
#[test]
fn a_cluster_that_failed_before_ends_the_run_and_does_not_keep_it_from_stopping() {
    both_scopes(|mut fixture| {
        let run = started(&mut fixture);
        writer().cluster_failed(&mut fixture.runs[run].status.stages_status[0].clusters[1], "lost");
        let mut stopped = fixture.clone();
        let told = plan(&fixture.seen(run));
        fixture.write(run, &told.actions[0]);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the cluster `m2` in the stage all has failed"
        );
        assert!(fixture.told(run).contains("all: Progressing=False/StageUpdatingFailed"));
        stopped.available();
        stopped.set_state(run, Stop);
        let told = plan(&stopped.seen(run));
        stopped.write(run, &told.actions[0]);
        assert!(stopped.said(run, "Progressing").starts_with("False UpdateRunStopped"));
    });
}

// checklist 13.5: before-task of type TimedWait
#[test]
fn a_wait_before_a_stage_is_not_carried_out() {
    both_scopes(|mut fixture| {
        let run = started(&mut fixture);
        let task = StageTaskStatus {
            r#type: StageTaskType::TimedWait,
            approval_request_name: String::new(),
            conditions: vec![],
        };
        fixture.runs[run].status.stages_status[0].before_stage_task_status = vec![task];
        let told = plan(&fixture.seen(run));
        fixture.write(run, &told.actions[0]);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            format!(
                "False UpdateRunFailed: {ABORT}{UNEXP}found unsupported task type in before stage tasks: TimedWait"
            )
        );
    });
}

// checklist 13.5: acceptance write failure, binding write failure, rollout-started write failure
#[test]
fn a_refused_write_ends_the_pass_and_the_next_one_goes_on() {
    both_scopes(|mut fixture| {
        let stage =
            json!({"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]});
        fixture.strategy = Some(strategy(json!([stage])));
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.approve();
        let read = fixture.seen(run);
        let old = plan(&read);
        assert!(matches!(old.actions[..], [Action::AcceptApproval(_), Action::Status(_), ..]));
        // Somebody touches the request: its answer is refused, and nothing is recorded.
        fixture.approve();
        fixture.carry_out_late(run, &old, &read);
        assert!(!fixture.told(run).contains("ApprovalRequestApproved"));
        let read = fixture.seen(run);
        let old = plan(&read);
        // Somebody touches the binding: the record is written, the binding is not.
        fixture
            .edit("m1", |spec| Arc::make_mut(&mut spec.cluster_decision).reason = "again".into());
        fixture.carry_out_late(run, &old, &read);
        assert!(fixture.told(run).contains("m1: Started=True/ClusterUpdatingStarted\n"));
        assert_eq!(fixture.snapshots(), ["", "", ""]);
        // The binding is written, its start signal is refused.
        let read = fixture.seen(run);
        let old = plan(&read);
        assert!(matches!(old.actions[..], [Action::UpdateBinding(_), Action::SignalStart(_)]));
        assert!(fixture.write(run, &old.actions[0]));
        fixture.edit("m1", |spec| {
            Arc::make_mut(&mut spec.cluster_decision).reason = "and again".into();
        });
        assert!(!fixture.write(run, &old.actions[1]));
        let next = plan(&fixture.seen(run));
        assert!(matches!(next.actions[..], [Action::SignalStart(_)]));
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

// checklist 13.5: metrics, failureType classification for each reason
#[test]
fn what_the_gauge_calls_a_failure() {
    both_scopes(|mut fixture| {
        let run = started(&mut fixture);
        assert_eq!(series(&fixture.settle(run)), "UpdateRunProgressing none");
        let mut gone = fixture.clone();
        gone.placement = None;
        assert_eq!(series(&gone.settle(run)), "UpdateRunFailed user_error");
        let mut torn = fixture.clone();
        torn.runs[run].status.deletion_stage_status = None;
        assert_eq!(series(&plan(&torn.seen(run))), "UpdateRunFailed internal_error");
        fixture.set_state(run, Stop);
        assert_eq!(series(&fixture.settle(run)), "UpdateRunStopping none");
        fixture.available();
        assert_eq!(series(&fixture.settle(run)), "UpdateRunStopped none");
    });
}

/// A run whose only stage is in this state, and whose deletion stage lists x1 and x2 in
/// theirs: `.` not started, `d` deleting, `g` gone.
fn deleting(fixture: &mut Fixture, done: bool, clusters: &str) -> usize {
    for cluster in ["x1", "x2"] {
        fixture.bind(cluster);
        fixture.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
    }
    let run = started(fixture);
    if done {
        fixture.available();
        let stage = &mut fixture.runs[run].status.stages_status[0];
        for cluster in &mut stage.clusters {
            writer().cluster_succeeded(cluster);
        }
        writer().stage_succeeded(stage);
    }
    for (at, what) in clusters.chars().enumerate() {
        let name = format!("web-x{}", at + 1);
        match what {
            'd' => fixture.binding_named(&name).deleting = true,
            'g' => fixture.bindings.retain(|binding| binding.name != name),
            _ => continue,
        }
        let stage = fixture.runs[run].status.deletion_stage_status.as_mut().unwrap();
        writer().cluster_started(&mut stage.clusters[at]);
    }
    run
}

fn going(fixture: &mut Fixture, run: usize) -> &mut StageUpdatingStatus {
    fixture.runs[run].status.deletion_stage_status.as_mut().unwrap()
}

fn ended(fixture: &mut Fixture, run: usize) -> String {
    let told = plan(&fixture.seen(run));
    assert!(matches!(told.actions[..], [Action::Status(_)]));
    fixture.write(run, &told.actions[0]);
    fixture.said(run, "Succeeded")
}

// checklist 13.4: deletion stage, new cluster; active while stages are updating; failed;
// finished; running; ready to start; fewer; equal
#[test]
fn when_the_deletion_stage_has_its_turn() {
    let failed = |text: &str| format!("False UpdateRunFailed: {ABORT}{text}");
    both_scopes(|mut fixture| {
        let run = deleting(&mut fixture, false, "..");
        fixture.bind("new");
        fixture.edit("new", |spec| spec.state = BindingState::Unscheduled);
        let text = format!("{UNEXP}the cluster `new` to be deleted is not in the delete stage");
        assert_eq!(ended(&mut fixture, run), failed(&text));
    });
    both_scopes(|mut fixture| {
        let run = deleting(&mut fixture, false, "..");
        writer().stage_started(going(&mut fixture, run));
        let text = format!(
            "{UNEXP}the delete stage is active, but there are still stages updating, updatingStageIndex: 0, lastFinishedStageIndex: -1"
        );
        assert_eq!(ended(&mut fixture, run), failed(&text));
    });
    both_scopes(|mut fixture| {
        let run = deleting(&mut fixture, true, "..");
        writer().stage_failed(going(&mut fixture, run), "broken");
        let text = "the delete stage has failed, err: broken";
        assert_eq!(ended(&mut fixture, run), failed(text));
    });
    both_scopes(|mut fixture| {
        let run = deleting(&mut fixture, true, "gg");
        writer().stage_succeeded(going(&mut fixture, run));
        // A lost final write is made good.
        assert!(ended(&mut fixture, run).starts_with("True UpdateRunSucceeded"));
    });
    for (clusters, withdrawn) in [("..", 2), ("d.", 1), ("g.", 1), ("dd", 0), ("gd", 0)] {
        both_scopes(|mut fixture| {
            let run = deleting(&mut fixture, true, clusters);
            let told = plan(&fixture.seen(run));
            let found =
                told.actions.iter().filter(|a| matches!(a, Action::DeleteBinding(_))).count();
            assert_eq!(found, withdrawn, "{clusters}");
        });
    }
}

// checklist 13.6: deletion stage with none, proper, inconsistent, not-started, mixed clusters
#[test]
fn how_a_deletion_stage_is_stopped() {
    for (clusters, said_then) in [
        ("..", "False UpdateRunStopped"),
        ("dd", "Unknown UpdateRunStopping"),
        ("d.", "Unknown UpdateRunStopping"),
        ("gg", "False UpdateRunStopped"),
        ("g.", "False UpdateRunStopped"),
    ] {
        both_scopes(|mut fixture| {
            let run = deleting(&mut fixture, true, clusters);
            fixture.set_state(run, Stop);
            fixture.settle(run);
            assert!(fixture.said(run, "Progressing").starts_with(said_then), "{clusters}");
            // Never done while stopped, whatever is left.
            assert_eq!(said(&going(&mut fixture, run).conditions, "Succeeded"), "");
        });
    }
    both_scopes(|mut fixture| {
        let run = deleting(&mut fixture, true, "d.");
        writer().cluster_succeeded(&mut going(&mut fixture, run).clusters[0]);
        fixture.set_state(run, Stop);
        assert_eq!(
            ended(&mut fixture, run),
            format!(
                "False UpdateRunFailed: {ABORT}{UNEXP}the deleted cluster `x1` in the deleting stage still has a binding"
            )
        );
        let told = said(&going(&mut fixture, run).conditions, "Progressing");
        assert!(told.starts_with("False StageUpdatingFailed"));
    });
}

// checklist 13.6: run created in Stop with an empty first stage; deletion stage reached in Stop
#[test]
fn a_run_created_in_stop_with_nothing_to_update() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "none"}, {"name": "all", "labelSelector": {}},
        ])));
        let run = fixture.create("r", "1", Stop);
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        let stage = &fixture.status(run).stages_status[0];
        assert!(said(&stage.conditions, "Progressing").starts_with("False StageUpdatingStopped"));
        assert_eq!(stage.start_time, None);
        fixture.set_state(run, Run);
        fixture.run_to_the_end(run);
        assert!(
            fixture.told(run).contains("none: Progressing=False/StageUpdatingSkippedNoClusters")
        );
    });
}
