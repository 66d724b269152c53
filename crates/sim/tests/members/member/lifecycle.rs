//! A Work comes and goes, and the member comes and goes.

use expect_test::expect;
use serde_json::json;

use crate::member::scene::*;

// checklist 1.1, 9.1
#[tokio::test(start_paused = true)]
async fn a_work_is_claimed_applied_and_told_of() {
    let scene = Scene::new().await;
    let manifests =
        [namespace("app"), config_map("c", json!({"a": "1"})), deployment("web", "nginx:1", 2)];
    scene.given("w", &manifests).await;
    assert_eq!(scene.finalizers("w").await, json!([FINALIZER]));
    let applied = scene.applied_work("w").await;
    assert_eq!(applied["spec"], json!({"workName": "w", "workNamespace": SPACE}));
    let listed = applied["status"]["appliedResources"].as_array().unwrap();
    assert_eq!(listed.len(), 3);
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(listed[1]["uid"], map["metadata"]["uid"]);
    let owner = &map["metadata"]["ownerReferences"];
    assert_eq!(
        *owner,
        json!([{"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork",
            "name": "w", "uid": applied["metadata"]["uid"], "blockOwnerDeletion": true}])
    );
    expect![[r#"
        Applied=True AllManifestsApplied: All the specified manifests have been applied
        Available=True AllManifestsAvailable: All of the applied manifests are available
        0 Namespace namespaces -/app
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
        1 ConfigMap configmaps app/c
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
        2 Deployment deployments app/web
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
    "#]]
    .assert_eq(&scene.told("w").await);
}

// checklist 1.1
#[tokio::test(start_paused = true)]
async fn an_applied_work_that_is_there_is_used_again() {
    let scene = Scene::new().await;
    let applied = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork",
        "metadata": {"name": "w"}, "spec": {"workName": "w", "workNamespace": SPACE}});
    scene.member().apply_object(&applied).await;
    let uid = scene.applied_work("w").await["metadata"]["uid"].clone();
    scene.given("w", &[namespace("app")]).await;
    assert_eq!(scene.applied_work("w").await["metadata"]["uid"], uid);
}

// checklist 1.3
#[tokio::test(start_paused = true)]
async fn a_deleted_work_takes_what_it_brought_along() {
    let scene = Scene::new().await;
    scene.given("w", &[namespace("app"), config_map("c", json!({}))]).await;
    scene.hub().delete("works", SPACE, "w").await;
    scene.hub().goes("works", SPACE, "w").await;
    let member = scene.member();
    assert!(member.find("appliedworks", "", "w").await.is_none());
    member.goes("namespaces", "", "app").await;
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_work_leaves_what_it_brought_without_an_owner() {
    let scene = Scene::new().await;
    scene.given("w", &[namespace("app"), config_map("c", json!({}))]).await;
    let mark = json!({"metadata": {"annotations": {"flagship.dev/abandoned": "true"}}});
    scene.hub().patch("works", SPACE, "w", mark).await;
    scene.hub().delete("works", SPACE, "w").await;
    scene.hub().goes("works", SPACE, "w").await;
    let member = scene.member();
    assert!(member.find("appliedworks", "", "w").await.is_none());
    for (resource, space, name) in [("namespaces", "", "app"), ("configmaps", "app", "c")] {
        let left = member.get(resource, space, name).await;
        assert!(left["metadata"]["ownerReferences"].is_null(), "{left}");
        assert!(left["metadata"]["deletionTimestamp"].is_null());
    }
}

// checklist 1.3
#[tokio::test(start_paused = true)]
async fn a_deleted_work_without_an_applied_work_goes_at_once() {
    let mut scene = Scene::new().await;
    scene.given("w", &[namespace("app")]).await;
    scene.fleet.kill("member1").await;
    scene.hub().delete("works", SPACE, "w").await;
    scene.member().delete("appliedworks", "", "w").await;
    scene.member().goes("appliedworks", "", "w").await;
    scene.fleet.start("member1");
    scene.hub().goes("works", SPACE, "w").await;
}

// checklist 1.4
#[tokio::test(start_paused = true)]
async fn a_stuck_deletion_is_freed_of_objects_that_others_own() {
    let scene = Scene::new().await;
    let strategy = json!({"allowCoOwnership": true});
    let mine = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "sole", "namespace": "other", "finalizers": ["example.com/held"]}});
    let shared = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "shared", "namespace": "other"}});
    scene.member().apply_object(&namespace("other")).await;
    scene.work_with("w", strategy, &[mine, shared]).await;
    scene.becomes("w", "Available", "True").await;
    // An owner of a kind nobody knows, which makes the collector keep its hands off.
    let map = scene.member().get("configmaps", "other", "shared").await;
    let mut owners = map["metadata"]["ownerReferences"].as_array().unwrap().clone();
    owners.push(json!({"apiVersion": "no.such/v1", "kind": "Ghost", "name": "g", "uid": "g"}));
    let patch =
        json!({"metadata": {"ownerReferences": owners, "finalizers": ["example.com/held"]}});
    scene.member().patch("configmaps", "other", "shared", patch).await;
    scene.hub().delete("works", SPACE, "w").await;
    scene.fleet.pass(4 * 60).await;
    let blocks = async |name: &str| {
        let map = scene.member().get("configmaps", "other", name).await;
        let owners = map["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let ours = owners.iter().find(|owner| owner["kind"] == "AppliedWork").cloned();
        ours.map(|ours| ours["blockOwnerDeletion"] == true)
    };
    assert_eq!(blocks("shared").await, Some(true), "five minutes are given");
    scene.fleet.pass(2 * 60).await;
    assert_ne!(blocks("shared").await, Some(true));
    assert_eq!(blocks("sole").await, Some(true), "the sole owner is untouched");
    assert!(scene.hub().find("works", SPACE, "w").await.is_some(), "nothing is forced");
}

// checklist 1.5
#[tokio::test(start_paused = true)]
async fn what_others_own_too_survives() {
    let scene = Scene::new().await;
    let keeper = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "keeper", "namespace": "default"}});
    scene.member().apply_object(&keeper).await;
    let uid =
        scene.member().get("configmaps", "default", "keeper").await["metadata"]["uid"].clone();
    scene
        .work_with("w", json!({"allowCoOwnership": true}), &[config_map_in("default", "shared")])
        .await;
    scene.becomes("w", "Available", "True").await;
    let map = scene.member().get("configmaps", "default", "shared").await;
    let mut owners = map["metadata"]["ownerReferences"].as_array().unwrap().clone();
    owners.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "uid": uid}));
    let patch = json!({"metadata": {"ownerReferences": owners}});
    scene.member().patch("configmaps", "default", "shared", patch).await;
    scene.hub().delete("works", SPACE, "w").await;
    scene.hub().goes("works", SPACE, "w").await;
    scene.fleet.pass(5).await;
    let map = scene.member().get("configmaps", "default", "shared").await;
    assert_eq!(map["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
}

fn config_map_in(space: &str, name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": space}})
}

// checklist 1.2, fleet 12.15
#[tokio::test(start_paused = true)]
async fn a_member_that_left_keeps_what_it_has_and_comes_back_to_it() {
    let mut scene = Scene::new().await;
    scene.given("w", &[namespace("app"), config_map("c", json!({"a": "1"}))]).await;
    let uid = scene.applied_work("w").await["metadata"]["uid"].clone();
    // The hub is told to leave by hand, so that the namespace with the Works stays.
    scene.fleet.stop("hub").await;
    let state = |word: &str| json!({"spec": {"state": word}});
    scene.hub().patch("internalmemberclusters", SPACE, "member1", state("Leave")).await;
    scene.fleet.pass(3).await;
    assert_eq!(scene.finalizers("w").await, json!(null));
    scene.work("w", &[namespace("app"), config_map("c", json!({"a": "2"}))]).await;
    scene.fleet.pass(60).await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "1"}), "nothing is applied after leaving");
    assert_eq!(scene.finalizers("w").await, json!(null));
    scene.hub().patch("internalmemberclusters", SPACE, "member1", state("Join")).await;
    scene.becomes("w", "Available", "True").await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "2"}));
    assert_eq!(scene.finalizers("w").await, json!([FINALIZER]));
    assert_eq!(scene.applied_work("w").await["metadata"]["uid"], uid, "the same AppliedWork");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_has_not_joined_touches_nothing() {
    let mut scene = Scene::new().await;
    scene.fleet.stop("hub").await;
    scene.fleet.kill("member1").await;
    let other = json!({"spec": {"state": "Undecided"}});
    scene.hub().patch("internalmemberclusters", SPACE, "member1", other).await;
    scene.work("w", &[namespace("app")]).await;
    scene.fleet.start("member1");
    scene.fleet.pass(60).await;
    assert_eq!(scene.finalizers("w").await, json!(null));
    assert!(scene.member().find("namespaces", "", "app").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_work_of_the_same_name_waits_for_the_old_one_to_be_gone() {
    let scene = Scene::new().await;
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default", "finalizers": ["example.com/held"]}});
    scene.given("w", &[held]).await;
    let uid = scene.applied_work("w").await["metadata"]["uid"].clone();
    scene.member().delete("appliedworks", "", "w").await;
    scene.fleet.pass(20).await;
    let free = json!({"metadata": {"finalizers": null}});
    if scene.member().find("configmaps", "default", "c").await.is_some() {
        scene.member().patch("configmaps", "default", "c", free).await;
    }
    scene.fleet.pass(20).await;
    let fresh = scene.applied_work("w").await;
    assert_ne!(fresh["metadata"]["uid"], uid);
    let map = scene.member().get("configmaps", "default", "c").await;
    assert_eq!(map["metadata"]["ownerReferences"][0]["uid"], fresh["metadata"]["uid"]);
}
