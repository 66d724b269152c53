//! PickAll and the policy that is not there.

use expect_test::expect;
use serde_json::json;

use super::fleet::{Fixture, ago, cluster, map, policy, silent, told, with_property};
use crate::model::Health;
use crate::scheduling::{Remark, State};

fn prod() -> Option<flagship_api::policy::PlacementPolicy> {
    required(json!([{"labelSelector": {"matchLabels": {"env": "prod"}}}]))
}

fn required(terms: serde_json::Value) -> Option<flagship_api::policy::PlacementPolicy> {
    policy(json!({"placementType": "PickAll", "affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}}}))
}

// checklist 18.13
#[test]
fn no_policy_picks_every_healthy_cluster() {
    let fleet = [cluster("member1", ""), cluster("member2", ""), cluster("member3", "")];
    let mut fixture = Fixture::new(None).over(fleet);
    let plan = fixture.settle();
    expect![[r#"
        SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
        + member1: Successfully scheduled resources for placement in "member1" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        + member2: Successfully scheduled resources for placement in "member2" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        + member3: Successfully scheduled resources for placement in "member3" (affinity score: 0, topology spread score: 0): picked by scheduling policy
    "#]].assert_eq(&told(&plan));
    let quiet = fixture.plan();
    assert_eq!(
        (quiet.actions.len(), quiet.report),
        (0, None),
        "nothing changed, nothing is written"
    );
}

// checklist 18.13
#[test]
fn an_explicit_pick_all_does_the_same() {
    let mut fixture =
        Fixture::new(policy(json!({"placementType": "PickAll"}))).over([cluster("a", "")]);
    fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
}

// checklist 18.13
#[test]
fn a_new_healthy_cluster_joins() {
    let mut fixture = Fixture::new(None).over([cluster("a", "")]);
    fixture.settle();
    fixture.seen.clusters.push(cluster("b", "").into());
    let plan = fixture.settle();
    assert_eq!(fixture.placed(), ["a", "b"]);
    assert_eq!(plan.report.unwrap().verdict.found, 2);
}

// checklist 18.13
#[test]
fn a_cluster_that_turns_unhealthy_is_kept() {
    let mut fixture = Fixture::new(None).over([cluster("a", "")]);
    fixture.settle();
    let agent = fixture.cluster("a").agent.as_mut().unwrap();
    agent.health = Some(Health { healthy: false, since: ago(3600) });
    let plan = fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);
    assert!(plan.actions.is_empty());
}

// checklist 18.4, 18.13
#[test]
fn no_match_is_fulfilled_with_zero() {
    let mut fixture =
        Fixture::new(prod()).over([cluster("a", "env=test"), silent("b", "env=prod")]);
    expect![[r#"
        SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 0 cluster(s)
        - a: ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms
        - b: ClusterUnschedulable, cluster is not connected to the fleet: member agent not online yet
    "#]].assert_eq(&told(&fixture.settle()));
}

// checklist 18.14
#[test]
fn one_term_needs_all_of_its_selectors_and_any_term_suffices() {
    let both = json!([{"labelSelector": {"matchLabels": {"env": "prod", "region": "east"}}}]);
    let either = json!([
        {"labelSelector": {"matchLabels": {"env": "prod"}}},
        {"labelSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["west"]}]}},
    ]);
    let fleet = || {
        [
            cluster("a", "env=prod region=east"),
            cluster("b", "env=prod region=north"),
            cluster("c", "env=test region=west"),
            cluster("d", "env=test region=north"),
        ]
    };
    for (terms, want) in [(both, vec!["a"]), (either, vec!["a", "b", "c"])] {
        let mut fixture = Fixture::new(required(terms)).over(fleet());
        fixture.settle();
        assert_eq!(fixture.placed(), want);
    }
}

// checklist 18.14
#[test]
fn an_update_re_evaluates_and_unschedules_in_both_scopes() {
    for namespace in [None, Some("team".to_owned())] {
        let mut fixture =
            Fixture::new(None).over([cluster("a", "env=prod"), cluster("b", "env=test")]);
        fixture.seen.namespace = namespace;
        fixture.settle();
        fixture.bind_all();
        fixture.repolicy(prod());
        fixture.settle();
        assert_eq!(fixture.placed(), ["a"]);
        assert_eq!(fixture.unscheduled(), [("b", State::Bound)]);
        assert_eq!(fixture.seen.bindings[0].state(), State::Bound, "what stays keeps its state");
    }
}

// checklist 18.15
#[test]
fn property_selectors_filter_and_follow_refreshed_values() {
    let at_least_three = |also: serde_json::Value| {
        let mut expressions = vec![
            json!({"name": "kubernetes-fleet.io/node-count", "operator": "Ge", "values": ["3"]}),
        ];
        expressions.extend(also.as_array().cloned().unwrap_or_default());
        required(json!([{"propertySelector": {"matchExpressions": expressions}}]))
    };
    let nodes = |name: &str, n: &str| {
        with_property(cluster(name, "env=prod"), "kubernetes-fleet.io/node-count", n)
    };
    let mut fixture = Fixture::new(at_least_three(json!([]))).over([
        nodes("a", "3"),
        nodes("b", "2"),
        cluster("c", ""),
    ]);
    fixture.settle();
    assert_eq!(fixture.placed(), ["a"]);

    fixture.cluster("b").properties = map(&[("kubernetes-fleet.io/node-count", "4")]);
    fixture.settle();
    assert_eq!(fixture.placed(), ["a", "b"], "a refreshed property picks a new cluster");

    let cpu = json!([{"name": "resources.kubernetes-fleet.io/available-cpu", "operator": "Gt", "values": ["1500m"]}]);
    fixture.cluster("a").available = map(&[("cpu", "2")]);
    fixture.cluster("b").available = map(&[("cpu", "1.5")]);
    fixture.repolicy(at_least_three(cpu));
    fixture.settle();
    assert_eq!(fixture.placed(), ["a"], "every expression of a term must hold");
}

// checklist 18.24
#[test]
fn a_malformed_property_concerns_its_cluster_alone() {
    let policy = required(json!([{"propertySelector": {"matchExpressions": [
        {"name": "rating", "operator": "Ge", "values": ["1"]}]}}]));
    let fleet = [
        with_property(cluster("a", ""), "rating", "excellent"),
        with_property(cluster("b", ""), "rating", "5"),
    ];
    let mut fixture = Fixture::new(policy).over(fleet);
    let plan = fixture.settle();
    assert_eq!(fixture.placed(), ["b"]);
    let refused = &plan.report.unwrap().decisions[1].reason;
    // A person is told, whether the reason is among those that are listed or not.
    let why = refused.trim_start_matches("ClusterUnschedulable, ").to_owned();
    assert_eq!(plan.remarks, [Remark::BadProperty { cluster: "a".into(), why }]);
    assert!(
        refused.starts_with("ClusterUnschedulable, value excellent of property rating from cluster a is not a valid quantity"),
        "{refused}"
    );
}
