//! The worlds every change is checked in.

use flagship_rules::update_run::plan;
use flagship_sim::model::{LAWS, Troubles, World};

use super::checker::explore;

/// Nothing breaks a law, and nobody is stuck for good.
fn holds(name: &str, world: World, at_least: usize) {
    let found = explore(world, plan, &LAWS);
    println!(
        "{name}: {} states, {} steps, {} stores",
        found.states, found.steps, found.stores
    );
    assert_eq!(found.broken, []);
    assert_eq!((found.never_end, found.never_stop), (0, 0));
    assert!(found.states >= at_least, "the world has shrunk to {} states", found.states);
}

#[test]
fn a_hub_that_crashes_and_remembers_wrongly() {
    let troubles = Troubles { crash: 1, stale: 1, stop: 1, regress: 1, ..Troubles::default() };
    holds("crash, stale, stop, regress", World { troubles, ..World::default() }, 1);
}

#[test]
fn two_hubs_that_both_lead() {
    let troubles = Troubles { stop: 1, ..Troubles::default() };
    holds("two hubs, stop", World { hubs: 2, troubles, ..World::default() }, 1);
}
