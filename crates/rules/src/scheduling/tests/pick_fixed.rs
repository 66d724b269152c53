//! PickFixed: exactly the named clusters.

use expect_test::expect;
use flagship_api::policy::PlacementPolicy;
use serde_json::json;

use super::fleet::{World, cluster, policy, silent, told};
use crate::model::Taint;
use crate::scheduling::{Remark, State};

fn fixed(names: &[&str]) -> Option<PlacementPolicy> {
    policy(json!({"placementType": "PickFixed", "clusterNames": names}))
}

// checklist 18.21
#[test]
fn all_valid_clusters_are_taken_in_the_order_of_the_list() {
    let mut world =
        World::new(fixed(&["b", "a"])).over([cluster("a", ""), cluster("b", ""), cluster("c", "")]);
    expect![[r#"
        SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
        + b: Successfully scheduled resources for placement in "b": picked by scheduling policy
        + a: Successfully scheduled resources for placement in "a": picked by scheduling policy
    "#]].assert_eq(&told(&world.settle()));
}

// checklist 18.21
#[test]
fn a_mix_of_valid_unhealthy_and_missing_clusters_is_explained() {
    let mut world = World::new(fixed(&["x", "b", "a"])).over([cluster("a", ""), silent("b", "")]);
    expect![[r#"
        SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead
        + a: Successfully scheduled resources for placement in "a": picked by scheduling policy
        - b: Cluster "b" is not eligible for resource placement yet: cluster is not connected to the fleet: member agent not online yet
        - x: Specified cluster "x" is not found
    "#]].assert_eq(&told(&world.settle()));
    assert_eq!(world.placed(), ["a"]);
}

// checklist 18.21
#[test]
fn the_list_can_grow_and_shrink() {
    let mut world = World::new(fixed(&["a"])).over([cluster("a", ""), cluster("b", "")]);
    world.settle();
    world.bind_all();
    world.repolicy(fixed(&["a", "b"]));
    world.settle();
    assert_eq!(world.placed(), ["a", "b"]);
    world.bind_all();
    world.repolicy(fixed(&["b"]));
    world.settle();
    assert_eq!(world.placed(), ["b"]);
    assert_eq!(world.unscheduled(), [("a", State::Bound)]);
    world.repolicy(fixed(&["a", "b"]));
    world.settle();
    assert_eq!(world.placed(), ["a", "b"], "an unscheduled binding is brought back");
    assert_eq!(world.seen.bindings[0].state(), State::Bound, "in the state it had");
}

// checklist 18.21
#[test]
fn an_empty_list_stays_pending_and_then_takes_one_cluster() {
    let mut world = World::new(fixed(&[])).over([cluster("a", "")]);
    let plan = world.settle();
    assert_eq!((plan.actions.len(), plan.report), (0, None));
    world.repolicy(fixed(&["a"]));
    world.settle();
    assert_eq!(world.placed(), ["a"]);
    world.repolicy(fixed(&[]));
    let plan = world.settle();
    assert_eq!(plan.report, None);
    assert_eq!(world.unscheduled(), [("a", State::Scheduled)], "a list that becomes empty lets go");
}

// checklist 18.21
#[test]
fn a_cluster_that_becomes_eligible_later_is_taken_then() {
    let mut world = World::new(fixed(&["a"])).over([silent("a", "")]);
    world.settle();
    assert_eq!(world.placed(), Vec::<&str>::new());
    *world.cluster("a") = cluster("a", "");
    let plan = world.settle();
    assert_eq!(world.placed(), ["a"]);
    assert!(plan.report.unwrap().verdict.fulfilled);
}

// checklist 18.21
#[test]
fn a_placed_cluster_that_turns_unhealthy_is_still_reported_as_chosen() {
    let mut world = World::new(fixed(&["a"])).over([cluster("a", "")]);
    world.settle();
    world.cluster("a").agent = None;
    let plan = world.settle();
    assert_eq!(world.placed(), ["a"]);
    assert_eq!(plan.report, None, "the decision did not change");
    assert!(matches!(&plan.remarks[..], [Remark::Unwell { cluster, .. }] if cluster == "a"));
}

// checklist 18.21
#[test]
fn a_selected_cluster_that_leaves_is_let_go() {
    let mut world = World::new(fixed(&["a"])).over([cluster("a", "")]);
    world.settle();
    world.cluster("a").leaving = true;
    world.settle();
    assert_eq!(world.unscheduled(), [("a", State::Scheduled)]);
}

// checklist 18.27
#[test]
fn pick_fixed_ignores_taints() {
    let mut tainted = cluster("a", "");
    tainted.taints.push(Taint { key: "k".into(), value: "v".into(), effect: "NoSchedule".into() });
    let mut world = World::new(fixed(&["a"])).over([tainted]);
    world.settle();
    assert_eq!(world.placed(), ["a"]);
}
