//! PickN: the best N, kept while they last.

use expect_test::expect;
use serde_json::{Value, json};

use super::fleet::{Fixture, cluster, map, pick_n, policy, silent, told, with_property};
use crate::model::PackedMap;
use crate::scheduling::State;

fn affinity(required: Value, preferred: Value) -> Option<flagship_api::policy::PlacementPolicy> {
    let mut affinity = json!({"preferredDuringSchedulingIgnoredDuringExecution": preferred});
    if !required.is_null() {
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"clusterSelectorTerms": required});
    }
    policy(json!({"placementType": "PickN", "affinity": {"clusterAffinity": affinity}}))
}

fn likes(label: (&str, &str), weight: i32) -> Value {
    json!({"weight": weight, "preference": {"labelSelector": {"matchLabels": {label.0: label.1}}}})
}

fn sorts(property: &str, order: &str, weight: i32) -> Value {
    json!({"weight": weight, "preference": {"propertySorter": {"name": property, "sortOrder": order}}})
}

fn abc() -> [crate::model::Cluster; 3] {
    ["a", "b", "c"].map(|name| cluster(name, ""))
}

// checklist 18.16
#[test]
fn n_without_constraints_picks_the_greatest_names() {
    let mut fixture = pick_n(2).over(abc());
    expect![[r#"
        SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
        + c: Successfully scheduled resources for placement in "c" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        + b: Successfully scheduled resources for placement in "b" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        - a: Cluster "a" does not score high enough (affinity score: 0, topology spread score: 0)
    "#]].assert_eq(&told(&fixture.settle()));
}

// checklist 18.5, 18.16
#[test]
fn too_few_clusters_are_reported_as_unfulfilled() {
    let prod = json!([{"labelSelector": {"matchLabels": {"env": "prod"}}}]);
    let mut fixture = Fixture::new(affinity(prod, json!([])))
        .wanting(2)
        .over([cluster("a", "env=prod"), cluster("b", "env=test")]);
    expect![[r#"
        SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead
        + a: Successfully scheduled resources for placement in "a" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        - b: ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
    "#]].assert_eq(&told(&fixture.settle()));
}

// checklist 18.16
#[test]
fn zero_clusters_are_fulfilled() {
    let plan = pick_n(0).over(abc()).settle();
    let verdict = plan.report.unwrap().verdict;
    assert_eq!((verdict.fulfilled, verdict.found), (true, 0));
}

// checklist 18.9
#[test]
fn upscale_and_downscale_including_to_zero() {
    let mut fixture = pick_n(1).over(abc());
    fixture.settle();
    assert_eq!(fixture.placed(), ["c"]);
    for (n, want) in [(3, vec!["a", "b", "c"]), (2, vec!["b", "c"]), (0, vec![])] {
        fixture.bind_all();
        fixture.snapshot().number_of_clusters = Some(n.to_string());
        let plan = fixture.settle();
        assert_eq!(fixture.placed(), want, "{n} wanted");
        assert_eq!(plan.report.unwrap().verdict.found, want.len());
    }
}

// checklist 18.9
#[test]
fn a_missing_or_invalid_count_is_a_failure_that_names_the_snapshot() {
    for bad in [None, Some("-1"), Some("many"), Some("")] {
        let mut fixture = pick_n(1).over(abc());
        fixture.snapshot().number_of_clusters = bad.map(str::to_owned);
        let plan = fixture.plan();
        let why = plan.failure.expect("the count is wrong").0;
        assert!(
            why.contains("web-0") && why.contains("kubernetes-fleet.io/number-of-clusters"),
            "{why}"
        );
        assert!(plan.actions.is_empty());
    }
}

// checklist 18.5, 18.17
#[test]
fn preferred_terms_add_up_and_negative_weights_repel() {
    let preferred = json!([
        likes(("env", "prod"), 20),
        likes(("region", "east"), 10),
        likes(("old", "yes"), -25)
    ]);
    let mut fixture = Fixture::new(affinity(Value::Null, preferred)).wanting(1).over([
        cluster("a", "env=prod region=east"),
        cluster("b", "env=prod"),
        cluster("c", "region=east old=yes"),
        cluster("d", ""),
    ]);
    expect![[r#"
        SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s)
        + a: Successfully scheduled resources for placement in "a" (affinity score: 30, topology spread score: 0): picked by scheduling policy
        - b: Cluster "b" does not score high enough (affinity score: 20, topology spread score: 0)
        - d: Cluster "d" does not score high enough (affinity score: 0, topology spread score: 0)
        - c: Cluster "c" does not score high enough (affinity score: -15, topology spread score: 0)
    "#]].assert_eq(&told(&fixture.settle()));
}

// checklist 18.17
#[test]
fn required_and_preferred_terms_work_together() {
    let east = json!([{"labelSelector": {"matchLabels": {"region": "east"}}}]);
    let mut fixture =
        Fixture::new(affinity(east, json!([likes(("env", "prod"), 5)]))).wanting(1).over([
            cluster("a", "region=east env=prod"),
            cluster("b", "region=east"),
            cluster("z", "region=west env=prod"),
        ]);
    fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
}

// checklist 18.19
/// The worked example of the specification: three sorters, one unhealthy cluster that
/// still sets an extreme.
#[test]
fn several_sorters_add_up_as_in_the_worked_example() {
    let preferred = json!([
        sorts("nodes", "Ascending", 100),
        sorts("rating", "Descending", 80),
        sorts("resources.kubernetes-fleet.io/allocatable-memory", "Descending", 60),
    ]);
    let member = |name: &str, nodes: &str, rating: &str, memory: &str| {
        let mut made =
            with_property(with_property(cluster(name, ""), "nodes", nodes), "rating", rating);
        made.allocatable = map(&[("memory", memory)]);
        made
    };
    let mut m8 = member("m8", "1", "100", "6Gi");
    m8.agent = None;
    let mut fixture = Fixture::new(affinity(Value::Null, preferred)).wanting(3).over([
        member("m1", "2", "100", "3Gi"),
        member("m2", "4", "60", "7Gi"),
        member("m3", "6", "40", "11Gi"),
        member("m4", "2", "80", "2Gi"),
        member("m5", "8", "40", "14Gi"),
        member("m6", "2", "60", "6Gi"),
        member("m7", "8", "20", "30Gi"),
        m8,
    ]);
    let plan = fixture.settle();
    let scores: Vec<(String, i32)> = plan
        .report
        .unwrap()
        .decisions
        .into_iter()
        .filter_map(|d| Some((d.cluster, d.score?.affinity)))
        .collect();
    let want =
        [("m1", 168), ("m4", 146), ("m6", 135), ("m2", 108), ("m3", 68), ("m7", 60), ("m5", 46)];
    assert_eq!(scores, want.map(|(name, score)| (name.to_owned(), score)));
    assert_eq!(fixture.placed(), ["m1", "m4", "m6"]);
}

// checklist 18.20
#[test]
fn a_policy_update_keeps_overlapping_clusters() {
    let mut fixture = pick_n(2).over([cluster("a", "x=1"), cluster("b", "x=1"), cluster("c", "")]);
    fixture.settle();
    fixture.bind_all();
    assert_eq!(fixture.placed(), ["b", "c"]);
    let x = json!([{"labelSelector": {"matchLabels": {"x": "1"}}}]);
    fixture.repolicy(affinity(x, json!([])));
    fixture.settle();
    assert_eq!(fixture.placed(), ["a", "b"]);
    assert_eq!(fixture.unscheduled(), [("c", State::Bound)]);
}

// checklist 18.20
#[test]
fn a_selected_cluster_that_leaves_is_replaced() {
    let mut fixture = pick_n(2).over(abc());
    fixture.settle();
    fixture.bind_all();
    fixture.cluster("c").leaving = true;
    fixture.settle();
    assert_eq!(fixture.placed(), ["a", "b"]);
    assert_eq!(fixture.unscheduled(), [("c", State::Bound)]);
}

// checklist 18.20
#[test]
fn changes_of_labels_health_and_properties_keep_the_selection() {
    let prod = json!([{"labelSelector": {"matchLabels": {"env": "prod"}}}]);
    let mut fixture =
        Fixture::new(affinity(prod, json!([sorts("nodes", "Descending", 10)]))).wanting(1).over([
            with_property(cluster("a", "env=prod"), "nodes", "9"),
            with_property(cluster("b", "env=prod"), "nodes", "1"),
        ]);
    fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
    fixture.cluster("a").labels = PackedMap::default();
    fixture.cluster("a").agent = None;
    fixture.cluster("b").properties = map(&[("nodes", "100")]);
    let plan = fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
    assert!(plan.actions.is_empty());
}

#[test]
fn a_leaving_cluster_takes_no_place_and_gives_its_reason() {
    let mut fixture = pick_n(2).over([cluster("a", ""), silent("b", "")]);
    fixture.cluster("b").leaving = true;
    let plan = fixture.settle();
    let report = plan.report.unwrap();
    assert_eq!(report.verdict.found, 1);
    assert_eq!(report.decisions[1].reason, "ClusterUnschedulable, cluster has left the fleet");
}
