//! Two bindings that stand for one cluster.

use serde_json::json;

use super::fixture::{decided, fixture};

const UNEXPECTED: &str = "unexpected behavior which cannot be handled by the controller: ";

// checklist 12 rollout decisions: Scheduled + deleting binding on one cluster waits (ours,
// 11.2 #4: that cluster alone, and for the deletion rather than for 5 s).
#[test]
fn a_new_binding_waits_for_the_old_one_and_nobody_else_does() {
    for new in [
        "c1 Scheduled - as=new",
        "c1 Unscheduled - as=new",
        "c1 Unscheduled - as=new was=Scheduled",
    ] {
        let seen = fixture(json!({}), &["c1 Bound 0 as=old deleting", new, "c2 Scheduled -"]);
        assert_eq!(
            decided(&seen),
            ["deliver web-1-snapshot to c2", "c1 waits for a deletion", "pause 60s"],
            "{new}"
        );
    }
}

// checklist 12 rollout decisions: Bound + deleting is an error; two live ones are an error.
#[test]
fn what_should_not_be_possible_stops_the_pass() {
    for (bindings, namespace, problem) in [
        (
            ["c1 Scheduled - as=a", "c1 Bound 0 as=b"],
            None,
            "the same cluster `c1` has bindings `/a` and `/b` pointing to it",
        ),
        (
            ["c1 Scheduled - as=a", "c1 Bound 0 as=b"],
            Some("app"),
            "the same cluster `c1` has bindings `app/a` and `app/b` pointing to it",
        ),
        (
            ["c1 Bound 0 as=a", "c1 Bound 0 as=b deleting"],
            Some("app"),
            "find a cluster `c1` that has a bound binding `app/a` and a deleting binding point to it",
        ),
        (
            ["c1 Unscheduled 0 as=a was=Bound", "c1 Bound 0 as=b deleting"],
            None,
            "find a cluster `c1` that has a unscheduled binding `/a` with previous state is `bound` \
             and a deleting binding point to it",
        ),
    ] {
        let mut seen = fixture(json!({}), &bindings);
        seen.placement.namespace = namespace.map(str::to_owned);
        assert_eq!(decided(&seen), [format!("{UNEXPECTED}{problem}")]);
    }
}

#[test]
fn two_that_are_both_being_deleted_disturb_nobody() {
    let seen = fixture(
        json!({}),
        &["c1 Bound 0 as=a deleting", "c1 Bound 0 as=b deleting", "c2 Scheduled -"],
    );
    assert_eq!(decided(&seen), ["deliver web-1-snapshot to c2", "pause 60s"]);
}
