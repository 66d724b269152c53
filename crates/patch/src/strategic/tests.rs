use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::strategic;
use crate::arbitrary::{object, value};
use crate::builtin::Builtin;
use crate::openapi::Node;
use crate::refused::PatchError;

/// A cut-down Deployment with every kind of list.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let named = |key: &str, items: Value| {
        json!({"type": "array", "x-kubernetes-patch-merge-key": key,
               "x-kubernetes-patch-strategy": "merge", "items": items})
    };
    let text = json!({"type": "string"});
    let container = json!({"type": "object", "properties": {
        "name": text, "image": text,
        "args": {"type": "array", "items": text},
        "env": named("name", json!({"type": "object", "properties": {"name": text, "value": text}})),
        "ports": named("containerPort", json!({"type": "object", "properties": {
            "containerPort": {"type": "integer"}, "protocol": text, "name": text}})),
    }});
    json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {
            "labels": {"type": "object", "additionalProperties": text},
            "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": text},
        }},
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "containers": named("name", container),
            "tolerations": {"type": "array", "items": {"type": "object", "properties": {"key": text}}},
            "keyless": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "object"}},
            "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {
                "type": text, "rollingUpdate": {"type": "object", "properties": {"maxSurge": text}}}},
        }},
    }})
});

fn patched(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    strategic(current, patch, Some(Node(&SCHEMA)))
}

/// Each case: current spec, patch of the spec, spec that comes out.
fn spec(cases: &[(Value, Value, Value)]) {
    for (current, patch, result) in cases {
        let whole = |spec: &Value| json!({ "spec": spec });
        assert_eq!(patched(&whole(current), &whole(patch)), Ok(whole(result)), "{current} {patch}");
    }
}

fn refused(current: &Value, patch: &Value) -> PatchError {
    patched(current, patch).unwrap_err()
}

#[test]
fn a_new_container_comes_before_those_the_patch_leaves_alone() {
    spec(&[(
        json!({"containers": [{"name": "web", "image": "nginx"}]}),
        json!({"containers": [{"name": "cache", "image": "redis"}]}),
        json!({"containers": [{"name": "cache", "image": "redis"}, {"name": "web", "image": "nginx"}]}),
    )]);
}

#[test]
fn containers_are_merged_by_name_in_place() {
    spec(&[(
        json!({"containers": [{"name": "a", "image": "a:1", "args": ["x"]}, {"name": "b", "image": "b:1"}]}),
        json!({"containers": [{"name": "b", "image": "b:2"}]}),
        json!({"containers": [{"name": "a", "image": "a:1", "args": ["x"]}, {"name": "b", "image": "b:2"}]}),
    )]);
}

#[test]
fn set_image_with_an_element_order_changes_one_field() {
    spec(&[(
        json!({"replicas": 2, "containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}),
        json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
               "containers": [{"name": "a", "image": "a:2"}]}),
        json!({"replicas": 2, "containers": [{"name": "a", "image": "a:2"}, {"name": "b", "image": "b:1"}]}),
    )]);
}

#[test]
fn an_element_order_alone_reorders() {
    spec(&[
        (
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}),
        ),
        // `x` was put in by someone else and stays before `b`, as it was.
        (
            json!({"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}]}),
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}]}),
        ),
        (json!({}), json!({"$setElementOrder/containers": [{"name": "a"}]}), json!({})),
    ]);
}

#[test]
fn an_element_order_places_new_and_deletes_old_elements() {
    spec(&[(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
               "containers": [{"name": "c", "image": "c:1"}, {"name": "b", "$patch": "delete"}]}),
        json!({"containers": [{"name": "c", "image": "c:1"}, {"name": "a"}]}),
    )]);
}

#[test]
fn list_elements_can_be_deleted_and_lists_replaced() {
    spec(&[
        (
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}]}),
        ),
        (
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "c"}, {"$patch": "replace"}]}),
            json!({"containers": [{"name": "c"}]}),
        ),
        (
            json!({"containers": [{"name": "a", "image": "1"}]}),
            json!({"containers": [{"name": "a", "$patch": "merge", "args": ["x"]}]}),
            json!({"containers": [{"name": "a", "image": "1", "args": ["x"]}]}),
        ),
        (
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": [{"name": "zzz", "$patch": "delete"}]}),
            json!({"containers": [{"name": "a"}]}),
        ),
    ]);
}

#[test]
fn lists_inside_list_elements_are_merged_too() {
    spec(&[(
        json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80, "name": "http"}]}]}),
        json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}],
                               "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}),
        json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}],
                               "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}]}]}),
    )]);
}

#[test]
fn atomic_lists_are_replaced() {
    spec(&[
        (
            json!({"tolerations": [{"key": "a"}, {"key": "b"}]}),
            json!({"tolerations": [{"key": "c"}]}),
            json!({"tolerations": [{"key": "c"}]}),
        ),
        (
            json!({"containers": [{"name": "a", "args": ["x", "y"]}]}),
            json!({"containers": [{"name": "a", "args": ["z"]}]}),
            json!({"containers": [{"name": "a", "args": ["z"]}]}),
        ),
    ]);
}

#[test]
fn maps_merge_by_field_and_null_deletes() {
    let current = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"replicas": 3}});
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3", "none": null}}});
    let result = json!({"metadata": {"labels": {"b": "2", "c": "3"}}, "spec": {"replicas": 3}});
    assert_eq!(patched(&current, &patch), Ok(result));
    let patch = json!({"spec": null});
    assert_eq!(
        patched(&current, &patch),
        Ok(json!({"metadata": {"labels": {"a": "1", "b": "2"}}}))
    );
}

#[test]
fn maps_can_be_replaced_and_emptied_by_directive() {
    let current = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    let with = |labels: Value| json!({"metadata": {"labels": labels}});
    assert_eq!(
        patched(&current, &with(json!({"$patch": "replace", "c": "3"}))),
        Ok(with(json!({"c": "3"})))
    );
    assert_eq!(patched(&current, &with(json!({"$patch": "delete"}))), Ok(with(json!({}))));
    assert_eq!(
        patched(&current, &with(json!({"$patch": "merge", "c": "3"}))),
        Ok(with(json!({"a": "1", "b": "2", "c": "3"})))
    );
}

#[test]
fn retain_keys_drops_what_it_does_not_name() {
    spec(&[(
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    )]);
}

#[test]
fn retain_keys_must_name_all_that_the_patch_sets() {
    let wrong = PatchError::Malformed("invalid patch format of retainKeys".into());
    for strategy in [
        json!({"$retainKeys": ["rollingUpdate"], "type": "Recreate"}),
        json!({"$retainKeys": "type"}),
        json!({"$retainKeys": [1]}),
    ] {
        assert_eq!(
            refused(&json!({}), &json!({"spec": {"x": 1}, "$retainKeys": strategy["$retainKeys"]})),
            wrong
        );
        let current = json!({"spec": {"strategy": {}}});
        assert_eq!(refused(&current, &json!({"spec": {"strategy": strategy}})), wrong);
    }
}

#[test]
fn primitive_lists_are_merged_without_duplicates() {
    let with = |names: Value| json!({"metadata": {"finalizers": names}});
    let result = patched(&with(json!(["a", "b"])), &with(json!(["b", "c"])));
    assert_eq!(result, Ok(with(json!(["a", "b", "c"]))));
    let result = patched(&with(json!(["a", "b"])), &with(json!(["c"])));
    assert_eq!(result, Ok(with(json!(["c", "a", "b"]))));
}

#[test]
fn primitive_lists_lose_what_the_parallel_list_names() {
    let with = |names: Value| json!({"metadata": {"finalizers": names}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "zzz"]}});
    assert_eq!(patched(&with(json!(["a", "b"])), &patch), Ok(with(json!(["b"]))));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"],
                       "$setElementOrder/finalizers": ["b", "c"]}});
    assert_eq!(patched(&with(json!(["a", "b"])), &patch), Ok(with(json!(["b", "c"]))));
    assert_eq!(patched(&json!({"metadata": {}}), &patch), Ok(with(json!(["c"]))));
}

#[test]
fn directives_do_not_leak_from_new_subtrees() {
    let patch = json!({"spec": {
        "strategy": {"$patch": "replace", "type": "Recreate", "rollingUpdate": {"$patch": "delete"}, "x": null},
        "containers": [
            {"name": "a", "$setElementOrder/env": [{"name": "X"}], "env": [{"name": "X", "$retainKeys": ["name"]}]},
            {"name": "b", "$patch": "delete"},
            {"$patch": "replace"},
        ],
        "$setElementOrder/containers": [{"name": "a"}],
    }});
    let result = json!({"spec": {
        "strategy": {"type": "Recreate"},
        "containers": [{"name": "a", "env": [{"name": "X"}]}],
    }});
    assert_eq!(patched(&json!({}), &patch), Ok(result));
}

#[test]
fn a_list_element_without_its_merge_key_is_named() {
    let current = json!({"spec": {"containers": [{"name": "a"}]}});
    let says = "map: map[image:nginx] does not contain declared merge key: name";
    for item in [json!({"image": "nginx"}), json!({"image": "nginx", "$patch": "merge"})] {
        let patch = json!({"spec": {"containers": [item]}});
        assert!(
            refused(&current, &patch)
                .to_string()
                .contains("does not contain declared merge key: name")
        );
    }
    let patch = json!({"spec": {"containers": [{"image": "nginx"}]}});
    assert_eq!(refused(&current, &patch), PatchError::Unmergeable(says.into()));
    let patch = json!({"spec": {"containers": [{"$patch": "delete"}]}});
    let says = "map: map[$patch:delete] does not contain declared merge key: name";
    assert_eq!(refused(&current, &patch), PatchError::Unmergeable(says.into()));
}

#[test]
fn unknown_and_misshapen_directives_are_malformed() {
    let current = json!({"spec": {"containers": [{"name": "a"}], "replicas": 1}, "metadata": {"finalizers": ["a"]}});
    let cases = [
        (
            json!({"spec": {"$patch": "explode"}}),
            "unknown patch type: explode in map: map[$patch:explode]",
        ),
        (json!({"spec": {"$patch": 3}}), "unknown patch type: 3 in map: map[$patch:3]"),
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": "x"}]}}),
            "unknown patch type: x in map: map[$patch:x name:a]",
        ),
        (json!({"new": {"deep": {"$patch": "x"}}}), "unknown patch type: x in map: map[$patch:x]"),
        (json!({"spec": {"$setElementOrder": []}}), "invalid patch format of setElementOrder list"),
        (
            json!({"spec": {"$setElementOrder/containers": {}}}),
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}),
            "invalid patch format of primitive list",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveListX": []}}),
            "invalid patch format of primitive list",
        ),
    ];
    for (patch, says) in cases {
        assert_eq!(refused(&current, &patch).to_string(), says, "{patch}");
    }
    assert_eq!(
        refused(&current, &json!([])),
        PatchError::Malformed("invalid JSON document".into())
    );
}

#[test]
fn patches_that_do_not_fit_the_list_are_unmergeable() {
    let current = json!({"spec": {"containers": [{"name": "a"}], "replicas": 1, "keyless": [{"a": 1}]}, "metadata": {"finalizers": ["a"]}});
    let cases = [
        (
            json!({"spec": {"containers": [{"name": "b"}], "$setElementOrder/containers": [{"name": "a"}]}}),
            "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        (
            json!({"spec": {"containers": ["a"]}}),
            "list element types are not identical: [map[name:a] a]",
        ),
        (json!({"spec": {"containers": [["a"]]}}), "lists of lists are not supported"),
        (json!({"metadata": {"finalizers": [1]}}), "list element types are not identical: [a 1]"),
        (
            json!({"spec": {"$setElementOrder/replicas": []}}),
            "expected a []interface {}, but received a int64",
        ),
        (
            json!({"spec": {"keyless": [{"b": 1}]}}),
            "cannot merge lists without merge key for type struct",
        ),
    ];
    for (patch, says) in cases {
        assert_eq!(refused(&current, &patch), PatchError::Unmergeable(says.into()), "{patch}");
    }
}

#[test]
fn without_a_schema_lists_are_replaced_and_maps_merged() {
    let current = json!({"a": {"x": 1}, "l": [{"name": "a"}]});
    let patch = json!({"a": {"y": 2}, "l": [{"name": "b"}]});
    let result = json!({"a": {"x": 1, "y": 2}, "l": [{"name": "b"}]});
    assert_eq!(strategic(&current, &patch, None::<Builtin>), Ok(result));
}

#[test]
fn a_field_that_changes_its_type_takes_the_patch() {
    spec(&[(json!({"replicas": "two"}), json!({"replicas": 2}), json!({"replicas": 2}))]);
    spec(&[(
        json!({"containers": "none"}),
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"name": "a"}]}),
    )]);
}

#[test]
fn long_lists_are_merged_in_one_pass() {
    let item = |i: usize| json!({"name": format!("c{i}"), "image": "x"});
    let many: Vec<Value> = (0..5_000).map(item).collect();
    let current = json!({"spec": {"containers": many}});
    let back: Vec<Value> =
        (0..5_000).rev().map(|i| json!({"name": format!("c{i}"), "image": "y"})).collect();
    let result = patched(&current, &json!({"spec": {"containers": back}})).unwrap();
    assert_eq!(result["spec"]["containers"][0], json!({"name": "c4999", "image": "y"}));
    assert_eq!(result["spec"]["containers"].as_array().unwrap().len(), 5_000);
}

fn has_directive(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.iter().any(|(k, v)| super::directives::is_directive(k) || has_directive(v))
        }
        Value::Array(list) => list.iter().any(has_directive),
        _ => false,
    }
}

/// What a real object may hold: no directives, no nulls.
fn plain(value: &Value) -> Value {
    super::directives::without(value).ok().flatten().unwrap_or(json!({}))
}

proptest! {
    #[test]
    fn arbitrary_patches_neither_panic_nor_leak(current in object(), patch in value()) {
        let current = plain(&current);
        for root in [None, Some(Node(&SCHEMA))] {
            if let Ok(result) = strategic(&current, &patch, root) {
                prop_assert!(!has_directive(&result), "{result}");
            }
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing(current in object()) {
        prop_assert_eq!(patched(&current, &json!({})).unwrap(), current);
    }
}

/// What the task "Update API Objects in Place Using kubectl patch" of the Kubernetes
/// documentation promises, with the schema of real Deployments.
mod the_documented_patches {
    use super::*;
    use crate::builtin::builtin;

    fn demo(strategy: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "patch-demo"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "nginx"}}, "strategy": strategy,
            "template": {"metadata": {"labels": {"app": "nginx"}}, "spec": {
                "containers": [{"name": "patch-demo-ctr", "image": "nginx"}],
                "tolerations": [{"effect": "NoSchedule", "key": "dedicated", "value": "test-team"}],
            }},
        }})
    }

    fn after(strategy: &Value, patch: &Value) -> Value {
        strategic(&demo(strategy), patch, builtin("apps", "v1", "Deployment")).unwrap()
    }

    fn rolling() -> Value {
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%"}})
    }

    #[test]
    fn a_patch_adds_a_container() {
        let container = json!({"name": "patch-demo-ctr-2", "image": "redis"});
        let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        assert_eq!(
            after(&rolling(), &patch)["spec"]["template"]["spec"]["containers"],
            json!([container, {"name": "patch-demo-ctr", "image": "nginx"}])
        );
    }

    #[test]
    fn a_patch_replaces_tolerations() {
        let toleration = json!({"effect": "NoSchedule", "key": "disktype", "value": "ssd"});
        let patch = json!({"spec": {"template": {"spec": {"tolerations": [toleration]}}}});
        assert_eq!(
            after(&rolling(), &patch)["spec"]["template"]["spec"]["tolerations"],
            json!([toleration])
        );
    }

    #[test]
    fn a_change_of_strategy_needs_retained_keys() {
        let patch = json!({"spec": {"strategy": {"type": "Recreate"}}});
        // Without them the old field stays, and validation will refuse the pair.
        assert_eq!(
            after(&rolling(), &patch)["spec"]["strategy"],
            json!({"type": "Recreate", "rollingUpdate": {"maxSurge": "30%"}})
        );
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        assert_eq!(after(&rolling(), &patch)["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn a_selector_is_merged_though_apply_takes_it_as_a_whole() {
        let patch = json!({"spec": {"selector": {"matchLabels": {"tier": "web"}}}});
        assert_eq!(
            after(&rolling(), &patch)["spec"]["selector"],
            json!({"matchLabels": {"app": "nginx", "tier": "web"}})
        );
    }

    #[test]
    fn a_rollout_restart_only_annotates_the_template() {
        let annotations = json!({"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"});
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        let mut expected = demo(&rolling());
        expected["spec"]["template"]["metadata"]["annotations"] = annotations;
        assert_eq!(after(&rolling(), &patch), expected);
    }
}
