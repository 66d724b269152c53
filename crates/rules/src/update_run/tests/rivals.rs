//! Two runs on one placement: the later promise wins, and the other one says so.

use std::sync::Arc;

use expect_test::expect;
use flagship_api::binding::{BindingState, ResourceBindingStatus};
use flagship_api::staged_update::UpdateRunState::Run;
use flagship_api::staged_update::UpdateRunState::Stop;

use super::fixture::{Fixture, both_scopes, said};
use crate::update_run::{needs_current_run, needs_fresh_reads, plan};

/// Run `a` updates m2 when run `b` with another version comes along.
fn met(mut fixture: Fixture) -> (Fixture, usize, usize) {
    let a = fixture.create("a", "0", Run);
    fixture.settle(a);
    fixture.later(10);
    let b = fixture.create("b", "1", Run);
    (fixture, a, b)
}

#[test]
fn two_concurrent_runs_with_different_indices_the_first_fails_with_the_preemption_text() {
    both_scopes(|fixture| {
        let (mut fixture, a, b) = met(fixture);
        let plan = (0..3).map(|_| fixture.step(b)).last().unwrap();
        let told: Vec<_> = plan.events.iter().map(|e| e.message.as_str()).collect();
        assert!(told.contains(&"cluster m2 is taken over from update run a"), "{told:?}");
        fixture.settle(a);
        let key = crate::update_run::Observed::clone(&fixture.seen(a)).run.beside("web-m2");
        assert_eq!(
            fixture.said(a, "Succeeded"),
            format!(
                "False UpdateRunFailed: cannot continue the updateRun: failed to process the request due to a client error: the binding of the updating cluster `m2` in the stage `canary` is not up-to-date with the desired status, please check the status of binding `{key}` and see if there is a concurrent updateRun referencing the same placement and updating the same cluster"
            )
        );
        expect![[r#"
            run: Initialized=True/UpdateRunInitializedSuccessfully Progressing=False/UpdateRunFailed Succeeded=False/UpdateRunFailed
              canary: Progressing=False/StageUpdatingFailed Succeeded=False/StageUpdatingFailed
                m2: Started=True/ClusterUpdatingStarted Succeeded=False/ClusterUpdatingFailed
              prod:
                m3:
                m1:
              kubernetes-fleet.io/deleteStage:
        "#]]
        .assert_eq(&fixture.told(a));
        fixture.run_to_the_end(b);
        assert!(fixture.said(b, "Succeeded").starts_with("True"));
        assert!(
            said(&fixture.bindings[1].status.conditions, "RolloutStarted")
                .ends_with("resourceSnapshotIndex: 1, updateRun: b")
        );
    });
}

#[test]
fn a_run_whose_promise_is_older_gives_way_even_if_it_never_wrote() {
    both_scopes(|mut fixture| {
        let a = fixture.create("a", "0", Run);
        fixture.crash_after = Some(3);
        for _ in 0..3 {
            fixture.step(a);
        }
        fixture.later(10);
        let b = fixture.create("b", "1", Run);
        fixture.settle(b);
        fixture.settle(a);
        assert!(fixture.said(a, "Succeeded").starts_with("False"));
        fixture.run_to_the_end(b);
        assert!(fixture.said(b, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_promise_made_over_a_rivals_binding_survives_a_crash_before_the_write() {
    both_scopes(|fixture| {
        let (mut fixture, a, b) = met(fixture);
        fixture.crash_after = Some(3);
        for _ in 0..3 {
            fixture.step(b);
        }
        assert_eq!(fixture.snapshots()[1], "web-0-snapshot");
        fixture.settle(a);
        assert!(fixture.said(a, "Progressing").starts_with("True"));
        fixture.settle(b);
        assert_eq!(fixture.snapshots()[1], "web-1-snapshot");
        fixture.settle(a);
        assert!(fixture.said(a, "Succeeded").starts_with("False"));
    });
}

#[test]
fn two_runs_with_the_same_version_do_not_disturb_each_other() {
    both_scopes(|mut fixture| {
        let a = fixture.create("a", "1", Run);
        fixture.settle(a);
        let b = fixture.create("b", "1", Run);
        fixture.settle(b);
        fixture.run_to_the_end(a);
        fixture.run_to_the_end(b);
        for run in [a, b] {
            assert!(fixture.said(run, "Succeeded").starts_with("True"));
        }
    });
}

#[test]
fn a_scheduler_that_touches_a_binding_does_not_fail_the_run() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture
            .edit("m2", |spec| Arc::make_mut(&mut spec.cluster_decision).reason = "again".into());
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("True"));
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_hand_edit_of_an_updating_binding_fails_the_run_also_while_stopping() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.set_state(run, Stop);
        fixture.edit("m2", |spec| spec.resource_snapshot_name = "web-0-snapshot".into());
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").contains("concurrent updateRun"));
    });
}

#[test]
fn a_binding_forced_back_to_scheduled_aborts_the_run_as_a_user_error() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.edit("m2", |spec| spec.state = flagship_api::binding::BindingState::Scheduled);
        let plan = fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("False"));
        assert_eq!(plan.series.unwrap().failure_type, "user_error");
    });
}

#[test]
fn a_takeover_by_a_kubefleet_hub_is_read_off_the_start_signal() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.later(5);
        let now = fixture.now;
        fixture.edit("m2", |spec| spec.resource_snapshot_name = "web-0-snapshot".into());
        let binding = fixture.binding("m2");
        binding.fence = None;
        let at = flagship_api::condition::Generation(binding.generation);
        let signal = flagship_api::condition::draft("RolloutStarted").is_true("RolloutStarted");
        let signal = signal.because("started, resourceSnapshotIndex: 0, updateRun: other");
        signal.set_afresh(&mut binding.status.conditions, at, now);
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").contains("concurrent updateRun"));
    });
}

#[test]
fn a_run_begun_by_a_kubefleet_hub_goes_on_and_its_losses_are_noticed() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        // KubeFleet leaves no fence.
        fixture.binding("m2").fence = None;
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("True"));
        let mut edited = fixture.clone();
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
        edited.edit("m2", |spec| spec.resource_snapshot_name = "web-0-snapshot".into());
        edited.settle(run);
        assert!(edited.said(run, "Succeeded").contains("concurrent updateRun"));
    });
}

#[test]
fn a_rival_that_is_gone_cannot_insist() {
    both_scopes(|fixture| {
        let (mut fixture, _, b) = met(fixture);
        fixture.crash_after = Some(3);
        for _ in 0..3 {
            fixture.step(b);
        }
        let b = fixture.runs.swap_remove(b);
        fixture.runs = vec![b];
        fixture.run_to_the_end(0);
        assert!(fixture.said(0, "Succeeded").starts_with("True"));
        assert_eq!(fixture.snapshots(), ["web-1-snapshot"; 3]);
    });
}

#[test]
fn a_rival_that_is_done_within_the_same_second_does_not_insist() {
    both_scopes(|mut fixture| {
        // The name, and with it the UID, must not matter.
        for (first, second) in [("a", "b"), ("z", "c")] {
            let done = fixture.create(first, "0", Run);
            while !fixture.said(done, "Succeeded").starts_with("True") {
                fixture.settle(done);
                fixture.available();
            }
            let run = fixture.create(second, "1", Run);
            // Finalizer, initialized, started: the hub dies before the binding is written.
            fixture.crash_after = Some(3);
            for _ in 0..3 {
                fixture.step(run);
            }
            assert_eq!(fixture.snapshots()[1], "web-0-snapshot");
            fixture.run_to_the_end(run);
            assert!(fixture.said(run, "Succeeded").starts_with("True"), "{second}");
        }
    });
}

// checklist 13.7 two concurrent runs: who came later wins, also within one second
#[test]
fn a_takeover_within_one_second_goes_by_who_came_later() {
    both_scopes(|fixture| {
        // Neither the name, and with it the UID, nor a clock that is behind must matter.
        for (first, second, behind) in [("a", "b", 0), ("z", "c", 0), ("z", "c", 90)] {
            let mut fixture = fixture.clone();
            let old = fixture.create(first, "0", Run);
            fixture.settle(old);
            fixture.later(-behind);
            let new = fixture.create(second, "1", Run);
            fixture.settle(new);
            assert_eq!(fixture.snapshots()[1], "web-1-snapshot");
            fixture.settle(old);
            assert!(fixture.said(old, "Succeeded").contains("concurrent updateRun"), "{second}");
            fixture.run_to_the_end(new);
            assert!(fixture.said(new, "Succeeded").starts_with("True"), "{second}");
        }
    });
}

#[test]
fn a_promise_over_a_busy_cluster_bears_a_later_time_and_its_end_no_earlier_one() {
    both_scopes(|mut fixture| {
        let old = fixture.create("a", "0", Run);
        fixture.settle(old);
        let new = fixture.create("b", "1", Run);
        fixture.settle(new);
        fixture.available();
        fixture.settle(new);
        let times = |run: usize| -> Vec<_> {
            let conditions = &fixture.runs[run].status.stages_status[0].clusters[0].conditions;
            conditions
                .iter()
                .map(|c| c.last_transition_time.0.duration_since(fixture.now))
                .collect()
        };
        let second = jiff::SignedDuration::from_secs(1);
        assert_eq!(times(old), [jiff::SignedDuration::ZERO]);
        assert_eq!(times(new), [second, second]);
    });
}

#[test]
fn a_cluster_is_not_called_finished_by_what_another_run_wrote_without_a_fresh_look() {
    both_scopes(|mut fixture| {
        let a = fixture.create("a", "1", Run);
        fixture.settle(a);
        fixture.available();
        let seen = fixture.seen(a);
        assert!(!needs_fresh_reads(&seen, &plan(&seen)), "it wrote the binding itself");
        let b = fixture.create("b", "1", Run);
        (0..2).for_each(|_| drop(fixture.step(b)));
        let seen = fixture.seen(b);
        assert!(needs_fresh_reads(&seen, &plan(&seen)));
    });
}

#[test]
fn a_binding_that_came_after_a_cluster_was_started_is_given_nothing_by_an_old_look_at_the_run() {
    both_scopes(|mut fixture| {
        let a = fixture.create("a", "1", Run);
        fixture.settle(a);
        let seen = fixture.seen(a);
        assert!(!needs_current_run(&seen, &plan(&seen)), "it waits for what it gave");
        // As after the placement was replaced by another of its name.
        for binding in &mut fixture.bindings {
            (binding.fence, binding.uid) = (None, format!("{}-later", binding.uid));
            binding.spec.resource_snapshot_name.clear();
            binding.spec.state = BindingState::Scheduled;
            binding.status = ResourceBindingStatus::default();
        }
        let seen = fixture.seen(a);
        assert!(needs_current_run(&seen, &plan(&seen)), "it gives the same again");
    });
}
