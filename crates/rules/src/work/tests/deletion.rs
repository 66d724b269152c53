//! The end of a binding.

use super::world::{World, map};
use crate::work::{Action, FALLBACK, Placement, Waiting};

fn going() -> World {
    let mut world = World::cluster_wide().delivered(&[&[map("one", "1")], &[map("two", "2")]]);
    world.hold();
    world.binding().deleting = true;
    world.writes.clear();
    world
}

// checklist 12.51
#[test]
fn a_binding_goes_when_its_last_work_is_gone() {
    let mut world = going();
    let plan = world.pass();
    assert_eq!(world.writes, ["delete web-0", "delete web-work"]);
    assert_eq!((plan.wake, plan.waiting), (Some(FALLBACK), Some(Waiting::WorksToGo(2))));
    // On their way out they count as much as before.
    world.objects.remove("web-0");
    let plan = world.pass();
    assert!(plan.actions.is_empty());
    assert_eq!((plan.wake, plan.waiting), (Some(FALLBACK), Some(Waiting::WorksToGo(1))));
    world.objects.clear();
    let plan = world.pass();
    assert_eq!(plan.actions, [Action::RemoveFinalizer]);
    assert_eq!(plan.wake, None);
    assert!(world.pass().actions.is_empty());
}

#[test]
fn a_binding_that_was_never_delivered_goes_at_once() {
    let mut world = World::cluster_wide();
    world.binding().deleting = true;
    assert_eq!(world.pass().actions, [Action::RemoveFinalizer]);
    world.binding().finalizers.clear();
    assert!(world.pass().actions.is_empty());
}

#[test]
fn members_are_told_to_keep_what_they_have_before_the_works_go() {
    let abandoning = Placement { abandons: true, ..Placement::default() };
    for placement in [Some(Placement { deleting: true, ..abandoning.clone() }), None] {
        let mut world = World::cluster_wide();
        world.seen.placement = Some(abandoning.clone());
        let mut world = world.delivered(&[&[map("one", "1")]]);
        world.hold();
        world.binding().deleting = true;
        world.seen.placement = placement;
        world.writes.clear();
        world.pass();
        assert_eq!(world.writes, ["abandon web-work"]);
        world.pass();
        assert_eq!(world.writes, ["abandon web-work", "delete web-work"]);
    }
}

#[test]
fn a_cluster_that_is_dropped_loses_everything_whatever_the_placement_says_of_its_own_end() {
    let mut world = World::cluster_wide();
    world.seen.placement = Some(Placement { abandons: true, ..Placement::default() });
    let mut world = world.delivered(&[&[map("one", "1")]]);
    world.binding().deleting = true;
    world.writes.clear();
    world.pass();
    assert_eq!(world.writes, ["delete web-work"]);
}

#[test]
fn another_policy_for_the_end_is_noted_without_bothering_the_member() {
    let mut world = World::cluster_wide().delivered(&[&[map("one", "1")]]);
    world.all_fine();
    world.pass();
    let status = world.seen.binding.status.clone();
    world.seen.placement = Some(Placement { abandons: true, ..Placement::default() });
    world.writes.clear();
    world.pass();
    world.pass();
    assert_eq!(world.writes, ["note web-work"]);
    assert_eq!(world.works(), ["web-work (0, 1): one"]);
    assert_eq!(world.seen.binding.status, status);
}
