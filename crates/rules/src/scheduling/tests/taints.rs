//! Taints and tolerations.

use serde_json::{Value, json};

use super::fleet::{World, cluster, policy};
use crate::model::{Cluster, Taint};

fn tainted(name: &str, taints: &[(&str, &str)]) -> Cluster {
    let taints = taints.iter().map(|(key, value)| Taint {
        key: (*key).into(),
        value: (*value).into(),
        effect: "NoSchedule".into(),
    });
    Cluster { taints: taints.collect(), ..cluster(name, "") }
}

fn tolerating(tolerations: Value) -> World {
    World::new(policy(json!({"placementType": "PickAll", "tolerations": tolerations})))
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
        let mut world = tolerating(tolerations.clone()).over([tainted("a", taints)]);
        world.settle();
        assert_eq!(!world.placed().is_empty(), *fits, "{what}");
    }
}

// checklist 18.26
#[test]
fn the_first_untolerated_taint_is_named() {
    let mut world = tolerating(json!([])).over([tainted("a", &[("k", ""), ("z", "1")])]);
    let report = world.settle().report.unwrap();
    assert_eq!(
        report.decisions[0].reason,
        "ClusterUnschedulable, taint &{Key:k Value: Effect:NoSchedule} cannot be tolerated"
    );
}

// checklist 18.27
#[test]
fn a_removed_taint_lets_the_cluster_in_and_an_added_one_keeps_it() {
    let mut world = tolerating(json!([])).over([tainted("a", &[("k", "v")]), cluster("b", "")]);
    world.settle();
    assert_eq!(world.placed(), ["b"]);
    world.cluster("a").taints.clear();
    world.settle();
    assert_eq!(world.placed(), ["a", "b"]);
    world.cluster("b").taints = tainted("x", &[("k", "v")]).taints;
    world.settle();
    assert_eq!(world.placed(), ["a", "b"]);
}

// checklist 18.27
#[test]
fn added_tolerations_let_the_cluster_in() {
    let mut world = tolerating(json!([])).over([tainted("a", &[("k", "v")])]);
    world.settle();
    world.repolicy(policy(json!({"tolerations": [{"operator": "Exists"}]})));
    world.settle();
    assert_eq!(world.placed(), ["a"]);
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
    let mut world = World::new(policy(spread)).wanting(1).over([
        cluster("a1", "region=east"),
        cluster("b1", "region=west"),
        bad,
    ]);
    world.settle();
    world.snapshot().number_of_clusters = Some("2".into());
    world.settle();
    assert_eq!(world.placed(), ["a1", "b1"]);
}
