//! Laws under any history: crashes, late hubs, rivals, people and members at random.

use flagship_api::condition::ConditionStatus;
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use proptest::prelude::*;
use serde_json::json;

use super::world::{World, strategy};
use crate::update_run::lifecycle::has_ended;
use crate::update_run::{Observed, Plan, plan};

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Happens {
    Pass(usize),
    CrashIn(usize),
    /// A second hub makes a plan now ...
    Plans(usize),
    /// ... and carries it out later, whatever has become of the world.
    CarriesOut,
    Later(i64),
    Available,
    Failing,
    Approve(i64),
    LosesRequest,
    Vanish,
    Stop(usize),
    Resume(usize),
    SchedulerTouches(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    let runs = 0..2_usize;
    prop_oneof![
        8 => runs.clone().prop_map(Happens::Pass),
        2 => (1..4_usize).prop_map(Happens::CrashIn),
        2 => runs.clone().prop_map(Happens::Plans),
        2 => Just(Happens::CarriesOut),
        3 => (0..400_i64).prop_map(Happens::Later),
        4 => Just(Happens::Available),
        1 => Just(Happens::Failing),
        2 => (0..2_i64).prop_map(Happens::Approve),
        1 => Just(Happens::LosesRequest),
        1 => Just(Happens::Vanish),
        1 => runs.clone().prop_map(Happens::Stop),
        2 => runs.prop_map(Happens::Resume),
        1 => (0..3_usize).prop_map(Happens::SchedulerTouches),
    ]
}

fn world(namespaced: bool, rival: bool) -> World {
    let mut world = World::new(namespaced.then_some("app"));
    world.strategy = Some(strategy(json!([
        {"name": "canary", "labelSelector": {"matchLabels": {"env": "canary"}},
         "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "30s"}]},
        {"name": "prod", "labelSelector": {"matchLabels": {"env": "prod"}}, "maxConcurrency": 2,
         "beforeStageTasks": [{"type": "Approval"}]},
    ])));
    world.bind("x");
    world.edit("x", |spec| spec.state = flagship_api::binding::BindingState::Unscheduled);
    world.create("a", "0", Run);
    if rival {
        world.create("b", "1", Run);
    }
    world
}

fn happen(world: &mut World, late: &mut Option<(usize, Plan, Observed)>, what: Happens) {
    let real = |run: usize| run % world.runs.len();
    match what {
        Happens::Pass(run) => {
            let run = real(run);
            world.step(run);
        }
        Happens::CrashIn(writes) => world.crash_after = Some(writes),
        Happens::Plans(run) => {
            let run = real(run);
            let read = world.seen(run);
            *late = Some((run, plan(&read), read));
        }
        Happens::CarriesOut => {
            if let Some((run, plan, read)) = late.take() {
                world.carry_out_late(run, &plan, &read);
            }
        }
        Happens::Later(seconds) => world.later(seconds),
        Happens::Available => world.available(),
        Happens::Failing => world.report("Available", ConditionStatus::False),
        Happens::Approve(generation) => world.approve_at(generation),
        Happens::LosesRequest => {
            world.approvals.pop();
        }
        Happens::Vanish => world.vanish(),
        Happens::Stop(run) => {
            let run = real(run);
            world.set_state(run, Stop);
        }
        Happens::Resume(run) => {
            let run = real(run);
            world.set_state(run, Run);
        }
        Happens::SchedulerTouches(at) => {
            let cluster = ["m1", "m2", "m3"][at];
            world.edit(cluster, |spec| spec.cluster_decision.reason.push('x'));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// The world itself holds every accepted write against the laws.
    #[test]
    fn no_history_breaks_a_law_and_every_run_still_ends(
        namespaced: bool,
        rival: bool,
        history in prop::collection::vec(happens(), 0..80),
    ) {
        let mut world = world(namespaced, rival);
        let mut late = None;
        for what in history {
            happen(&mut world, &mut late, what);
        }
        world.crash_after = None;
        for run in 0..world.runs.len() {
            world.set_state(run, Run);
        }
        for _ in 0..60 {
            for run in 0..world.runs.len() {
                world.settle(run);
            }
            world.later(20);
            world.approve();
            world.available();
            world.vanish();
        }
        for run in 0..world.runs.len() {
            prop_assert!(has_ended(world.status(run)), "{}", world.told(run));
        }
        if !rival {
            prop_assert!(world.said(0, "Succeeded").starts_with("True"), "{}", world.told(0));
        }
    }
}
