//! Rules on one manifest: what comes out, in which order, and every failure text.

use flagship_api::placement_status::NamespacedName;
use serde_json::{Value, json};

use super::{delete_rule, narrow, rule, wide};
use crate::model::PackedMap;
use crate::overrides::manifest::{
    Overridden, apply, cluster_override_missing, named, named_by, override_missing,
};
use crate::overrides::{ClusterOverride, NamespacedOverride, Target};

const NAMESPACE: &str = "/v1/Namespace/app";
const CONFIG_MAP: &str = "/v1/ConfigMap/cm";
const ROLE: &str = "rbac.authorization.k8s.io/v1/ClusterRole/reader";

fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cm", "namespace": "app", "labels": {"team": "a"}},
        "data": {"k": "v"},
    })
}

fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader", "annotations": {"note": "old"}},
        "rules": [],
    })
}

fn on(
    cluster: &str,
    manifest: &Value,
    wide: &[ClusterOverride],
    narrow: &[NamespacedOverride],
) -> Result<Overridden, String> {
    let labels: PackedMap = [
        ("env", if cluster == "c1" { "prod" } else { "canary" }),
        ("region", "north"),
        ("kubernetes-fleet.io/member-name", cluster),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into_iter()
    .collect();
    apply(manifest, wide, narrow, Target { name: cluster, labels: &labels })
        .map_err(|failure| failure.to_string())
}

#[track_caller]
fn changed(outcome: Result<Overridden, String>) -> Value {
    match outcome {
        Ok(Overridden::Changed(manifest)) => manifest,
        other => panic!("{other:?}"),
    }
}

fn add(path: &str, value: impl Into<Value>) -> Value {
    json!([{"op": "add", "path": path, "value": value.into()}])
}

#[test]
fn what_no_rule_is_for_stays_as_it_is() {
    assert_eq!(on("c1", &config_map(), &[], &[]), Ok(Overridden::Untouched));
    let elsewhere = wide("cro-0", "/v1/Namespace/other", json!([delete_rule(None)]));
    let of_another_name = narrow("ro-0", "/v1/ConfigMap/other", json!([delete_rule(None)]));
    let of_another_version = narrow("ro-1", "/v2/ConfigMap/cm", json!([delete_rule(None)]));
    let narrows = [of_another_name, of_another_version];
    assert_eq!(on("c1", &config_map(), &[elsewhere], &narrows), Ok(Overridden::Untouched));
    let for_canaries = narrow("ro-0", CONFIG_MAP, json!([delete_rule(Some("canary"))]));
    assert_eq!(on("c1", &config_map(), &[], &[for_canaries]), Ok(Overridden::Untouched));
}

// checklist 12 overrides: add/replace/remove on labels and annotations; several patches in
// order; conflicting rules last wins.
#[test]
fn patches_and_rules_apply_in_order_and_the_last_wins() {
    let o = wide(
        "cro-0",
        ROLE,
        json!([
            rule(
                None,
                json!([
                    {"op": "add", "path": "/metadata/labels", "value": {"a": "1", "b": "2"}},
                    {"op": "replace", "path": "/metadata/annotations/note", "value": "new"},
                    {"op": "remove", "path": "/metadata/labels/a"},
                ])
            ),
            rule(Some("canary"), add("/metadata/labels/b", "canary")),
            rule(None, add("/metadata/labels/b", "3")),
        ]),
    );
    let manifest = changed(on("c1", &role(), &[o], &[]));
    assert_eq!(
        manifest["metadata"],
        json!({"name": "reader", "annotations": {"note": "new"}, "labels": {"b": "3"}})
    );
    assert_eq!(manifest["rules"], json!([]));
}

// checklist 12 overrides: conflicting rules that break → error.
#[test]
fn a_rule_that_breaks_a_later_one_fails() {
    let o = wide(
        "cro-0",
        ROLE,
        json!([
            rule(None, json!([{"op": "remove", "path": "/metadata/annotations"}])),
            rule(None, add("/metadata/annotations/note", "x")),
        ]),
    );
    assert_eq!(
        on("c1", &role(), &[o], &[]).unwrap_err(),
        "ClusterResourceOverrideSnapshot \"cro-0\" failed to apply on ClusterRole \"reader\": \
         add operation does not apply: doc is missing path: \"/metadata/annotations/note\": missing value"
    );
}

// checklist 12 overrides: namespace-selecting CRO hits all objects in the namespace; RO
// after CRO wins.
#[test]
fn an_override_of_the_namespace_reaches_what_is_inside_and_the_narrow_one_wins() {
    let of_namespace =
        wide("cro-0", NAMESPACE, json!([rule(None, add("/metadata/labels/team", "wide"))]));
    let wides = [of_namespace];
    let manifest = changed(on("c1", &config_map(), &wides, &[]));
    assert_eq!(manifest["metadata"]["labels"]["team"], "wide");

    let own = narrow("ro-0", CONFIG_MAP, json!([rule(None, add("/metadata/labels/team", "own"))]));
    let manifest = changed(on("c1", &config_map(), &wides, &[own]));
    assert_eq!(manifest["metadata"]["labels"]["team"], "own");

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "app", "labels": {}}});
    let manifest = changed(on("c1", &namespace, &wides, &[]));
    assert_eq!(manifest["metadata"]["labels"], json!({"team": "wide"}));
}

#[test]
fn an_override_in_another_namespace_reaches_nothing_here() {
    let mut o = narrow("ro-0", CONFIG_MAP, json!([delete_rule(None)]));
    o.key.namespace = "other".to_owned();
    assert_eq!(on("c1", &config_map(), &[], &[o]), Ok(Overridden::Untouched));
}

// checklist 12 overrides: Delete in CRO then RO patch stays deleted; Delete after patch;
// Delete on one cluster only.
#[test]
fn what_was_taken_out_stays_out() {
    let taken_out = wide("cro-0", NAMESPACE, json!([delete_rule(Some("prod"))]));
    let broken = rule(None, add("/nowhere/at/all", "x"));
    let patched = narrow("ro-0", CONFIG_MAP, json!([broken]));
    assert_eq!(
        on("c1", &config_map(), std::slice::from_ref(&taken_out), &[patched]),
        Ok(Overridden::Dropped)
    );

    let both = json!([rule(None, add("/data/k", "w")), delete_rule(Some("prod")), broken_rule()]);
    let both = narrow("ro-0", CONFIG_MAP, both);
    assert_eq!(on("c1", &config_map(), &[], &[both]), Ok(Overridden::Dropped));

    assert_eq!(on("c2", &config_map(), &[taken_out], &[]), Ok(Overridden::Untouched));
}

fn broken_rule() -> Value {
    rule(None, add("/nowhere/at/all", "x"))
}

// checklist 12 overrides: cluster-name and label variables, several per value; unknown
// variable verbatim.
#[test]
fn variables_stand_for_the_cluster() {
    for (value, filled) in [
        (json!("${MEMBER-CLUSTER-NAME}"), json!("c1")),
        (json!("${MEMBER-CLUSTER-NAME}-${MEMBER-CLUSTER-NAME}"), json!("c1-c1")),
        (
            json!({"${MEMBER-CLUSTER-NAME}": ["${MEMBER-CLUSTER-LABEL-KEY-region}/${MEMBER-CLUSTER-LABEL-KEY-env}"]}),
            json!({"c1": ["north/prod"]}),
        ),
        (json!("${MEMBER-CLUSTER-LABEL-KEY-kubernetes-fleet.io/member-name}"), json!("c1")),
        (
            json!("${MEMBER-CLUSTER-NAMES} ${member-cluster-name} $X"),
            json!("${MEMBER-CLUSTER-NAMES} ${member-cluster-name} $X"),
        ),
        (json!(3), json!(3)),
    ] {
        let o = narrow("ro-0", CONFIG_MAP, json!([rule(None, add("/data/k", value))]));
        assert_eq!(changed(on("c1", &config_map(), &[], &[o]))["data"]["k"], filled);
    }
    // Never in a path.
    let o =
        narrow("ro-0", CONFIG_MAP, json!([rule(None, add("/data/${MEMBER-CLUSTER-NAME}", "x"))]));
    assert_eq!(changed(on("c1", &config_map(), &[], &[o]))["data"]["${MEMBER-CLUSTER-NAME}"], "x");
}

#[test]
fn an_error_does_not_repeat_what_goes_into_a_secret() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "namespace": "app"}, "data": {}});
    for (value, cause) in [
        (
            json!("canary ${MEMBER-CLUSTER-LABEL-KEY-env"),
            "input (redacted for security reasons) is missing the closing bracket `}`",
        ),
        // A label with a quote in it breaks the text it is put into.
        (
            json!("canary ${MEMBER-CLUSTER-LABEL-KEY-odd}"),
            "the value (redacted for security reasons) is not valid JSON: trailing characters at line 1 column 11",
        ),
    ] {
        let patch = json!([{"op": "add", "path": "/data/password", "value": value}]);
        let o = narrow("ro-0", "/v1/Secret/s", json!([rule(None, patch)]));
        let labels = PackedMap::from_iter([("odd".to_owned(), "\" x".to_owned())]);
        let failed = apply(&secret, &[], &[o], Target { name: "c1", labels: &labels }).unwrap_err();
        assert_eq!(
            failed.to_string(),
            format!(
                "ResourceOverrideSnapshot \"ro-0\" failed to apply on Secret \"s\" in namespace \"app\": {cause}"
            )
        );
    }
}

// checklist 12 overrides: missing label, unclosed brace → error naming snapshot and target.
#[test]
fn a_variable_nobody_can_fill_is_an_error_that_names_its_place() {
    for (value, cause) in [
        ("${MEMBER-CLUSTER-LABEL-KEY-zone}", "label key zone not found on cluster c1"),
        (
            "${MEMBER-CLUSTER-LABEL-KEY-env",
            "input \"${MEMBER-CLUSTER-LABEL-KEY-env\" is missing the closing bracket `}`",
        ),
    ] {
        let o = narrow("ro-0", CONFIG_MAP, json!([rule(None, add("/data/k", value))]));
        assert_eq!(
            on("c1", &config_map(), &[], &[o]).unwrap_err(),
            format!(
                "ResourceOverrideSnapshot \"ro-0\" failed to apply on ConfigMap \"cm\" in namespace \
                 \"app\": {cause}"
            )
        );
    }
}

#[test]
fn a_variable_nobody_can_fill_is_told_before_a_path_nobody_finds() {
    let patches = json!([
        {"op": "replace", "path": "/nowhere/at/all", "value": 1},
        {"op": "add", "path": "/data/k", "value": "${MEMBER-CLUSTER-LABEL-KEY-zone}"},
    ]);
    let o = narrow("ro-0", CONFIG_MAP, json!([rule(None, patches)]));
    let failure = on("c1", &config_map(), &[], &[o]).unwrap_err();
    assert!(failure.ends_with(": label key zone not found on cluster c1"), "{failure}");
}

// checklist 12 overrides: unquoted value → error naming snapshot and target. The API only
// stores whole JSON, so only a label no API server would accept can break it.
#[test]
fn a_value_that_is_no_json_any_more_is_an_error() {
    let o = narrow(
        "ro-0",
        CONFIG_MAP,
        json!([rule(None, add("/data/k", "${MEMBER-CLUSTER-LABEL-KEY-odd}"))]),
    );
    let labels = PackedMap::from_iter([("odd".to_owned(), "a\"b".to_owned())]);
    let failure =
        apply(&config_map(), &[], &[o], Target { name: "c1", labels: &labels }).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "ResourceOverrideSnapshot \"ro-0\" failed to apply on ConfigMap \"cm\" in namespace \"app\": \
         the value \"a\"b\" is not valid JSON: trailing characters at line 1 column 4"
    );
}

#[test]
fn a_selector_nobody_can_read_is_an_error_that_names_its_place() {
    let rules = json!([{"clusterSelector": {"clusterSelectorTerms": [
        {"labelSelector": {"matchExpressions": [{"key": "env", "operator": "Near"}]}},
    ]}, "overrideType": "Delete"}]);
    assert_eq!(
        on("c1", &role(), &[wide("cro-0", ROLE, rules)], &[]).unwrap_err(),
        "ClusterResourceOverrideSnapshot \"cro-0\" failed to apply on ClusterRole \"reader\": invalid \
         cluster label selector &LabelSelector{MatchLabels:map[string]string{},\
         MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:env,Operator:Near,\
         Values:[],},},}: \"Near\" is not a valid label selector operator"
    );
}

#[test]
fn a_patch_without_a_value_adds_null() {
    let o =
        narrow("ro-0", CONFIG_MAP, json!([rule(None, json!([{"op": "add", "path": "/data/n"}]))]));
    assert_eq!(changed(on("c1", &config_map(), &[], &[o]))["data"], json!({"k": "v", "n": null}));
}

#[test]
fn targets_and_missing_snapshots_in_words() {
    let target = |manifest: &Value| named(&named_by(manifest));
    assert_eq!(target(&config_map()), "ConfigMap \"cm\" in namespace \"app\"");
    assert_eq!(target(&role()), "ClusterRole \"reader\"");
    assert_eq!(target(&json!({"metadata": {"name": "x"}})), "Unknown \"x\"");
    assert_eq!(target(&json!([])), "Unknown \"\"");
    assert_eq!(
        cluster_override_missing("cro-1-0"),
        "clusterResourceOverrideSnapshot cro-1-0 is not found"
    );
    let key = NamespacedName { name: "ro-1-0".into(), namespace: "app".into() };
    assert_eq!(override_missing(&key), "resourceOverrideSnapshot {ro-1-0 app} is not found");
}
