//! Overrides on the way: what a binding names is applied, and mistakes are told.

use flagship_api::keys::own;
use flagship_api::placement_status::NamespacedName;
use serde_json::{Value, json};

use super::fixture::{Fixture, map, raw};
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

fn overridden(fixture: &mut Fixture, with: NamespacedOverride) {
    fixture.binding().spec.resource_override_snapshots = vec![with.key.clone()];
    fixture.held.overrides = vec![with];
    fixture.changed();
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
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1"), map("two", "2")]]);
    overridden(&mut fixture, narrow("ro-0", "one", replace("/data/key", json!("9"))));
    fixture.pass();
    assert_eq!(fixture.works(), ["web-work (0, 2): one, two"]);
    let written = fixture.objects["web-work"].spec.workload.manifests.clone();
    assert_eq!(written, [raw(&map("one", "9")), raw(&map("two", "2"))]);
    assert_eq!(
        fixture.conditions()[0],
        "Overridden True OverriddenSucceeded: Successfully applied the override rules on the \
         resources"
    );
    fixture.binding().spec.resource_override_snapshots.clear();
    fixture.changed();
    fixture.pass();
    let written = &fixture.objects["web-work"].spec.workload.manifests;
    assert_eq!(*written, [raw(&map("one", "1")), raw(&map("two", "2"))]);
    let notes = fixture.objects["web-work"].metadata.annotations.clone().unwrap();
    assert!(!notes.contains_key(own::RENDERED_INPUTS_HASH));
}

// checklist 12.42
#[test]
fn everything_taken_out_leaves_an_empty_work() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    overridden(&mut fixture, narrow("ro-0", "one", json!({"overrideType": "Delete"})));
    fixture.pass();
    assert_eq!(fixture.works(), ["web-work (0, 2): "]);
}

// checklist 12.34
#[test]
fn a_wrong_path_stops_everything_before_anything_is_written() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.snapshot(1, &[&[map("zero", "0")], &[map("one", "2")]]);
    fixture.binding().spec.resource_snapshot_name = "web-1-snapshot".into();
    overridden(&mut fixture, narrow("ro-0", "one", replace("/spec/nothing", json!(1))));
    assert_eq!(fixture.pass().trouble.unwrap().retry, Retry::Never);
    assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
    let cause = "ResourceOverrideSnapshot \"ro-0\" failed to apply on ConfigMap \"one\" in \
                 namespace \"app\": replace operation does not apply: doc is missing path: \
                 /spec/nothing: missing value";
    assert_eq!(fixture.conditions(), failed(cause));
}

// checklist 12.36
#[test]
fn an_override_snapshot_nobody_has_is_named() {
    let mut fixture = Fixture::cluster_wide();
    fixture.snapshot(0, &[&[map("one", "1")]]);
    fixture.binding().spec.cluster_resource_override_snapshots = vec!["cro-7".into()];
    fixture.bind(0);
    assert_eq!(fixture.pass().trouble.unwrap().retry, Retry::Never);
    assert_eq!(fixture.conditions(), failed("clusterResourceOverrideSnapshot cro-7 is not found"));
    fixture.binding().spec.cluster_resource_override_snapshots.clear();
    fixture.binding().spec.resource_override_snapshots = vec![key("ro-1-0")];
    fixture.changed();
    assert_eq!(fixture.pass().trouble.unwrap().retry, Retry::Never);
    assert_eq!(fixture.conditions(), failed("resourceOverrideSnapshot {ro-1-0 app} is not found"));
    assert!(fixture.objects.is_empty());
}

fn wrapped(data: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "env", "namespace": "app"}, "data": data})
}

// checklist 12.46
#[test]
fn what_is_wrapped_is_overridden_and_the_wrapper_is_not() {
    let group = [wrapped(json!({"a": map("one", "1"), "b": map("two", "2")}))];
    let mut fixture = Fixture::cluster_wide().delivered(&[&group]);
    let name = fixture.objects.keys().find(|name| name.contains("envelope")).unwrap().clone();
    let before = fixture.objects[&name].spec.workload.manifests.clone();
    overridden(&mut fixture, narrow("ro-0", "one", replace("/data/key", json!("9"))));
    fixture.pass();
    let after = &fixture.objects[&name].spec.workload.manifests;
    assert_eq!(after[0], before[0], "the other one is the same to the byte");
    assert_eq!(after[1], raw(&map("one", "9")));

    // The envelope itself cannot be changed.
    let selector = json!({"group": "placement.kubernetes-fleet.io", "version": "v1beta1",
        "kind": "ResourceEnvelope", "name": "env"});
    let spec = json!({"resourceSelectors": [selector], "policy": {"overrideRules": [
        {"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "Delete"}]}});
    let on_wrapper =
        NamespacedOverride { key: key("ro-1"), spec: serde_json::from_value(spec).unwrap() };
    overridden(&mut fixture, on_wrapper);
    fixture.pass();
    assert_eq!(fixture.objects[&name].spec.workload.manifests, before);
}

#[test]
fn a_mistake_inside_an_envelope_says_which() {
    let mut fixture = Fixture::cluster_wide();
    fixture.snapshot(0, &[&[wrapped(json!({"a": map("one", "1")}))]]);
    fixture.bind(0);
    overridden(&mut fixture, narrow("ro-0", "one", replace("/spec/nothing", json!(1))));
    fixture.pass();
    let cause = "failed to apply overrides to ConfigMap \"one\" in namespace \"app\" from envelope \
                 app/env: ResourceOverrideSnapshot \"ro-0\" failed to apply on ConfigMap \"one\" \
                 in namespace \"app\": replace operation does not apply: doc is missing path: \
                 /spec/nothing: missing value";
    assert_eq!(fixture.conditions(), failed(cause));
}

#[test]
fn another_label_of_the_cluster_reaches_the_manifests_that_ask_for_it() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    let value = json!("${MEMBER-CLUSTER-LABEL-KEY-env}");
    overridden(&mut fixture, narrow("ro-0", "one", replace("/data/key", value)));
    fixture.pass();
    fixture.all_fine();
    fixture.pass();
    let written = |fixture: &Fixture| fixture.objects["web-work"].spec.workload.manifests.clone();
    assert_eq!(written(&fixture), [raw(&map("one", "prod"))]);

    // A label nobody asks for: noted, and neither the member nor the status hear of it.
    fixture.cluster().labels.set("team", "blue");
    let status = fixture.seen.binding.status.clone();
    fixture.writes.clear();
    fixture.pass();
    assert_eq!(fixture.writes, ["note web-work"]);
    assert_eq!(fixture.seen.binding.status, status);
    fixture.pass();
    assert_eq!(fixture.writes, ["note web-work"]);

    fixture.cluster().labels.set("env", "test");
    fixture.pass();
    assert_eq!(written(&fixture), [raw(&map("one", "test"))]);
    assert_eq!(fixture.last(), "Applied False ApplyInProgress: Resources are being applied");
}

#[test]
fn without_overrides_labels_of_the_cluster_do_not_matter() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.writes.clear();
    fixture.cluster().labels = Default::default();
    fixture.pass();
    assert_eq!(fixture.writes, Vec::<String>::new());
}

#[test]
fn cluster_wide_overrides_come_first_and_those_of_the_namespace_win() {
    let mut fixture = Fixture::cluster_wide();
    fixture.snapshot(0, &[&[map("one", "1")]]);
    let namespace = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "app"});
    let mut rule = replace("/data/key", json!("wide"));
    rule["clusterSelector"] = json!({"clusterSelectorTerms": []});
    fixture.held.cluster_overrides = vec![wide("cro-0", namespace, rule)];
    fixture.binding().spec.cluster_resource_override_snapshots = vec!["cro-0".into()];
    fixture.bind(0);
    fixture.pass();
    let written = |fixture: &Fixture| fixture.objects["web-work"].spec.workload.manifests.clone();
    assert_eq!(written(&fixture), [raw(&map("one", "wide"))]);
    overridden(&mut fixture, narrow("ro-0", "one", replace("/data/key", json!("narrow"))));
    fixture.pass();
    assert_eq!(written(&fixture), [raw(&map("one", "narrow"))]);
}

fn administrator() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "evil"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}})
}

/// A Work with an override that made another object of the first map, as a hub wrote it that
/// did not look.
fn rendered_by_an_older_hub(fixture: Fixture) -> Fixture {
    let mut fixture = fixture.delivered(&[&[map("one", "1"), map("two", "2")]]);
    overridden(&mut fixture, narrow("ro-0", "one", replace("/data/key", json!("9"))));
    fixture.pass();
    fixture.held.overrides = vec![narrow("ro-0", "one", replace("", administrator()))];
    let work = fixture.objects.values_mut().next().unwrap();
    work.spec.workload.manifests[0] = raw(&administrator());
    let notes = work.metadata.annotations.as_mut().unwrap();
    notes.insert(own::RENDERED_INPUTS_HASH.to_owned(), "0a1b".to_owned());
    notes.insert(own::MANIFESTS_HASH.to_owned(), "2c3d".to_owned());
    fixture.writes.clear();
    fixture
}

#[test]
fn what_an_older_hub_let_an_override_make_is_taken_out_of_its_work_and_the_rest_stays() {
    for (fixture, name) in
        [(Fixture::cluster_wide(), "web-work"), (Fixture::in_namespace(), "app.web-work")]
    {
        let mut fixture = rendered_by_an_older_hub(fixture);
        assert!(fixture.pass().trouble.is_some());
        assert_eq!(fixture.writes, [format!("update {name}")]);
        let carried = &fixture.objects[name].spec.workload.manifests;
        assert_eq!(*carried, [raw(&map("two", "2"))]);
        let told = &fixture.conditions()[0];
        assert!(told.starts_with("Overridden False OverriddenFailed"), "{told}");
        assert!(told.contains("kind would change from"), "{told}");
        // It is said, and nothing is written over and over.
        fixture.pass();
        assert_eq!(fixture.writes.len(), 1);
        assert!(fixture.conditions()[0].starts_with("Overridden False"));
        // Mended, all of it is there.
        overridden(&mut fixture, narrow("ro-1", "one", replace("/data/key", json!("8"))));
        fixture.pass();
        let carried = &fixture.objects[name].spec.workload.manifests;
        assert_eq!(*carried, [raw(&map("one", "8")), raw(&map("two", "2"))]);
        assert!(fixture.conditions()[0].starts_with("Overridden True"));
    }
}

#[test]
fn what_an_older_hub_rendered_well_is_only_noted() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    overridden(&mut fixture, narrow("ro-0", "one", replace("/data/key", json!("9"))));
    fixture.pass();
    let work = fixture.objects.get_mut("web-work").unwrap();
    let notes = work.metadata.annotations.as_mut().unwrap();
    notes.insert(own::RENDERED_INPUTS_HASH.to_owned(), "0a1b".to_owned());
    fixture.writes.clear();
    fixture.pass();
    assert_eq!(fixture.writes, ["note web-work"]);
    fixture.pass();
    assert_eq!(fixture.writes.len(), 1);
}

#[test]
fn a_new_mistake_leaves_alone_what_was_made_of_other_overrides() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1"), map("two", "2")]]);
    fixture.writes.clear();
    overridden(&mut fixture, narrow("ro-0", "one", replace("", administrator())));
    assert!(fixture.pass().trouble.is_some());
    assert!(fixture.writes.is_empty(), "{:?}", fixture.writes);
    assert_eq!(fixture.works(), ["web-work (0, 1): one, two"]);
}
