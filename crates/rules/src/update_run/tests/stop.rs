//! Stop, stopping, stopped, resumed.

use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::json;

use super::world::{both_scopes, said, strategy};

#[test]
fn stop_mid_cluster_waits_for_it_and_resume_goes_on_with_the_next() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.set_state(run, Stop);
        world.settle(run);
        assert_eq!(
            world.said(run, "Progressing"),
            "Unknown UpdateRunStopping: The update run is the process of stopping, waiting for all the updating/deleting clusters to finish updating before completing the stop process"
        );
        let stage = &world.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "Unknown StageUpdatingStopping: Waiting for all the updating clusters to finish updating before completing the stop process"
        );
        world.later(3);
        world.available();
        world.settle(run);
        let stage = &world.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "False StageUpdatingStopped: All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed"
        );
        assert_eq!(stage.end_time, None);
        world.set_state(run, Run);
        world.run_to_the_end(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn all_nested_conditions_show_the_newest_generation_after_each_state_change() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        world.set_state(run, Stop);
        world.settle(run);
        world.set_state(run, Run);
        world.run_to_the_end(run);
        world.set_state(run, Stop);
        world.settle(run);
        let text = serde_json::to_string(world.status(run)).unwrap();
        assert_eq!(
            text.matches("observedGeneration\":4").count(),
            text.matches("observedGeneration").count()
        );
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_run_created_in_stop_is_initialized_and_shown_as_stopped() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Stop);
        world.settle(run);
        assert_eq!(
            world.told(run).lines().next().unwrap(),
            "run: Initialized=True/UpdateRunInitializedSuccessfully Progressing=False/UpdateRunStopped"
        );
        let stage = &world.status(run).stages_status[0];
        assert!(said(&stage.conditions, "Progressing").starts_with("False StageUpdatingStopped"));
        assert_eq!(stage.start_time, None);
        assert_eq!(world.snapshots(), [""; 3]);
    });
}

#[test]
fn approve_while_stopped_does_nothing_and_resume_accepts_and_starts() {
    both_scopes(|mut world| {
        world.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]},
        ])));
        let run = world.create("r", "1", Run);
        world.settle(run);
        assert_eq!(world.approvals[0].name, "r-before-all");
        world.set_state(run, Stop);
        world.settle(run);
        world.approve();
        world.settle(run);
        assert_eq!(world.approvals[0].conditions.len(), 1);
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        world.set_state(run, Run);
        world.settle(run);
        assert!(said(&world.approvals[0].conditions, "ApprovalAccepted").starts_with("True"));
        assert_eq!(world.snapshots(), ["web-1-snapshot", "", ""]);
    });
}

#[test]
fn a_timed_wait_is_neither_restarted_nor_shortened_by_a_stop() {
    both_scopes(|mut world| {
        world.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "maxConcurrency": "100%",
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "1m"}]},
        ])));
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        world.settle(run);
        let since = world.status(run).stages_status[0].conditions[0].last_transition_time.clone();
        world.later(30);
        world.set_state(run, Stop);
        world.settle(run);
        world.later(20);
        world.set_state(run, Run);
        let plan = world.settle(run);
        // Ten seconds, and the one that the record may have lost.
        assert_eq!(plan.wake.unwrap().as_secs(), 11);
        let stage = &world.status(run).stages_status[0];
        assert_eq!(stage.conditions[0].last_transition_time, since);
        world.later(11);
        world.settle(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn resume_with_only_in_flight_clusters_left_shows_the_stage_started() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.set_state(run, Stop);
        world.settle(run);
        world.set_state(run, Run);
        world.settle(run);
        let stage = &world.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "True StageUpdatingStarted: Clusters in the stage started updating"
        );
    });
}

#[test]
fn stuck_while_stopping_overrides_stopping() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.set_state(run, Stop);
        world.later(300);
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunStuck"));
        world.available();
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunStopped"));
    });
}

#[test]
fn a_missing_binding_during_stopping_fails_stage_and_run() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.set_state(run, Stop);
        world.edit("m2", |spec| spec.state = flagship_api::binding::BindingState::Unscheduled);
        world.settle(run);
        // The count of clusters is noticed before the missing binding is.
        assert!(world.said(run, "Succeeded").starts_with("False UpdateRunFailed"));
    });
}
