//! Overrides and every word they are refused with.

use serde_json::{Value, json};

use super::{PLACING, ReviewContext, ask, kind};
use crate::admission::{Answer, Neighbour, Operation, Options, review};

const NAMESPACE: &str =
    "{Group: Version:v1 Kind:Namespace Name:app LabelSelector:nil SelectionScope:}";

fn wide(name: &str, selectors: Value, rules: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceOverride",
        "metadata": {"name": name},
        "spec": {"clusterResourceSelectors": selectors, "policy": {"overrideRules": rules}}})
}

fn narrow(name: &str, selectors: Value, rules: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
        "metadata": {"name": name, "namespace": "app"},
        "spec": {"resourceSelectors": selectors, "policy": {"overrideRules": rules}}})
}

fn namespace(name: &str) -> Value {
    json!({"group": "", "version": "v1", "kind": "Namespace", "name": name})
}

fn removing() -> Value {
    json!([{"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "Delete"}])
}

fn judged(operation: Operation, object: &Value, context: &ReviewContext) -> Answer {
    let of = kind(PLACING, object["kind"].as_str().unwrap());
    let old = (operation == Operation::Update).then_some(object);
    review(&ask(operation, &of, object, old), context, Options::default()).unwrap()
}

#[track_caller]
fn denied(object: &Value, context: &ReviewContext, words: &str) {
    let answer = judged(Operation::Create, object, context);
    assert_eq!(answer, Answer::Denied(words.to_owned()));
}

fn others(objects: &[Value]) -> ReviewContext {
    let read = |object: &Value| match object["kind"].as_str() {
        Some("ResourceOverride") => {
            Neighbour::of_override(&serde_json::from_value(object.clone()).unwrap())
        }
        _ => Neighbour::of_cluster_override(&serde_json::from_value(object.clone()).unwrap()),
    };
    ReviewContext { overrides: objects.iter().map(read).collect(), ..ReviewContext::default() }
}

#[test]
fn an_override_that_makes_sense_may_pass() {
    let alone = ReviewContext::default();
    let object = wide("cro", json!([namespace("app")]), removing());
    assert_eq!(
        judged(Operation::Create, &object, &alone),
        Answer::Allowed("clusterResourceOverride has valid fields".to_owned())
    );
    let selector = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "cm"}]);
    let object = narrow("ro", selector, removing());
    assert_eq!(
        judged(Operation::Update, &object, &alone),
        Answer::Allowed("resourceOverride has valid fields".to_owned())
    );
}

// checklist fleet 50: override limits (100).
#[test]
fn the_hundred_and_first_is_one_too_many() {
    let full: Vec<Value> = (0..100)
        .map(|n| wide(&format!("cro-{n}"), json!([namespace(&format!("ns-{n}"))]), removing()))
        .collect();
    let object = wide("one-more", json!([namespace("app")]), removing());
    denied(
        &object,
        &others(&full),
        "clusterResourceOverride limit has been reached: at most 100 cluster resources can be created.",
    );
    assert!(matches!(judged(Operation::Create, &object, &others(&full[1..])), Answer::Allowed(_)));
    assert!(matches!(judged(Operation::Update, &full[0], &others(&full)), Answer::Allowed(_)));
    let selector =
        |n: usize| json!([{"group": "", "version": "v1", "kind": "Pod", "name": n.to_string()}]);
    let full: Vec<Value> =
        (0..100).map(|n| narrow(&format!("ro-{n}"), selector(n), removing())).collect();
    denied(
        &narrow("one-more", selector(100), removing()),
        &others(&full),
        "resourceOverride limit has been reached: at most 100 resources can be created.",
    );
}

// checklist fleet 50: duplicate and cross-object selection.
#[test]
fn a_resource_is_selected_once_by_name() {
    let alone = ReviewContext::default();
    let mut by_label = namespace("app");
    by_label["labelSelector"] = json!({});
    denied(
        &wide("cro", json!([by_label]), removing()),
        &alone,
        "label selector is not supported for resource selection {Group: Version:v1 Kind:Namespace \
         Name:app LabelSelector:&LabelSelector{MatchLabels:map[string]string{},\
         MatchExpressions:[]LabelSelectorRequirement{},} SelectionScope:}",
    );
    denied(
        &wide("cro", json!([namespace("")]), removing()),
        &alone,
        "resource name is required for resource selection {Group: Version:v1 Kind:Namespace Name: \
         LabelSelector:nil SelectionScope:}",
    );
    denied(
        &wide("cro", json!([namespace("app"), namespace("app")]), removing()),
        &alone,
        &format!("resource selector {NAMESPACE} already exists, and must be unique"),
    );
    let selector = json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": "d1"});
    denied(
        &narrow("ro", json!([selector, selector]), removing()),
        &alone,
        "resource selector {Group:apps Version:v1 Kind:Deployment Name:d1} already exists, and must \
         be unique",
    );
    let other = others(&[wide("other", json!([namespace("app")]), removing())]);
    let object = wide("cro", json!([namespace("app")]), removing());
    denied(
        &object,
        &other,
        &format!(
            "invalid resource selector {NAMESPACE}: the resource has been selected by both cro and \
             other, which is not supported"
        ),
    );
    // An override does not stand in its own way.
    assert!(matches!(
        judged(Operation::Update, &object, &others(std::slice::from_ref(&object))),
        Answer::Allowed(_)
    ));
    let other = others(&[narrow("other", json!([selector]), removing())]);
    denied(
        &narrow("ro", json!([selector]), removing()),
        &other,
        "invalid resource selector {Group:apps Version:v1 Kind:Deployment Name:d1}: the resource has \
         been selected by both ro and other, which is not supported",
    );
}

fn with_rule(rule: Value) -> Value {
    wide("cro", json!([namespace("app")]), json!([rule]))
}

#[test]
fn clusters_are_chosen_by_label_only() {
    let alone = ReviewContext::default();
    let with_term = |term: Value| {
        with_rule(
            json!({"clusterSelector": {"clusterSelectorTerms": [term]}, "overrideType": "Delete"}),
        )
    };
    denied(
        &with_term(json!({})),
        &alone,
        "invalid clusterSelector {LabelSelector:nil PropertySelector:<nil> PropertySorter:<nil>}: \
         labelSelector is required",
    );
    denied(
        &with_term(
            json!({"labelSelector": {}, "propertySorter": {"name": "n", "sortOrder": "Ascending"}}),
        ),
        &alone,
        "invalid clusterSelector {LabelSelector:&LabelSelector{MatchLabels:map[string]string{},\
         MatchExpressions:[]LabelSelectorRequirement{},} PropertySelector:<nil> \
         PropertySorter:&{Name:n SortOrder:Ascending}}: only labelSelector is supported",
    );
    denied(
        &with_term(
            json!({"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Near"}]}}),
        ),
        &alone,
        "the labelSelector in cluster selector &LabelSelector{MatchLabels:map[string]string{},\
         MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:Near,\
         Values:[],},},} is invalid: \"Near\" is not a valid label selector operator",
    );
}

// checklist fleet 50: forbidden patch paths.
#[test]
fn patches_stay_away_from_what_is_not_theirs() {
    let alone = ReviewContext::default();
    let patched = |patch: Value| with_rule(json!({"jsonPatchOverrides": [patch]}));
    for (path, problem) in [
        ("", "path cannot be empty"),
        ("spec", "path must start with /"),
        ("/kind", "cannot override typeMeta fields"),
        ("/apiVersion", "cannot override typeMeta fields"),
        ("/metadata", "cannot override field metadata"),
        ("/metadata/name", "cannot override metadata fields except annotations and labels"),
        ("/status/phase", "cannot override status fields"),
        ("/", "path cannot contain empty string"),
        ("/spec//x", "path cannot contain empty string"),
        ("/spec/ /x", "path cannot contain empty string"),
        ("/metadata/labels/", "path cannot contain empty string"),
    ] {
        denied(
            &patched(json!({"op": "remove", "path": path})),
            &alone,
            &format!("invalid JSONPatchOverride {{remove {path} {{}}}}: {problem}"),
        );
    }
    for path in ["/spec", "/metadata/labels", "/metadata/annotations/x", "/kinds", "/data/status"] {
        let answer =
            judged(Operation::Create, &patched(json!({"op": "remove", "path": path})), &alone);
        assert!(matches!(answer, Answer::Allowed(_)), "{path}: {answer:?}");
    }
    denied(
        &patched(json!({"op": "remove", "path": "/spec/x", "value": "v"})),
        &alone,
        "invalid JSONPatchOverride {remove /spec/x {\"v\"}}: remove operation cannot have value",
    );
    denied(
        &with_rule(json!({"overrideType": "JSONPatch"})),
        &alone,
        "invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty",
    );
    denied(
        &with_rule(json!({"overrideType": "Delete",
            "jsonPatchOverrides": [{"op": "remove", "path": "/spec/x"}]})),
        &alone,
        "invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete",
    );
}

#[test]
fn problems_of_selection_come_alone_and_all_others_together() {
    let rules = json!([{"overrideType": "JSONPatch"}, {"overrideType": "JSONPatch"},
        {"jsonPatchOverrides": [{"op": "add", "path": "/kind", "value": "x"}]}]);
    let other = others(&[wide("other", json!([namespace("app")]), removing())]);
    denied(
        &wide("cro", json!([namespace("app"), namespace("")]), rules.clone()),
        &other,
        "resource name is required for resource selection {Group: Version:v1 Kind:Namespace Name: \
         LabelSelector:nil SelectionScope:}",
    );
    denied(
        &wide("cro", json!([namespace("app")]), rules),
        &other,
        &format!(
            "[invalid resource selector {NAMESPACE}: the resource has been selected by both cro and \
             other, which is not supported, invalid JSONPatchOverrides: JSONPatchOverrides cannot be \
             empty, invalid JSONPatchOverride {{add /kind {{\"x\"}}}}: cannot override typeMeta fields]"
        ),
    );
}

#[test]
fn one_that_goes_may_lose_its_finalizers() {
    let mut object = wide("cro", json!([namespace("")]), json!([{"overrideType": "JSONPatch"}]));
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(matches!(
        judged(Operation::Update, &object, &ReviewContext::default()),
        Answer::Allowed(_)
    ));
}
