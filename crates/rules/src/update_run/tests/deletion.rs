//! The deletion stage, and the deletion of a run.

use flagship_api::binding::BindingState;
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::json;

use super::fixture::{Fixture, both_scopes, strategy};
use crate::update_run::{Action, Waiting, laws};

/// A run whose stages are done, with two bindings to delete.
fn sweeping(mut fixture: Fixture) -> (Fixture, usize) {
    for cluster in ["x1", "x2"] {
        fixture.bind(cluster);
        fixture.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
    }
    let run = fixture.create("r", "1", Run);
    for _ in 0..5 {
        fixture.settle(run);
        fixture.available();
    }
    (fixture, run)
}

#[test]
fn all_deletions_are_issued_at_once_with_preconditions_and_the_run_waits_for_them() {
    both_scopes(|fixture| {
        let (mut fixture, run) = sweeping(fixture);
        let plan = fixture.settle(run);
        let clusters = vec!["x1".to_owned(), "x2".to_owned()];
        assert_eq!(plan.waiting, [Waiting::Deleting { clusters }]);
        assert_eq!(fixture.bindings.iter().filter(|b| b.deleting).count(), 2);
        fixture.vanish();
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_cluster_picked_again_after_the_list_was_read_is_not_swept() {
    both_scopes(|mut fixture| {
        fixture.bind("x1");
        fixture.edit("x1", |spec| spec.state = BindingState::Unscheduled);
        let run = fixture.create("r", "1", Run);
        let plan = loop {
            fixture.available();
            let plan = crate::update_run::plan(&fixture.seen(run));
            if plan.actions.iter().any(|action| matches!(action, Action::DeleteBinding(_))) {
                break plan;
            }
            fixture.carry_out(run, &plan);
        };
        assert!(matches!(plan.actions[..], [Action::Status(_), Action::DeleteBinding(_)]));
        fixture.write(run, &plan.actions[0]);
        fixture.edit("x1", |spec| spec.state = BindingState::Bound);
        assert!(!fixture.write(run, &plan.actions[1]), "the precondition must fail");
    });
}

#[test]
fn stop_in_the_deletion_stage_waits_for_what_is_going_and_resume_completes() {
    both_scopes(|fixture| {
        let (mut fixture, run) = sweeping(fixture);
        fixture.settle(run);
        fixture.set_state(run, Stop);
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("Unknown UpdateRunStopping"));
        fixture.vanish();
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        fixture.set_state(run, Run);
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn stop_before_the_first_deletion_is_stopped_at_once_and_has_no_start_time() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([])));
        for cluster in ["m1", "m2", "m3"] {
            fixture.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
        }
        let run = fixture.create("r", "1", Stop);
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        let stage = fixture.status(run).deletion_stage_status.as_ref().unwrap();
        assert_eq!(stage.start_time, None);
        fixture.set_state(run, Run);
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
        assert_eq!(fixture.bindings.len(), 0);
    });
}

#[test]
fn deleting_a_run_removes_its_requests_and_no_others() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]},
        ])));
        let (a, b) = (fixture.create("a", "1", Run), fixture.create("b", "1", Run));
        fixture.settle(a);
        fixture.settle(b);
        fixture.runs[a].deleting = true;
        let plan = fixture.step(a);
        assert_eq!(plan.actions, [Action::DeleteApprovalRequests, Action::RemoveFinalizer]);
        assert_eq!(plan.series, None);
        assert_eq!(laws::rest(&fixture.seen(a)), []);
        let left: Vec<_> = fixture.approvals.iter().map(|request| request.name.as_str()).collect();
        assert_eq!(left, ["b-before-all"]);
    });
}

#[test]
fn a_failed_run_is_deleted_too() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "9", Run);
        fixture.settle(run);
        fixture.runs[run].deleting = true;
        fixture.settle(run);
        assert!(!fixture.runs[run].has_finalizer);
    });
}
