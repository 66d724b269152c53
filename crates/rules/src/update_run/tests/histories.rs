//! Laws under any history: crashes, late hubs, rivals, people and members at random.

use std::sync::Arc;

use flagship_api::condition::ConditionStatus;
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use proptest::prelude::*;
use serde_json::json;

use super::crashes::tries_everything;
use super::fixture::{Fixture, strategy};
use crate::update_run::lifecycle::has_ended;
use crate::update_run::{Observed, Plan, plan};

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Happens {
    Pass(usize),
    CrashIn(usize),
    /// A second hub makes a plan now ...
    Plans(usize),
    /// ... and carries it out later, whatever has become of the fixture.
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

fn fixture(namespaced: bool, rival: bool) -> Fixture {
    let mut fixture = Fixture::new(namespaced.then_some("app"));
    fixture.strategy = Some(strategy(json!([
        {"name": "canary", "labelSelector": {"matchLabels": {"env": "canary"}},
         "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "30s"}]},
        {"name": "prod", "labelSelector": {"matchLabels": {"env": "prod"}}, "maxConcurrency": 2,
         "beforeStageTasks": [{"type": "Approval"}]},
    ])));
    fixture.bind("x");
    fixture.edit("x", |spec| spec.state = flagship_api::binding::BindingState::Unscheduled);
    fixture.create("a", "0", Run);
    if rival {
        fixture.create("b", "1", Run);
    }
    fixture
}

fn happen(fixture: &mut Fixture, late: &mut Option<(usize, Plan, Observed)>, what: Happens) {
    let real = |run: usize| run % fixture.runs.len();
    match what {
        Happens::Pass(run) => {
            let run = real(run);
            fixture.step(run);
        }
        Happens::CrashIn(writes) => fixture.crash_after = Some(writes),
        Happens::Plans(run) => {
            let run = real(run);
            let read = fixture.seen(run);
            *late = Some((run, plan(&read), read));
        }
        Happens::CarriesOut => {
            if let Some((run, plan, read)) = late.take() {
                fixture.carry_out_late(run, &plan, &read);
            }
        }
        Happens::Later(seconds) => fixture.later(seconds),
        Happens::Available => fixture.available(),
        Happens::Failing => fixture.report("Available", ConditionStatus::False),
        Happens::Approve(generation) => fixture.approve_at(generation),
        Happens::LosesRequest => {
            fixture.approvals.pop();
        }
        Happens::Vanish => fixture.vanish(),
        Happens::Stop(run) => {
            let run = real(run);
            fixture.set_state(run, Stop);
        }
        Happens::Resume(run) => {
            let run = real(run);
            fixture.set_state(run, Run);
        }
        Happens::SchedulerTouches(at) => {
            let cluster = ["m1", "m2", "m3"][at];
            fixture
                .edit(cluster, |spec| Arc::make_mut(&mut spec.cluster_decision).reason.push('x'));
        }
    }
}

/// How many histories are tried; more where everything is.
fn cases() -> u32 {
    if tries_everything() { 600 } else { 75 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// The fixture itself holds every accepted write against the laws.
    #[test]
    fn no_history_breaks_a_law_and_every_run_still_ends(
        namespaced: bool,
        rival: bool,
        history in prop::collection::vec(happens(), 0..80),
    ) {
        let mut fixture = fixture(namespaced, rival);
        let mut late = None;
        for what in history {
            happen(&mut fixture, &mut late, what);
        }
        fixture.crash_after = None;
        for run in 0..fixture.runs.len() {
            fixture.set_state(run, Run);
        }
        for _ in 0..60 {
            for run in 0..fixture.runs.len() {
                fixture.settle(run);
            }
            fixture.later(20);
            fixture.approve();
            fixture.available();
            fixture.vanish();
        }
        for run in 0..fixture.runs.len() {
            prop_assert!(has_ended(fixture.status(run)), "{}", fixture.told(run));
        }
        if !rival {
            prop_assert!(fixture.said(0, "Succeeded").starts_with("True"), "{}", fixture.told(0));
        }
    }
}
