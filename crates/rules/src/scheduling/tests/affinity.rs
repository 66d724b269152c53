//! Property names, operators and interpolation, as a policy meets them.

use serde_json::json;

use super::fleet::{Fixture, cluster, map, policy, with_property};
use crate::model::Cluster;
use crate::scheduling::Remark;

fn admitted(expression: serde_json::Value, cluster: Cluster) -> Result<bool, String> {
    let mut fixture =
        Fixture::new(policy(json!({"placementType": "PickAll", "affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
            {"propertySelector": {"matchExpressions": [expression]}}]}}}})))
        .over([cluster]);
    match fixture.settle().failure {
        Some(failure) => Err(failure.0),
        None => Ok(!fixture.placed().is_empty()),
    }
}

// checklist 18.23
#[test]
fn resource_properties_read_the_list_they_name() {
    let mut a = cluster("a", "");
    a.capacity = map(&[("cpu", "4"), ("ephemeral-storage", "10Gi")]);
    a.allocatable = map(&[("cpu", "3")]);
    a.available = map(&[("cpu", "500m")]);
    let is = |name: &str, value: &str| json!({"name": format!("resources.kubernetes-fleet.io/{name}"), "operator": "Eq", "values": [value]});
    assert_eq!(admitted(is("total-cpu", "4000m"), a.clone()), Ok(true));
    assert_eq!(admitted(is("allocatable-cpu", "3"), a.clone()), Ok(true));
    assert_eq!(admitted(is("available-cpu", "0.5"), a.clone()), Ok(true));
    assert_eq!(
        admitted(is("total-ephemeral-storage", "10Gi"), a.clone()),
        Ok(true),
        "only the first dash separates"
    );
    assert_eq!(
        admitted(is("total-gpu", "1"), a.clone()),
        Ok(false),
        "a missing resource matches nothing"
    );
    assert_eq!(
        admitted(is("cpu", "1"), a.clone()),
        Err("invalid resource property name: cpu".into())
    );
    assert_eq!(
        admitted(is("spare-cpu", "1"), a),
        Err("invalid capacity type spare in resource property name spare-cpu".into())
    );
}

// checklist 18.4
#[test]
fn mistakes_in_an_expression_fail_the_pass() {
    let a = || with_property(cluster("a", ""), "p", "1");
    let with = |operator: &str, values: &[&str]| json!({"name": "p", "operator": operator, "values": values});
    assert_eq!(
        admitted(with("Eq", &["1", "2"]), a()),
        Err("more than one value in the property selector expression".into())
    );
    assert_eq!(admitted(with("Like", &["1"]), a()), Err("invalid operator: Like".into()));
    assert!(admitted(with("Eq", &["one"]), a()).is_err());
    assert_eq!(
        admitted(with("Ne", &["2"]), cluster("b", "")),
        Ok(false),
        "an absent property matches nothing, Ne included"
    );
}

/// The affinity scores of clusters with these property values under one sorter.
fn scores(values: &[&str], order: &str, weight: i32) -> Vec<i32> {
    let names: Vec<String> = (0..values.len()).map(|i| format!("c{i}")).collect();
    let fleet = names.iter().zip(values).map(|(name, value)| match *value {
        "" => cluster(name, ""),
        value => with_property(cluster(name, ""), "p", value),
    });
    let mut fixture =
        Fixture::new(policy(json!({"placementType": "PickN", "affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": {
            "propertySorter": {"name": "p", "sortOrder": order}}}]}}})))
        .wanting(1)
        .over(fleet);
    let report = fixture.settle().report.unwrap();
    names
        .iter()
        .map(|name| {
            report.decisions.iter().find(|d| d.cluster == *name).unwrap().score.unwrap().affinity
        })
        .collect()
}

// checklist 18.19, 18.25
#[test]
fn interpolation_rounds_half_away_from_zero_in_both_orders() {
    assert_eq!(scores(&["3", "4", "7"], "Descending", 20), [0, 5, 20]);
    assert_eq!(scores(&["3", "4", "7"], "Ascending", 20), [20, 15, 0]);
    assert_eq!(scores(&["1", "2", "4"], "Descending", 20), [0, 7, 20]);
    assert_eq!(scores(&["1", "2", "4"], "Ascending", 20), [20, 13, 0]);
    assert_eq!(scores(&["0", "1", "2"], "Descending", -25), [0, -13, -25]);
}

// checklist 18.19
#[test]
fn equal_missing_and_malformed_values_score_nothing() {
    assert_eq!(scores(&["5", "5"], "Ascending", 20), [0, 0]);
    assert_eq!(scores(&["", ""], "Ascending", 20), [0, 0]);
    assert_eq!(scores(&["1", "", "3"], "Descending", 20), [0, 0, 20]);
    assert_eq!(scores(&["1", "lots", "3"], "Descending", 20), [0, 0, 20]);
}

#[test]
fn a_malformed_value_that_sorts_is_told_once() {
    let by_size = json!({"propertySorter": {"name": "p", "sortOrder": "Descending"}});
    let twice =
        json!([{"weight": 20, "preference": by_size}, {"weight": 5, "preference": by_size}]);
    let mut fixture =
        Fixture::new(policy(json!({"placementType": "PickN", "affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": twice}}})))
        .wanting(1)
        .over([
            with_property(cluster("a", ""), "p", "lots"),
            with_property(cluster("b", ""), "p", "2"),
        ]);
    let plan = fixture.settle();
    assert_eq!(fixture.placed(), ["b"]);
    let [Remark::BadProperty { cluster, why }] = plan.remarks.as_slice() else {
        panic!("{:?}", plan.remarks)
    };
    assert_eq!(cluster, "a");
    assert!(why.starts_with("value lots of property p from cluster a is not a valid quantity"));
}

// checklist 18.19
#[test]
fn a_label_selector_decides_before_the_sorter() {
    let mut fixture =
        Fixture::new(policy(json!({"placementType": "PickN", "affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 20, "preference": {
            "labelSelector": {"matchLabels": {"env": "prod"}},
            "propertySorter": {"name": "p", "sortOrder": "Descending"}}}]}}})))
        .wanting(1)
        .over([
            with_property(cluster("a", "env=prod"), "p", "1"),
            with_property(cluster("b", "env=prod"), "p", "2"),
            with_property(cluster("c", "env=test"), "p", "3"),
        ]);
    let report = fixture.settle().report.unwrap();
    assert_eq!(fixture.placed(), ["b"]);
    assert_eq!(
        report.decisions[0].score.unwrap().affinity,
        10,
        "c sets the maximum without taking part"
    );
}
