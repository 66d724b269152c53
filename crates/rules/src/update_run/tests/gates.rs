//! Approvals and timed waits.

use flagship_api::condition::{Generation, draft};
use flagship_api::staged_update::UpdateRunState::Run;
use jiff::SignedDuration;
use serde_json::json;

use super::world::{World, both_scopes, said, strategy};
use crate::update_run::{DISMISSED_POLL, Waiting};

/// A run that waits before its only stage.
fn waiting(mut world: World) -> (World, usize) {
    world.strategy = Some(strategy(json!([
        {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]},
    ])));
    let run = world.create("r", "1", Run);
    world.settle(run);
    (world, run)
}

#[test]
fn nothing_rolls_out_and_no_start_time_before_approval() {
    both_scopes(|world| {
        let (mut world, run) = waiting(world);
        assert_eq!(
            world.said(run, "Progressing"),
            "False UpdateRunWaiting: The updateRun is waiting for before-stage tasks in stage all to complete"
        );
        let stage = &world.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "False StageUpdatingWaiting: Not all before-stage tasks are completed, waiting for approval"
        );
        assert_eq!(
            said(&stage.before_stage_task_status[0].conditions, "ApprovalRequestCreated"),
            "True StageTaskApprovalRequestCreated: ApprovalRequest object is created"
        );
        assert_eq!((stage.start_time.clone(), world.snapshots()), (None, vec![""; 3]));
        world.approve();
        world.settle(run);
        let stage = &world.status(run).stages_status[0];
        assert_eq!(
            said(&stage.before_stage_task_status[0].conditions, "ApprovalRequestApproved"),
            "True StageTaskApprovalRequestApproved: ApprovalRequest object is approved"
        );
        assert!(stage.start_time.is_some());
        assert_eq!(
            said(&world.approvals[0].conditions, "ApprovalAccepted"),
            "True ApprovalRequestApprovalAccepted: The approval request has been approved and cannot be reverted"
        );
    });
}

#[test]
fn an_approval_of_another_generation_is_reported_and_does_not_count() {
    both_scopes(|world| {
        let (mut world, run) = waiting(world);
        world.approve_at(0);
        let plan = world.settle(run);
        let told = "approval request r-before-all is approved for generation 0 and has generation 1; approve it with observedGeneration 1";
        assert_eq!(
            (plan.events[0].message.as_str(), plan.on_requests[0].0.as_str()),
            (told, "r-before-all")
        );
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunWaiting"));
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(60)));
    });
}

#[test]
fn a_pending_request_that_is_deleted_is_made_again_and_an_accepted_one_is_not() {
    both_scopes(|world| {
        let (mut world, run) = waiting(world);
        world.approvals.clear();
        world.settle(run);
        assert_eq!(world.approvals.len(), 1);
        world.approve();
        world.settle(run);
        world.approvals.clear();
        world.settle(run);
        assert_eq!(world.approvals.len(), 0);
        world.run_to_the_end(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_request_that_an_earlier_run_of_the_name_left_is_replaced_and_never_counts() {
    both_scopes(|world| {
        let (mut world, run) = waiting(world);
        world.approvals[0].run_uid = Some("uid-of-another".into());
        world.approve();
        let plan = world.step(run);
        assert!(matches!(&plan.waiting[..], [Waiting::Approval { refused: Some(_), .. }]));
        assert_eq!(
            plan.on_requests[0].1.message,
            "approval request r-before-all was made for an earlier update run of this name (UID uid-of-another) and does not count; it is deleted and a new one is made"
        );
        assert_eq!((world.approvals.len(), world.snapshots()), (0, vec![""; 3]));
        assert_eq!(plan.wake, Some(DISMISSED_POLL), "its end may wake nobody");
        world.settle(run);
        assert_eq!(world.approvals[0].run_uid, Some(world.runs[run].uid.clone()));
        assert_eq!(world.snapshots(), [""; 3]);
        world.approve();
        world.run_to_the_end(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

// law S3: whoever creates a request in the second of the run, or before, passes no gate.
#[test]
fn a_request_without_the_uid_of_the_run_is_replaced_whenever_it_was_made() {
    for seconds in [-10, -1, 0, 1] {
        both_scopes(|world| {
            let (mut world, run) = waiting(world);
            world.approvals[0].run_uid = None;
            world.approvals[0].created =
                world.runs[run].created + SignedDuration::from_secs(seconds);
            world.approve();
            let plan = world.step(run);
            assert!(matches!(&plan.waiting[..], [Waiting::Approval { refused: Some(_), .. }]));
            let told = "approval request r-before-all was not made by the hub for this update run and does not count; it is deleted and a new one is made";
            assert_eq!(plan.on_requests[0].1.message, told);
            assert_eq!((world.approvals.len(), world.snapshots()), (0, vec![""; 3]));
            world.settle(run);
            assert_eq!(world.approvals[0].run_uid, Some(world.runs[run].uid.clone()));
            assert_eq!(world.snapshots(), [""; 3]);
            world.approve();
            world.run_to_the_end(run);
            assert!(world.said(run, "Succeeded").starts_with("True"));
        });
    }
}

#[test]
fn a_request_for_another_stage_or_run_fails_the_run() {
    both_scopes(|world| {
        let (mut world, run) = waiting(world);
        world.approvals[0].stage = "other".into();
        world.settle(run);
        assert_eq!(
            world.said(run, "Succeeded"),
            format!(
                "False UpdateRunFailed: cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the approval request task `{}` is targeting update run `{}` and stage `other`, want target update run `{} and stage `all`",
                world.key("r-before-all"),
                world.key("r"),
                world.key("r")
            )
        );
    });
}

#[test]
fn after_stage_tasks_wait_for_time_and_person() {
    both_scopes(|mut world| {
        world.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "maxConcurrency": 3, "afterStageTasks":
             [{"type": "TimedWait", "waitTime": "30s"}, {"type": "Approval"}]},
        ])));
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.later(7);
        world.available();
        let plan = world.settle(run);
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(30)));
        assert_eq!(
            world.said(run, "Progressing"),
            "False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage all to complete"
        );
        let before = world.status(run).clone();
        world.later(29);
        world.settle(run);
        assert_eq!(world.status(run), &before);
        world.later(2);
        let plan = world.settle(run);
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(60)));
        let stage = &world.status(run).stages_status[0];
        assert_eq!(
            said(&stage.after_stage_task_status[0].conditions, "WaitTimeElapsed"),
            "True AfterStageTaskWaitTimeElapsed: Wait time elapsed"
        );
        world.approve();
        world.settle(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

/// A stage without a person, which waits for so long after its clusters.
fn timed(world: &mut World, wait: &str) -> usize {
    world.strategy = Some(strategy(json!([
        {"name": "all", "labelSelector": {}, "maxConcurrency": 3,
         "afterStageTasks": [{"type": "TimedWait", "waitTime": wait}]},
    ])));
    let run = world.create("r", "1", Run);
    world.settle(run);
    run
}

#[test]
fn a_wait_of_a_second_is_never_shorter_than_a_second() {
    for late in [0, 1, 290, 500, 890, 999] {
        both_scopes(|mut world| {
            let run = timed(&mut world, "1s");
            world.now += SignedDuration::from_millis(late);
            let done = world.now;
            world.available();
            let mut plan = world.settle(run);
            while world.said(run, "Succeeded").is_empty() {
                world.now += plan.wake.unwrap();
                plan = world.settle(run);
            }
            let waited = world.now.duration_since(done);
            let range = SignedDuration::from_secs(1)..=SignedDuration::from_secs(2);
            assert!(range.contains(&waited), "{waited:?} after {late} ms");
        });
    }
}

#[test]
fn after_a_correction_of_the_clock_a_wait_goes_on_within_half_a_minute() {
    both_scopes(|mut world| {
        let run = timed(&mut world, "1h");
        world.available();
        let plan = world.settle(run);
        // The clock was behind: the timer that was set for the wait would sleep on.
        assert!(plan.wake.unwrap() <= SignedDuration::from_secs(30), "{:?}", plan.wake);
        world.later(3700);
        world.settle(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
    both_scopes(|mut world| {
        let run = timed(&mut world, "1m");
        world.available();
        world.settle(run);
        // The clock was an hour ahead: the wait begins anew when that is noticed.
        world.later(-3600);
        world.clock_set_back = Some(world.now);
        let plan = world.settle(run);
        assert!(plan.wake.unwrap() <= SignedDuration::from_secs(30), "{:?}", plan.wake);
        world.later(59);
        world.settle(run);
        assert_eq!(world.said(run, "Succeeded"), "");
        world.later(2);
        world.settle(run);
        assert!(world.said(run, "Succeeded").starts_with("True"), "{}", world.told(run));
    });
}

#[test]
fn a_wait_is_not_shortened_when_everything_was_in_place_at_once() {
    both_scopes(|mut world| {
        let first = world.create("first", "1", Run);
        world.run_to_the_end(first);
        world.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}],
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "30s"}]},
        ])));
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.later(100);
        world.approve();
        let plan = world.settle(run);
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(30)));
    });
}

#[test]
fn a_withdrawn_approval_stays_accepted() {
    both_scopes(|world| {
        let (mut world, run) = waiting(world);
        let now = world.now;
        let request = &mut world.approvals[0];
        let accepted = draft("ApprovalAccepted").is_true("ApprovalRequestApprovalAccepted");
        accepted.set(&mut request.conditions, Generation(1), now);
        world.settle(run);
        assert_eq!(world.snapshots(), ["web-1-snapshot", "", ""]);
    });
}
