//! Proof that the checker can fail: KubeFleet's order of writes.
//!
//! It touches bindings first and writes down last what it did. Both of its faults are
//! found, each with the shortest way there. So is the one that `announced` prevents.

use expect_test::expect;
use flagship_rules::update_run::{Action, Observed, Plan, plan};
use flagship_sim::model::{DOWN, Faults, Planner, World};

use super::checker::explore;

/// Our decisions, written in KubeFleet's order: bindings first, the record last.
fn record_last(seen: &Observed) -> Plan {
    let mut plan = plan(seen);
    plan.actions.sort_by_key(|action| matches!(action, Action::Status(_)));
    plan
}

/// Our plans, without saying first that a binding is written again.
fn unannounced(seen: &Observed) -> Plan {
    let mut plan = plan(seen);
    plan.actions.retain(|action| !matches!(action, Action::AnnounceWrites(_)));
    plan
}

/// The shortest way to break a law.
fn way(world: World, planner: Planner, law: &str) -> String {
    let found = explore(world, planner, &[law]);
    println!("{law} is broken after {} states", found.states);
    found.broken.map_or_else(String::new, |(_, way)| way)
}

#[test]
fn the_record_last_says_stopped_while_a_cluster_is_in_flight() {
    let faults = Faults { stop: 1, ..Faults::default() };
    let world = World { faults, ..World::default() };
    expect![[r#"
        hub 0 reads run0
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        hub 0 reads run0
        hub 0 writes the spec of binding web-c00
        hub 0 writes the start signal of binding web-c00
        somebody stops run0
        hub 0 reads run0
        hub 0 writes the status: UpdateRunStopped ()
    "#]]
    .assert_eq(&way(world, record_last, "S4"));
}

#[test]
fn the_record_last_takes_two_clusters_down_where_one_is_allowed() {
    let faults = Faults { regress: 1, ..Faults::default() };
    let world = World { faults, ..World::default() };
    expect![[r#"
        hub 0 reads run0
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        hub 0 reads run0
        hub 0 writes the spec of binding web-c00
        hub 0 writes the start signal of binding web-c00
        hub 0 writes the status: UpdateRunProgressing (c00 Started)
        binding web-c00 works
        hub 0 reads run0
        hub 0 writes the spec of binding web-c01
        binding web-c00 works no more
    "#]]
    .assert_eq(&way(world, record_last, DOWN));
}

#[test]
fn a_signal_that_is_not_announced_arrives_after_the_run_has_stopped() {
    let faults = Faults { stop: 1, touch: 1, ..Faults::default() };
    let world = World { stages: 1, hubs: 2, faults, ..World::default() };
    expect![[r#"
        hub 0 reads run0
        hub 0 writes the status: UpdateRunInitializedSuccessfully ()
        hub 0 reads run0
        hub 0 writes the status: UpdateRunProgressing (c00 Started)
        hub 0 writes the spec of binding web-c00
        hub 0 writes the start signal of binding web-c00
        somebody stops run0
        hub 0 reads run0
        hub 0 writes the status: UpdateRunStopping (c00 Started)
        binding web-c00 works
        hub 0 reads run0
        the scheduler rewrites binding web-c00
        hub 1 reads run0
        hub 0 writes the status: UpdateRunStopped (c00 Started+Succeeded)
        hub 1 writes the start signal of binding web-c00
    "#]]
    .assert_eq(&way(world, unannounced, "S4"));
}
