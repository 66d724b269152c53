//! The end of a binding.

use super::fixture::{Fixture, map};
use crate::work::{Action, FALLBACK, Placement, Waiting};

fn going() -> Fixture {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")], &[map("two", "2")]]);
    fixture.hold();
    fixture.binding().deleting = true;
    fixture.writes.clear();
    fixture
}

// checklist 12.51
#[test]
fn a_binding_goes_when_its_last_work_is_gone() {
    let mut fixture = going();
    let plan = fixture.pass();
    assert_eq!(fixture.writes, ["delete web-0", "delete web-work"]);
    assert_eq!((plan.wake, plan.waiting), (Some(FALLBACK), Some(Waiting::WorksToGo(2))));
    // On their way out they count as much as before.
    fixture.objects.remove("web-0");
    let plan = fixture.pass();
    assert!(plan.actions.is_empty());
    assert_eq!((plan.wake, plan.waiting), (Some(FALLBACK), Some(Waiting::WorksToGo(1))));
    fixture.objects.clear();
    let plan = fixture.pass();
    assert_eq!(plan.actions, [Action::RemoveFinalizer]);
    assert_eq!(plan.wake, None);
    assert!(fixture.pass().actions.is_empty());
}

#[test]
fn a_binding_that_was_never_delivered_goes_at_once() {
    let mut fixture = Fixture::cluster_wide();
    fixture.binding().deleting = true;
    assert_eq!(fixture.pass().actions, [Action::RemoveFinalizer]);
    fixture.binding().finalizers = [].into();
    assert!(fixture.pass().actions.is_empty());
}

#[test]
fn members_are_told_to_keep_what_they_have_before_the_works_go() {
    let abandoning = Placement { abandons: true, ..Placement::default() };
    for placement in [Some(Placement { deleting: true, ..abandoning.clone() }), None] {
        let mut fixture = Fixture::cluster_wide();
        fixture.seen.placement = Some(abandoning.clone());
        let mut fixture = fixture.delivered(&[&[map("one", "1")]]);
        fixture.hold();
        fixture.binding().deleting = true;
        fixture.seen.placement = placement;
        fixture.writes.clear();
        fixture.pass();
        assert_eq!(fixture.writes, ["abandon web-work"]);
        fixture.pass();
        assert_eq!(fixture.writes, ["abandon web-work", "delete web-work"]);
    }
}

#[test]
fn a_cluster_that_is_dropped_loses_everything_whatever_the_placement_says_of_its_own_end() {
    let mut fixture = Fixture::cluster_wide();
    fixture.seen.placement = Some(Placement { abandons: true, ..Placement::default() });
    let mut fixture = fixture.delivered(&[&[map("one", "1")]]);
    fixture.binding().deleting = true;
    fixture.writes.clear();
    fixture.pass();
    assert_eq!(fixture.writes, ["delete web-work"]);
}

#[test]
fn another_policy_for_the_end_is_noted_without_bothering_the_member() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.all_fine();
    fixture.pass();
    let status = fixture.seen.binding.status.clone();
    fixture.seen.placement = Some(Placement { abandons: true, ..Placement::default() });
    fixture.writes.clear();
    fixture.pass();
    fixture.pass();
    assert_eq!(fixture.writes, ["note web-work"]);
    assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
    assert_eq!(fixture.seen.binding.status, status);
}
