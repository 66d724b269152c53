//! Comparing without applying.

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Verb, World, config_map, custom, deployment};
use crate::apply::RefusalKind;

fn comparing(more: Value) -> Value {
    let mut strategy = json!({"type": "ReportDiff"});
    strategy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    strategy
}

// checklist 7.1
#[test]
fn what_is_absent_differs_as_a_whole() {
    let mut world = World::new(comparing(json!({})), &[config_map("c", json!({"k": "v"}))]);
    world.pass();
    assert_eq!(world.done(), Vec::<String>::new());
    assert_eq!(world.applied.applied_resources, []);
    expect![[r#"
        DiffReported=True AllManifestsDiffReported: All the specified manifests have reported diff
        #0 ConfigMap c
          DiffReported=True FoundDiff @0: Diff has been found between the hub cluster and the member cluster
          diff / member="" hub="(the whole object)"
    "#]].assert_eq(&world.told());
    let status = serde_json::to_value(&world.work.status).unwrap();
    let details = &status["manifestConditions"][0]["diffDetails"];
    assert_eq!(
        details,
        &json!({"observationTime": "2026-01-01T12:00:00Z", "firstDiffedObservedTime": "2026-01-01T12:00:00Z",
            "observedDiffs": [{"path": "/", "valueInHub": "(the whole object)"}]})
    );
}

// checklist 7.1
#[test]
fn differences_come_and_go_and_nothing_is_applied() {
    let mut world = World::new(comparing(json!({"whenToTakeOver": "Never"})), &[deployment("a:1")]);
    world.exists(deployment("b:2"));
    world.pass();
    expect![[r#"
        DiffReported=True AllManifestsDiffReported: All the specified manifests have reported diff
        #0 Deployment web
          DiffReported=True FoundDiff @1: Diff has been found between the hub cluster and the member cluster
          diff /spec/template/spec/containers/0/image member="b:2" hub="a:1"
    "#]].assert_eq(&world.told());
    world.exists(deployment("a:1"));
    world.pass();
    assert_eq!(world.done(), Vec::<String>::new(), "Never touches nothing");
    expect![[r#"
        DiffReported=True AllManifestsDiffReported: All the specified manifests have reported diff
        #0 Deployment web
          DiffReported=True NoDiffFound @2: No diff has been found between the hub cluster and the member cluster
    "#]].assert_eq(&world.told());
}

// checklist 7.1
#[test]
fn an_owner_is_added_unless_that_is_forbidden() {
    let mut always = World::new(comparing(json!({})), &[config_map("c", json!({"k": "v"}))]);
    always.exists(config_map("c", json!({"k": "w"})));
    always.pass();
    assert_eq!(always.done(), ["TakeOver ConfigMap c"]);
    assert_eq!(always.reasons(), ["FoundDiff"]);
    assert_eq!(always.live("ConfigMap c")["data"], json!({"k": "w"}));
    assert_eq!(always.applied.applied_resources, [], "nothing was applied");

    let strategy = comparing(json!({"whenToTakeOver": "IfNoDiff"}));
    let mut differing = World::new(strategy, &[config_map("c", json!({"k": "v"}))]);
    differing.exists(config_map("c", json!({"k": "w"})));
    differing.pass();
    expect![[r#"
        DiffReported=False SomeManifestsHaveNotReportedDiff: Failed to report diff on all manifests (0 of 1 manifests have reported diff)
        #0 ConfigMap c
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (FailedToTakeOver, error: cannot take over object: configuration differences are found between the manifest object and the corresponding object in the member cluster)
          diff /data/k member="w" hub="v"
    "#]].assert_eq(&differing.told());
}

// checklist 7.1
#[test]
fn a_manifest_nobody_can_read_is_not_compared() {
    let mut world =
        World::new(comparing(json!({})), &[json!("broken"), config_map("c", json!({}))]);
    world.pass();
    expect![[r#"
        DiffReported=False SomeManifestsHaveNotReportedDiff: Failed to report diff on all manifests (1 of 2 manifests have reported diff)
        #0
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (DecodingErred, error: failed to decode manifest: failed to unmarshal JSON: not an object)
        #1 ConfigMap c
          DiffReported=True FoundDiff @0: Diff has been found between the hub cluster and the member cluster
          diff / member="" hub="(the whole object)"
    "#]].assert_eq(&world.told());
}

// checklist 7.1
#[test]
fn a_degraded_comparison_counts_only_if_it_is_told_to() {
    let mut world = World::new(
        comparing(json!({"whenToTakeOver": "Never"})),
        &[config_map("c", json!({"k": "v"}))],
    );
    world.exists(config_map("c", json!({"k": "w"})));
    world.refuse(Verb::DryRun, RefusalKind::Invalid, "immutable");
    world.pass();
    expect![[r#"
        DiffReported=False SomeManifestsHaveNotReportedDiff: Failed to report diff on all manifests (0 of 1 manifests have reported diff)
        #0 ConfigMap c
          DiffReported=True FoundDiffInDegradedMode @0: Diff has been found in degraded mode: cannot perform partial comparison as the member cluster API server rejected the manifest object (object is invalid)
          diff /data/k member="w" hub="v"
    "#]].assert_eq(&world.told());
    world.options.count_degraded = true;
    world.refuse(Verb::DryRun, RefusalKind::Invalid, "immutable");
    world.pass();
    assert!(world.told().starts_with("DiffReported=True AllManifestsDiffReported"));
}

#[test]
fn a_comparison_that_fails_says_why() {
    let mut world =
        World::new(comparing(json!({"whenToTakeOver": "Never"})), &[config_map("c", json!({}))]);
    world.exists(config_map("c", json!({})));
    world.refuse(Verb::DryRun, RefusalKind::Other, "timeout");
    world.pass();
    expect![[r#"
        DiffReported=False SomeManifestsHaveNotReportedDiff: Failed to report diff on all manifests (0 of 1 manifests have reported diff)
        #0 ConfigMap c
          DiffReported=False FailedToReportDiff @0: Failed to report the diff between the hub cluster and the member cluster (error = failed to calculate configuration diffs between the manifest object and the object from the member cluster: failed to apply the manifest in dry-run mode: failed to apply the manifest object: an error is returned by the API server: timeout)
    "#]].assert_eq(&world.told());
}

// checklist 7.2
#[test]
fn a_switch_of_strategy_swaps_the_conditions() {
    let types = |world: &World| {
        let status = world.work.status.clone().unwrap();
        let of = |list: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]| {
            list.iter().map(|one| one.type_.clone()).collect::<Vec<_>>().join(" ")
        };
        format!("{} / {}", of(&status.conditions), of(&status.manifest_conditions[0].conditions))
    };
    let mut world = World::new(json!({}), &[config_map("c", json!({}))]);
    world.pass();
    assert_eq!(types(&world), "Applied Available / Applied Available");
    world.strategy(comparing(json!({})));
    world.pass();
    assert_eq!(types(&world), "DiffReported / DiffReported");
    world.strategy(json!({"type": "ServerSideApply"}));
    world.pass();
    assert_eq!(types(&world), "Applied Available / Applied Available");
}

/// KubeFleet loses sight of what is taken away meanwhile.
#[test]
fn what_is_removed_during_a_comparison_goes_when_something_is_applied_again() {
    let (a, b) = (config_map("a", json!({})), config_map("b", json!({})));
    let mut world = World::new(json!({}), &[a, b.clone()]);
    world.pass();
    world.strategy(comparing(json!({})));
    world.pass();
    assert_eq!(world.applied.applied_resources, [], "both are on the Work's record");
    world.manifests(std::slice::from_ref(&b));
    world.pass();
    let names: Vec<_> =
        world.applied.applied_resources.iter().map(|one| one.identifier.name.as_str()).collect();
    assert_eq!(names, ["a"], "remembered on the member");
    world.pass();
    assert_eq!(world.applied.applied_resources.len(), 1, "for as long as it takes");
    world.done();
    world.strategy(json!({}));
    world.pass();
    assert_eq!(world.done(), ["delete ConfigMap a", "Patch ConfigMap b"]);
    let names: Vec<_> =
        world.applied.applied_resources.iter().map(|one| one.identifier.name.as_str()).collect();
    assert_eq!(names, ["b"]);
    // And one that comes back is not removed.
    world.strategy(comparing(json!({})));
    world.manifests(&[]);
    world.pass();
    world.strategy(json!({}));
    world.manifests(&[b]);
    world.done();
    world.pass();
    assert_eq!(world.done(), ["Patch ConfigMap b"]);
}

/// Found by `histories`: the memory moved back to the Work's record without its plural name.
#[test]
fn what_is_remembered_survives_a_kind_nobody_can_look_up() {
    let widget = custom(json!({}));
    let mut world = World::new(json!({}), std::slice::from_ref(&widget));
    world.pass();
    world.strategy(comparing(json!({})));
    world.manifests(&[]);
    world.pass();
    assert_eq!(world.applied.applied_resources.len(), 1);
    world.manifests(&[widget]);
    world.kinds.remove("Widget");
    for strategy in [comparing(json!({})), json!({})] {
        world.strategy(strategy);
        world.pass();
    }
    world.manifests(&[]);
    world.done();
    world.pass();
    assert_eq!(world.done(), ["delete Widget w"]);
}
