//! The deletion stage, and the deletion of a run.

use flagship_api::binding::BindingState;
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::json;

use super::world::{World, both_scopes, strategy};
use crate::update_run::{Action, Waiting, laws};

/// A run whose stages are done, with two bindings to delete.
fn sweeping(mut world: World) -> (World, usize) {
    for cluster in ["x1", "x2"] {
        world.bind(cluster);
        world.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
    }
    let run = world.create("r", "1", Run);
    for _ in 0..5 {
        world.settle(run);
        world.available();
    }
    (world, run)
}

#[test]
fn all_deletions_are_issued_at_once_with_preconditions_and_the_run_waits_for_them() {
    both_scopes(|world| {
        let (mut world, run) = sweeping(world);
        let plan = world.settle(run);
        let clusters = vec!["x1".to_owned(), "x2".to_owned()];
        assert_eq!(plan.waiting, [Waiting::Deleting { clusters }]);
        assert_eq!(world.bindings.iter().filter(|b| b.deleting).count(), 2);
        world.vanish();
        world.settle(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_cluster_picked_again_after_the_list_was_read_is_not_swept() {
    both_scopes(|mut world| {
        world.bind("x1");
        world.edit("x1", |spec| spec.state = BindingState::Unscheduled);
        let run = world.create("r", "1", Run);
        let plan = loop {
            world.available();
            let plan = crate::update_run::plan(&world.seen(run));
            if plan.actions.iter().any(|action| matches!(action, Action::DeleteBinding(_))) {
                break plan;
            }
            world.carry_out(run, &plan);
        };
        assert!(matches!(plan.actions[..], [Action::Status(_), Action::DeleteBinding(_)]));
        world.write(run, &plan.actions[0]);
        world.edit("x1", |spec| spec.state = BindingState::Bound);
        assert!(!world.write(run, &plan.actions[1]), "the precondition must fail");
    });
}

#[test]
fn stop_in_the_deletion_stage_waits_for_what_is_going_and_resume_completes() {
    both_scopes(|world| {
        let (mut world, run) = sweeping(world);
        world.settle(run);
        world.set_state(run, Stop);
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("Unknown UpdateRunStopping"));
        world.vanish();
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        world.set_state(run, Run);
        world.settle(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn stop_before_the_first_deletion_is_stopped_at_once_and_has_no_start_time() {
    both_scopes(|mut world| {
        world.strategy = Some(strategy(json!([])));
        for cluster in ["m1", "m2", "m3"] {
            world.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
        }
        let run = world.create("r", "1", Stop);
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        let stage = world.status(run).deletion_stage_status.as_ref().unwrap();
        assert_eq!(stage.start_time, None);
        world.set_state(run, Run);
        world.run_to_the_end(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
        assert_eq!(world.bindings.len(), 0);
    });
}

#[test]
fn deleting_a_run_removes_its_requests_and_no_others() {
    both_scopes(|mut world| {
        world.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]},
        ])));
        let (a, b) = (world.create("a", "1", Run), world.create("b", "1", Run));
        world.settle(a);
        world.settle(b);
        world.runs[a].deleting = true;
        let plan = world.step(a);
        assert_eq!(plan.actions, [Action::DeleteApprovalRequests, Action::RemoveFinalizer]);
        assert_eq!(plan.series, None);
        assert_eq!(laws::rest(&world.seen(a)), []);
        let left: Vec<_> = world.approvals.iter().map(|request| request.name.as_str()).collect();
        assert_eq!(left, ["b-before-all"]);
    });
}

#[test]
fn a_failed_run_is_deleted_too() {
    both_scopes(|mut world| {
        let run = world.create("r", "9", Run);
        world.settle(run);
        world.runs[run].deleting = true;
        world.settle(run);
        assert!(!world.runs[run].has_finalizer);
    });
}
