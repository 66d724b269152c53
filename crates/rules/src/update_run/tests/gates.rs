//! Approvals and timed waits.

use flagship_api::condition::{Generation, draft};
use flagship_api::staged_update::UpdateRunState::Run;
use jiff::SignedDuration;
use serde_json::json;

use super::fixture::{Fixture, both_scopes, said, strategy};
use crate::update_run::{DISMISSED_POLL, Waiting, needs_current_run, plan};

/// A run that waits before its only stage.
fn waiting(mut fixture: Fixture) -> (Fixture, usize) {
    fixture.strategy = Some(strategy(json!([
        {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]},
    ])));
    let run = fixture.create("r", "1", Run);
    fixture.settle(run);
    (fixture, run)
}

#[test]
fn nothing_rolls_out_and_no_start_time_before_approval() {
    both_scopes(|fixture| {
        let (mut fixture, run) = waiting(fixture);
        assert_eq!(
            fixture.said(run, "Progressing"),
            "False UpdateRunWaiting: The updateRun is waiting for before-stage tasks in stage all to complete"
        );
        let stage = &fixture.status(run).stages_status[0];
        assert_eq!(
            said(&stage.conditions, "Progressing"),
            "False StageUpdatingWaiting: Not all before-stage tasks are completed, waiting for approval"
        );
        assert_eq!(
            said(&stage.before_stage_task_status[0].conditions, "ApprovalRequestCreated"),
            "True StageTaskApprovalRequestCreated: ApprovalRequest object is created"
        );
        assert_eq!((stage.start_time.clone(), fixture.snapshots()), (None, vec![""; 3]));
        fixture.approve();
        fixture.settle(run);
        let stage = &fixture.status(run).stages_status[0];
        assert_eq!(
            said(&stage.before_stage_task_status[0].conditions, "ApprovalRequestApproved"),
            "True StageTaskApprovalRequestApproved: ApprovalRequest object is approved"
        );
        assert!(stage.start_time.is_some());
        assert_eq!(
            said(&fixture.approvals[0].conditions, "ApprovalAccepted"),
            "True ApprovalRequestApprovalAccepted: The approval request has been approved and cannot be reverted"
        );
    });
}

#[test]
fn a_request_is_made_only_for_a_run_that_the_server_still_has() {
    both_scopes(|fixture| {
        let (mut fixture, run) = waiting(fixture);
        let seen = fixture.seen(run);
        assert!(!needs_current_run(&seen, &plan(&seen)), "the request is there");
        fixture.approvals.clear();
        let seen = fixture.seen(run);
        assert!(needs_current_run(&seen, &plan(&seen)), "it is made again");
    });
}

#[test]
fn an_approval_of_another_generation_is_reported_and_does_not_count() {
    both_scopes(|fixture| {
        let (mut fixture, run) = waiting(fixture);
        fixture.approve_at(0);
        let plan = fixture.settle(run);
        let told = "approval request r-before-all is approved for generation 0 and has generation 1; approve it with observedGeneration 1";
        assert_eq!(
            (plan.events[0].message.as_str(), plan.on_requests[0].0.as_str()),
            (told, "r-before-all")
        );
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunWaiting"));
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(60)));
    });
}

#[test]
fn a_pending_request_that_is_deleted_is_made_again_and_an_accepted_one_is_not() {
    both_scopes(|fixture| {
        let (mut fixture, run) = waiting(fixture);
        fixture.approvals.clear();
        fixture.settle(run);
        assert_eq!(fixture.approvals.len(), 1);
        fixture.approve();
        fixture.settle(run);
        fixture.approvals.clear();
        fixture.settle(run);
        assert_eq!(fixture.approvals.len(), 0);
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_request_that_an_earlier_run_of_the_name_left_is_replaced_and_never_counts() {
    both_scopes(|fixture| {
        let (mut fixture, run) = waiting(fixture);
        fixture.approvals[0].run_uid = Some("uid-of-another".into());
        fixture.approve();
        let plan = fixture.step(run);
        assert!(matches!(&plan.waiting[..], [Waiting::Approval { refused: Some(_), .. }]));
        assert_eq!(
            plan.on_requests[0].1.message,
            "approval request r-before-all was made for an earlier update run of this name (UID uid-of-another) and does not count; it is deleted and a new one is made"
        );
        assert_eq!((fixture.approvals.len(), fixture.snapshots()), (0, vec![""; 3]));
        assert_eq!(plan.wake, Some(DISMISSED_POLL), "its end may wake nobody");
        fixture.settle(run);
        assert_eq!(fixture.approvals[0].run_uid, Some(fixture.runs[run].uid.clone()));
        assert_eq!(fixture.snapshots(), [""; 3]);
        fixture.approve();
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

// law S3: whoever creates a request in the second of the run, or before, passes no gate.
#[test]
fn a_request_without_the_uid_of_the_run_is_replaced_whenever_it_was_made() {
    for seconds in [-10, -1, 0, 1] {
        both_scopes(|fixture| {
            let (mut fixture, run) = waiting(fixture);
            fixture.approvals[0].run_uid = None;
            fixture.approvals[0].created =
                fixture.runs[run].created + SignedDuration::from_secs(seconds);
            fixture.approve();
            let plan = fixture.step(run);
            assert!(matches!(&plan.waiting[..], [Waiting::Approval { refused: Some(_), .. }]));
            let told = "approval request r-before-all was not made by the hub for this update run and does not count; it is deleted and a new one is made";
            assert_eq!(plan.on_requests[0].1.message, told);
            assert_eq!((fixture.approvals.len(), fixture.snapshots()), (0, vec![""; 3]));
            fixture.settle(run);
            assert_eq!(fixture.approvals[0].run_uid, Some(fixture.runs[run].uid.clone()));
            assert_eq!(fixture.snapshots(), [""; 3]);
            fixture.approve();
            fixture.run_to_the_end(run);
            assert!(fixture.said(run, "Succeeded").starts_with("True"));
        });
    }
}

#[test]
fn a_request_for_another_stage_or_run_fails_the_run() {
    both_scopes(|fixture| {
        let (mut fixture, run) = waiting(fixture);
        fixture.approvals[0].stage = "other".into();
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            format!(
                "False UpdateRunFailed: cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the approval request task `{}` is targeting update run `{}` and stage `other`, want target update run `{} and stage `all`",
                fixture.key("r-before-all"),
                fixture.key("r"),
                fixture.key("r")
            )
        );
    });
}

#[test]
fn after_stage_tasks_wait_for_time_and_person() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "maxConcurrency": 3, "afterStageTasks":
             [{"type": "TimedWait", "waitTime": "30s"}, {"type": "Approval"}]},
        ])));
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.later(7);
        fixture.available();
        let plan = fixture.settle(run);
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(30)));
        assert_eq!(
            fixture.said(run, "Progressing"),
            "False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage all to complete"
        );
        let before = fixture.status(run).clone();
        fixture.later(29);
        fixture.settle(run);
        assert_eq!(fixture.status(run), &before);
        fixture.later(2);
        let plan = fixture.settle(run);
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(60)));
        let stage = &fixture.status(run).stages_status[0];
        assert_eq!(
            said(&stage.after_stage_task_status[0].conditions, "WaitTimeElapsed"),
            "True AfterStageTaskWaitTimeElapsed: Wait time elapsed"
        );
        fixture.approve();
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

/// A stage without a person, which waits for so long after its clusters.
fn timed(fixture: &mut Fixture, wait: &str) -> usize {
    fixture.strategy = Some(strategy(json!([
        {"name": "all", "labelSelector": {}, "maxConcurrency": 3,
         "afterStageTasks": [{"type": "TimedWait", "waitTime": wait}]},
    ])));
    let run = fixture.create("r", "1", Run);
    fixture.settle(run);
    run
}

#[test]
fn a_wait_of_a_second_is_never_shorter_than_a_second() {
    for late in [0, 1, 290, 500, 890, 999] {
        both_scopes(|mut fixture| {
            let run = timed(&mut fixture, "1s");
            fixture.now += SignedDuration::from_millis(late);
            let done = fixture.now;
            fixture.available();
            let mut plan = fixture.settle(run);
            while fixture.said(run, "Succeeded").is_empty() {
                fixture.now += plan.wake.unwrap();
                plan = fixture.settle(run);
            }
            let waited = fixture.now.duration_since(done);
            let range = SignedDuration::from_secs(1)..=SignedDuration::from_secs(2);
            assert!(range.contains(&waited), "{waited:?} after {late} ms");
        });
    }
}

#[test]
fn after_a_correction_of_the_clock_a_wait_goes_on_within_half_a_minute() {
    both_scopes(|mut fixture| {
        let run = timed(&mut fixture, "1h");
        fixture.available();
        let plan = fixture.settle(run);
        // The clock was behind: the timer that was set for the wait would sleep on.
        assert!(plan.wake.unwrap() <= SignedDuration::from_secs(30), "{:?}", plan.wake);
        fixture.later(3700);
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
    both_scopes(|mut fixture| {
        let run = timed(&mut fixture, "1m");
        fixture.available();
        fixture.settle(run);
        // The clock was an hour ahead: the wait begins anew when that is noticed.
        fixture.later(-3600);
        let plan = fixture.settle(run);
        assert!(plan.wake.unwrap() <= SignedDuration::from_secs(30), "{:?}", plan.wake);
        fixture.later(59);
        fixture.settle(run);
        assert_eq!(fixture.said(run, "Succeeded"), "");
        fixture.later(2);
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"), "{}", fixture.told(run));
    });
}

#[test]
fn a_date_from_before_the_clock_was_set_back_hides_no_later_end() {
    both_scopes(|mut fixture| {
        let first = fixture.create("first", "1", Run);
        fixture.run_to_the_end(first);
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}],
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "34s"}]},
        ])));
        let run = fixture.create("r", "1", Run);
        fixture.later(360);
        // The stage says since when it waits by a clock that is ahead.
        fixture.settle(run);
        fixture.later(-711);
        fixture.settle(run);
        fixture.later(100);
        fixture.approve();
        // Everything is in place at once, so the stage goes on waiting, and its date stays.
        fixture.settle(run);
        fixture.later(33);
        fixture.settle(run);
        assert_eq!(fixture.said(run, "Succeeded"), "");
        fixture.later(2);
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"), "{}", fixture.told(run));
    });
}

#[test]
fn a_hub_whose_clock_is_behind_counts_a_wait_from_the_last_cluster() {
    const AHEAD: i64 = 223;
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "maxConcurrency": 1,
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "21s"}]},
        ])));
        let run = fixture.create("r", "1", Run);
        for _ in 0..3 {
            let behind = std::mem::take(&mut fixture.dates_ahead);
            fixture.later(AHEAD);
            fixture.settle(run);
            fixture.available();
            fixture.settle(run);
            fixture.later(-AHEAD);
            fixture.dates_ahead = behind;
            fixture.settle(run);
            assert_eq!(fixture.said(run, "Succeeded"), "");
            fixture.later(20);
        }
        fixture.settle(run);
        assert_eq!(fixture.said(run, "Succeeded"), "", "the last cluster was done 20 s ago");
        fixture.later(2);
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"), "{}", fixture.told(run));
    });
}

#[test]
fn a_wait_is_not_shortened_when_everything_was_in_place_at_once() {
    both_scopes(|mut fixture| {
        let first = fixture.create("first", "1", Run);
        fixture.run_to_the_end(first);
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}],
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "30s"}]},
        ])));
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.later(100);
        fixture.approve();
        let plan = fixture.settle(run);
        assert_eq!(plan.wake, Some(SignedDuration::from_secs(30)));
    });
}

#[test]
fn a_withdrawn_approval_stays_accepted() {
    both_scopes(|fixture| {
        let (mut fixture, run) = waiting(fixture);
        let now = fixture.now;
        let request = &mut fixture.approvals[0];
        let accepted = draft("ApprovalAccepted").is_true("ApprovalRequestApprovalAccepted");
        accepted.set(&mut request.conditions, Generation(1), now);
        fixture.settle(run);
        assert_eq!(fixture.snapshots(), ["web-1-snapshot", "", ""]);
    });
}
