//! Placements whose version is left to update runs.

use serde_json::json;

use super::fleet::{AVAILABLE, Fixture, namespace_id};
use crate::placement::{Action, PassError};

fn external(clusters: &[&str]) -> Fixture {
    let mut fixture = Fixture::crp(json!({"policy": {"placementType": "PickAll"},
        "strategy": {"type": "External"}}));
    fixture.step();
    fixture.schedule(clusters, &[]);
    fixture
}

const NOT_STARTED: &str =
    "no resource snapshot name is observed across clusters, probably rollout has not started yet";
const DIFFERENT: &str = "different resource snapshot versions are observed across clusters";

#[track_caller]
fn left_to_runs(fixture: &Fixture, why: &str) {
    assert_eq!(
        fixture.told().lines().last().unwrap(),
        format!(
            "ClusterResourcePlacementRolloutStarted@1 Unknown RolloutControlledByExternalController: \
             Rollout is controlled by an external controller and {why}"
        )
    );
    assert_eq!(fixture.in_short(), "Scheduled=True RolloutStarted=Unknown");
}

#[test]
fn no_snapshot_is_taken_and_while_scheduling_the_live_selection_is_told() {
    let mut fixture = Fixture::crp(json!({"strategy": {"type": "External"}}));
    let plan = fixture.step();
    assert!(!plan.actions.iter().any(|a| matches!(a, Action::Resources(_))));
    assert!(plan.actions.iter().any(|a| matches!(a, Action::Policy(_))));
    assert_eq!(fixture.in_short(), "Scheduled=Unknown");
    assert_eq!(fixture.status().observed_resource_index, "");
    assert_eq!(fixture.status().selected_resources, [namespace_id("app")]);
    // The same with nobody chosen.
    fixture.schedule(&[], &[]);
    fixture.step();
    assert_eq!(fixture.in_short(), "Scheduled=True");
    assert_eq!(fixture.status().selected_resources, [namespace_id("app")]);
}

// checklist 20.36
#[test]
fn nothing_rolled_out_yet() {
    for bound in [false, true] {
        let mut fixture = external(&["c1", "c2"]);
        if bound {
            fixture.bind("c1");
            fixture.bind("c2");
        }
        fixture.step();
        left_to_runs(&fixture, NOT_STARTED);
        assert_eq!(fixture.status().observed_resource_index, "");
        assert!(fixture.status().selected_resources.is_empty());
        assert!(fixture.told_of("c2").starts_with("index \"\"\nScheduled@1 True"));
    }
}

// checklist 20.36
#[test]
fn some_clusters_rolled_out() {
    let mut fixture = external(&["c1", "c2"]);
    fixture.snapshot_by_run();
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    left_to_runs(&fixture, DIFFERENT);
    assert!(fixture.status().selected_resources.is_empty());
    assert_eq!(fixture.status().placement_statuses[0].observed_resource_index, "0");
    assert_eq!(fixture.status().placement_statuses[0].conditions.len(), 6);
    assert_eq!(fixture.status().placement_statuses[1].observed_resource_index, "");
}

// checklist 20.36
#[test]
fn different_indexes() {
    let mut fixture = external(&["c1", "c2"]);
    fixture.snapshot_by_run();
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.select(&["app", "more"]);
    fixture.snapshot_by_run();
    fixture.deliver("c2", 1, AVAILABLE);
    fixture.step();
    left_to_runs(&fixture, DIFFERENT);
    assert_eq!(fixture.status().observed_resource_index, "");
}

// checklist 20.36
#[test]
fn an_older_common_index_is_reported_as_such() {
    let mut fixture = external(&["c1", "c2"]);
    fixture.snapshot_by_run();
    fixture.select(&["app", "more"]);
    fixture.snapshot_by_run();
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.deliver("c2", 0, AVAILABLE);
    let plan = fixture.step();
    assert_eq!(fixture.in_short(), format!("Scheduled=True {AVAILABLE}"));
    assert_eq!(fixture.status().observed_resource_index, "0");
    assert_eq!(fixture.status().selected_resources, [namespace_id("app")]);
    assert_eq!(plan.wake, None);
}

// checklist 20.36
#[test]
fn one_cluster_is_still_undecided() {
    let mut fixture = external(&["c1", "c2", "c3"]);
    fixture.snapshot_by_run();
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.deliver("c2", 0, "");
    fixture.deliver("c3", 0, "");
    fixture.step();
    left_to_runs(&fixture, "cluster c2 is in RolloutStarted Unknown state");
    assert_eq!(fixture.status().observed_resource_index, "0");
    assert_eq!(fixture.status().selected_resources, [namespace_id("app")]);
    // Later steps may differ; then it is an ordinary roll-up.
    fixture.deliver("c2", 0, "RolloutStarted=True");
    fixture.deliver("c3", 0, "RolloutStarted=False");
    fixture.step();
    assert_eq!(fixture.in_short(), "Scheduled=True RolloutStarted=False");
}

// checklist 20.36
#[test]
fn a_snapshot_that_is_gone_leaves_an_empty_index() {
    let mut fixture = external(&["c1"]);
    fixture.deliver("c1", 7, AVAILABLE);
    fixture.step();
    assert_eq!(fixture.status().placement_statuses[0].observed_resource_index, "");
    left_to_runs(&fixture, NOT_STARTED);
}

#[test]
fn later_conditions_go_when_versions_part() {
    let mut fixture = external(&["c1", "c2"]);
    fixture.snapshot_by_run();
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.deliver("c2", 0, AVAILABLE);
    fixture.step();
    assert!(fixture.in_short().ends_with("Available=True"));
    fixture.select(&["app", "more"]);
    fixture.snapshot_by_run();
    fixture.deliver("c2", 1, "RolloutStarted=True");
    fixture.step();
    left_to_runs(&fixture, DIFFERENT);
}

#[test]
fn a_mistake_in_the_selectors_blocks_the_policy_snapshot_too() {
    let mut fixture = Fixture::crp(json!({"strategy": {"type": "External"}}));
    fixture.seen.selection = Err(PassError::User("no such kind".into()));
    fixture.step();
    assert!(fixture.seen.policy_snapshots.is_empty());
    assert_eq!(
        fixture.told(),
        "ClusterResourcePlacementScheduled@1 False InvalidResourceSelectors: The resource selectors \
         are invalid: failed to process the request due to a client error: no such kind\n"
    );
}

#[test]
fn a_placement_left_to_runs_keeps_the_snapshots_it_had() {
    let mut fixture = Fixture::crp(json!({"policy": {"placementType": "PickAll"}}));
    fixture.step();
    fixture.schedule(&["c1"], &[]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    fixture.edit(|spec| spec["strategy"] = json!({"type": "External"}));
    fixture.select(&["app", "more"]);
    fixture.step();
    fixture.schedule(&["c1"], &[]);
    fixture.step();
    assert_eq!(fixture.seen.resource_snapshots.len(), 1);
    assert_eq!(fixture.status().observed_resource_index, "0");
    assert_eq!(fixture.status().selected_resources, [namespace_id("app")]);
}
