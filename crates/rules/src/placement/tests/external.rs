//! Placements whose version is left to update runs.

use serde_json::json;

use super::fleet::{AVAILABLE, World, namespace_id};
use crate::placement::{Action, PassError};

fn external(clusters: &[&str]) -> World {
    let mut world = World::crp(json!({"policy": {"placementType": "PickAll"},
        "strategy": {"type": "External"}}));
    world.step();
    world.schedule(clusters, &[]);
    world
}

const NOT_STARTED: &str =
    "no resource snapshot name is observed across clusters, probably rollout has not started yet";
const DIFFERENT: &str = "different resource snapshot versions are observed across clusters";

#[track_caller]
fn left_to_runs(world: &World, why: &str) {
    assert_eq!(
        world.told().lines().last().unwrap(),
        format!(
            "ClusterResourcePlacementRolloutStarted@1 Unknown RolloutControlledByExternalController: \
             Rollout is controlled by an external controller and {why}"
        )
    );
    assert_eq!(world.in_short(), "Scheduled=True RolloutStarted=Unknown");
}

#[test]
fn no_snapshot_is_taken_and_while_scheduling_the_live_selection_is_told() {
    let mut world = World::crp(json!({"strategy": {"type": "External"}}));
    let plan = world.step();
    assert!(!plan.actions.iter().any(|a| matches!(a, Action::Resources(_))));
    assert!(plan.actions.iter().any(|a| matches!(a, Action::Policy(_))));
    assert_eq!(world.in_short(), "Scheduled=Unknown");
    assert_eq!(world.status().observed_resource_index, "");
    assert_eq!(world.status().selected_resources, [namespace_id("app")]);
    // The same with nobody chosen.
    world.schedule(&[], &[]);
    world.step();
    assert_eq!(world.in_short(), "Scheduled=True");
    assert_eq!(world.status().selected_resources, [namespace_id("app")]);
}

// checklist 20.36
#[test]
fn nothing_rolled_out_yet() {
    for bound in [false, true] {
        let mut world = external(&["c1", "c2"]);
        if bound {
            world.bind("c1");
            world.bind("c2");
        }
        world.step();
        left_to_runs(&world, NOT_STARTED);
        assert_eq!(world.status().observed_resource_index, "");
        assert!(world.status().selected_resources.is_empty());
        assert!(world.told_of("c2").starts_with("index \"\"\nScheduled@1 True"));
    }
}

// checklist 20.36
#[test]
fn some_clusters_rolled_out() {
    let mut world = external(&["c1", "c2"]);
    world.snapshot_by_run();
    world.deliver("c1", 0, AVAILABLE);
    world.step();
    left_to_runs(&world, DIFFERENT);
    assert!(world.status().selected_resources.is_empty());
    assert_eq!(world.status().placement_statuses[0].observed_resource_index, "0");
    assert_eq!(world.status().placement_statuses[0].conditions.len(), 6);
    assert_eq!(world.status().placement_statuses[1].observed_resource_index, "");
}

// checklist 20.36
#[test]
fn different_indexes() {
    let mut world = external(&["c1", "c2"]);
    world.snapshot_by_run();
    world.deliver("c1", 0, AVAILABLE);
    world.select(&["app", "more"]);
    world.snapshot_by_run();
    world.deliver("c2", 1, AVAILABLE);
    world.step();
    left_to_runs(&world, DIFFERENT);
    assert_eq!(world.status().observed_resource_index, "");
}

// checklist 20.36
#[test]
fn an_older_common_index_is_reported_as_such() {
    let mut world = external(&["c1", "c2"]);
    world.snapshot_by_run();
    world.select(&["app", "more"]);
    world.snapshot_by_run();
    world.deliver("c1", 0, AVAILABLE);
    world.deliver("c2", 0, AVAILABLE);
    let plan = world.step();
    assert_eq!(world.in_short(), format!("Scheduled=True {AVAILABLE}"));
    assert_eq!(world.status().observed_resource_index, "0");
    assert_eq!(world.status().selected_resources, [namespace_id("app")]);
    assert_eq!(plan.wake, None);
}

// checklist 20.36
#[test]
fn one_cluster_is_still_undecided() {
    let mut world = external(&["c1", "c2", "c3"]);
    world.snapshot_by_run();
    world.deliver("c1", 0, AVAILABLE);
    world.deliver("c2", 0, "");
    world.deliver("c3", 0, "");
    world.step();
    left_to_runs(&world, "cluster c2 is in RolloutStarted Unknown state");
    assert_eq!(world.status().observed_resource_index, "0");
    assert_eq!(world.status().selected_resources, [namespace_id("app")]);
    // Later steps may differ; then it is an ordinary roll-up.
    world.deliver("c2", 0, "RolloutStarted=True");
    world.deliver("c3", 0, "RolloutStarted=False");
    world.step();
    assert_eq!(world.in_short(), "Scheduled=True RolloutStarted=False");
}

// checklist 20.36
#[test]
fn a_snapshot_that_is_gone_leaves_an_empty_index() {
    let mut world = external(&["c1"]);
    world.deliver("c1", 7, AVAILABLE);
    world.step();
    assert_eq!(world.status().placement_statuses[0].observed_resource_index, "");
    left_to_runs(&world, NOT_STARTED);
}

#[test]
fn later_conditions_go_when_versions_part() {
    let mut world = external(&["c1", "c2"]);
    world.snapshot_by_run();
    world.deliver("c1", 0, AVAILABLE);
    world.deliver("c2", 0, AVAILABLE);
    world.step();
    assert!(world.in_short().ends_with("Available=True"));
    world.select(&["app", "more"]);
    world.snapshot_by_run();
    world.deliver("c2", 1, "RolloutStarted=True");
    world.step();
    left_to_runs(&world, DIFFERENT);
}

#[test]
fn a_mistake_in_the_selectors_blocks_the_policy_snapshot_too() {
    let mut world = World::crp(json!({"strategy": {"type": "External"}}));
    world.seen.selection = Err(PassError::User("no such kind".into()));
    world.step();
    assert!(world.seen.policy_snapshots.is_empty());
    assert_eq!(
        world.told(),
        "ClusterResourcePlacementScheduled@1 False InvalidResourceSelectors: The resource selectors \
         are invalid: failed to process the request due to a client error: no such kind\n"
    );
}

#[test]
fn a_placement_left_to_runs_keeps_the_snapshots_it_had() {
    let mut world = World::crp(json!({"policy": {"placementType": "PickAll"}}));
    world.step();
    world.schedule(&["c1"], &[]);
    world.deliver("c1", 0, AVAILABLE);
    world.step();
    world.edit(|spec| spec["strategy"] = json!({"type": "External"}));
    world.select(&["app", "more"]);
    world.step();
    world.schedule(&["c1"], &[]);
    world.step();
    assert_eq!(world.seen.resource_snapshots.len(), 1);
    assert_eq!(world.status().observed_resource_index, "0");
    assert_eq!(world.status().selected_resources, [namespace_id("app")]);
}
