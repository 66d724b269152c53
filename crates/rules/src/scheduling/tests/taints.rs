//! Taints and tolerations.

use serde_json::{Value, json};

use super::fleet::{Fixture, cluster, policy};
use crate::model::{Cluster, Taint};

fn tainted(name: &str, taints: &[(&str, &str)]) -> Cluster {
    let taints = taints.iter().map(|(key, value)| Taint {
        key: (*key).into(),
        value: (*value).into(),
        effect: "NoSchedule".into(),
    });
    Cluster { taints: taints.collect(), ..cluster(name, "") }
}

fn tolerating(tolerations: Value) -> Fixture {
    Fixture::new(policy(json!({"placementType": "PickAll", "tolerations": tolerations})))
}

/// Keys and values of taints.
type Taints<'a> = &'a [(&'a str, &'a str)];

// checklist 18.26
#[test]
fn each_way_to_tolerate_or_not() {
    let one: Taints<'_> = &[("k", "v")];
    let rows: &[(&str, Taints<'_>, Value, bool)] = &[
        ("no taints", &[], json!([]), true),
        ("no tolerations", one, json!([]), false),
        (
            "equal with effect",
            one,
            json!([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]),
            true,
        ),
        (
            "equal without effect",
            one,
            json!([{"key": "k", "operator": "Equal", "value": "v"}]),
            true,
        ),
        ("equal without value", &[("k", "")], json!([{"key": "k", "operator": "Equal"}]), true),
        ("exists per key", one, json!([{"key": "k", "operator": "Exists"}]), true),
        ("exists all", one, json!([{"operator": "Exists"}]), true),
        ("other key", one, json!([{"key": "x", "operator": "Exists"}]), false),
        ("other value", one, json!([{"key": "k", "operator": "Equal", "value": "w"}]), false),
        ("no operator", one, json!([{"key": "k", "value": "v"}]), false),
        (
            "one of several missing",
            &[("k", "v"), ("z", "")],
            json!([{"key": "k", "operator": "Exists"}]),
            false,
        ),
    ];
    for (what, taints, tolerations, fits) in rows {
        let mut fixture = tolerating(tolerations.clone()).over([tainted("a", taints)]);
        fixture.settle();
        assert_eq!(!fixture.placed().is_empty(), *fits, "{what}");
    }
}

// checklist 18.26
#[test]
fn the_first_untolerated_taint_is_named() {
    let mut fixture = tolerating(json!([])).over([tainted("a", &[("k", ""), ("z", "1")])]);
    let report = fixture.settle().report.unwrap();
    assert_eq!(
        report.decisions[0].reason,
        "ClusterUnschedulable, taint &{Key:k Value: Effect:NoSchedule} cannot be tolerated"
    );
}

// checklist 18.27
#[test]
fn a_removed_taint_lets_the_cluster_in_and_an_added_one_keeps_it() {
    let mut fixture = tolerating(json!([])).over([tainted("a", &[("k", "v")]), cluster("b", "")]);
    fixture.settle();
    assert_eq!(fixture.placed(), ["b"]);
    fixture.cluster("a").taints.clear();
    fixture.settle();
    assert_eq!(fixture.placed(), ["a", "b"]);
    fixture.cluster("b").taints = tainted("x", &[("k", "v")]).taints;
    fixture.settle();
    assert_eq!(fixture.placed(), ["a", "b"]);
}

// checklist 18.27
#[test]
fn added_tolerations_let_the_cluster_in() {
    let mut fixture = tolerating(json!([])).over([tainted("a", &[("k", "v")])]);
    fixture.settle();
    fixture.repolicy(policy(json!({"tolerations": [{"operator": "Exists"}]})));
    fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
}

// checklist 18.27
#[test]
fn an_upscale_under_spread_passes_over_a_tainted_cluster() {
    let spread = json!({"placementType": "PickN",
        "topologySpreadConstraints": [{"topologyKey": "region"}]});
    let mut bad = tainted("b2", &[("k", "v")]);
    let mut labels = bad.labels.to_map();
    labels.insert("region".into(), "west".into());
    bad.labels = labels.into();
    let mut fixture = Fixture::new(policy(spread)).wanting(1).over([
        cluster("a1", "region=east"),
        cluster("b1", "region=west"),
        bad,
    ]);
    fixture.settle();
    fixture.snapshot().number_of_clusters = Some("2".into());
    fixture.settle();
    assert_eq!(fixture.placed(), ["a1", "b1"]);
}
