//! Manifests become objects: created, changed, and left alone when nothing is new.

use expect_test::expect;
use flagship_sim::fleet::FleetConfig;
use serde_json::json;

use crate::member::scene::*;

// checklist 4.1
#[tokio::test(start_paused = true)]
async fn fields_are_changed_and_removed_and_those_of_others_are_kept() {
    let scene = Scene::new().await;
    scene.given("w", &[namespace("app"), config_map("c", json!({"a": "1", "b": "2"}))]).await;
    let theirs = json!({"data": {"theirs": "x"}});
    scene.member().patch("configmaps", "app", "c", theirs).await;
    scene.given("w", &[namespace("app"), config_map("c", json!({"a": "9"}))]).await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "9", "theirs": "x"}));
}

// checklist 4.7
#[tokio::test(start_paused = true)]
async fn applying_again_what_is_there_leaves_it_alone() {
    let scene = Scene::with(FleetConfig::of(1).traced()).await;
    scene.given("w", &[namespace("app"), deployment("web", "nginx:1", 1)]).await;
    scene.fleet.quiet(10).await;
    let before = scene.member().get("deployments", "app", "web").await;
    let writes = scene.writes().len();
    scene.fleet.pass(30).await;
    assert!(scene.writes().len() > writes, "it is applied again and again");
    let after = scene.member().get("deployments", "app", "web").await;
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!(after["metadata"]["generation"], 1);
}

// checklist 4.1
#[tokio::test(start_paused = true)]
async fn a_definition_and_its_object_arrive_in_one_pass() {
    let scene = Scene::new().await;
    let manifests = [widget("w", json!({"size": 1})), widget_definition(), namespace("app")];
    scene.work("w", &manifests).await;
    scene.becomes("w", "Applied", "True").await;
    let widget_there = scene.member().get("widgets", "app", "w").await;
    assert_eq!(widget_there["spec"], json!({"size": 1}));
    expect![[r#"
        Applied=True AllManifestsApplied: All the specified manifests have been applied
        Available=True WorkNotTrackable: Some of the applied manifests cannot be tracked for availability
        0 Widget widgets app/w
          Applied=True Applied: Manifest has been applied successfully
          Available=True NotTrackable: Manifest's availability is not trackable; Fleet assumes that the applied manifest is available
        1 CustomResourceDefinition customresourcedefinitions -/widgets.example.com
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
        2 Namespace namespaces -/app
          Applied=True Applied: Manifest has been applied successfully
          Available=True Available: Manifest is available
    "#]]
    .assert_eq(&scene.told("w").await);
    scene
        .given("w", &[widget("w", json!({"colour": "red"})), widget_definition(), namespace("app")])
        .await;
    let widget_there = scene.member().get("widgets", "app", "w").await;
    assert_eq!(widget_there["spec"], json!({"colour": "red"}));
}

// checklist 3.1
#[tokio::test(start_paused = true)]
async fn what_others_need_comes_first() {
    let scene = Scene::with(FleetConfig::of(1).traced()).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "s", "namespace": "app"}});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r", "namespace": "app"}, "rules": []});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "app"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "namespace": "app"}});
    let manifests =
        [lease, deployment("web", "nginx:1", 1), binding, role, account, namespace("app")];
    scene.work("w", &manifests).await;
    scene.becomes("w", "Available", "True").await;
    let made: Vec<String> =
        scene.writes().into_iter().filter(|write| write.starts_with("create")).collect();
    expect![[r#"
        create appliedworks.placement.kubernetes-fleet.io//w 201
        create namespaces//app 201
        create serviceaccounts/app/s 201
        create roles.rbac.authorization.k8s.io/app/r 201
        create rolebindings.rbac.authorization.k8s.io/app/b 201
        create deployments.apps/app/web 201
        create leases.coordination.k8s.io/app/l 201"#]]
    .assert_eq(&made.join("\n"));
}

// checklist 4.3
#[tokio::test(start_paused = true)]
async fn a_conflict_with_another_manager_fails_unless_forced() {
    let scene = Scene::new().await;
    let side =
        |force: bool| json!({"type": "ServerSideApply", "serverSideApplyConfig": {"force": force}});
    let manifests = |value: &str| [namespace("app"), config_map("c", json!({"a": value}))];
    scene.work_with("w", side(false), &manifests("1")).await;
    scene.becomes("w", "Applied", "True").await;
    scene.work_with("w", side(false), &manifests("2")).await;
    scene.becomes("w", "Applied", "True").await;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "app"}, "data": {"a": "theirs"}});
    scene.member().apply_object(&theirs).await;
    scene.becomes("w", "Applied", "False").await;
    let told = scene.told("w").await;
    assert!(told.contains("Applied=False ManifestApplyFailed: Failed to apply the manifest (error: failed to apply the manifest: failed to apply the manifest object: an error is returned by the API server: Apply failed with 1 conflict: conflict with \"kubectl\""), "{told}");
    scene.work_with("w", side(true), &manifests("2")).await;
    scene.becomes("w", "Applied", "True").await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "2"}));
}

// checklist 4.2
#[tokio::test(start_paused = true)]
async fn a_manifest_too_large_to_remember_is_applied_by_the_server() {
    let scene = Scene::new().await;
    let large = "x".repeat(300_000);
    let manifests = |data| [namespace("app"), config_map("c", data)];
    scene.given("w", &manifests(json!({"a": large, "b": "1"}))).await;
    let key = "kubernetes-fleet.io/last-applied-configuration";
    let note = async || {
        let map = scene.member().get("configmaps", "app", "c").await;
        map["metadata"]["annotations"][key].as_str().map(str::len)
    };
    assert_eq!(note().await, Some(0));
    scene.given("w", &manifests(json!({"a": large, "b": "2"}))).await;
    let map = scene.member().get("configmaps", "app", "c").await;
    assert_eq!(map["data"]["b"], "2");
    let managers = map["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|one| one["operation"] == "Apply"), "{managers:?}");
    scene.given("w", &manifests(json!({"a": "small"}))).await;
    assert!(note().await.is_some_and(|length| length > 0));
}

// checklist 9.2
#[tokio::test(start_paused = true)]
async fn the_status_of_objects_is_told_when_asked_for() {
    let scene = Scene::new().await;
    let spec = json!({"workload": {"manifests": [namespace("app"), deployment("web", "nginx:1", 1)]},
        "reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"}});
    scene.write("w", spec).await;
    scene.becomes("w", "Available", "True").await;
    let told = |work: &serde_json::Value| {
        work["status"]["manifestConditions"][1]["backReportedStatus"]["observedStatus"].clone()
    };
    let ready = |work: Option<&serde_json::Value>| {
        work.is_some_and(|work| told(work)["status"]["availableReplicas"] == 1)
    };
    let work = scene.hub().eventually("works", SPACE, "w", ready).await.unwrap();
    assert_eq!(told(&work)["kind"], "Deployment");
    scene.work("w", &[namespace("app"), deployment("web", "nginx:1", 1)]).await;
    let silent = |work: Option<&serde_json::Value>| work.is_some_and(|work| told(work).is_null());
    scene.hub().eventually("works", SPACE, "w", silent).await;
}
