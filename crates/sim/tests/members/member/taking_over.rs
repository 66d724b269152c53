//! Objects that were there before.

use expect_test::expect;
use serde_json::{Value, json};

use crate::member::scene::*;

async fn with_a_map_that_was_there(data: Value) -> Scene {
    let scene = Scene::new().await;
    scene.member().apply_object(&namespace("app")).await;
    scene.member().apply_object(&config_map("c", data)).await;
    scene
}

// checklist 5.1
#[tokio::test(start_paused = true)]
async fn always_takes_and_overwrites() {
    let scene = with_a_map_that_was_there(json!({"a": "old", "extra": "x"})).await;
    scene.given("w", &[config_map("c", json!({"a": "new"}))]).await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "new", "extra": "x"}));
    assert_eq!(map["metadata"]["ownerReferences"][0]["name"], "w");
}

// checklist 5.1, 5.3
#[tokio::test(start_paused = true)]
async fn never_leaves_it_alone_and_if_no_diff_takes_only_equals() {
    let scene = with_a_map_that_was_there(json!({"a": "old", "extra": "x"})).await;
    let strategy = |when: &str| json!({"whenToTakeOver": when});
    let manifests = [config_map("c", json!({"a": "new"})), config_map("fresh", json!({}))];
    scene.work_with("w", strategy("Never"), &manifests).await;
    scene.becomes("w", "Applied", "False").await;
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (1 of 2 manifests are applied)
        0 ConfigMap configmaps app/c
          Applied=False NotTakenOver: Failed to apply the manifest (error: no ownership of the object in the member cluster; takeover is needed)
        1 ConfigMap configmaps app/fresh
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
    "#]]
    .assert_eq(&scene.told("w").await);
    scene.work_with("w", strategy("IfNoDiff"), &manifests).await;
    let differs = |work: Option<&Value>| {
        work.is_some_and(|work| !work["status"]["manifestConditions"][0]["diffDetails"].is_null())
    };
    scene.hub().eventually("works", SPACE, "w", differs).await;
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (1 of 2 manifests are applied)
        0 ConfigMap configmaps app/c
          Applied=False FailedToTakeOver: Failed to apply the manifest (error: cannot take over object: configuration differences are found between the manifest object and the corresponding object in the member cluster)
          diff /data/a member=old hub=new
        1 ConfigMap configmaps app/fresh
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
    "#]]
    .assert_eq(&scene.told("w").await);
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "old", "extra": "x"}));
    let equal = [config_map("c", json!({"a": "old"})), config_map("fresh", json!({}))];
    scene.work_with("w", strategy("IfNoDiff"), &equal).await;
    scene.becomes("w", "Applied", "True").await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "old", "extra": "x"}), "what nobody manages is kept");
}

// checklist 5.2, member 14
#[tokio::test(start_paused = true)]
async fn two_works_do_not_share_an_object() {
    let scene = Scene::new().await;
    scene.given("first", &[namespace("app"), config_map("c", json!({"a": "1"}))]).await;
    scene.work("second", &[config_map("c", json!({"a": "2"}))]).await;
    scene.becomes("second", "Applied", "False").await;
    let uid = scene.applied_work("first").await["metadata"]["uid"].as_str().unwrap().to_owned();
    let told = scene.told("second").await;
    let refused = format!(
        "Applied=False FailedToTakeOver: Failed to apply the manifest (error: failed to take over a \
         pre-existing object: the object is already owned by some other sources(s) and co-ownership \
         is disallowed (existingOwnerRefs: [{{APIVersion:placement.kubernetes-fleet.io/v1beta1 \
         Kind:AppliedWork Name:first UID:{uid} Controller:<nil> BlockOwnerDeletion:true}}]))"
    );
    assert!(told.contains(&refused), "{told}");
    scene
        .work_with(
            "second",
            json!({"allowCoOwnership": true}),
            &[config_map("c", json!({"a": "2"}))],
        )
        .await;
    let other = "the object is already owned by another Fleet AppliedWork object";
    let says = |work: Option<&Value>| work.is_some_and(|work| work.to_string().contains(other));
    scene.hub().eventually("works", SPACE, "second", says).await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "1"}), "the first is unaffected");
}

// checklist 5.2
#[tokio::test(start_paused = true)]
async fn a_reference_left_behind_counts_for_nothing() {
    let scene = Scene::new().await;
    scene.member().apply_object(&namespace("app")).await;
    let mut map = config_map("c", json!({"a": "1"}));
    map["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork",
        "name": "gone", "uid": "x", "blockOwnerDeletion": false}]);
    // It must be there before the collector finds that its owner is not.
    let gone = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork",
        "metadata": {"name": "gone"}, "spec": {"workName": "gone", "workNamespace": SPACE}});
    scene.member().apply_object(&gone).await;
    let uid = scene.member().get("appliedworks", "", "gone").await["metadata"]["uid"].clone();
    map["metadata"]["ownerReferences"][0]["uid"] = uid;
    scene.member().apply_object(&map).await;
    scene.given("w", &[config_map("c", json!({"a": "2"}))]).await;
    let map = scene.member().get("configmaps", "app", "c").await;
    let owners = map["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["name"], "w");
}

// checklist 7.1, 7.2
#[tokio::test(start_paused = true)]
async fn comparing_writes_nothing_and_tells_what_differs() {
    let scene = with_a_map_that_was_there(json!({"a": "old"})).await;
    let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never"});
    let manifests = [config_map("c", json!({"a": "new"})), config_map("missing", json!({}))];
    scene.work_with("w", strategy, &manifests).await;
    scene.becomes("w", "DiffReported", "True").await;
    expect![[r#"
        DiffReported=True AllManifestsDiffReported: All the specified manifests have reported diff
        0 ConfigMap configmaps app/c
          DiffReported=True FoundDiff: Diff has been found between the hub cluster and the member cluster
          diff /data/a member=old hub=new
        1 ConfigMap configmaps app/missing
          DiffReported=True FoundDiff: Diff has been found between the hub cluster and the member cluster
          diff / member=- hub=(the whole object)
    "#]]
    .assert_eq(&scene.told("w").await);
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "old"}));
    assert_eq!(map["metadata"]["ownerReferences"], json!(null));
    assert!(scene.member().find("configmaps", "app", "missing").await.is_none());
    assert_eq!(scene.applied_work("w").await["status"]["appliedResources"], json!(null));
    // A difference that goes away is told within a second.
    let same = json!({"data": {"a": "new"}});
    scene.member().patch("configmaps", "app", "c", same).await;
    scene.fleet.pass(1).await;
    assert!(scene.told("w").await.contains("  DiffReported=True NoDiffFound: No diff has been found between the hub cluster and the member cluster\n"));
    // And back to applying: the conditions of comparing go.
    scene.given("w", &manifests).await;
    assert!(!scene.told("w").await.contains("DiffReported"));
    assert!(scene.member().find("configmaps", "app", "missing").await.is_some());
}
