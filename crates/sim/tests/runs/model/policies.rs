//! Worlds with freezes, policies and records, and planners that do not heed them.

use std::sync::Arc;

use expect_test::expect;
use flagship_api::condition::Generation;
use flagship_api::condition_type::update_run::FOLLOWS_POLICIES;
use flagship_rules::model::Fence;
use flagship_rules::policy::Policy;
use flagship_rules::update_run::trusted::vouch;
use flagship_rules::update_run::{Action, Observed, Plan, plan};
use flagship_sim::model::{Faults, World};
use serde_json::{Value, json};

use super::checker::explore;
use super::worlds::{holds, holds_in_wide};

#[test]
fn a_freeze_in_the_middle() {
    let faults = Faults { freeze: 1, crash: 1, stale: 1, ..Faults::default() };
    let world = World { freezes: true, dropped: 1, faults, ..World::default() };
    holds("2x2, one dropped: freeze, crash, stale", world, 1_000);
}

#[test]
fn a_freeze_and_two_hubs_that_both_lead() {
    let faults = Faults { freeze: 1, stop: 1, ..Faults::default() };
    let world = World { freezes: true, before: vec![1], hubs: 2, faults, ..World::default() };
    holds("2x2, an approval, two hubs: freeze, stop", world, 1_000);
}

/// A cluster that is not available at the next tick has failed, and none may.
fn strict(then: &str) -> Vec<Policy> {
    policies(json!({"failure": {"progressDeadline": "5m", "then": then}}))
}

fn policies(spec: Value) -> Vec<Policy> {
    vec![Policy { name: "strict".to_owned(), spec: serde_json::from_value(spec).unwrap() }]
}

/// A second run may come later than the first, and is not to be undone.
fn overtaking() -> World {
    let policies = policies(json!({"clusters": {"overtaken": "Fail"}}));
    World { stages: 1, rival: true, policies, ..World::default() }
}

#[test]
fn a_failing_cluster_and_a_spent_budget() {
    let faults = Faults { late: 1, crash: 1, stale: 1, ..Faults::default() };
    let policies = strict("Stop");
    let world = World { clusters: 3, at_once: 2, policies, faults, ..World::default() };
    let narrow = World { stages: 1, ..world.clone() };
    holds("1x3, two at once, a budget: late, crash, stale", narrow, 2_500);
    holds_in_wide("2x3, two at once, a budget: late, crash, stale", world, 1_000);
}

#[test]
fn a_spent_budget_and_two_hubs_that_both_lead() {
    let faults = Faults { late: 1, stop: 1, ..Faults::default() };
    let policies = strict("Stop");
    let world = World { stages: 1, hubs: 2, policies, faults, ..World::default() };
    holds("1x2, two hubs, a budget: late, stop", world, 500);
}

#[test]
fn a_run_that_is_overtaken() {
    holds("1x2, rival, overtaken runs fail", overtaking(), 500);
}

#[test]
fn a_rollback_and_a_crash_between() {
    let faults = Faults { late: 1, crash: 1, stale: 1, ..Faults::default() };
    let world = World { rollback: true, policies: strict("Rollback"), faults, ..World::default() };
    holds("2x2, a rollback: late, crash, stale", world, 1_000);
}

#[test]
fn a_rollback_and_two_hubs_that_both_lead() {
    let faults = Faults { late: 1, ..Faults::default() };
    let policies = strict("Rollback");
    let world = World { stages: 1, rollback: true, hubs: 2, policies, faults, ..World::default() };
    holds("1x2, two hubs, a rollback: late", world, 500);
    let faults = Faults { late: 1, crash: 1, ..Faults::default() };
    let policies = strict("Rollback");
    let world = World { rollback: true, hubs: 2, policies, faults, ..World::default() };
    holds_in_wide("2x2, two hubs, a rollback: late, crash", world, 5_000);
}

#[test]
fn a_rollback_and_a_freeze_in_the_middle() {
    let faults = Faults { late: 1, freeze: 1, ..Faults::default() };
    let policies = strict("Rollback");
    let world = World { rollback: true, freezes: true, policies, faults, ..World::default() };
    holds("2x2, a rollback, a freeze: late", world, 500);
}

#[test]
fn a_quarantine_in_the_middle() {
    let faults = Faults { quarantine: 1, crash: 1, stale: 1, ..Faults::default() };
    let world = World { quarantines: true, faults, ..World::default() };
    holds("2x2, a quarantine: crash, stale", world, 300);
}

/// Decides as if nothing were quarantined.
fn reckless(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    seen.policy.brought = None;
    for snapshot in seen.resource_snapshots.iter_mut().map(Arc::make_mut) {
        snapshot.quarantine = None;
    }
    plan(&seen)
}

#[test]
fn a_planner_that_does_not_heed_a_quarantine_is_found() {
    let faults = Faults { quarantine: 1, ..Faults::default() };
    let world = World { quarantines: true, faults, ..World::default() };
    assert!(laws_broken(world, reckless, "P5").contains(&"P5"));
}

/// The laws that a planner breaks.
fn laws_broken(world: World, planner: fn(&Observed) -> Plan, law: &str) -> Vec<&'static str> {
    explore(world, planner, &[law]).broken.map(|(laws, _)| laws).unwrap_or_default()
}

/// Decides as if the policies of the run were those that it has now, whoever wrote them.
pub fn believing_it(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    let (adopted, at) = (seen.run.adopted.clone(), Generation(seen.run.generation));
    flagship_api::condition::remove(&mut seen.run.status.conditions, FOLLOWS_POLICIES);
    if let Some(adopted) = adopted.filter(|_| seen.run.is_initialized()) {
        vouch(&mut seen.run.status, &adopted, None, at, seen.now);
    }
    plan(&seen)
}

/// Decides as if any number of clusters might fail.
fn spender(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    for policy in seen.run.adopted.iter_mut().flat_map(|adopted| &mut adopted.policies) {
        let failure = policy.spec.failure.get_or_insert_default();
        failure.budget = serde_json::from_value(json!({"run": "100%"})).unwrap();
    }
    believing_it(&seen)
}

#[test]
fn a_planner_that_spends_more_than_the_budget_is_found() {
    let faults = Faults { late: 1, ..Faults::default() };
    let world = World { policies: strict("Stop"), faults, ..World::default() };
    assert!(laws_broken(world, spender, "P1").contains(&"P1"));
}

/// Decides as if nobody minded that a run takes clusters back.
fn taker(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    seen.run.adopted = None;
    believing_it(&seen)
}

#[test]
fn a_planner_that_takes_clusters_back_is_found() {
    assert!(laws_broken(overtaking(), taker, "P8").contains(&"P8"));
}

/// Plans the rollback of every cluster, and takes each for one that its run has touched.
fn eager(seen: &Observed) -> Plan {
    let mut believed = seen.clone();
    if let Some(undoes) = seen.run.adopted.as_ref().and_then(|adopted| adopted.undoes.clone()) {
        let fence = Fence { run: undoes.uid, generation: 1 };
        for binding in believed.bindings.iter_mut().map(Arc::make_mut) {
            binding.fence.get_or_insert_with(|| fence.clone());
        }
    }
    let mut plan = plan(&believed);
    let source = seen.policy.source.as_deref();
    for action in &mut plan.actions {
        if let (Action::Status(status), Some(source), false) =
            (action, source, seen.run.is_initialized())
        {
            let record = &source.status;
            status.staged_update_strategy_snapshot = record.staged_update_strategy_snapshot.clone();
            status.stages_status = record.stages_status.clone();
            let clusters = status.stages_status.iter_mut().flat_map(|stage| {
                stage.conditions.clear();
                (stage.start_time, stage.end_time) = (None, None);
                &mut stage.clusters
            });
            clusters.for_each(|cluster| cluster.conditions.clear());
        }
    }
    plan
}

#[test]
fn a_rollback_of_clusters_that_were_not_touched_is_found() {
    let faults = Faults { late: 1, ..Faults::default() };
    let mut world =
        World { rollback: true, policies: strict("Rollback"), faults, ..World::default() };
    world.stages = 1;
    assert!(laws_broken(world, eager, "P4").contains(&"P4"));
}

/// Moves clusters without a note of what they had.
fn forgetful(seen: &Observed) -> Plan {
    let (mut plan, mut noted) = (plan(seen), None);
    for action in &mut plan.actions {
        if let Action::Adopt(adopted) = action {
            adopted.before = Default::default();
            noted = Some(adopted.clone());
        }
        if let (Action::Status(status), Some(noted)) = (action, &noted) {
            vouch(status, noted, None, Generation(seen.run.generation), seen.now);
        }
    }
    plan
}

#[test]
fn a_planner_that_does_not_note_what_clusters_had_is_found() {
    let faults = Faults { late: 1, ..Faults::default() };
    let world = World { rollback: true, policies: strict("Rollback"), faults, ..World::default() };
    assert!(laws_broken(world, forgetful, "P4").contains(&"P4"));
}

/// In Berlin it is one o'clock when a model begins, and closed for a tick.
fn windows() -> Vec<Policy> {
    let window = json!({"deny": "1970-01-01T01:00/1970-01-01T01:10", "timeZone": "Europe/Berlin"});
    policies(json!({"windows": [window]}))
}

#[test]
fn a_window_that_opens_later() {
    let faults = Faults { crash: 1, stale: 1, stop: 1, ..Faults::default() };
    let world = World { dropped: 1, policies: windows(), faults, ..World::default() };
    holds("2x2, one dropped, a window: crash, stale, stop", world, 300);
}

#[test]
fn a_window_that_closes_and_two_hubs_that_both_lead() {
    let window = json!({"deny": "1970-01-01T00:10/1970-01-01T00:20"});
    let policies = policies(json!({"windows": [window]}));
    let faults = Faults { late: 1, stop: 1, ..Faults::default() };
    let world = World { stages: 1, hubs: 2, policies, faults, ..World::default() };
    holds("1x2, two hubs, a window: late, stop", world, 500);
}

/// Reads every window as if its zone were UTC.
fn elsewhere(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    for policy in seen.run.adopted.iter_mut().flat_map(|adopted| &mut adopted.policies) {
        policy.spec.windows.iter_mut().for_each(|window| window.time_zone = None);
    }
    believing_it(&seen)
}

#[test]
fn a_window_that_is_read_in_the_wrong_zone_is_found() {
    let world = World { policies: windows(), ..World::default() };
    let found = explore(world, elsewhere, &["P2"]);
    let (_, way) = found.broken.unwrap_or_default();
    expect![[r#"
        hub 0 reads run0
        hub 0 writes the policies it follows
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        hub 0 reads run0
    "#]]
    .assert_eq(&way);
}

/// Decides as if nobody had frozen anything.
fn deaf(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    seen.policy.freezes.clear();
    plan(&seen)
}

#[test]
fn a_planner_that_does_not_heed_a_freeze_is_found() {
    let faults = Faults { freeze: 1, ..Faults::default() };
    let world = World { freezes: true, faults, ..World::default() };
    let found = explore(world, deaf, &["P2"]);
    let (_, way) = found.broken.unwrap_or_default();
    expect![[r#"
        hub 0 reads run0
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        somebody freezes everything
        hub 0 reads run0
    "#]]
    .assert_eq(&way);
}

#[test]
fn records_and_crashes_between_entry_and_effect() {
    let faults = Faults { crash: 1, stop: 1, stale: 1, ..Faults::default() };
    let world = World { records: true, stages: 1, dropped: 1, faults, ..World::default() };
    holds("1x2, one dropped, records: crash, stop, stale", world, 1_000);
}

#[test]
fn a_record_and_two_hubs_that_both_lead() {
    let faults = Faults { freeze: 1, crash: 1, ..Faults::default() };
    let world =
        World { records: true, freezes: true, stages: 1, hubs: 2, faults, ..World::default() };
    holds("1x2, records, two hubs: freeze, crash", world, 1_000);
}

/// Our plans, with entries that may come after the status written after bindings, too.
fn told_afterwards(seen: &Observed) -> Plan {
    let mut plan = plan(seen);
    plan.actions.sort_by_key(|action| match action {
        Action::Record(recording) => recording.follows_from_status(),
        _ => false,
    });
    plan
}

#[test]
fn entries_after_their_effect_are_found() {
    let world = World { records: true, stages: 1, ..World::default() };
    let found = explore(world, told_afterwards, &["P6"]);
    let (_, way) = found.broken.unwrap_or_default();
    expect![[r#"
        hub 0 reads run0
        hub 0 writes entries: Planned
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        hub 0 reads run0
        hub 0 writes entries: Started, StageBegan, ClusterBegan
        hub 0 writes the status: UpdateRunProgressing (c00 Started)
        hub 0 writes the spec of binding web-c00
        hub 0 writes the start signal of binding web-c00
        binding web-c00 works
        hub 0 reads run0
        hub 0 writes the status: UpdateRunProgressing (c00 Started+Succeeded, c01 Started)
        hub 0 writes the spec of binding web-c01
    "#]]
    .assert_eq(&way);
}
