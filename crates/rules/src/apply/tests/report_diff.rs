//! Comparing without applying.

use expect_test::expect;
use serde_json::{Value, json};

use super::fixture::{Fixture, Verb, config_map, custom, deployment};
use crate::apply::RefusalKind;

fn comparing(more: Value) -> Value {
    let mut strategy = json!({"type": "ReportDiff"});
    strategy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    strategy
}

// checklist 7.1
#[test]
fn what_is_absent_differs_as_a_whole() {
    let mut fixture = Fixture::new(comparing(json!({})), &[config_map("c", json!({"k": "v"}))]);
    fixture.pass();
    assert_eq!(fixture.done(), Vec::<String>::new());
    assert_eq!(fixture.applied.applied_resources, []);
    expect![[r#"
        DiffReported=True AllManifestsDiffReported: All the specified manifests have reported diff
        #0 ConfigMap c
          DiffReported=True FoundDiff @0: Diff has been found between the hub cluster and the member cluster
          diff / member="" hub="(the whole object)"
    "#]].assert_eq(&fixture.told());
    let status = serde_json::to_value(&fixture.work.status).unwrap();
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
    let mut fixture =
        Fixture::new(comparing(json!({"whenToTakeOver": "Never"})), &[deployment("a:1")]);
    fixture.exists(deployment("b:2"));
    fixture.pass();
    expect![[r#"
        DiffReported=True AllManifestsDiffReported: All the specified manifests have reported diff
        #0 Deployment web
          DiffReported=True FoundDiff @1: Diff has been found between the hub cluster and the member cluster
          diff /spec/template/spec/containers/0/image member="b:2" hub="a:1"
    "#]].assert_eq(&fixture.told());
    fixture.exists(deployment("a:1"));
    fixture.pass();
    assert_eq!(fixture.done(), Vec::<String>::new(), "Never touches nothing");
    expect![[r#"
        DiffReported=True AllManifestsDiffReported: All the specified manifests have reported diff
        #0 Deployment web
          DiffReported=True NoDiffFound @2: No diff has been found between the hub cluster and the member cluster
    "#]].assert_eq(&fixture.told());
}

// checklist 7.1
#[test]
fn an_owner_is_added_unless_that_is_forbidden() {
    let mut always = Fixture::new(comparing(json!({})), &[config_map("c", json!({"k": "v"}))]);
    always.exists(config_map("c", json!({"k": "w"})));
    always.pass();
    assert_eq!(always.done(), ["TakeOver ConfigMap c"]);
    assert_eq!(always.reasons(), ["FoundDiff"]);
    assert_eq!(always.live("ConfigMap c")["data"], json!({"k": "w"}));
    assert_eq!(always.applied.applied_resources, [], "nothing was applied");

    let strategy = comparing(json!({"whenToTakeOver": "IfNoDiff"}));
    let mut differing = Fixture::new(strategy, &[config_map("c", json!({"k": "v"}))]);
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
    let mut fixture =
        Fixture::new(comparing(json!({})), &[json!("broken"), config_map("c", json!({}))]);
    fixture.pass();
    expect![[r#"
        DiffReported=False SomeManifestsHaveNotReportedDiff: Failed to report diff on all manifests (1 of 2 manifests have reported diff)
        #0
          DiffReported=False FailedToReportDiff @0: An error blocks the diff reporting process (DecodingErred, error: failed to decode manifest: failed to unmarshal JSON: not an object)
        #1 ConfigMap c
          DiffReported=True FoundDiff @0: Diff has been found between the hub cluster and the member cluster
          diff / member="" hub="(the whole object)"
    "#]].assert_eq(&fixture.told());
}

// checklist 7.1
#[test]
fn a_degraded_comparison_counts_only_if_it_is_told_to() {
    let mut fixture = Fixture::new(
        comparing(json!({"whenToTakeOver": "Never"})),
        &[config_map("c", json!({"k": "v"}))],
    );
    fixture.exists(config_map("c", json!({"k": "w"})));
    fixture.refuse(Verb::DryRun, RefusalKind::Invalid, "immutable");
    fixture.pass();
    expect![[r#"
        DiffReported=False SomeManifestsHaveNotReportedDiff: Failed to report diff on all manifests (0 of 1 manifests have reported diff)
        #0 ConfigMap c
          DiffReported=True FoundDiffInDegradedMode @0: Diff has been found in degraded mode: cannot perform partial comparison as the member cluster API server rejected the manifest object (object is invalid)
          diff /data/k member="w" hub="v"
    "#]].assert_eq(&fixture.told());
    fixture.options.count_degraded = true;
    fixture.refuse(Verb::DryRun, RefusalKind::Invalid, "immutable");
    fixture.pass();
    assert!(fixture.told().starts_with("DiffReported=True AllManifestsDiffReported"));
}

#[test]
fn a_comparison_that_fails_says_why() {
    let mut fixture =
        Fixture::new(comparing(json!({"whenToTakeOver": "Never"})), &[config_map("c", json!({}))]);
    fixture.exists(config_map("c", json!({})));
    fixture.refuse(Verb::DryRun, RefusalKind::Other, "timeout");
    fixture.pass();
    expect![[r#"
        DiffReported=False SomeManifestsHaveNotReportedDiff: Failed to report diff on all manifests (0 of 1 manifests have reported diff)
        #0 ConfigMap c
          DiffReported=False FailedToReportDiff @0: Failed to report the diff between the hub cluster and the member cluster (error = failed to calculate configuration diffs between the manifest object and the object from the member cluster: failed to apply the manifest in dry-run mode: failed to apply the manifest object: an error is returned by the API server: timeout)
    "#]].assert_eq(&fixture.told());
}

// checklist 7.2
#[test]
fn a_switch_of_strategy_swaps_the_conditions() {
    let types = |fixture: &Fixture| {
        let status = fixture.work.status.clone().unwrap();
        let of = |list: &[flagship_api::condition::Condition]| {
            list.iter().map(|one| one.type_.clone()).collect::<Vec<_>>().join(" ")
        };
        format!("{} / {}", of(&status.conditions), of(&status.manifest_conditions[0].conditions))
    };
    let mut fixture = Fixture::new(json!({}), &[config_map("c", json!({}))]);
    fixture.pass();
    assert_eq!(types(&fixture), "Applied Available / Applied Available");
    fixture.strategy(comparing(json!({})));
    fixture.pass();
    assert_eq!(types(&fixture), "DiffReported / DiffReported");
    fixture.strategy(json!({"type": "ServerSideApply"}));
    fixture.pass();
    assert_eq!(types(&fixture), "Applied Available / Applied Available");
}

/// KubeFleet loses sight of what is taken away meanwhile.
#[test]
fn what_is_removed_during_a_comparison_goes_when_something_is_applied_again() {
    let (a, b) = (config_map("a", json!({})), config_map("b", json!({})));
    let mut fixture = Fixture::new(json!({}), &[a, b.clone()]);
    fixture.pass();
    fixture.strategy(comparing(json!({})));
    fixture.pass();
    assert_eq!(fixture.applied.applied_resources, [], "both are on the Work's record");
    fixture.manifests(std::slice::from_ref(&b));
    fixture.pass();
    let names: Vec<_> =
        fixture.applied.applied_resources.iter().map(|one| one.identifier.name.as_str()).collect();
    assert_eq!(names, ["a"], "remembered on the member");
    fixture.pass();
    assert_eq!(fixture.applied.applied_resources.len(), 1, "for as long as it takes");
    fixture.done();
    fixture.strategy(json!({}));
    fixture.pass();
    assert_eq!(fixture.done(), ["delete ConfigMap a", "Patch ConfigMap b"]);
    let names: Vec<_> =
        fixture.applied.applied_resources.iter().map(|one| one.identifier.name.as_str()).collect();
    assert_eq!(names, ["b"]);
    // And one that comes back is not removed.
    fixture.strategy(comparing(json!({})));
    fixture.manifests(&[]);
    fixture.pass();
    fixture.strategy(json!({}));
    fixture.manifests(&[b]);
    fixture.done();
    fixture.pass();
    assert_eq!(fixture.done(), ["Patch ConfigMap b"]);
}

/// Found by `histories`: the memory moved back to the Work's record without its plural name.
#[test]
fn what_is_remembered_survives_a_kind_nobody_can_look_up() {
    let widget = custom(json!({}));
    let mut fixture = Fixture::new(json!({}), std::slice::from_ref(&widget));
    fixture.pass();
    fixture.strategy(comparing(json!({})));
    fixture.manifests(&[]);
    fixture.pass();
    assert_eq!(fixture.applied.applied_resources.len(), 1);
    fixture.manifests(&[widget]);
    fixture.kinds.remove("Widget");
    for strategy in [comparing(json!({})), json!({})] {
        fixture.strategy(strategy);
        fixture.pass();
    }
    fixture.manifests(&[]);
    fixture.done();
    fixture.pass();
    assert_eq!(fixture.done(), ["delete Widget w"]);
}
