use proptest::collection::btree_map;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{merge, strategic};
use crate as patch;
use crate::arbitrary::{object, value};
use crate::builtin::{Builtin, builtin};
use crate::refused::PatchError;

fn deployment() -> Option<Builtin> {
    builtin("apps", "v1", "Deployment")
}

/// Makes a patch and shows that it does what it says when applied.
fn made(original: &Value, modified: &Value, current: &Value) -> (Value, Value) {
    let patch = strategic(original, modified, current, deployment()).unwrap();
    let result = patch::strategic(current, &patch, deployment()).unwrap();
    (patch, result)
}

fn pod(list: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": list}}}})
}

#[test]
fn the_documented_example_of_kubectl_apply_comes_out() {
    // Last applied, wished for, and live after somebody scaled and the server defaulted.
    let original = json!({"spec": {"minReadySeconds": 5, "template": {"spec": {"containers": [
        {"name": "nginx", "image": "nginx:1.14.2", "ports": [{"containerPort": 80}]}]}}}});
    let modified = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "nginx", "image": "nginx:1.16.1", "ports": [{"containerPort": 80}]}]}}}});
    let current = json!({"spec": {"replicas": 2, "minReadySeconds": 5,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:1.14.2", "imagePullPolicy": "IfNotPresent",
            "ports": [{"containerPort": 80, "protocol": "TCP"}]}], "restartPolicy": "Always"}}}});
    let (patch, result) = made(&original, &modified, &current);
    assert_eq!(
        patch,
        json!({"spec": {"minReadySeconds": null, "template": {"spec": {
            "$setElementOrder/containers": [{"name": "nginx"}],
            "containers": [{"name": "nginx", "image": "nginx:1.16.1"}]}}}})
    );
    assert_eq!(
        result,
        json!({"spec": {"replicas": 2,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:1.16.1", "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}]}], "restartPolicy": "Always"}}}})
    );
}

#[test]
fn nothing_is_said_of_what_is_already_so() {
    let wish = pod(&json!([{"name": "a", "image": "x"}]));
    // A sidecar that somebody injected is no reason to patch.
    let current = pod(
        &json!([{"name": "a", "image": "x", "imagePullPolicy": "Always"}, {"name": "injected"}]),
    );
    assert_eq!(made(&wish, &wish, &current), (json!({}), current));
}

#[test]
fn list_elements_are_added_changed_deleted_and_ordered() {
    let original = pod(
        &json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1", "env": [{"name": "X", "value": "1"}]}]),
    );
    let modified = pod(&json!([{"name": "c", "image": "1"}, {"name": "b", "image": "2"}]));
    let current = pod(
        &json!([{"name": "a", "image": "1"}, {"name": "z"}, {"name": "b", "image": "1", "env": [{"name": "X", "value": "1"}]}]),
    );
    let (patch, result) = made(&original, &modified, &current);
    assert_eq!(
        patch,
        json!({"spec": {"template": {"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
            "containers": [{"name": "c", "image": "1"}, {"name": "b", "image": "2", "env": null}, {"name": "a", "$patch": "delete"}]}}}})
    );
    assert_eq!(
        result,
        pod(&json!([{"name": "c", "image": "1"}, {"name": "z"}, {"name": "b", "image": "2"}]))
    );
}

#[test]
fn an_order_alone_is_enough_to_patch() {
    let modified = pod(&json!([{"name": "b"}, {"name": "a"}]));
    let current = pod(&json!([{"name": "a"}, {"name": "b"}]));
    let (patch, result) = made(&current, &modified, &current);
    let order = json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]});
    assert_eq!(patch, json!({"spec": {"template": {"spec": order}}}));
    assert_eq!(result, modified);
}

#[test]
fn primitive_lists_are_told_what_to_lose() {
    let with = |list: Value| json!({"metadata": {"finalizers": list}});
    let (patch, result) =
        made(&with(json!(["a", "b"])), &with(json!(["b", "c"])), &with(json!(["a", "b", "x"])));
    assert_eq!(
        patch,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b", "c"], "finalizers": ["c"]}})
    );
    assert_eq!(result, with(json!(["b", "c", "x"])));
}

#[test]
fn a_change_of_strategy_retains_only_what_is_asked_for() {
    let recreate = json!({"spec": {"strategy": {"type": "Recreate"}}});
    let rolling =
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    // The server filled in `rollingUpdate`; nobody ever applied it.
    let (patch, result) = made(&json!(null), &recreate, &rolling);
    assert_eq!(patch, json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}));
    assert_eq!(result, recreate);
}

#[test]
fn volumes_change_their_kind_by_retained_keys() {
    let volumes = |v: Value| json!({"spec": {"template": {"spec": {"volumes": [v]}}}});
    let before = volumes(json!({"name": "v", "emptyDir": {}}));
    let after = volumes(json!({"name": "v", "configMap": {"name": "c"}}));
    let (patch, result) = made(&before, &after, &before);
    assert_eq!(
        patch["spec"]["template"]["spec"]["volumes"],
        json!([{"$retainKeys": ["configMap", "name"], "name": "v", "configMap": {"name": "c"}, "emptyDir": null}])
    );
    assert_eq!(result, after);
}

#[test]
fn a_merge_key_that_repeats_replaces_the_list() {
    let ports = |list: Value| pod(&json!([{"name": "dns", "ports": list}]));
    let before = ports(json!([{"containerPort": 53, "protocol": "UDP"}]));
    let after = ports(
        json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]),
    );
    assert_eq!(made(&before, &after, &before).1, after);
    assert_eq!(made(&after, &before, &after).1, before);
    assert_eq!(made(&after, &after, &after).0, json!({}));
}

#[test]
fn merge_patches_replace_lists_and_delete_what_was_applied() {
    let original = json!({"spec": {"a": 1, "gone": 1, "list": [1]}});
    let modified = json!({"spec": {"a": 2, "list": [1, 2], "new": {"x": 1}}});
    let current =
        json!({"spec": {"a": 1, "gone": 1, "list": [1], "server": true}, "status": {"ok": true}});
    let patch = merge(&original, &modified, &current).unwrap();
    assert_eq!(patch, json!({"spec": {"a": 2, "gone": null, "list": [1, 2], "new": {"x": 1}}}));
    assert_eq!(
        patch::merge(&current, &patch).unwrap(),
        json!({"spec": {"a": 2, "list": [1, 2], "new": {"x": 1}, "server": true}, "status": {"ok": true}})
    );
}

#[test]
fn only_objects_can_be_compared() {
    let wrong = Err(PatchError::Malformed("invalid JSON document".into()));
    assert_eq!(merge(&json!(null), &json!([]), &json!({})), wrong);
    assert_eq!(merge(&json!(1), &json!({}), &json!({})), wrong);
    let deep = (0..200).fold(json!({}), |inner, _| json!({"a": inner}));
    assert_eq!(merge(&json!(null), &deep, &json!({})), Err(PatchError::too_deep()));
}

/// Deployments as they could be applied: keys are unique, nothing is null.
fn config() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(vec!["p", "q", "r"]);
    let text = || (0i64..3).prop_map(|n| Value::from(n.to_string()));
    let env = btree_map(name(), text(), 0..3);
    let container = (prop::option::of(text()), env, any::<bool>());
    let containers = (btree_map(name(), container, 0..3), any::<bool>());
    let kind =
        prop::sample::select(vec![json!({"emptyDir": {}}), json!({"configMap": {"name": "c"}})]);
    let finalizers = prop::sample::subsequence(vec!["f/1", "f/2", "f/3"], 0..3).prop_shuffle();
    let labels = btree_map(name(), text(), 0..3);
    (containers, btree_map(name(), kind, 0..2), finalizers, labels, prop::option::of(0i64..3)).prop_map(
        |((containers, flip), volumes, finalizers, labels, replicas)| {
            let list = |items: Vec<(&str, Value)>| -> Value {
                items.into_iter().map(|(name, mut item)| { item["name"] = name.into(); item }).collect()
            };
            let mut containers: Vec<(&str, Value)> = containers.into_iter().map(|(name, (image, env, args))| {
                let mut item = json!({"env": list(env.into_iter().map(|(n, v)| (n, json!({"value": v}))).collect())});
                if let Some(image) = image { item["image"] = image; }
                if args { item["args"] = json!(["x"]); }
                (name, item)
            }).collect();
            if flip { containers.reverse(); }
            let labels: Value = labels.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
            let mut config = json!({"metadata": {"finalizers": finalizers, "labels": labels},
                "spec": {"template": {"spec": {"containers": list(containers), "volumes": list(volumes.into_iter().collect())}}}});
            if let Some(replicas) = replicas {
                config["spec"]["replicas"] = replicas.into();
            }
            config
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_patch_against_what_was_applied_gives_the_modified_object(before in config(), after in config()) {
        let (_, result) = made(&before, &after, &before);
        prop_assert_eq!(result, after);
    }

    #[test]
    fn a_patch_leaves_nothing_more_to_do(original in config(), modified in config(), current in config()) {
        let (_, result) = made(&original, &modified, &current);
        let (again, _) = made(&modified, &modified, &result);
        prop_assert_eq!(again, json!({}));
    }

    #[test]
    fn a_merge_patch_against_what_was_applied_gives_the_modified_object(before in config(), after in config()) {
        let patch = merge(&before, &after, &before).unwrap();
        prop_assert_eq!(patch::merge(&before, &patch).unwrap(), after);
    }

    #[test]
    fn a_merge_patch_leaves_nothing_more_to_do(original in config(), modified in config(), current in config()) {
        let patch = merge(&original, &modified, &current).unwrap();
        let result = patch::merge(&current, &patch).unwrap();
        prop_assert_eq!(merge(&modified, &modified, &result).unwrap(), json!({}));
    }

    #[test]
    fn arbitrary_documents_never_panic(original in value(), modified in object(), current in object()) {
            drop(merge(&original, &modified, &current));
        if let Ok(patch) = strategic(&original, &modified, &current, deployment()) {
            drop(patch::strategic(&current, &patch, deployment()));
        }
    }
}
