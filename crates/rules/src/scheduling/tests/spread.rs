//! Spread constraints over whole passes.

use expect_test::expect;
use flagship_api::policy::PlacementPolicy;
use serde_json::{Value, json};

use super::fleet::{Fixture, cluster, policy, silent, told};
use crate::scheduling::State;

fn spread(constraints: Value, preferred: Value) -> Option<PlacementPolicy> {
    policy(json!({"placementType": "PickN", "topologySpreadConstraints": constraints,
        "affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}))
}

fn strict(key: &str) -> Value {
    json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"})
}

fn lenient(key: &str) -> Value {
    json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"})
}

// checklist 18.5
#[test]
fn a_strict_spread_fills_one_cluster_a_pass() {
    let mut fixture = Fixture::new(spread(json!([strict("region")]), json!([]))).wanting(3).over([
        cluster("a1", "region=east"),
        cluster("a2", "region=east"),
        cluster("b1", "region=west"),
    ]);
    let mut order = Vec::new();
    loop {
        let plan = fixture.step();
        let made = plan.actions.iter().map(|a| format!("{a:?}"));
        order.extend(made.map(|a| a.split('"').nth(1).unwrap().to_owned()));
        if !plan.again {
            assert_eq!(plan.report.unwrap().verdict.found, 3);
            break;
        }
        assert_eq!(plan.report, None, "no status before the last pass");
    }
    assert_eq!(order, ["b1", "a2", "a1"]);
}

// checklist 18.18
#[test]
fn a_violation_keeps_the_policy_unfulfilled() {
    let mut fixture = Fixture::new(spread(json!([strict("region")]), json!([]))).wanting(3).over([
        cluster("a1", "region=east"),
        cluster("a2", "region=east"),
        cluster("a3", "region=east"),
        silent("b1", "region=west"),
    ]);
    expect![[r#"
        SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead
        + a3: Successfully scheduled resources for placement in "a3" (affinity score: 0, topology spread score: -1): picked by scheduling policy
        - a1: ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)
        - a2: ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)
        - b1: ClusterUnschedulable, cluster is not connected to the fleet: member agent not online yet
    "#]].assert_eq(&told(&fixture.settle()));
}

#[test]
fn counting_feasible_clusters_only_frees_what_an_unreachable_domain_pins() {
    let mut fixture = Fixture::new(spread(json!([strict("region")]), json!([]))).wanting(3).over([
        cluster("a1", "region=east"),
        cluster("a2", "region=east"),
        cluster("a3", "region=east"),
        silent("b1", "region=west"),
    ]);
    fixture.seen.options.spread_over_feasible_clusters = true;
    fixture.settle();
    assert_eq!(fixture.placed(), ["a1", "a2", "a3"]);
}

// checklist 18.18
#[test]
fn preference_order_with_spread_keeps_what_was_chosen() {
    let mut fixture =
        Fixture::new(policy(json!({"placementType": "PickN", "affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
            {"labelSelector": {"matchLabels": {"region": "east"}}}]}}}})))
        .wanting(2)
        .over([
            cluster("cluster-1", "region=east env=prod"),
            cluster("cluster-2", "region=east env=canary"),
            cluster("cluster-3", "region=west env=prod"),
        ]);
    fixture.settle();
    fixture.bind_all();
    assert_eq!(fixture.placed(), ["cluster-1", "cluster-2"]);
    let prod =
        json!([{"weight": 20, "preference": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]);
    fixture.repolicy(spread(json!([lenient("region")]), prod));

    let first = fixture.step();
    assert!(first.again);
    assert_eq!(fixture.unscheduled(), [], "nothing is let go before the last pass");
    fixture.settle();
    assert_eq!(fixture.placed(), ["cluster-1", "cluster-3"]);
    assert_eq!(fixture.unscheduled(), [("cluster-2", State::Bound)]);
}

#[test]
fn a_lenient_violation_costs_a_thousand_and_is_still_picked_when_needed() {
    let mut fixture =
        Fixture::new(spread(json!([lenient("region")]), json!([]))).wanting(3).over([
            cluster("a1", "region=east"),
            cluster("a2", "region=east"),
            cluster("a3", "region=east"),
            silent("b1", "region=west"),
        ]);
    let report = fixture.settle().report.unwrap();
    assert_eq!(fixture.placed(), ["a1", "a2", "a3"]);
    let last = report.decisions.iter().find(|d| d.cluster == "a1").unwrap();
    assert_eq!(last.score.unwrap().spread, -1000);
}

// checklist 18.18
#[test]
fn two_keys_and_mixed_strictness_are_summed() {
    let both = json!([strict("region"), lenient("zone")]);
    let mut fixture = Fixture::new(spread(both, json!([]))).wanting(2).over([
        cluster("a", "region=east zone=1"),
        cluster("b", "region=east zone=2"),
        cluster("c", "region=west zone=2"),
        cluster("d", "region=west zone=1"),
    ]);
    fixture.settle();
    // d is first by name; then region asks for east and zone for 2.
    assert_eq!(fixture.placed(), ["b", "d"]);
    let two_strict = json!([strict("region"), strict("zone")]);
    let mut fixture = Fixture::new(spread(two_strict, json!([]))).wanting(2).over([
        cluster("a", "region=east zone=1"),
        cluster("c", "region=west zone=1"),
        cluster("d", "region=west zone=2"),
    ]);
    fixture.settle();
    assert_eq!(fixture.placed(), ["a", "d"]);
}

// checklist 18.18
#[test]
fn balance_is_restored_when_a_cluster_joins() {
    let mut fixture = Fixture::new(spread(json!([strict("region")]), json!([]))).wanting(2).over([
        cluster("a1", "region=east"),
        cluster("a2", "region=east"),
        silent("b1", "region=west"),
    ]);
    fixture.settle();
    assert_eq!(fixture.placed(), ["a2"]);
    *fixture.cluster("b1") = cluster("b1", "region=west");
    let plan = fixture.settle();
    assert_eq!(fixture.placed(), ["a2", "b1"]);
    assert!(plan.report.unwrap().verdict.fulfilled);
}
