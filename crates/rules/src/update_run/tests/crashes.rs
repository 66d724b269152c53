//! S10: a hub that crashes after any single write ends where one ends that never does.

use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::json;

use super::world::{World, both_scopes, strategy};

/// Tells a story once without a crash, then once for every write it made.
fn at_every_write(world: &World, story: impl Fn(&mut World) -> usize) {
    let mut calm = world.clone();
    let run = story(&mut calm);
    assert!(calm.writes > 5, "the story is too short");
    for cut in 1..=calm.writes {
        let mut world = world.clone();
        world.crash_after = Some(cut);
        let again = story(&mut world);
        assert_eq!(world.told(again), calm.told(run), "crash after write {cut}");
        assert_eq!(world.snapshots(), calm.snapshots(), "crash after write {cut}");
    }
}

fn gated() -> flagship_api::staged_update::UpdateStrategySpec {
    strategy(json!([
        {"name": "canary", "labelSelector": {"matchLabels": {"env": "canary"}},
         "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "5s"}]},
        {"name": "prod", "labelSelector": {"matchLabels": {"env": "prod"}}, "maxConcurrency": "70%",
         "sortingLabelKey": "order", "beforeStageTasks": [{"type": "Approval"}]},
    ]))
}

#[test]
fn two_stages_with_tasks_and_a_deletion_survive_a_crash_after_every_write() {
    both_scopes(|mut world| {
        world.strategy = Some(gated());
        world.bind("gone");
        world.edit("gone", |spec| spec.state = flagship_api::binding::BindingState::Unscheduled);
        at_every_write(&world, |world| {
            let run = world.create("r", "", Run);
            world.run_to_the_end(run);
            run
        });
    });
}

#[test]
fn a_stop_survives_a_crash_after_every_write() {
    both_scopes(|world| {
        at_every_write(&world, |world| {
            let run = world.create("r", "1", Run);
            world.settle(run);
            world.set_state(run, Stop);
            world.settle(run);
            world.later(3);
            world.available();
            world.settle(run);
            assert!(world.told(run).contains("UpdateRunStopped"));
            world.set_state(run, Run);
            world.run_to_the_end(run);
            run
        });
    });
}

#[test]
fn a_stop_between_the_promise_and_the_binding_is_not_reported_too_early() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        // Finalizer, initialized, started: the hub dies before the binding is written.
        world.crash_after = Some(3);
        for _ in 0..3 {
            world.step(run);
        }
        assert!(world.crash_after.is_none());
        world.binding("m2").fence = None;
        world.set_state(run, Stop);
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("Unknown UpdateRunStopping"));
        world.available();
        world.settle(run);
        assert_eq!(
            world.said(run, "Progressing"),
            "False UpdateRunStopped: The update run has been stopped"
        );
        assert_eq!(world.snapshots(), ["", "web-1-snapshot", ""]);
    });
}

#[test]
fn a_hub_that_read_an_older_generation_does_not_write() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        let old = world.seen(run);
        let fence = world.binding("m2").fence.clone().unwrap();
        world.binding("m2").fence.as_mut().unwrap().generation = fence.generation + 1;
        let late = crate::update_run::plan(&crate::update_run::Observed {
            bindings: world.bindings.clone(),
            ..old
        });
        assert_eq!(late.actions, []);
        assert_eq!(
            late.trouble.unwrap().cause(),
            "binding web-m2 was written for a later generation of the update run than the one read"
        );
    });
}
