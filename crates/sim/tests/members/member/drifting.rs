//! Somebody edits what was applied.

use expect_test::expect;
use serde_json::{Value, json};

use crate::member::scene::*;

fn manifests() -> [Value; 2] {
    [namespace("app"), config_map("c", json!({"a": "1"}))]
}

async fn edit(scene: &Scene, data: Value) {
    scene.member().patch("configmaps", "app", "c", json!({"data": data})).await;
}

// checklist 6.2
#[tokio::test(start_paused = true)]
async fn an_edit_is_undone_within_a_second() {
    let scene = Scene::new().await;
    scene.given("w", &manifests()).await;
    scene.fleet.quiet(30).await;
    edit(&scene, json!({"a": "edited"})).await;
    scene.fleet.pass(1).await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "1"}));
}

// checklist 6.1, 6.3, 6.4
#[tokio::test(start_paused = true)]
async fn an_edit_that_must_not_be_undone_is_told_until_it_is_gone() {
    let scene = Scene::new().await;
    let strategy = json!({"whenToApply": "IfNotDrifted"});
    scene.work_with("w", strategy.clone(), &manifests()).await;
    scene.becomes("w", "Available", "True").await;
    scene.fleet.quiet(30).await;
    edit(&scene, json!({"unmanaged": "x"})).await;
    scene.fleet.pass(2).await;
    assert!(scene.told("w").await.contains("Applied=True"), "nobody manages it");
    edit(&scene, json!({"a": "edited"})).await;
    scene.fleet.pass(1).await;
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (1 of 2 manifests are applied)
        0 Namespace namespaces -/app
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
        1 ConfigMap configmaps app/c
          Applied=False FoundDrifts: Failed to apply the manifest (error: cannot apply manifest: drifts are found between the manifest and the object from the member cluster)
          drift /data/a member=edited hub=1
    "#]]
    .assert_eq(&scene.told("w").await);
    let details = async || {
        let work = scene.hub().get("works", SPACE, "w").await;
        let drift = &work["status"]["manifestConditions"][1]["driftDetails"];
        (drift["firstDriftedObservedTime"].clone(), drift["observationTime"].clone())
    };
    let (first, seen) = details().await;
    scene.fleet.pass(60).await;
    let (still_first, seen_later) = details().await;
    assert_eq!(first, still_first);
    assert_ne!(seen, seen_later);
    edit(&scene, json!({"a": "1"})).await;
    scene.fleet.pass(1).await;
    assert!(scene.told("w").await.contains("Applied=True AllManifestsApplied"));
    assert_eq!(details().await.0, json!(null));
    // A new version overwrites whatever was edited.
    edit(&scene, json!({"a": "edited"})).await;
    scene.fleet.pass(1).await;
    let new = [namespace("app"), config_map("c", json!({"a": "2"}))];
    scene.work_with("w", strategy, &new).await;
    scene.becomes("w", "Applied", "True").await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "2", "unmanaged": "x"}));
}

// checklist 6.2
#[tokio::test(start_paused = true)]
async fn a_full_comparison_tells_of_extras_and_applies_all_the_same() {
    let scene = Scene::new().await;
    let strategy = json!({"comparisonOption": "FullComparison"});
    scene.work_with("w", strategy, &manifests()).await;
    scene.becomes("w", "Available", "True").await;
    edit(&scene, json!({"a": "edited", "extra": "x"})).await;
    scene.fleet.pass(2).await;
    let told = scene.told("w").await;
    assert!(told.contains("Applied=True AllManifestsApplied"), "{told}");
    assert!(told.contains("  drift /data/extra member=x hub=-\n"), "{told}");
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "1", "extra": "x"}));
}

// checklist 6.3
#[tokio::test(start_paused = true)]
async fn what_is_deleted_comes_back() {
    let scene = Scene::new().await;
    scene.given("w", &manifests()).await;
    scene.fleet.quiet(30).await;
    scene.member().delete("configmaps", "app", "c").await;
    scene.fleet.pass(1).await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "1"}));
}

// checklist 6.5
#[tokio::test(start_paused = true)]
async fn where_the_server_refuses_the_dry_run_every_field_is_compared() {
    let scene = Scene::new().await;
    let job = |image: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "j", "namespace": "app"},
            "spec": {"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": image}]}}}})
    };
    scene.given("w", &[namespace("app"), job("one:1")]).await;
    let strategy = json!({"type": "ReportDiff"});
    scene.work_with("w", strategy, &[namespace("app"), job("two:2")]).await;
    scene.becomes("w", "DiffReported", "False").await;
    let told = scene.told("w").await;
    assert!(told.contains("DiffReported=True FoundDiffInDegradedMode: Diff has been found in degraded mode: cannot perform partial comparison as the member cluster API server rejected the manifest object (object is invalid)"), "{told}");
    assert!(
        told.contains("diff /spec/template/spec/containers/0/image member=one:1 hub=two:2"),
        "{told}"
    );
}
