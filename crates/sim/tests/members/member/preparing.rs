//! Manifests that cannot be read, and manifests that are no longer there.

use expect_test::expect;
use flagship_sim::fleet::FleetConfig;
use serde_json::json;

use crate::member::scene::*;

// checklist 2.1, 2.2
#[tokio::test(start_paused = true)]
async fn what_cannot_be_dealt_with_is_told_and_the_rest_is_applied() {
    let scene = Scene::new().await;
    let unknown = json!({"apiVersion": "no.such/v1", "kind": "Thing", "metadata": {"name": "t"}});
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"generateName": "g-", "namespace": "app"}});
    let map = config_map("c", json!({}));
    scene.work("w", &[namespace("app"), unknown, nameless, map.clone(), map]).await;
    scene.becomes("w", "Applied", "False").await;
    assert!(scene.member().find("configmaps", "app", "c").await.is_some());
    expect![[r#"
        Applied=False SomeManifestsAreNotApplied: Failed to apply all manifests (2 of 5 manifests are applied)
        0 Namespace namespaces -/app
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
        1 Thing - -/t
          Applied=False DecodingErred: Failed to apply the manifest (error: failed to decode manifest: failed to find GVR from member cluster client REST mapping: no matches for kind "Thing" in version "no.such/v1")
        2 ConfigMap configmaps app/-
          Applied=False FoundGenerateName: Failed to apply the manifest (error: objects with only generate name are not supported)
        3 ConfigMap configmaps app/c
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
        4 ConfigMap configmaps app/c
          Applied=False Duplicated: Failed to apply the manifest (error: a duplicate manifest has been found)
    "#]]
    .assert_eq(&scene.told("w").await);
}

// checklist 2.3
#[tokio::test(start_paused = true)]
async fn a_manifest_that_is_removed_is_removed_from_the_member() {
    let scene = Scene::new().await;
    let (one, two) = (config_map("one", json!({})), config_map("two", json!({})));
    scene.given("w", &[namespace("app"), one.clone(), two.clone()]).await;
    let unknown = json!({"apiVersion": "no.such/v1", "kind": "Thing", "metadata": {"name": "t"}});
    scene.work("w", &[namespace("app"), two, unknown]).await;
    scene.becomes("w", "Applied", "False").await;
    assert!(scene.member().find("configmaps", "app", "one").await.is_none());
    assert!(scene.member().find("configmaps", "app", "two").await.is_some());
    let listed = scene.applied_work("w").await["status"]["appliedResources"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2);
}

// checklist 2.3
#[tokio::test(start_paused = true)]
async fn another_order_changes_nothing_on_the_member() {
    let scene = Scene::with(FleetConfig::of(1).traced()).await;
    let (one, two) = (config_map("one", json!({})), config_map("two", json!({})));
    scene.given("w", &[namespace("app"), one.clone(), two.clone()]).await;
    let version = async |name: &str| {
        scene.member().get("configmaps", "app", name).await["metadata"]["resourceVersion"].clone()
    };
    let before = (version("one").await, version("two").await);
    scene.work("w", &[namespace("app"), two, one]).await;
    scene.becomes("w", "Available", "True").await;
    assert_eq!((version("one").await, version("two").await), before);
    assert!(!scene.writes().iter().any(|write| write.starts_with("delete")));
}

// checklist 2.4
#[tokio::test(start_paused = true)]
async fn left_overs_that_are_not_ours_alone_stay() {
    let scene = Scene::new().await;
    let strategy = json!({"allowCoOwnership": true});
    let maps: Vec<_> = ["shared", "sole"].map(|name| config_map(name, json!({}))).into();
    let mut all = vec![namespace("app")];
    all.extend(maps);
    scene.work_with("w", strategy.clone(), &all).await;
    scene.becomes("w", "Available", "True").await;
    let node = scene.member().get("nodes", "", "node-1").await;
    let uid = &node["metadata"]["uid"];
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": uid});
    let mut owners =
        scene.member().get("configmaps", "app", "shared").await["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .clone();
    owners.push(owner);
    let patch = json!({"metadata": {"ownerReferences": owners}});
    scene.member().patch("configmaps", "app", "shared", patch).await;
    let mut only = vec![namespace("app")];
    only.extend([config_map("new", json!({}))]);
    scene.work_with("w", strategy, &only).await;
    scene.becomes("w", "Available", "True").await;
    scene.member().goes("configmaps", "app", "sole").await;
    let shared = scene.member().get("configmaps", "app", "shared").await;
    let owners = shared["metadata"]["ownerReferences"].as_array().unwrap();
    assert!(!owners.iter().any(|owner| owner["kind"] == "AppliedWork"), "{owners:?}");
}

// checklist 2.5
#[tokio::test(start_paused = true)]
async fn what_is_about_to_come_is_on_record_before_it_comes() {
    use flagship_store::env::plan::{Effect, Rule, Verbs};
    use flagship_store::env::{FaultOutcome, Point};
    let mut scene = Scene::new().await;
    // The member takes nothing, so only the record is written.
    let mut rule = Rule::at(Point::Request, Effect::Do(FaultOutcome::Hang));
    rule.cluster = scene.fleet.cluster_name("member1");
    rule.resource = "configmaps".to_owned();
    rule.who = "member1".to_owned();
    rule.verbs = Verbs::Only(vec!["create".into()]);
    scene.fleet.disturb(vec![rule]);
    scene.work("w", &[config_map("c", json!({}))]).await;
    scene.fleet.pass(5).await;
    expect![[r#"
        0 ConfigMap configmaps app/c
          Applied=False PreparingToProcess: The manifest is being prepared for processing.
    "#]]
    .assert_eq(&scene.told("w").await);
    scene.fleet.kill("member1").await;
    scene.fleet.faults.heal();
    // It may have been applied before the crash; nobody asks for it any more.
    let orphan = scene.applied_work("w").await;
    let mut map = config_map("c", json!({}));
    map["metadata"]["namespace"] = json!("default");
    scene.work("w", &[map]).await;
    assert_eq!(orphan["status"]["appliedResources"], json!(null));
    scene.fleet.start("member1");
    scene.becomes("w", "Available", "True").await;
}
