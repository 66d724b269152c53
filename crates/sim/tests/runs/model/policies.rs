//! Worlds with freezes, and a planner that does not heed them.

use expect_test::expect;
use flagship_rules::update_run::{Observed, Plan, plan};
use flagship_sim::model::{Faults, World};

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
