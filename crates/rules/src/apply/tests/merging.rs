//! Three-way merges, case by case.

use serde_json::{Value, json};

use super::fixture::{Fixture, config_map, custom, deployment};

/// A Deployment whose pods are like this.
fn pods(spec: Value) -> Value {
    let mut object = deployment("a:1");
    object["spec"]["template"]["spec"] = spec;
    object
}

/// Applies one manifest, lets somebody edit the object, applies the other, and shows the pods.
fn merged(first: Value, edit: Value, second: Value) -> Value {
    let mut fixture = Fixture::new(json!({}), &[pods(first)]);
    fixture.pass();
    let edited = json!({"spec": {"template": {"spec": edit}}});
    fixture.edit("Deployment web", &edited);
    fixture.manifests(&[pods(second)]);
    fixture.pass();
    assert_eq!(fixture.reasons(), ["Applied"]);
    fixture.live("Deployment web")["spec"]["template"]["spec"].clone()
}

// checklist 4.6
#[test]
fn a_removed_container_goes_and_an_injected_one_stays() {
    let (a, b, side) = (
        json!({"name": "a", "image": "a"}),
        json!({"name": "b", "image": "b"}),
        json!({"name": "side", "image": "s"}),
    );
    assert_eq!(
        merged(
            json!({"containers": [a, b]}),
            json!({"containers": [a, b, side]}),
            json!({"containers": [a]})
        ),
        json!({"containers": [a, side]})
    );
}

// checklist 4.6
#[test]
fn one_variable_changes_and_the_others_stay() {
    let env = |value: &str| json!({"containers": [{"name": "a", "env": [{"name": "X", "value": value}, {"name": "Y", "value": "y"}]}]});
    let edit = json!({"containers": [{"name": "a", "imagePullPolicy": "Always",
        "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "y"}, {"name": "Z", "value": "z"}]}]});
    assert_eq!(
        merged(env("1"), edit, env("2")),
        json!({"containers": [{"name": "a", "imagePullPolicy": "Always",
            "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "y"}, {"name": "Z", "value": "z"}]}]})
    );
}

// checklist 4.6
#[test]
fn ports_are_told_apart_by_their_number() {
    let ports = |list: Value| json!({"containers": [{"name": "a", "ports": list}]});
    assert_eq!(
        merged(
            ports(json!([{"containerPort": 80}, {"containerPort": 81}])),
            ports(
                json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "protocol": "TCP"}])
            ),
            ports(json!([{"containerPort": 80, "name": "http"}])),
        ),
        ports(json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}]))
    );
}

// checklist 4.6
#[test]
fn a_volume_that_changes_its_type_keeps_nothing_of_the_old_one() {
    let volume = |source: Value| json!({"containers": [{"name": "a"}], "volumes": [source]});
    assert_eq!(
        merged(
            volume(json!({"name": "v", "emptyDir": {}})),
            volume(json!({"name": "v", "emptyDir": {"medium": ""}})),
            volume(json!({"name": "v", "configMap": {"name": "c"}})),
        ),
        volume(json!({"name": "v", "configMap": {"name": "c"}}))
    );
}

// checklist 4.6
#[test]
fn a_finalizer_that_somebody_set_stays() {
    let with = |finalizers: Value| {
        let mut object = config_map("c", json!({}));
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    let mut fixture = Fixture::new(json!({}), &[with(json!(["ours/a", "ours/b"]))]);
    fixture.pass();
    fixture.edit(
        "ConfigMap c",
        &json!({"metadata": {"finalizers": ["ours/a", "ours/b", "theirs/c"]}}),
    );
    fixture.manifests(&[with(json!(["ours/a"]))]);
    fixture.pass();
    assert_eq!(
        fixture.live("ConfigMap c")["metadata"]["finalizers"],
        json!(["ours/a", "theirs/c"])
    );
}

#[test]
fn the_example_of_the_specification_comes_out() {
    let mut fixture = Fixture::new(json!({}), &[custom(json!({"a": 1, "b": 2}))]);
    fixture.pass();
    fixture.edit("Widget w", &json!({"spec": {"a": 9, "b": 2, "c": 3}}));
    fixture.manifests(&[custom(json!({"a": 1}))]);
    fixture.pass();
    assert_eq!(fixture.live("Widget w")["spec"], json!({"a": 1, "c": 3}));
}

#[test]
fn a_memory_of_another_object_is_refused() {
    let mut fixture = Fixture::new(json!({}), &[custom(json!({"a": 1}))]);
    fixture.pass();
    // Somebody renamed the kind under us, as only a broken server could.
    fixture.member.get_mut("Widget w").unwrap()["metadata"]["name"] = json!("other");
    let outcome = fixture.pass().remove(0);
    assert_eq!(
        outcome.error.as_deref(),
        Some(
            "failed to apply the manifest: failed to create three-way merge patch: precondition failed: /metadata/name must not change"
        )
    );
}
