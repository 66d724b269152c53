//! Two runs on one placement: the later promise wins, and the other one says so.

use expect_test::expect;
use flagship_api::binding::{BindingState, ResourceBindingStatus};
use flagship_api::staged_update::UpdateRunState::Run;
use flagship_api::staged_update::UpdateRunState::Stop;

use super::world::{World, both_scopes, said};
use crate::update_run::{needs_current_run, needs_fresh_reads, plan};

/// Run `a` updates m2 when run `b` with another version comes along.
fn met(mut world: World) -> (World, usize, usize) {
    let a = world.create("a", "0", Run);
    world.settle(a);
    world.later(10);
    let b = world.create("b", "1", Run);
    (world, a, b)
}

#[test]
fn two_concurrent_runs_with_different_indices_the_first_fails_with_the_preemption_text() {
    both_scopes(|world| {
        let (mut world, a, b) = met(world);
        let plan = (0..3).map(|_| world.step(b)).last().unwrap();
        let told: Vec<_> = plan.events.iter().map(|e| e.message.as_str()).collect();
        assert!(told.contains(&"cluster m2 is taken over from update run a"), "{told:?}");
        world.settle(a);
        let key = crate::update_run::Observed::clone(&world.seen(a)).run.beside("web-m2");
        assert_eq!(
            world.said(a, "Succeeded"),
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
        .assert_eq(&world.told(a));
        world.run_to_the_end(b);
        assert!(world.said(b, "Succeeded").starts_with("True"));
        assert!(
            said(&world.bindings[1].status.conditions, "RolloutStarted")
                .ends_with("resourceSnapshotIndex: 1, updateRun: b")
        );
    });
}

#[test]
fn a_run_whose_promise_is_older_gives_way_even_if_it_never_wrote() {
    both_scopes(|mut world| {
        let a = world.create("a", "0", Run);
        world.crash_after = Some(3);
        for _ in 0..3 {
            world.step(a);
        }
        world.later(10);
        let b = world.create("b", "1", Run);
        world.settle(b);
        world.settle(a);
        assert!(world.said(a, "Succeeded").starts_with("False"));
        world.run_to_the_end(b);
        assert!(world.said(b, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_promise_made_over_a_rivals_binding_survives_a_crash_before_the_write() {
    both_scopes(|world| {
        let (mut world, a, b) = met(world);
        world.crash_after = Some(3);
        for _ in 0..3 {
            world.step(b);
        }
        assert_eq!(world.snapshots()[1], "web-0-snapshot");
        world.settle(a);
        assert!(world.said(a, "Progressing").starts_with("True"));
        world.settle(b);
        assert_eq!(world.snapshots()[1], "web-1-snapshot");
        world.settle(a);
        assert!(world.said(a, "Succeeded").starts_with("False"));
    });
}

#[test]
fn two_runs_with_the_same_version_do_not_disturb_each_other() {
    both_scopes(|mut world| {
        let a = world.create("a", "1", Run);
        world.settle(a);
        let b = world.create("b", "1", Run);
        world.settle(b);
        world.run_to_the_end(a);
        world.run_to_the_end(b);
        for run in [a, b] {
            assert!(world.said(run, "Succeeded").starts_with("True"));
        }
    });
}

#[test]
fn a_scheduler_that_touches_a_binding_does_not_fail_the_run() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.edit("m2", |spec| spec.cluster_decision.reason = "again".into());
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("True"));
        world.run_to_the_end(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_hand_edit_of_an_updating_binding_fails_the_run_also_while_stopping() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.set_state(run, Stop);
        world.edit("m2", |spec| spec.resource_snapshot_name = "web-0-snapshot".into());
        world.settle(run);
        assert!(world.said(run, "Succeeded").contains("concurrent updateRun"));
    });
}

#[test]
fn a_binding_forced_back_to_scheduled_aborts_the_run_as_a_user_error() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.edit("m2", |spec| spec.state = flagship_api::binding::BindingState::Scheduled);
        let plan = world.settle(run);
        assert!(world.said(run, "Succeeded").starts_with("False"));
        assert_eq!(plan.series.unwrap().failure_type, "user_error");
    });
}

#[test]
fn a_takeover_by_a_kubefleet_hub_is_read_off_the_start_signal() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.later(5);
        let now = world.now;
        world.edit("m2", |spec| spec.resource_snapshot_name = "web-0-snapshot".into());
        let binding = world.binding("m2");
        binding.fence = None;
        let at = flagship_api::condition::Generation(binding.generation);
        let signal = flagship_api::condition::draft("RolloutStarted").is_true("RolloutStarted");
        let signal = signal.because("started, resourceSnapshotIndex: 0, updateRun: other");
        signal.set_afresh(&mut binding.status.conditions, at, now);
        world.settle(run);
        assert!(world.said(run, "Succeeded").contains("concurrent updateRun"));
    });
}

#[test]
fn a_run_begun_by_a_kubefleet_hub_goes_on_and_its_losses_are_noticed() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        // KubeFleet leaves no fence.
        world.binding("m2").fence = None;
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("True"));
        let mut edited = world.clone();
        world.run_to_the_end(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
        edited.edit("m2", |spec| spec.resource_snapshot_name = "web-0-snapshot".into());
        edited.settle(run);
        assert!(edited.said(run, "Succeeded").contains("concurrent updateRun"));
    });
}

#[test]
fn a_rival_that_is_gone_cannot_insist() {
    both_scopes(|world| {
        let (mut world, _, b) = met(world);
        world.crash_after = Some(3);
        for _ in 0..3 {
            world.step(b);
        }
        let b = world.runs.swap_remove(b);
        world.runs = vec![b];
        world.run_to_the_end(0);
        assert!(world.said(0, "Succeeded").starts_with("True"));
        assert_eq!(world.snapshots(), ["web-1-snapshot"; 3]);
    });
}

#[test]
fn a_rival_that_is_done_within_the_same_second_does_not_insist() {
    both_scopes(|mut world| {
        // The name, and with it the UID, must not matter.
        for (first, second) in [("a", "b"), ("z", "c")] {
            let done = world.create(first, "0", Run);
            while !world.said(done, "Succeeded").starts_with("True") {
                world.settle(done);
                world.available();
            }
            let run = world.create(second, "1", Run);
            // Finalizer, initialized, started: the hub dies before the binding is written.
            world.crash_after = Some(3);
            for _ in 0..3 {
                world.step(run);
            }
            assert_eq!(world.snapshots()[1], "web-0-snapshot");
            world.run_to_the_end(run);
            assert!(world.said(run, "Succeeded").starts_with("True"), "{second}");
        }
    });
}

// checklist 13.7 two concurrent runs: who came later wins, also within one second
#[test]
fn a_takeover_within_one_second_goes_by_who_came_later() {
    both_scopes(|world| {
        // Neither the name, and with it the UID, nor a clock that is behind must matter.
        for (first, second, behind) in [("a", "b", 0), ("z", "c", 0), ("z", "c", 90)] {
            let mut world = world.clone();
            let old = world.create(first, "0", Run);
            world.settle(old);
            world.later(-behind);
            let new = world.create(second, "1", Run);
            world.settle(new);
            assert_eq!(world.snapshots()[1], "web-1-snapshot");
            world.settle(old);
            assert!(world.said(old, "Succeeded").contains("concurrent updateRun"), "{second}");
            world.run_to_the_end(new);
            assert!(world.said(new, "Succeeded").starts_with("True"), "{second}");
        }
    });
}

#[test]
fn a_promise_over_a_busy_cluster_bears_a_later_time_and_its_end_no_earlier_one() {
    both_scopes(|mut world| {
        let old = world.create("a", "0", Run);
        world.settle(old);
        let new = world.create("b", "1", Run);
        world.settle(new);
        world.available();
        world.settle(new);
        let times = |run: usize| -> Vec<_> {
            let conditions = &world.runs[run].status.stages_status[0].clusters[0].conditions;
            conditions.iter().map(|c| c.last_transition_time.0.duration_since(world.now)).collect()
        };
        let second = jiff::SignedDuration::from_secs(1);
        assert_eq!(times(old), [jiff::SignedDuration::ZERO]);
        assert_eq!(times(new), [second, second]);
    });
}

#[test]
fn a_cluster_is_not_called_finished_by_what_another_run_wrote_without_a_fresh_look() {
    both_scopes(|mut world| {
        let a = world.create("a", "1", Run);
        world.settle(a);
        world.available();
        let seen = world.seen(a);
        assert!(!needs_fresh_reads(&seen, &plan(&seen)), "it wrote the binding itself");
        let b = world.create("b", "1", Run);
        (0..2).for_each(|_| drop(world.step(b)));
        let seen = world.seen(b);
        assert!(needs_fresh_reads(&seen, &plan(&seen)));
    });
}

#[test]
fn a_binding_that_came_after_a_cluster_was_started_is_given_nothing_by_an_old_look_at_the_run() {
    both_scopes(|mut world| {
        let a = world.create("a", "1", Run);
        world.settle(a);
        let seen = world.seen(a);
        assert!(!needs_current_run(&seen, &plan(&seen)), "it waits for what it gave");
        // As after the placement was replaced by another of its name.
        for binding in &mut world.bindings {
            (binding.fence, binding.uid) = (None, format!("{}-later", binding.uid));
            binding.spec.resource_snapshot_name.clear();
            binding.spec.state = BindingState::Scheduled;
            binding.status = ResourceBindingStatus::default();
        }
        let seen = world.seen(a);
        assert!(needs_current_run(&seen, &plan(&seen)), "it gives the same again");
    });
}
