//! How a member leaves, with and without its help.

use flagship_api::cluster::{AgentType, ClusterState};
use jiff::SignedDuration;

use super::fixture::{Fixture, events};
use crate::membership::{Action, NAMESPACE_POLL, Plan};

const MEMBER: AgentType = AgentType::MemberAgent;

fn leaving() -> Fixture {
    let mut fixture = Fixture::joined();
    fixture.seen.works_with_finalizers = vec!["w1".into(), "w2".into()];
    fixture.delete();
    fixture
}

fn remove_finalizers(name: &str) -> Action {
    Action::RemoveWorkFinalizers { name: name.into() }
}

#[test]
fn the_agent_is_asked_first() {
    let mut fixture = leaving();
    let plan = fixture.step();
    assert_eq!(fixture.seen.internal.as_ref().unwrap().spec.state, ClusterState::Leave);
    assert_eq!(
        events(&plan),
        ["InternalMemberClusterSpecUpdated: internal member cluster spec updated"]
    );
    assert_eq!(plan.wake, Some(SignedDuration::from_mins(15)));
    assert!(fixture.told().contains("Joined@2 True"));
    fixture.later(60);
    let plan = fixture.step();
    assert_eq!(
        (plan.actions.as_slice(), plan.wake),
        (&[][..], Some(SignedDuration::from_mins(14)))
    );
}

#[test]
fn an_agent_that_left_is_seen_off() {
    let mut fixture = leaving();
    fixture.step();
    fixture.later(5);
    fixture.say(MEMBER, "False");
    let plan = fixture.step();
    let Some((Action::Status(status), before)) = plan.actions.split_last() else { panic!() };
    assert_eq!(before, [remove_finalizers("w1"), remove_finalizers("w2"), Action::DeleteNamespace]);
    assert_eq!(status.conditions.iter().filter(|c| c.status == "False").count(), 2);
    assert_eq!(events(&plan), ["MemberClusterJoined: member cluster left"]);
    assert_eq!(plan.wake, Some(NAMESPACE_POLL));

    let plan = fixture.step();
    assert_eq!((plan.actions.as_slice(), plan.wake), (&[][..], Some(NAMESPACE_POLL)));
    fixture.seen.namespace = None;
    fixture.seen.internal = None;
    assert_eq!(fixture.step().actions, [Action::RemoveFinalizer]);
    assert_eq!(fixture.step(), Plan::default(), "nothing is left to do");
}

#[test]
fn a_silent_agent_is_given_up_on_after_a_while() {
    let mut fixture = leaving();
    fixture.step();
    fixture.later(15 * 60 - 1);
    assert_eq!(fixture.step().actions, []);
    fixture.later(1);
    assert_eq!(
        fixture.step().actions,
        [remove_finalizers("w1"), remove_finalizers("w2"), Action::DeleteNamespace]
    );
}

#[test]
fn an_agent_that_was_never_asked_is_asked_however_late_it_is() {
    let mut fixture = leaving();
    fixture.later(3600);
    let plan = fixture.step();
    assert!(matches!(plan.actions.as_slice(), [Action::UpdateInternal(_), Action::Status(_)]));
    assert_eq!(plan.wake, Some(NAMESPACE_POLL));
    assert!(fixture.step().actions.contains(&Action::DeleteNamespace));
}

#[test]
fn without_its_counterpart_a_member_is_swept_at_once() {
    let mut fixture = leaving();
    fixture.seen.internal = None;
    assert_eq!(
        fixture.step().actions,
        [remove_finalizers("w1"), remove_finalizers("w2"), Action::DeleteNamespace]
    );
}

#[test]
fn a_member_that_never_joined_waits_like_any_other() {
    let mut fixture = Fixture::new();
    fixture.step();
    fixture.delete();
    let plan = fixture.step();
    assert!(matches!(plan.actions.first(), Some(Action::UpdateInternal(_))));
    assert_eq!(plan.wake, Some(SignedDuration::from_mins(15)));
}

#[test]
fn a_namespace_that_does_not_go_is_an_error_after_a_quarter_of_an_hour() {
    let mut fixture = leaving();
    fixture.seen.namespace.as_mut().unwrap().deleting_since = Some(fixture.seen.now);
    fixture.later(15 * 60 - 1);
    let plan = fixture.step();
    assert_eq!((plan.wake, plan.failure), (Some(NAMESPACE_POLL), None));
    fixture.later(1);
    let plan = fixture.step();
    assert_eq!(plan.wake, Some(NAMESPACE_POLL));
    assert_eq!(
        plan.failure.as_deref(),
        Some(
            "unexpected behavior which cannot be handled by the controller: failed to delete the \
             member cluster namespace fleet-member-c1, it has been deleting since 2026-01-01T12:00:00Z"
        )
    );
}

#[test]
fn a_member_without_our_finalizer_is_none_of_our_business() {
    let mut fixture = leaving();
    fixture.seen.member.has_finalizer = false;
    assert_eq!(fixture.step(), Plan::default());
}
