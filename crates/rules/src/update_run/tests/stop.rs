//! Stop, stopping, stopped, resumed.

use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::json;

use super::fixture::{both_scopes, said, strategy};

#[test]
fn stop_mid_cluster_waits_for_it_and_resume_goes_on_with_the_next() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.set_state(run, Stop);
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Progressing"),
            "Unknown UpdateRunStopping: The update run is the process of stopping, waiting for all the updating/deleting clusters to finish updating before completing the stop process"
        );
        let stage = &fixture.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "Unknown StageUpdatingStopping: Waiting for all the updating clusters to finish updating before completing the stop process"
        );
        fixture.later(3);
        fixture.available();
        fixture.settle(run);
        let stage = &fixture.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "False StageUpdatingStopped: All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed"
        );
        assert_eq!(stage.end_time, None);
        fixture.set_state(run, Run);
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn all_nested_conditions_show_the_newest_generation_after_each_state_change() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        fixture.set_state(run, Stop);
        fixture.settle(run);
        fixture.set_state(run, Run);
        fixture.run_to_the_end(run);
        fixture.set_state(run, Stop);
        fixture.settle(run);
        let text = serde_json::to_string(fixture.status(run)).unwrap();
        assert_eq!(
            text.matches("observedGeneration\":4").count(),
            text.matches("observedGeneration").count()
        );
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_run_created_in_stop_is_initialized_and_shown_as_stopped() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Stop);
        fixture.settle(run);
        assert_eq!(
            fixture.told(run).lines().next().unwrap(),
            "run: Initialized=True/UpdateRunInitializedSuccessfully Progressing=False/UpdateRunStopped"
        );
        let stage = &fixture.status(run).stages_status[0];
        assert!(said(&stage.conditions, "Progressing").starts_with("False StageUpdatingStopped"));
        assert_eq!(stage.start_time, None);
        assert_eq!(fixture.snapshots(), [""; 3]);
    });
}

#[test]
fn approve_while_stopped_does_nothing_and_resume_accepts_and_starts() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]},
        ])));
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        assert_eq!(fixture.approvals[0].name, "r-before-all");
        fixture.set_state(run, Stop);
        fixture.settle(run);
        fixture.approve();
        fixture.settle(run);
        assert_eq!(fixture.approvals[0].conditions.len(), 1);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        fixture.set_state(run, Run);
        fixture.settle(run);
        assert!(said(&fixture.approvals[0].conditions, "ApprovalAccepted").starts_with("True"));
        assert_eq!(fixture.snapshots(), ["web-1-snapshot", "", ""]);
    });
}

#[test]
fn a_timed_wait_is_neither_restarted_nor_shortened_by_a_stop() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "maxConcurrency": "100%",
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "1m"}]},
        ])));
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        fixture.settle(run);
        let since = fixture.status(run).stages_status[0].conditions[0].last_transition_time.clone();
        fixture.later(30);
        fixture.set_state(run, Stop);
        fixture.settle(run);
        fixture.later(20);
        fixture.set_state(run, Run);
        let plan = fixture.settle(run);
        // Ten seconds, and the one that the record may have lost.
        assert_eq!(plan.wake.unwrap().as_secs(), 11);
        let stage = &fixture.status(run).stages_status[0];
        assert_eq!(stage.conditions[0].last_transition_time, since);
        fixture.later(11);
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn resume_with_only_in_flight_clusters_left_shows_the_stage_started() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.set_state(run, Stop);
        fixture.settle(run);
        fixture.set_state(run, Run);
        fixture.settle(run);
        let stage = &fixture.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "True StageUpdatingStarted: Clusters in the stage started updating"
        );
    });
}

#[test]
fn stuck_while_stopping_overrides_stopping() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.set_state(run, Stop);
        fixture.later(300);
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStuck"));
        fixture.available();
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStopped"));
    });
}

#[test]
fn a_missing_binding_during_stopping_fails_stage_and_run() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.set_state(run, Stop);
        fixture.edit("m2", |spec| spec.state = flagship_api::binding::BindingState::Unscheduled);
        fixture.settle(run);
        // The count of clusters is noticed before the missing binding is.
        assert!(fixture.said(run, "Succeeded").starts_with("False UpdateRunFailed"));
    });
}
