//! Texts people know from the guides.

use flagship_api::condition::{Generation, draft};
use flagship_api::staged_update::UpdateRunState::{Initialize, Run, Stop};
use jiff::SignedDuration;
use serde_json::json;

use super::world::{both_scopes, said, strategy};

#[test]
fn run_created_without_state_touches_nothing_until_it_is_patched_to_run() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Initialize);
        world.settle(run);
        assert_eq!(
            world.told(run).lines().next().unwrap(),
            "run: Initialized=True/UpdateRunInitializedSuccessfully"
        );
        assert_eq!(world.snapshots(), [""; 3]);
        world.set_state(run, Run);
        world.run_to_the_end(run);
        assert_eq!(
            world.said(run, "Progressing"),
            "False UpdateRunSucceeded: All stages are completed"
        );
        assert_eq!(
            world.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed successfully"
        );
    });
}

#[test]
fn rollout_stuck_exactly_at_its_deadline_then_recovers() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.later(290);
        let plan = world.settle(run);
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(10)));
        assert!(world.said(run, "Progressing").starts_with("True"));
        world.later(10);
        let plan = world.settle(run);
        assert_eq!(
            world.said(run, "Progressing"),
            "False UpdateRunStuck: The updateRun is stuck waiting for m2 cluster(s) in stage canary to finish updating, please check placement status for potential errors"
        );
        assert_eq!(plan.series.unwrap().failure_type, "internal_error");
        let stage = &world.status(run).stages_status[0];
        assert_eq!(
            said(&stage.clusters[0].conditions, "Started"),
            "True ClusterUpdatingStarted: Cluster update started"
        );
        // Stopped and still stuck: the same words.
        world.set_state(run, Stop);
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunStuck"));
        world.set_state(run, Run);
        world.available();
        world.run_to_the_end(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn in_sync_but_failing_becomes_stuck_too() {
    both_scopes(|mut world| {
        let first = world.create("first", "1", Run);
        world.settle(first);
        world.report("Available", flagship_api::condition::ConditionStatus::False);
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.later(301);
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunStuck"));
    });
}

#[test]
fn placement_deleted_while_waiting_for_an_approval() {
    both_scopes(|mut world| {
        world.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]},
        ])));
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.placement = None;
        world.settle(run);
        assert_eq!(
            world.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: parent placement not found"
        );
        let stage = &world.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "False StageUpdatingWaiting: Not all before-stage tasks are completed, waiting for approval"
        );
    });
}

#[test]
fn report_diff_is_done_when_reported() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.report("DiffReported", flagship_api::condition::ConditionStatus::True);
        world.settle(run);
        assert!(world.told(run).contains("canary: Progressing=False/StageUpdatingSucceeded"));
    });
}

#[test]
fn the_start_signal_names_the_index_used_and_the_run() {
    both_scopes(|mut world| {
        let run = world.create("r", "", Run);
        world.settle(run);
        assert_eq!(
            said(&world.bindings[1].status.conditions, "RolloutStarted"),
            "True RolloutStarted: Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 2, updateRun: r"
        );
    });
}

#[test]
fn an_index_filled_in_later_is_reported_and_has_no_effect() {
    both_scopes(|mut world| {
        let run = world.create("r", "", Run);
        world.settle(run);
        world.runs[run].spec.resource_snapshot_index = "0".into();
        let plan = world.step(run);
        assert_eq!(
            plan.events[0].message,
            "resourceSnapshotIndex 0 was set after the update run had chosen 2 and has no effect"
        );
    });
}

#[test]
fn a_condition_of_another_generation_is_no_report() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        let now = world.now;
        let binding = world.binding("m2");
        let stale = draft("Available").is_true("Reported");
        stale.set(&mut binding.status.conditions, Generation(binding.generation - 1), now);
        world.settle(run);
        assert!(world.told(run).contains("m2: Started=True/ClusterUpdatingStarted\n"));
    });
}
