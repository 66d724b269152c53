//! The worked examples of a rolling update, by number.

use serde_json::json;

use super::fixture::{decided, fixture, pick_n};

#[test]
fn example_1_a_fresh_placement_binds_all_clusters_at_once() {
    // checklist 12 rollout decisions: fresh placement binds all Scheduled in one pass.
    let seen = fixture(json!({}), &["c1 Scheduled -", "c2 Scheduled -", "c3 Scheduled -"]);
    assert_eq!(
        decided(&seen),
        [
            "deliver web-1-snapshot to c1",
            "deliver web-1-snapshot to c2",
            "deliver web-1-snapshot to c3",
            "pause 0s"
        ]
    );
}

#[test]
fn example_2_a_fleet_smaller_than_wanted_blocks_itself() {
    let seen =
        fixture(pick_n(3, json!("25%"), json!("25%")), &["c1 Bound 0 ready", "c2 Bound 0 ready"]);
    assert_eq!(
        decided(&seen),
        ["hold c1", "hold c2", "2 held back, 0 kept: removable 0, addable 2", "pause 0s"]
    );
}

#[test]
fn example_3_failed_ones_are_updated_and_ready_ones_held_when_too_few_are_ready() {
    // checklist 12 rollout decisions: failed bindings are always updated.
    let seen = fixture(
        pick_n(5, json!(1), json!(0)),
        &[
            "c1 Bound 0 broken",
            "c2 Bound 0 ready",
            "c3 Bound 0 unavailable",
            "c4 Bound 0 not-overridden",
            "c5 Bound 0 ready",
        ],
    );
    assert_eq!(
        decided(&seen),
        [
            "hold c2",
            "hold c5",
            "deliver web-1-snapshot to c1",
            "deliver web-1-snapshot to c3",
            "deliver web-1-snapshot to c4",
            "2 held back, 0 kept: removable -2, addable 3",
            "pause 60s"
        ]
    );
}

#[test]
fn example_4_nothing_unavailable_means_no_update_in_place() {
    // checklist 12 rollout decisions: U=0 blocks in-place updates with wait 0.
    let all: Vec<String> = (1..=5).map(|n| format!("c{n} Bound 0 ready")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let seen = fixture(pick_n(5, json!(0), json!(1)), &all);
    assert_eq!(
        decided(&seen),
        [
            "hold c1",
            "hold c2",
            "hold c3",
            "hold c4",
            "hold c5",
            "5 held back, 0 kept: removable 0, addable 1",
            "pause 0s"
        ]
    );
}

#[test]
fn example_5_new_clusters_begin_before_old_ones_go() {
    // checklist 12 rollout decisions: policy change with surge.
    let seen = fixture(
        pick_n(2, json!("25%"), json!(2)),
        &["c1 Unscheduled 1 ready", "c2 Unscheduled 1 ready", "c3 Scheduled -", "c4 Scheduled -"],
    );
    assert_eq!(
        decided(&seen),
        [
            "remove c1",
            "deliver web-1-snapshot to c3",
            "deliver web-1-snapshot to c4",
            "0 held back, 1 kept: removable 1, addable 2",
            "pause 0s"
        ]
    );
}

#[test]
fn example_6_nothing_is_removed_while_too_few_are_ready() {
    let told = |third: &str| {
        let bindings =
            ["c1 Unscheduled 1 ready", "c2 Unscheduled 1 ready", "c3 Bound 1", "c4 Bound 1", third];
        decided(&fixture(pick_n(5, json!("20%"), json!(0)), &bindings))
    };
    let blocked = "0 held back, 2 kept: removable -2, addable 0";
    assert_eq!(told("c5 Bound 1"), [blocked, "pause 60s"]);
    assert_eq!(told("c5 Bound 1 since=35"), [blocked, "pause 25s", "wake in 25001ms"]);
}

#[test]
fn example_7_what_cannot_be_tracked_is_ready_after_a_period() {
    // checklist 12 rollout decisions: untrackable available binding; the shortest wait.
    let seen = fixture(
        json!({}),
        &["c1 Bound 1 since=35", "c2 Bound 1 since=10", "c3 Bound 0 ready", "c4 Bound 0 ready"],
    );
    let lines = decided(&seen);
    assert_eq!(
        lines,
        [
            "hold c3",
            "hold c4",
            "2 held back, 0 kept: removable -1, addable 1",
            "pause 25s",
            "wake in 25001ms"
        ]
    );
    // At the very moment it is not, a millisecond later it is.
    let at = |since: &str| decided(&fixture(json!({}), &["c1 Bound 0 ready", since])).join("; ");
    assert!(at("c2 Bound 1 since=60").starts_with("hold c1"), "{}", at("c2 Bound 1 since=60"));
    assert!(at("c2 Bound 1 since=61").starts_with("deliver web-1-snapshot to c1"));
}

#[test]
fn example_8_a_binding_that_is_being_deleted_is_nothing_to_roll() {
    assert_eq!(decided(&fixture(json!({}), &["c1 Bound 0 ready deleting"])), [""; 0]);
}

#[test]
fn example_9_more_clusters_begin_at_once() {
    let seen = fixture(
        pick_n(3, json!("25%"), json!(0)),
        &["c1 Bound 1 ready", "c2 Scheduled -", "c3 Scheduled -"],
    );
    assert_eq!(
        decided(&seen),
        ["deliver web-1-snapshot to c2", "deliver web-1-snapshot to c3", "pause 0s"]
    );
}
