//! What happens to each kind of binding.

use super::fleet::{Fixture, cluster, pick_n};
use crate::scheduling::classify::Classes;
use crate::scheduling::{Action, Decision, Remark, Score, State};

fn names<'a>(bindings: &[&'a crate::model::Binding]) -> Vec<&'a str> {
    bindings.iter().map(|b| b.cluster()).collect()
}

// checklist 18.1
#[test]
fn classification_of_bindings() {
    let mut fixture =
        Fixture::new(None).over(["a", "b", "c", "d", "e", "h"].map(|n| cluster(n, "")));
    fixture.cluster("h").leaving = true;
    fixture.bind("a", State::Bound, "web-0").deleting = true;
    fixture.bind("b", State::Unscheduled, "web-0");
    fixture.bind("gone", State::Bound, "web-0");
    fixture.bind("h", State::Scheduled, "old-0");
    fixture.bind("c", State::Scheduled, "old-0");
    fixture.bind("d", State::Scheduled, "web-0");
    fixture.bind("e", State::Bound, "web-0");
    fixture.bind("f", State::Foreign, "web-0");
    let classes = Classes::of(&fixture.seen);
    assert_eq!(names(&classes.deleting), ["a"]);
    assert_eq!(names(&classes.unscheduled), ["b"]);
    assert_eq!(names(&classes.dangling), ["gone", "h"]);
    assert_eq!(names(&classes.obsolete), ["c"]);
    assert_eq!(names(&classes.scheduled), ["d"]);
    assert_eq!(names(&classes.bound), ["e"]);
}

// checklist 18.2
#[test]
fn deleting_bindings_lose_the_finalizer_and_dangling_ones_are_let_go() {
    let mut fixture = Fixture::new(None).over([cluster("a", "")]);
    let deleting = fixture.bind("a", State::Bound, "web-0");
    deleting.deleting = true;
    let deleting = deleting.name.clone();
    let dangling = fixture.bind("gone", State::Bound, "web-0").name.clone();
    let plan = fixture.plan();
    assert_eq!(plan.actions[0], Action::RemoveFinalizer { binding: deleting });
    assert_eq!(plan.actions[1], Action::Release { binding: dangling, previous: State::Bound });
    assert!(matches!(&plan.actions[2], Action::Create { decision } if decision.cluster == "a"));
    fixture.step();
    assert!(
        !fixture.plan().actions.iter().any(|a| matches!(a, Action::RemoveFinalizer { .. })),
        "only once"
    );
}

// checklist 18.4
#[test]
fn housekeeping_stands_even_if_the_pass_fails() {
    let mut fixture = pick_n(1).over([]);
    fixture.snapshot().number_of_clusters = None;
    fixture.bind("gone", State::Scheduled, "web-0");
    let plan = fixture.plan();
    assert!(plan.failure.is_some());
    assert_eq!(plan.actions.len(), 1);
}

// checklist 18.6
#[test]
fn an_unscheduled_binding_comes_back_in_the_state_it_had() {
    for previous in [State::Scheduled, State::Bound] {
        let mut fixture = Fixture::new(None).over([cluster("a", "")]);
        fixture.bind("a", State::Unscheduled, "old-0").previous = Some(format!("{previous:?}"));
        fixture.settle();
        assert_eq!(fixture.seen.bindings.len(), 1);
        assert_eq!(fixture.seen.bindings[0].state(), previous);
        assert_eq!(fixture.seen.bindings[0].spec.scheduling_policy_snapshot_name, "web-0");
    }
}

// checklist 18.6
#[test]
fn a_missing_previous_state_is_a_failure_that_names_the_binding() {
    let mut fixture = Fixture::new(None).over([cluster("a", "")]);
    let name = fixture.bind("a", State::Unscheduled, "old-0").name.clone();
    let why = fixture.plan().failure.unwrap().0;
    assert!(
        why.starts_with("failed to find the previous state of an unscheduled binding: "),
        "{why}"
    );
    assert!(why.contains(&name));
}

// checklist 18.6
#[test]
fn creations_come_before_patches_and_patches_before_releases() {
    let mut fixture = pick_n(2).over(["a", "b", "c"].map(|n| cluster(n, "")));
    fixture.bind("a", State::Bound, "old-0");
    fixture.bind("c", State::Bound, "old-0");
    fixture.cluster("a").taints.push(crate::model::Taint {
        key: "k".into(),
        value: String::new(),
        effect: "NoSchedule".into(),
    });
    let kinds: Vec<&str> = fixture
        .plan()
        .actions
        .iter()
        .map(|a| match a {
            Action::Create { .. } => "create",
            Action::Take { .. } => "take",
            Action::Release { .. } => "release",
            Action::RemoveFinalizer { .. } => "remove finalizer",
        })
        .collect();
    assert_eq!(kinds, ["create", "take", "release"]);
}

#[test]
fn of_two_bindings_for_one_cluster_the_oldest_bound_one_stays() {
    let mut fixture = Fixture::new(None).over([cluster("a", "")]);
    let first = fixture.bind("a", State::Scheduled, "web-0").name.clone();
    fixture.bind("a", State::Bound, "web-0");
    let plan = fixture.plan();
    assert_eq!(
        plan.actions,
        [Action::Release { binding: first.clone(), previous: State::Scheduled }]
    );
    assert_eq!(plan.remarks, [Remark::Surplus { cluster: "a".into(), binding: first }]);
}

fn scored(fixture: &mut Fixture, cluster: &str, state: State, score: Option<(i32, i32)>) {
    let binding = fixture.bind(cluster, state, "web-0");
    let score = score.map(|(spread, affinity)| Score { spread, affinity });
    binding.spec.cluster_decision = Decision::picked(cluster, score).on_the_wire().into();
}

/// A cluster, the state of its binding, and its scores (spread, affinity).
type Row<'a> = (&'a str, State, Option<(i32, i32)>);

fn trimmed(wanted: u32, bindings: &[Row<'_>]) -> Vec<String> {
    let mut fixture = pick_n(wanted).over(bindings.iter().map(|(name, ..)| cluster(name, "")));
    for (name, state, score) in bindings {
        scored(&mut fixture, name, *state, *score);
    }
    fixture.settle();
    fixture.unscheduled().into_iter().map(|(name, _)| name.to_owned()).collect()
}

// checklist 18.9, 18.10
#[test]
fn downscale_takes_scheduled_before_bound_and_the_weakest_first() {
    use State::{Bound, Scheduled};
    let tie = Some((0, 0));
    let all = [("a", Bound, tie), ("b", Bound, tie), ("c", Bound, tie)];
    assert_eq!(trimmed(3, &all), Vec::<String>::new());
    assert_eq!(trimmed(1, &all), ["a", "b"], "same score: smallest names leave");
    assert_eq!(trimmed(0, &all), ["a", "b", "c"]);
    let mixed = [("a", Bound, tie), ("b", Scheduled, tie), ("c", Scheduled, tie)];
    assert_eq!(trimmed(2, &mixed), ["b"], "part of the scheduled");
    assert_eq!(trimmed(1, &mixed), ["b", "c"], "all of the scheduled");
    assert_eq!(trimmed(0, &mixed), ["a", "b", "c"], "scheduled and bound");
    let scores = [("a", Bound, Some((1, 0))), ("b", Bound, Some((0, 90))), ("c", Bound, None)];
    assert_eq!(trimmed(2, &scores), ["c"], "no score leaves first");
    assert_eq!(trimmed(1, &scores), ["b", "c"], "spread counts before affinity");
}

#[test]
fn obsolete_bindings_are_let_go_when_enough_are_present() {
    let mut fixture = pick_n(1).over(["a", "b"].map(|n| cluster(n, "")));
    fixture.bind("a", State::Bound, "web-0");
    fixture.bind("b", State::Bound, "old-0");
    let plan = fixture.settle();
    assert_eq!(fixture.unscheduled(), [("b", State::Bound)]);
    assert_eq!(plan.report.unwrap().verdict.found, 1);
}
