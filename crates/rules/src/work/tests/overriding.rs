//! Overrides on the way: what a binding names is applied, and mistakes are told.

use flagship_api::keys::own;
use flagship_api::placement_status::NamespacedName;
use serde_json::{Value, json};

use super::world::{World, map, raw};
use crate::overrides::{ClusterOverride, NamespacedOverride};
use crate::work::Retry;

/// A snapshot of an override for ConfigMaps of namespace `app` by name.
fn narrow(name: &str, target: &str, rule: Value) -> NamespacedOverride {
    let mut rule = rule;
    rule["clusterSelector"] = json!({"clusterSelectorTerms": []});
    let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": target});
    let spec = json!({"resourceSelectors": [selector], "policy": {"overrideRules": [rule]}});
    NamespacedOverride { key: key(name), spec: serde_json::from_value(spec).unwrap() }
}

/// A snapshot of an override for a whole cluster-scoped object.
fn wide(name: &str, selector: Value, rule: Value) -> ClusterOverride {
    let spec = json!({"clusterResourceSelectors": [selector], "policy": {"overrideRules": [rule]}});
    ClusterOverride { name: name.into(), spec: serde_json::from_value(spec).unwrap() }
}

fn key(name: &str) -> NamespacedName {
    NamespacedName { name: name.into(), namespace: "app".into() }
}

fn replace(path: &str, value: Value) -> Value {
    json!({"overrideType": "JSONPatch",
        "jsonPatchOverrides": [{"op": "replace", "path": path, "value": value}]})
}

fn overridden(world: &mut World, with: NamespacedOverride) {
    world.binding().spec.resource_override_snapshots = vec![with.key.clone()];
    world.held.overrides = vec![with];
    world.changed();
}

fn failed(cause: &str) -> [String; 1] {
    [format!(
        "Overridden False OverriddenFailed: Failed to apply the override rules on the resources: \
         {cause}"
    )]
}

// checklist 12.37
#[test]
fn an_override_alone_is_a_reason_to_write() {
    let mut world = World::cluster_wide().delivered(&[&[map("one", "1"), map("two", "2")]]);
    overridden(&mut world, narrow("ro-0", "one", replace("/data/key", json!("9"))));
    world.pass();
    assert_eq!(world.works(), ["web-work (0, 2): one, two"]);
    let written = world.objects["web-work"].spec.workload.manifests.clone();
    assert_eq!(written, [raw(&map("one", "9")), raw(&map("two", "2"))]);
    assert_eq!(
        world.conditions()[0],
        "Overridden True OverriddenSucceeded: Successfully applied the override rules on the \
         resources"
    );
    world.binding().spec.resource_override_snapshots.clear();
    world.changed();
    world.pass();
    let written = &world.objects["web-work"].spec.workload.manifests;
    assert_eq!(*written, [raw(&map("one", "1")), raw(&map("two", "2"))]);
    let notes = world.objects["web-work"].metadata.annotations.clone().unwrap();
    assert!(!notes.contains_key(own::RENDERED_INPUTS_HASH));
}

// checklist 12.42
#[test]
fn everything_taken_out_leaves_an_empty_work() {
    let mut world = World::cluster_wide().delivered(&[&[map("one", "1")]]);
    overridden(&mut world, narrow("ro-0", "one", json!({"overrideType": "Delete"})));
    world.pass();
    assert_eq!(world.works(), ["web-work (0, 2): "]);
}

// checklist 12.34
#[test]
fn a_wrong_path_stops_everything_before_anything_is_written() {
    let mut world = World::cluster_wide().delivered(&[&[map("one", "1")]]);
    world.snapshot(1, &[&[map("zero", "0")], &[map("one", "2")]]);
    world.binding().spec.resource_snapshot_name = "web-1-snapshot".into();
    overridden(&mut world, narrow("ro-0", "one", replace("/spec/nothing", json!(1))));
    assert_eq!(world.pass().trouble.unwrap().retry, Retry::Never);
    assert_eq!(world.works(), ["web-work (0, 1): one"]);
    let cause = "ResourceOverrideSnapshot \"ro-0\" failed to apply on ConfigMap \"one\" in \
                 namespace \"app\": replace operation does not apply: doc is missing path: \
                 /spec/nothing: missing value";
    assert_eq!(world.conditions(), failed(cause));
}

// checklist 12.36
#[test]
fn an_override_snapshot_nobody_has_is_named() {
    let mut world = World::cluster_wide();
    world.snapshot(0, &[&[map("one", "1")]]);
    world.binding().spec.cluster_resource_override_snapshots = vec!["cro-7".into()];
    world.bind(0);
    assert_eq!(world.pass().trouble.unwrap().retry, Retry::Never);
    assert_eq!(world.conditions(), failed("clusterResourceOverrideSnapshot cro-7 is not found"));
    world.binding().spec.cluster_resource_override_snapshots.clear();
    world.binding().spec.resource_override_snapshots = vec![key("ro-1-0")];
    world.changed();
    assert_eq!(world.pass().trouble.unwrap().retry, Retry::Never);
    assert_eq!(world.conditions(), failed("resourceOverrideSnapshot {ro-1-0 app} is not found"));
    assert!(world.objects.is_empty());
}

fn wrapped(data: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "env", "namespace": "app"}, "data": data})
}

// checklist 12.46
#[test]
fn what_is_wrapped_is_overridden_and_the_wrapper_is_not() {
    let group = [wrapped(json!({"a": map("one", "1"), "b": map("two", "2")}))];
    let mut world = World::cluster_wide().delivered(&[&group]);
    let name = world.objects.keys().find(|name| name.contains("envelope")).unwrap().clone();
    let before = world.objects[&name].spec.workload.manifests.clone();
    overridden(&mut world, narrow("ro-0", "one", replace("/data/key", json!("9"))));
    world.pass();
    let after = &world.objects[&name].spec.workload.manifests;
    assert_eq!(after[0], before[0], "the other one is the same to the byte");
    assert_eq!(after[1], raw(&map("one", "9")));

    // The envelope itself cannot be changed.
    let selector = json!({"group": "placement.kubernetes-fleet.io", "version": "v1beta1",
        "kind": "ResourceEnvelope", "name": "env"});
    let spec = json!({"resourceSelectors": [selector], "policy": {"overrideRules": [
        {"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "Delete"}]}});
    let on_wrapper =
        NamespacedOverride { key: key("ro-1"), spec: serde_json::from_value(spec).unwrap() };
    overridden(&mut world, on_wrapper);
    world.pass();
    assert_eq!(world.objects[&name].spec.workload.manifests, before);
}

#[test]
fn a_mistake_inside_an_envelope_says_which() {
    let mut world = World::cluster_wide();
    world.snapshot(0, &[&[wrapped(json!({"a": map("one", "1")}))]]);
    world.bind(0);
    overridden(&mut world, narrow("ro-0", "one", replace("/spec/nothing", json!(1))));
    world.pass();
    let cause = "failed to apply overrides to ConfigMap \"one\" in namespace \"app\" from envelope \
                 app/env: ResourceOverrideSnapshot \"ro-0\" failed to apply on ConfigMap \"one\" \
                 in namespace \"app\": replace operation does not apply: doc is missing path: \
                 /spec/nothing: missing value";
    assert_eq!(world.conditions(), failed(cause));
}

#[test]
fn another_label_of_the_cluster_reaches_the_manifests_that_ask_for_it() {
    let mut world = World::cluster_wide().delivered(&[&[map("one", "1")]]);
    let value = json!("${MEMBER-CLUSTER-LABEL-KEY-env}");
    overridden(&mut world, narrow("ro-0", "one", replace("/data/key", value)));
    world.pass();
    world.all_fine();
    world.pass();
    let written = |world: &World| world.objects["web-work"].spec.workload.manifests.clone();
    assert_eq!(written(&world), [raw(&map("one", "prod"))]);

    // A label nobody asks for: noted, and neither the member nor the status hear of it.
    world.cluster().labels.set("team", "blue");
    let status = world.seen.binding.status.clone();
    world.writes.clear();
    world.pass();
    assert_eq!(world.writes, ["note web-work"]);
    assert_eq!(world.seen.binding.status, status);
    world.pass();
    assert_eq!(world.writes, ["note web-work"]);

    world.cluster().labels.set("env", "test");
    world.pass();
    assert_eq!(written(&world), [raw(&map("one", "test"))]);
    assert_eq!(world.last(), "Applied False ApplyInProgress: Resources are being applied");
}

#[test]
fn without_overrides_labels_of_the_cluster_do_not_matter() {
    let mut world = World::cluster_wide().delivered(&[&[map("one", "1")]]);
    world.writes.clear();
    world.cluster().labels = Default::default();
    world.pass();
    assert_eq!(world.writes, Vec::<String>::new());
}

#[test]
fn cluster_wide_overrides_come_first_and_those_of_the_namespace_win() {
    let mut world = World::cluster_wide();
    world.snapshot(0, &[&[map("one", "1")]]);
    let namespace = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "app"});
    let mut rule = replace("/data/key", json!("wide"));
    rule["clusterSelector"] = json!({"clusterSelectorTerms": []});
    world.held.cluster_overrides = vec![wide("cro-0", namespace, rule)];
    world.binding().spec.cluster_resource_override_snapshots = vec!["cro-0".into()];
    world.bind(0);
    world.pass();
    let written = |world: &World| world.objects["web-work"].spec.workload.manifests.clone();
    assert_eq!(written(&world), [raw(&map("one", "wide"))]);
    overridden(&mut world, narrow("ro-0", "one", replace("/data/key", json!("narrow"))));
    world.pass();
    assert_eq!(written(&world), [raw(&map("one", "narrow"))]);
}

fn administrator() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "evil"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}})
}

/// A Work with an override that made another object of the first map, as a hub wrote it that
/// did not look.
fn rendered_by_an_older_hub(world: World) -> World {
    let mut world = world.delivered(&[&[map("one", "1"), map("two", "2")]]);
    overridden(&mut world, narrow("ro-0", "one", replace("/data/key", json!("9"))));
    world.pass();
    world.held.overrides = vec![narrow("ro-0", "one", replace("", administrator()))];
    let work = world.objects.values_mut().next().unwrap();
    work.spec.workload.manifests[0] = raw(&administrator());
    let notes = work.metadata.annotations.as_mut().unwrap();
    notes.insert(own::RENDERED_INPUTS_HASH.to_owned(), "0a1b".to_owned());
    notes.insert(own::MANIFESTS_HASH.to_owned(), "2c3d".to_owned());
    world.writes.clear();
    world
}

#[test]
fn what_an_older_hub_let_an_override_make_is_taken_out_of_its_work_and_the_rest_stays() {
    for (world, name) in
        [(World::cluster_wide(), "web-work"), (World::in_namespace(), "app.web-work")]
    {
        let mut world = rendered_by_an_older_hub(world);
        assert!(world.pass().trouble.is_some());
        assert_eq!(world.writes, [format!("update {name}")]);
        let carried = &world.objects[name].spec.workload.manifests;
        assert_eq!(*carried, [raw(&map("two", "2"))]);
        let told = &world.conditions()[0];
        assert!(told.starts_with("Overridden False OverriddenFailed"), "{told}");
        assert!(told.contains("kind would change from"), "{told}");
        // It is said, and nothing is written over and over.
        world.pass();
        assert_eq!(world.writes.len(), 1);
        assert!(world.conditions()[0].starts_with("Overridden False"));
        // Mended, all of it is there.
        overridden(&mut world, narrow("ro-1", "one", replace("/data/key", json!("8"))));
        world.pass();
        let carried = &world.objects[name].spec.workload.manifests;
        assert_eq!(*carried, [raw(&map("one", "8")), raw(&map("two", "2"))]);
        assert!(world.conditions()[0].starts_with("Overridden True"));
    }
}

#[test]
fn what_an_older_hub_rendered_well_is_only_noted() {
    let mut world = World::cluster_wide().delivered(&[&[map("one", "1")]]);
    overridden(&mut world, narrow("ro-0", "one", replace("/data/key", json!("9"))));
    world.pass();
    let work = world.objects.get_mut("web-work").unwrap();
    let notes = work.metadata.annotations.as_mut().unwrap();
    notes.insert(own::RENDERED_INPUTS_HASH.to_owned(), "0a1b".to_owned());
    world.writes.clear();
    world.pass();
    assert_eq!(world.writes, ["note web-work"]);
    world.pass();
    assert_eq!(world.writes.len(), 1);
}

#[test]
fn a_new_mistake_leaves_alone_what_was_made_of_other_overrides() {
    let mut world = World::cluster_wide().delivered(&[&[map("one", "1"), map("two", "2")]]);
    world.writes.clear();
    overridden(&mut world, narrow("ro-0", "one", replace("", administrator())));
    assert!(world.pass().trouble.is_some());
    assert!(world.writes.is_empty(), "{:?}", world.writes);
    assert_eq!(world.works(), ["web-work (0, 1): one, two"]);
}
