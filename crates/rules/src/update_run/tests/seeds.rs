//! Texts people know from the guides.

use flagship_api::condition::{Generation, draft};
use flagship_api::staged_update::UpdateRunState::{Initialize, Run, Stop};
use jiff::SignedDuration;
use serde_json::json;

use super::fixture::{both_scopes, said, strategy};

#[test]
fn run_created_without_state_touches_nothing_until_it_is_patched_to_run() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Initialize);
        fixture.settle(run);
        assert_eq!(
            fixture.told(run).lines().next().unwrap(),
            "run: Initialized=True/UpdateRunInitializedSuccessfully"
        );
        assert_eq!(fixture.snapshots(), [""; 3]);
        fixture.set_state(run, Run);
        fixture.run_to_the_end(run);
        assert_eq!(
            fixture.said(run, "Progressing"),
            "False UpdateRunSucceeded: All stages are completed"
        );
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed successfully"
        );
    });
}

#[test]
fn rollout_stuck_exactly_at_its_deadline_then_recovers() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.later(290);
        let plan = fixture.settle(run);
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(10)));
        assert!(fixture.said(run, "Progressing").starts_with("True"));
        fixture.later(10);
        let plan = fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Progressing"),
            "False UpdateRunStuck: The updateRun is stuck waiting for m2 cluster(s) in stage canary to finish updating, please check placement status for potential errors"
        );
        assert_eq!(plan.series.unwrap().failure_type, "internal_error");
        let stage = &fixture.status(run).stages_status[0];
        assert_eq!(
            said(&stage.clusters[0].conditions, "Started"),
            "True ClusterUpdatingStarted: Cluster update started"
        );
        // Stopped and still stuck: the same words.
        fixture.set_state(run, Stop);
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStuck"));
        fixture.set_state(run, Run);
        fixture.available();
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn in_sync_but_failing_becomes_stuck_too() {
    both_scopes(|mut fixture| {
        let first = fixture.create("first", "1", Run);
        fixture.settle(first);
        fixture.report("Available", flagship_api::condition::ConditionStatus::False);
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.later(301);
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStuck"));
    });
}

#[test]
fn placement_deleted_while_waiting_for_an_approval() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]},
        ])));
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.placement = None;
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: parent placement not found"
        );
        let stage = &fixture.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "False StageUpdatingWaiting: Not all before-stage tasks are completed, waiting for approval"
        );
    });
}

#[test]
fn report_diff_is_done_when_reported() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.report("DiffReported", flagship_api::condition::ConditionStatus::True);
        fixture.settle(run);
        assert!(fixture.told(run).contains("canary: Progressing=False/StageUpdatingSucceeded"));
    });
}

#[test]
fn the_start_signal_names_the_index_used_and_the_run() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "", Run);
        fixture.settle(run);
        assert_eq!(
            said(&fixture.bindings[1].status.conditions, "RolloutStarted"),
            "True RolloutStarted: Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 2, updateRun: r"
        );
    });
}

#[test]
fn an_index_filled_in_later_is_reported_and_has_no_effect() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "", Run);
        fixture.settle(run);
        fixture.runs[run].spec.resource_snapshot_index = "0".into();
        let plan = fixture.step(run);
        assert_eq!(
            plan.events[0].message,
            "resourceSnapshotIndex 0 was set after the update run had chosen 2 and has no effect"
        );
    });
}

#[test]
fn a_condition_of_another_generation_is_no_report() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        let now = fixture.now;
        let binding = fixture.binding("m2");
        let stale = draft("Available").is_true("Reported");
        stale.set(&mut binding.status.conditions, Generation(binding.generation - 1), now);
        fixture.settle(run);
        assert!(fixture.told(run).contains("m2: Started=True/ClusterUpdatingStarted\n"));
    });
}
