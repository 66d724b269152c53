//! PickFixed: exactly the named clusters.

use expect_test::expect;
use flagship_api::policy::PlacementPolicy;
use serde_json::json;

use super::fleet::{Fixture, cluster, policy, silent, told};
use crate::model::Taint;
use crate::scheduling::{Remark, State};

fn fixed(names: &[&str]) -> Option<PlacementPolicy> {
    policy(json!({"placementType": "PickFixed", "clusterNames": names}))
}

// checklist 18.21
#[test]
fn all_valid_clusters_are_taken_in_the_order_of_the_list() {
    let mut fixture = Fixture::new(fixed(&["b", "a"])).over([
        cluster("a", ""),
        cluster("b", ""),
        cluster("c", ""),
    ]);
    expect![[r#"
        SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
        + b: Successfully scheduled resources for placement in "b": picked by scheduling policy
        + a: Successfully scheduled resources for placement in "a": picked by scheduling policy
    "#]].assert_eq(&told(&fixture.settle()));
}

// checklist 18.21
#[test]
fn a_mix_of_valid_unhealthy_and_missing_clusters_is_explained() {
    let mut fixture =
        Fixture::new(fixed(&["x", "b", "a"])).over([cluster("a", ""), silent("b", "")]);
    expect![[r#"
        SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead
        + a: Successfully scheduled resources for placement in "a": picked by scheduling policy
        - b: Cluster "b" is not eligible for resource placement yet: cluster is not connected to the fleet: member agent not online yet
        - x: Specified cluster "x" is not found
    "#]].assert_eq(&told(&fixture.settle()));
    assert_eq!(fixture.placed(), ["a"]);
}

// checklist 18.21
#[test]
fn the_list_can_grow_and_shrink() {
    let mut fixture = Fixture::new(fixed(&["a"])).over([cluster("a", ""), cluster("b", "")]);
    fixture.settle();
    fixture.bind_all();
    fixture.repolicy(fixed(&["a", "b"]));
    fixture.settle();
    assert_eq!(fixture.placed(), ["a", "b"]);
    fixture.bind_all();
    fixture.repolicy(fixed(&["b"]));
    fixture.settle();
    assert_eq!(fixture.placed(), ["b"]);
    assert_eq!(fixture.unscheduled(), [("a", State::Bound)]);
    fixture.repolicy(fixed(&["a", "b"]));
    fixture.settle();
    assert_eq!(fixture.placed(), ["a", "b"], "an unscheduled binding is brought back");
    assert_eq!(fixture.seen.bindings[0].state(), State::Bound, "in the state it had");
}

// checklist 18.21
#[test]
fn an_empty_list_stays_pending_and_then_takes_one_cluster() {
    let mut fixture = Fixture::new(fixed(&[])).over([cluster("a", "")]);
    let plan = fixture.settle();
    assert_eq!((plan.actions.len(), plan.report), (0, None));
    fixture.repolicy(fixed(&["a"]));
    fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
    fixture.repolicy(fixed(&[]));
    let plan = fixture.settle();
    assert_eq!(plan.report, None);
    assert_eq!(
        fixture.unscheduled(),
        [("a", State::Scheduled)],
        "a list that becomes empty lets go"
    );
}

// checklist 18.21
#[test]
fn a_cluster_that_becomes_eligible_later_is_taken_then() {
    let mut fixture = Fixture::new(fixed(&["a"])).over([silent("a", "")]);
    fixture.settle();
    assert_eq!(fixture.placed(), Vec::<&str>::new());
    *fixture.cluster("a") = cluster("a", "");
    let plan = fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
    assert!(plan.report.unwrap().verdict.fulfilled);
}

// checklist 18.21
#[test]
fn a_placed_cluster_that_turns_unhealthy_is_still_reported_as_chosen() {
    let mut fixture = Fixture::new(fixed(&["a"])).over([cluster("a", "")]);
    fixture.settle();
    fixture.cluster("a").agent = None;
    let plan = fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
    assert_eq!(plan.report, None, "the decision did not change");
    assert!(matches!(&plan.remarks[..], [Remark::Unwell { cluster, .. }] if cluster == "a"));
}

// checklist 18.21
#[test]
fn a_selected_cluster_that_leaves_is_let_go() {
    let mut fixture = Fixture::new(fixed(&["a"])).over([cluster("a", "")]);
    fixture.settle();
    fixture.cluster("a").leaving = true;
    fixture.settle();
    assert_eq!(fixture.unscheduled(), [("a", State::Scheduled)]);
}

// checklist 18.27
#[test]
fn pick_fixed_ignores_taints() {
    let mut tainted = cluster("a", "");
    tainted.taints.push(Taint { key: "k".into(), value: "v".into(), effect: "NoSchedule".into() });
    let mut fixture = Fixture::new(fixed(&["a"])).over([tainted]);
    fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
}
