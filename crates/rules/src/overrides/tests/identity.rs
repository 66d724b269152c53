//! A tenant's override cannot make another object: every way of trying, by the words that
//! refuse it. No webhook stands in front of these rules.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{delete_rule, narrow, rule, wide};
use crate::model::PackedMap;
use crate::overrides::Target;
use crate::overrides::manifest::{Overridden, apply};

const CONFIG_MAP: &str = "/v1/ConfigMap/cm";
const SECRET: &str = "/v1/Secret/s";
const ROLE: &str = "rbac.authorization.k8s.io/v1/ClusterRole/reader";
const NAMESPACE: &str = "/v1/Namespace/app";

const TYPE: &str = "cannot override typeMeta fields";
const METADATA: &str = "cannot override field metadata";
const BUT_LABELS: &str = "cannot override metadata fields except annotations and labels";
const STATUS: &str = "cannot override status fields";
const GAP: &str = "path cannot contain empty string";
const NO_SLASH: &str = "path must start with /";
const NO_PATH: &str = "path cannot be empty";

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cm", "namespace": "app", "labels": {"team": "a"}},
        "data": {"k": "v"}, "list": ["a", "b"], "status": {"phase": "x"}})
}

fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "namespace": "app"}, "data": {}})
}

fn role() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader"}, "rules": []})
}

/// What the cluster-admin of a member would have.
fn administrator() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "cm"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]})
}

fn add(path: &str, value: impl Into<Value>) -> Value {
    json!({"op": "add", "path": path, "value": value.into()})
}

fn replace(path: &str, value: impl Into<Value>) -> Value {
    json!({"op": "replace", "path": path, "value": value.into()})
}

fn remove(path: &str) -> Value {
    json!({"op": "remove", "path": path})
}

/// The outcome on cluster `kube-system`, whose labels are named after what an attacker wants.
fn on(manifest: &Value, selector: &str, rules: Value) -> Result<Overridden, String> {
    let labels =
        [("to", "kube-system"), ("kind", "ClusterRoleBinding"), ("quote", "x\",\"y\":\"z")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let labels: PackedMap = labels.into_iter().collect();
    let cluster = Target { name: "kube-system", labels: &labels };
    let outcome = match selector {
        ROLE | NAMESPACE => apply(manifest, &[wide("evil-0", selector, rules)], &[], cluster),
        _ => apply(manifest, &[], &[narrow("evil-0", selector, rules)], cluster),
    };
    outcome.map_err(|failure| failure.to_string())
}

#[test]
fn no_patch_makes_another_object() {
    let whole = administrator;
    let table: Vec<(Vec<Value>, &[&str])> = vec![
        // The attack: a ConfigMap becomes a ClusterRoleBinding of the same name.
        (
            vec![
                replace("/apiVersion", "rbac.authorization.k8s.io/v1"),
                replace("/kind", "ClusterRoleBinding"),
                remove("/metadata/namespace"),
                remove("/data"),
                add("/roleRef", whole()["roleRef"].clone()),
                add("/subjects", whole()["subjects"].clone()),
            ],
            &[
                TYPE,
                BUT_LABELS,
                "apiVersion would change from \"v1\" to \"rbac.authorization.k8s.io/v1\"",
                "kind would change from \"ConfigMap\" to \"ClusterRoleBinding\"",
                "metadata.namespace would change from \"app\" to nothing",
            ],
        ),
        (
            vec![replace("/metadata/namespace", "kube-system")],
            &[BUT_LABELS, "metadata.namespace would change from \"app\" to \"kube-system\""],
        ),
        // One field at a time, with each operation.
        (vec![replace("/kind", "Secret")], &[TYPE, "kind would change"]),
        (vec![add("/kind", "Secret")], &[TYPE, "to \"Secret\""]),
        (vec![remove("/kind")], &[TYPE, "kind would change from \"ConfigMap\" to nothing"]),
        (vec![replace("/apiVersion", "v2")], &[TYPE, "apiVersion would change"]),
        (vec![add("/apiVersion", "v2")], &[TYPE, "to \"v2\""]),
        (vec![remove("/apiVersion")], &[TYPE, "to nothing"]),
        (vec![replace("/metadata/name", "other")], &[BUT_LABELS, "metadata.name would change"]),
        (vec![add("/metadata/name", "other")], &[BUT_LABELS, "to \"other\""]),
        (vec![remove("/metadata/name")], &[BUT_LABELS, "to nothing"]),
        (vec![add("/metadata/namespace", "other")], &[BUT_LABELS, "metadata.namespace would"]),
        (vec![remove("/metadata/namespace")], &[BUT_LABELS, "to nothing"]),
        (vec![add("/metadata/namespace", "")], &[BUT_LABELS, "to nothing"]),
        (vec![add("/metadata/namespace", Value::Null)], &[BUT_LABELS, "to nothing"]),
        (vec![add("/metadata/namespace", 7)], &[BUT_LABELS, "to what is no text"]),
        (vec![add("/kind", json!({"x": 1}))], &[TYPE, "to what is no text"]),
        // The same value is no change, and still nobody's to write.
        (vec![replace("/kind", "ConfigMap")], &[TYPE]),
        (vec![replace("/metadata/name", "cm")], &[BUT_LABELS]),
        // Whole documents.
        (vec![replace("", whole())], &[NO_PATH, "kind would change"]),
        (vec![add("", whole())], &[NO_PATH, "kind would change"]),
        (vec![remove("")], &[NO_PATH]),
        (vec![add("", json!([]))], &[NO_PATH, "kind would change from \"ConfigMap\" to nothing"]),
        (vec![add("", config_map())], &[NO_PATH]),
        // All of the metadata.
        (
            vec![replace("/metadata", json!({"name": "x"}))],
            &[METADATA, "metadata.name would change from \"cm\" to \"x\""],
        ),
        (vec![add("/metadata", json!({"name": "cm"}))], &[METADATA, "metadata.namespace would"]),
        (vec![remove("/metadata")], &[METADATA, "metadata.name would change"]),
        // An empty key is a key, and never a detour.
        (vec![add("/metadata/", "x")], &[BUT_LABELS]),
        (vec![add("/metadata//name", "x")], &[BUT_LABELS]),
        (vec![add("//kind", "x")], &[GAP]),
        (vec![add("/", whole())], &[GAP]),
        (vec![add("/kind/", "x")], &[TYPE]),
        (vec![add("/ /kind", "x")], &[GAP]),
        (vec![add("/metadata/labels/", "x")], &[GAP]),
        // A path that does not begin at the root.
        (vec![replace("kind", "Secret")], &[NO_SLASH]),
        (vec![replace("x/kind", "Secret")], &[NO_SLASH, "kind would change"]),
        (vec![replace("x/metadata/namespace", "kube-system")], &[NO_SLASH, "metadata.namespace"]),
        (vec![replace(" /kind", "Secret")], &[NO_SLASH, "kind would change"]),
        // Escapes and indices inside the metadata.
        (vec![add("/metadata/~0namespace", "x")], &[BUT_LABELS]),
        (vec![add("/metadata/name~1", "x")], &[BUT_LABELS]),
        (vec![add("/metadata/-", "x")], &[BUT_LABELS]),
        (vec![add("/metadata/0", "x")], &[BUT_LABELS]),
        // What else names or holds an object.
        (vec![add("/metadata/generateName", "x-")], &[BUT_LABELS]),
        (vec![add("/metadata/ownerReferences", json!([]))], &[BUT_LABELS]),
        (vec![add("/metadata/finalizers", json!(["x/y"]))], &[BUT_LABELS]),
        (vec![add("/metadata/uid", "x")], &[BUT_LABELS]),
        (vec![add("/metadata/managedFields", json!([]))], &[BUT_LABELS]),
        (vec![replace("/status/phase", "y")], &[STATUS]),
        (vec![remove("/status")], &[STATUS]),
        // Variables are filled in before the result is looked at.
        (
            vec![add("/metadata/namespace", "${MEMBER-CLUSTER-NAME}")],
            &[BUT_LABELS, "to \"kube-system\""],
        ),
        (
            vec![add("/metadata/namespace", "${MEMBER-CLUSTER-LABEL-KEY-to}")],
            &[BUT_LABELS, "to \"kube-system\""],
        ),
        (
            vec![add("/kind", "${MEMBER-CLUSTER-LABEL-KEY-kind}")],
            &[TYPE, "to \"ClusterRoleBinding\""],
        ),
        // Among harmless ones, first and last.
        (vec![add("/data/a", "1"), remove("/metadata/namespace")], &[BUT_LABELS]),
        (vec![replace("/kind", "Pod"), replace("/kind", "ConfigMap")], &[TYPE]),
        // What the schema of an override lets pass, and admission does not.
        (vec![json!({"op": "remove", "path": "/data/k", "value": "v"})], &["cannot have value"]),
        (vec![], &["JSONPatchOverrides cannot be empty"]),
        // A path that is not there does not hide one that is forbidden.
        (vec![replace("/kind", "Pod"), remove("/nowhere/at/all")], &[TYPE]),
    ];
    assert!(table.len() >= 40, "{}", table.len());
    for (patches, words) in table {
        let told = on(&config_map(), CONFIG_MAP, json!([rule(None, json!(patches))]));
        let told = told.expect_err(&format!("{patches:?}"));
        let begins = "ResourceOverrideSnapshot \"evil-0\" failed to apply on ConfigMap \"cm\" in \
                      namespace \"app\": ";
        assert!(told.starts_with(begins), "{told}");
        for word in words {
            assert!(told.contains(word), "{patches:?} is refused, but not for {word:?}: {told}");
        }
        // A rule of a namespace's override is judged alike, and so are two rules.
        let wide = on(&config_map(), NAMESPACE, json!([rule(None, json!(patches))])).unwrap_err();
        let begins = "ClusterResourceOverrideSnapshot \"evil-0\" failed to apply on ConfigMap";
        assert!(wide.starts_with(begins), "{wide}");
        let harmless = rule(None, json!([add("/data/a", "1")]));
        let rules = json!([harmless, rule(None, json!(patches)), delete_rule(None)]);
        assert!(on(&config_map(), CONFIG_MAP, rules).is_err(), "{patches:?}");
    }
}

#[test]
fn a_cluster_scoped_object_stays_the_same_object() {
    for (patches, word) in [
        (json!([replace("/kind", "ClusterRoleBinding")]), "kind would change"),
        (json!([add("/metadata/namespace", "app")]), "from nothing to \"app\""),
        (json!([replace("/metadata/name", "cluster-admin")]), "to \"cluster-admin\""),
        (json!([replace("", administrator())]), "metadata.name would change"),
    ] {
        let told = on(&role(), ROLE, json!([rule(None, patches)])).unwrap_err();
        assert!(told.contains("ClusterRole \"reader\": ") && told.contains(word), "{told}");
    }
}

#[test]
fn a_whole_attack_is_told_in_full() {
    let patches =
        json!([replace("/kind", "Secret"), replace("/metadata/namespace", "kube-system")]);
    assert_eq!(
        on(&config_map(), CONFIG_MAP, json!([rule(None, patches)])).unwrap_err(),
        "ResourceOverrideSnapshot \"evil-0\" failed to apply on ConfigMap \"cm\" in namespace \
         \"app\": [invalid JSONPatchOverride {replace /kind {\"Secret\"}}: cannot override typeMeta \
         fields, invalid JSONPatchOverride {replace /metadata/namespace {\"kube-system\"}}: cannot \
         override metadata fields except annotations and labels, kind would change from \
         \"ConfigMap\" to \"Secret\", which no override may do, metadata.namespace would change \
         from \"app\" to \"kube-system\", which no override may do]"
    );
}

#[test]
fn a_refusal_does_not_repeat_what_goes_into_a_secret() {
    let patches = json!([add("/status", "hunter2"), add("/data/a", "hunter2")]);
    assert_eq!(
        on(&secret(), SECRET, json!([rule(None, patches)])).unwrap_err(),
        "ResourceOverrideSnapshot \"evil-0\" failed to apply on Secret \"s\" in namespace \"app\": \
         invalid JSONPatchOverride {add /status {\"(redacted for security reasons)\"}}: cannot \
         override status fields"
    );
}

#[test]
fn rules_that_admission_would_not_take_are_not_carried_out() {
    let mut deletes_and_patches = delete_rule(None);
    deletes_and_patches["jsonPatchOverrides"] = json!([add("/data/a", "1")]);
    let mut by_property = rule(None, json!([add("/data/a", "1")]));
    by_property["clusterSelector"] = json!({"clusterSelectorTerms": [
        {"labelSelector": {}, "propertySorter": {"name": "n", "sortOrder": "Ascending"}}]});
    for (rule, word) in [
        (deletes_and_patches, "JSONPatchOverrides cannot be set when the override type is Delete"),
        (by_property, "only labelSelector is supported"),
    ] {
        let told = on(&config_map(), CONFIG_MAP, json!([rule])).unwrap_err();
        assert!(told.contains(word), "{told}");
    }
    // One that is for other clusters is none of this cluster's business.
    let elsewhere = rule(Some("elsewhere"), json!([replace("/kind", "Pod")]));
    assert_eq!(on(&config_map(), CONFIG_MAP, json!([elsewhere])), Ok(Overridden::Untouched));
}

#[test]
fn selections_that_admission_would_not_take_are_not_followed() {
    let rules = json!([rule(None, json!([add("/rules", json!([]))]))]);
    let mut by_label = wide("evil-0", ROLE, rules.clone());
    by_label.spec.cluster_resource_selectors[0].label_selector = Some(Default::default());
    let mut nameless = wide("evil-0", ROLE, rules.clone());
    let mut second = nameless.spec.cluster_resource_selectors[0].clone();
    second.name.clear();
    nameless.spec.cluster_resource_selectors.push(second);
    let mut twice = wide("evil-0", ROLE, rules);
    twice.spec.cluster_resource_selectors.extend_from_within(..);
    for (o, word) in [
        (by_label, "label selector is not supported for resource selection"),
        (nameless, "resource name is required for resource selection"),
        (twice, "already exists, and must be unique"),
    ] {
        let labels = PackedMap::default();
        let cluster = Target { name: "c1", labels: &labels };
        let told = apply(&role(), &[o], &[], cluster).unwrap_err().to_string();
        assert!(told.contains(word), "{told}");
    }
    let rules = json!([rule(None, json!([add("/data/a", "1")]))]);
    let mut twice = narrow("evil-0", CONFIG_MAP, rules);
    twice.spec.resource_selectors.extend_from_within(..);
    let labels = PackedMap::default();
    let cluster = Target { name: "c1", labels: &labels };
    let told = apply(&config_map(), &[], &[twice], cluster).unwrap_err().to_string();
    assert!(told.contains("already exists, and must be unique"), "{told}");
}

#[test]
fn the_schema_knows_no_operation_that_moves_or_copies() {
    for op in ["test", "move", "copy", "Replace", "REMOVE", ""] {
        let patch = json!({"op": op, "path": "/data/k", "from": "/kind", "value": "x"});
        let read = serde_json::from_value::<flagship_api::overrides::JsonPatchOverride>(patch);
        assert!(read.is_err(), "{op:?}");
    }
}

#[test]
fn what_only_looks_alike_is_nobodys_identity() {
    let patches = json!([
        add("/metadata~1namespace", "kube-system"),
        add("/metadata/labels/kubernetes.io~1metadata.name", "kube-system"),
        add("/metadata/labels/name", "${MEMBER-CLUSTER-LABEL-KEY-quote}"),
        add("/metadata/annotations", json!({"kind": "Secret"})),
        add("/Kind", "ClusterRoleBinding"),
        add("/kinds", "ClusterRoleBinding"),
        add("/data/kind", "Secret"),
        add("/data/status", "x"),
        add("/list/-", json!({"kind": "Secret", "metadata": {"namespace": "kube-system"}})),
        remove("/list/0"),
    ]);
    // A label with a quote in it cannot leave the value that it is put into.
    assert!(on(&config_map(), CONFIG_MAP, json!([rule(None, patches.clone())])).is_err());
    let mut patches = patches;
    patches.as_array_mut().unwrap().remove(2);
    match on(&config_map(), CONFIG_MAP, json!([rule(None, patches)])) {
        Ok(Overridden::Changed(object)) => assert_eq!(names(&object), names(&config_map())),
        other => panic!("{other:?}"),
    }
}

fn names(object: &Value) -> [Option<Value>; 4] {
    ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"]
        .map(|pointer| object.pointer(pointer).cloned())
}

fn any_patch() -> impl Strategy<Value = Value> {
    let words = [
        "",
        "/",
        " ",
        "-",
        "0",
        "1",
        "-1",
        "~",
        "~0",
        "~1",
        "kind",
        "apiVersion",
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "data",
        "list",
        "status",
        "spec",
    ];
    let path = prop::collection::vec(prop::sample::select(words.to_vec()), 0..5);
    let op = prop::sample::select(vec!["add", "replace", "remove"]);
    let value = prop::sample::select(vec![
        json!("kube-system"),
        json!("${MEMBER-CLUSTER-LABEL-KEY-to}"),
        json!({"name": "x", "namespace": "y"}),
        json!([]),
        Value::Null,
        administrator(),
    ]);
    (op, path, any::<bool>(), value).prop_map(|(op, path, rooted, value)| {
        let path = format!("{}{}", if rooted { "/" } else { "" }, path.join("/"));
        match op {
            "remove" => json!({"op": op, "path": path}),
            _ => json!({"op": op, "path": path, "value": value}),
        }
    })
}

proptest! {
    #[test]
    fn whatever_is_patched_the_object_keeps_its_names(
        patches in prop::collection::vec(any_patch(), 1..6)
    ) {
        let outcome = on(&config_map(), CONFIG_MAP, json!([rule(None, json!(patches))]));
        if let Ok(Overridden::Changed(object)) = outcome {
            prop_assert_eq!(names(&object), names(&config_map()));
            prop_assert_eq!(&object["status"], &config_map()["status"]);
        }
    }
}
