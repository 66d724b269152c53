//! The worlds every change is checked in, and with `FLAGSHIP_WORLDS=all` the wide ones, which
//! take many times as long as all others together.

use flagship_rules::update_run::plan;
use flagship_sim::model::{Faults, LAWS, World};

use super::checker::explore;

/// Nothing breaks a law, nobody is stuck for good, and (S10) hubs that crash, race or look
/// at old objects lead to no end that a single careful one does not lead to.
pub fn holds(name: &str, world: World, at_least: usize) {
    let faults = Faults { crash: 0, stale: 0, ..world.faults };
    let is_calm = world.hubs == 1 && world.faults == faults;
    let calm = World { hubs: 1, faults, ..world.clone() };
    let found = explore(world, plan, &LAWS);
    println!(
        "{name}: {} states, {} steps, {} stores, {} ends",
        found.states,
        found.steps,
        found.stores,
        found.ends.len()
    );
    assert_eq!(found.broken, None);
    assert_eq!((found.never_end, found.never_stop), (0, 0));
    if !is_calm {
        assert_eq!(found.ends, explore(calm, plan, &LAWS).ends);
    }
    assert!(found.states >= at_least, "the world has shrunk to {} states", found.states);
}

/// The same, where the widest worlds are asked for.
pub fn holds_in_wide(name: &str, world: World, at_least: usize) {
    if std::env::var("FLAGSHIP_WORLDS").is_ok_and(|worlds| worlds == "all") {
        holds(name, world, at_least);
    }
}

#[test]
fn a_hub_that_crashes_and_looks_at_old_objects() {
    let faults = Faults { crash: 1, stale: 1, stop: 1, regress: 1, ..Faults::default() };
    holds("2x2: crash, stale, stop, regress", World { faults, ..World::default() }, 12_000);
}

#[test]
fn three_clusters_two_at_once() {
    let faults = Faults { crash: 1, stale: 1, stop: 1, ..Faults::default() };
    let world = World { clusters: 3, at_once: 2, faults, ..World::default() };
    let narrow = World { stages: 1, ..world.clone() };
    holds("1x3, two at once: crash, stale, stop", narrow, 4_000);
    holds_in_wide("2x3, two at once: crash, stale, stop", world, 8_000);
}

#[test]
fn two_hubs_that_both_lead() {
    let faults = Faults { crash: 1, stale: 1, stop: 1, ..Faults::default() };
    let world = World { stages: 1, hubs: 2, faults, ..World::default() };
    holds("1x2, two hubs: crash, stale, stop", world, 5_000);
    let world = World { hubs: 2, faults, ..World::default() };
    holds_in_wide("2x2, two hubs: crash, stale, stop", world, 10_000);
}

#[test]
fn two_hubs_and_a_meddling_scheduler() {
    let faults = Faults { stop: 1, touch: 1, ..Faults::default() };
    let world = World { hubs: 2, faults, ..World::default() };
    let narrow = World { stages: 1, ..world.clone() };
    holds("1x2, two hubs: stop, touch", narrow, 3_000);
    holds_in_wide("2x2, two hubs: stop, touch", world, 10_000);
    let faults = Faults { stale: 1, stop: 1, touch: 1, ..Faults::default() };
    let world = World { stages: 1, hubs: 2, faults, ..World::default() };
    holds_in_wide("1x2, two hubs: stale, stop, touch", world, 1_000);
}

#[test]
fn two_hubs_with_three_clusters_two_at_once() {
    let faults = Faults { stop: 1, ..Faults::default() };
    let world = World { clusters: 3, at_once: 2, hubs: 2, faults, ..World::default() };
    let narrow = World { stages: 1, ..world.clone() };
    holds("1x3, two hubs, two at once: stop", narrow, 6_000);
    holds_in_wide("2x3, two hubs, two at once: stop", world, 15_000);
}

#[test]
fn approvals_waits_and_a_deletion() {
    let faults = Faults { crash: 1, stale: 1, stop: 1, lose: 1, ..Faults::default() };
    let (before, after, waits) = (vec![1], vec![0], vec![0]);
    let world = World { before, after, waits, dropped: 1, faults, ..World::default() };
    let narrow = World { clusters: 1, ..world.clone() };
    holds("2x1, every task, one dropped: crash, stale, stop, lost request", narrow, 8_000);
    let name = "2x2, every task, one dropped: crash, stale, stop, lost request";
    holds_in_wide(name, world, 15_000);
}

#[test]
fn two_hubs_at_one_gate() {
    let faults = Faults { crash: 1, stop: 1, lose: 1, ..Faults::default() };
    let (before, after) = (vec![1], vec![0]);
    let world = World { before, after, hubs: 2, faults, ..World::default() };
    holds("2x2, approvals, two hubs: crash, stop, lost request", world, 10_000);
}

#[test]
fn a_rival_run_to_another_version() {
    let faults = Faults { crash: 1, ..Faults::default() };
    let world = World { stages: 1, rival: true, faults, ..World::default() };
    let narrow = World { clusters: 1, ..world.clone() };
    holds("1x1, rival: crash", narrow, 1_500);
    holds_in_wide("1x2, rival: crash", world, 6_000);
    let world = World { rival: true, ..World::default() };
    holds_in_wide("2x2, rival", world, 60_000);
}

#[test]
fn a_rival_run_while_the_first_is_stopped() {
    let faults = Faults { stop: 1, ..Faults::default() };
    let world = World { stages: 1, rival: true, faults, ..World::default() };
    holds_in_wide("1x2, rival: stop", world, 40_000);
}

#[test]
fn a_run_that_is_deleted() {
    let faults = Faults { crash: 1, stop: 1, delete: 1, ..Faults::default() };
    let world = World { before: vec![0], after: vec![1], faults, ..World::default() };
    holds("2x2, approvals, run deleted: crash, stop", world, 3_000);
}

#[test]
fn a_cluster_that_takes_too_long() {
    let faults = Faults { crash: 1, stop: 1, late: 1, ..Faults::default() };
    let world = World { waits: vec![0], faults, ..World::default() };
    let narrow = World { stages: 1, ..world.clone() };
    holds("1x2 with a wait: crash, stop, stuck", narrow, 2_500);
    holds_in_wide("2x2 with a wait: crash, stop, stuck", world, 5_000);
}
