//! One object, seen and written through every version that serves it.
//!
//! Conversion changes nothing but the version's name. What a version's schema does not
//! know is therefore not shown in it, and lost when it is written through it; defaults
//! are those of the storage version, since that is what lies in the store.

use std::collections::BTreeMap;

use expect_test::expect;
use serde_json::{Value, json};

use crate::crd::fleet::{Fleet, Version};
use crate::crd::samples;

/// What a schema knows of an object.
fn known(schema: &Value, value: &Value) -> Value {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return value.clone();
    }
    match value {
        Value::Object(map) => {
            let of = |name: &String| match schema["properties"].get(name) {
                Some(field) => Some(field),
                None => schema.get("additionalProperties"),
            };
            let kept = map.iter().filter_map(|(k, v)| Some((k.clone(), known(of(k)?, v))));
            Value::Object(kept.collect())
        }
        Value::Array(list) => list.iter().map(|item| known(&schema["items"], item)).collect(),
        scalar => scalar.clone(),
    }
}

/// Fills in what a schema has defaults for.
fn filled(schema: &Value, mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                if !map.contains_key(name) && !field["default"].is_null() {
                    map.insert(name.clone(), field["default"].clone());
                }
            }
            for (name, inner) in map.iter_mut() {
                let field = schema["properties"].get(name).or(schema.get("additionalProperties"));
                *inner = filled(field.unwrap_or(&Value::Null), inner.take());
            }
        }
        Value::Array(list) => {
            list.iter_mut().for_each(|item| *item = filled(&schema["items"], item.take()));
        }
        _ => {}
    }
    value
}

/// The object without what is not of its kind.
fn content(mut object: Value) -> Value {
    let map = object.as_object_mut().unwrap();
    map.retain(|key, _| !["apiVersion", "kind", "metadata"].contains(&key.as_str()));
    object
}

fn path_of(version: Version<'_>, object: &Value) -> String {
    format!("{}/{}", version.path(), object["metadata"]["name"].as_str().unwrap())
}

#[tokio::test]
async fn what_is_written_in_one_version_is_read_in_every_other() {
    let fleet = Fleet::new().await;
    let mut pairs = 0;
    for kind in fleet.kinds.iter() {
        let storage = kind.storage();
        for from in kind.versions() {
            let sample = samples::full(from.schema());
            let reply = fleet.create(from, sample.clone()).await;
            assert!(reply.code < 300, "{}: {:#}", from.label(), reply.body);
            let made = reply.body;
            assert_eq!(made["apiVersion"], from.api_version());
            assert_eq!(content(made.clone()), filled(from.schema(), sample), "{}", from.label());
            let stored = filled(storage.schema(), content(made.clone()));
            for to in kind.versions() {
                pairs += 1;
                let shown = fleet.get(&path_of(to, &made)).await.ok(200);
                assert_eq!(shown["apiVersion"], to.api_version());
                assert_eq!(shown["kind"], kind.name());
                for key in ["uid", "resourceVersion", "generation", "creationTimestamp"] {
                    assert_eq!(shown["metadata"][key], made["metadata"][key]);
                }
                let label = format!("{} as {}", from.label(), to.name());
                assert_eq!(content(shown.clone()), known(to.schema(), &stored), "{label}");
                let name = made["metadata"]["name"].as_str().unwrap();
                let only = format!("{}?fieldSelector=metadata.name%3D{name}", to.path());
                assert_eq!(fleet.get(&only).await.ok(200)["items"], json!([shown]), "{label}");
            }
            let gone = fleet.send("DELETE", &path_of(from, &made), &Value::Null).await;
            gone.ok(200);
        }
    }
    assert!(pairs > 100, "{pairs}");
}

#[tokio::test]
async fn a_write_through_a_version_takes_away_what_it_lacks() {
    let fleet = Fleet::new().await;
    let mut lost: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in fleet.kinds.iter() {
        let storage = kind.storage();
        for through in kind.versions().filter(|version| version.name() != storage.name()) {
            let made = fleet.create(storage, samples::full(storage.schema())).await;
            assert!(made.code < 300, "{:#}", made.body);
            let made = made.body;
            let shown = fleet.get(&path_of(through, &made)).await.ok(200);
            let path = path_of(through, &made);
            let written = fleet.send("PUT", &path, &shown).await.ok(200);
            if through.has_status() {
                let path = format!("{path}/status");
                fleet.send("PUT", &path, &json!({"metadata": written["metadata"], "spec": written["spec"], "status": shown["status"], "apiVersion": shown["apiVersion"], "kind": shown["kind"]})).await.ok(200);
            }
            let after = fleet.get(&path_of(storage, &made)).await.ok(200);
            let kept = known(through.schema(), &content(made.clone()));
            let expected = filled(storage.schema(), kept);
            assert_eq!(content(after.clone()), expected, "{}", through.label());
            let mut gone = Vec::new();
            differences("", &content(made), &content(after), &mut gone);
            if !gone.is_empty() {
                lost.insert(through.label(), gone);
            }
        }
    }
    let table: String =
        lost.iter().map(|(version, fields)| format!("{version}: {}\n", fields.join(" "))).collect();
    expect![[r#"
        ClusterResourcePlacement v1: .spec.strategy.deleteStrategy .spec.strategy.reportBackStrategy
        ClusterStagedUpdateRun v1alpha1: .status.deletionStageStatus.beforeStageTaskStatus .status.resourceSnapshotIndexUsed .status.stagedUpdateStrategySnapshot.stages[].beforeStageTasks .status.stagesStatus[].beforeStageTaskStatus
        ClusterStagedUpdateStrategy v1alpha1: .spec.stages[].beforeStageTasks
        InternalMemberCluster v1: .status.namespaces
        MemberCluster v1: .spec.deleteOptions .status.namespaces
        ResourcePlacement v1: .spec.strategy.deleteStrategy .spec.strategy.reportBackStrategy
        Work v1: .spec.reportBackStrategy .status.manifestConditions[].backReportedStatus
    "#]].assert_eq(&table);
}

/// The outermost places that are gone or other than before.
fn differences(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                let path = format!("{path}.{key}");
                differences(&path, value, after.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (before, after) in before.iter().zip(after) {
                differences(&format!("{path}[]"), before, after, found);
            }
        }
        _ if before == after => {}
        _ if after.is_null() => found.push(path.to_owned()),
        _ => found.push(format!("{path}={after}")),
    }
}

/// A run that is running, and the oldest version, which does not know of that.
fn running(fleet: &Fleet) -> (Version<'_>, Version<'_>, Value) {
    let run = fleet.kind("ClusterStagedUpdateRun");
    let old = run.versions().find(|version| version.name() == "v1alpha1").unwrap();
    let spec = json!({
        "placementName": "web", "stagedRolloutStrategyName": "s", "resourceSnapshotIndex": "0",
        "state": "Run",
    });
    (run.storage(), old, json!({"spec": spec}))
}

#[tokio::test]
async fn a_field_of_another_version_is_unknown() {
    let fleet = Fleet::new().await;
    let (storage, old, run) = running(&fleet);
    let made = fleet.create(old, run).await;
    assert_eq!(made.warnings, [r#"299 - "unknown field \"spec.state\"""#]);
    let made = made.ok(201);
    assert_eq!(made["spec"].get("state"), None);
    // Newer versions show the default, so a run begun in the old one waits.
    let now = fleet.get(&path_of(storage, &made)).await.ok(200);
    assert_eq!(now["spec"]["state"], "Initialize");
}

#[tokio::test]
async fn a_run_written_through_the_old_version_forgets_its_state() {
    let fleet = Fleet::new().await;
    let (storage, old, run) = running(&fleet);
    let made = fleet.create(storage, run).await.ok(201);
    let mut seen = fleet.get(&path_of(old, &made)).await.ok(200);
    seen["metadata"]["labels"] = json!({"a": "b"});
    fleet.send("PUT", &path_of(old, &made), &seen).await.ok(200);
    // No rule of the old version forbids what it cannot see; Kubernetes does the same.
    let now = fleet.get(&path_of(storage, &made)).await.ok(200);
    assert_eq!(now["spec"]["state"], "Initialize");
}
