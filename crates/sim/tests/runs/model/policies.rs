//! Worlds with freezes and policies, and planners that do not heed them.

use expect_test::expect;
use flagship_rules::policy::Policy;
use flagship_rules::update_run::{Observed, Plan, plan};
use flagship_sim::model::{Faults, World};
use serde_json::{Value, json};

use super::checker::explore;
use super::worlds::holds;

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
fn strict() -> Vec<Policy> {
    policies(json!({"failure": {"progressDeadline": "5m", "then": "Stop"}}))
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
    let world = World { clusters: 3, at_once: 2, policies: strict(), faults, ..World::default() };
    holds("2x3, two at once, a budget: late, crash, stale", world, 1_000);
}

#[test]
fn a_spent_budget_and_two_hubs_that_both_lead() {
    let faults = Faults { late: 1, stop: 1, ..Faults::default() };
    let world = World { stages: 1, hubs: 2, policies: strict(), faults, ..World::default() };
    holds("1x2, two hubs, a budget: late, stop", world, 500);
}

#[test]
fn a_run_that_is_overtaken() {
    holds("1x2, rival, overtaken runs fail", overtaking(), 500);
}

/// Decides as if any number of clusters might fail.
fn spender(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    for policy in seen.run.adopted.iter_mut().flat_map(|adopted| &mut adopted.policies) {
        let failure = policy.spec.failure.get_or_insert_default();
        failure.budget = serde_json::from_value(json!({"run": "100%"})).unwrap();
    }
    plan(&seen)
}

#[test]
fn a_planner_that_spends_more_than_the_budget_is_found() {
    let faults = Faults { late: 1, ..Faults::default() };
    let world = World { policies: strict(), faults, ..World::default() };
    let found = explore(world, spender, &["P1"]);
    let laws = found.broken.map(|(laws, _)| laws).unwrap_or_default();
    assert!(laws.contains(&"P1"), "{laws:?}");
}

/// Decides as if nobody minded that a run takes clusters back.
fn taker(seen: &Observed) -> Plan {
    let mut seen = seen.clone();
    seen.run.adopted = None;
    plan(&seen)
}

#[test]
fn a_planner_that_takes_clusters_back_is_found() {
    let found = explore(overtaking(), taker, &["P8"]);
    let laws = found.broken.map(|(laws, _)| laws).unwrap_or_default();
    assert!(laws.contains(&"P8"), "{laws:?}");
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
