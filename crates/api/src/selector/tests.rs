//! What selectors match, and the words a bad one is refused with.

use proptest::prelude::*;
use serde_json::json;

use std::collections::BTreeMap;

use super::{LabelSelector, Selector};

fn read(selector: serde_json::Value) -> LabelSelector {
    serde_json::from_value(selector).unwrap()
}

fn matches(selector: serde_json::Value, labels: &[(&str, &str)]) -> bool {
    let labels =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    super::read(Some(&read(selector))).unwrap().matches(&labels)
}

fn expression(operator: &str, values: &[&str]) -> serde_json::Value {
    json!({"matchExpressions": [{"key": "env", "operator": operator, "values": values}]})
}

#[test]
fn an_absent_selector_matches_nothing_and_an_empty_one_everything() {
    let labels = BTreeMap::new();
    assert!(!super::read(None).unwrap().matches(&labels));
    assert!(super::read(Some(&LabelSelector::default())).unwrap().matches(&labels));
    assert_eq!(super::read(None).unwrap(), Selector::NOTHING);
    assert_eq!(super::read(Some(&LabelSelector::default())).unwrap(), Selector::EVERYTHING);
}

#[test]
fn four_operators() {
    let prod = [("env", "prod")];
    let table = [
        // operator, values, on env=prod, on env=dev, without env
        ("In", vec!["prod", "canary"], [true, false, false]),
        ("NotIn", vec!["prod"], [false, true, true]),
        ("Exists", vec![], [true, true, false]),
        ("DoesNotExist", vec![], [false, false, true]),
    ];
    for (operator, values, expected) in table {
        let seen = [&prod[..], &[("env", "dev")], &[("tier", "x")]]
            .map(|labels| matches(expression(operator, &values), labels));
        assert_eq!(seen, expected, "{operator}");
    }
}

#[test]
fn everything_in_a_selector_must_hold() {
    let selector = json!({
        "matchLabels": {"env": "prod", "region": "east"},
        "matchExpressions": [{"key": "order", "operator": "Exists"}],
    });
    let all = [("env", "prod"), ("region", "east"), ("order", "1")];
    assert!(matches(selector.clone(), &all));
    for missing in 0..all.len() {
        let mut labels = all.to_vec();
        labels.remove(missing);
        assert!(!matches(selector.clone(), &labels));
    }
}

#[test]
fn an_empty_value_is_a_value() {
    assert!(matches(expression("In", &[""]), &[("env", "")]));
    assert!(!matches(expression("In", &[""]), &[]));
}

#[test]
fn one_cluster_is_picked_by_its_name_label() {
    let selector = json!({"matchLabels": {"kubernetes-fleet.io/member-name": "member1"}});
    assert!(matches(selector.clone(), &[("kubernetes-fleet.io/member-name", "member1")]));
    assert!(!matches(selector, &[("kubernetes-fleet.io/member-name", "member2")]));
}

#[track_caller]
fn refused(selector: serde_json::Value, field: &str, complaint: &str) {
    let error = super::read(Some(&read(selector))).unwrap_err();
    assert_eq!(error.field(), field);
    let said = error.to_string();
    assert!(said.starts_with(complaint), "{said}");
}

#[test]
fn a_mistake_is_named_with_its_field() {
    refused(
        expression("Is", &["prod"]),
        "matchExpressions[0].operator",
        r#""Is" is not a valid label selector operator"#,
    );
    refused(
        expression("In", &[]),
        "matchExpressions[0].values",
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
    );
    refused(
        expression("Exists", &["a", "b"]),
        "matchExpressions[0].values",
        r#"values: Invalid value: ["a","b"]: values set must be empty for exists and does not exist"#,
    );
    refused(
        expression("In", &["ok", "not ok"]),
        "matchExpressions[0].values[1]",
        r#"values[1][env]: Invalid value: "not ok": a valid label must be an empty string or consist of"#,
    );
    refused(
        json!({"matchLabels": {"": "x"}}),
        "matchLabels[]",
        r#"key: Invalid value: "": name part must be non-empty; name part must consist of"#,
    );
    refused(
        json!({"matchLabels": {"env": "a b"}}),
        "matchLabels[env]",
        r#"values[0][env]: Invalid value: "a b": a valid label must be"#,
    );
    refused(
        json!({"matchExpressions": [
            {"key": "ok", "operator": "Exists"},
            {"key": "not ok", "operator": "Exists"},
        ]}),
        "matchExpressions[1].key",
        r#"key: Invalid value: "not ok": name part must consist of alphanumeric characters"#,
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn in_and_not_in_are_opposites(
        values in prop::collection::vec("[ab]{1,2}", 1..3),
        label in prop::option::of("[ab]{1,2}"),
    ) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let label = label.unwrap_or_default();
        let labels: Vec<_> = (!label.is_empty()).then_some(("env", label.as_str())).into_iter().collect();
        prop_assert_ne!(
            matches(expression("In", &values), &labels),
            matches(expression("NotIn", &values), &labels)
        );
    }

    #[test]
    fn a_label_map_selects_itself(labels in prop::collection::btree_map("[a-z]{1,5}", "[a-z]{0,5}", 0..5)) {
        let selector = LabelSelector { match_labels: Some(labels.clone()), match_expressions: None };
        prop_assert!(super::read(Some(&selector)).unwrap().matches(&labels));
    }
}
