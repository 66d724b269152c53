//! One object that two placements want.

use expect_test::expect;
use serde_json::{Value, json};

use crate::hostile::scene::*;

fn stripped(told: &str) -> String {
    // Which AppliedWork it is says its name; the UID is drawn.
    let (before, rest) = told.split_once("UID:").unwrap_or((told, ""));
    let (_, after) = rest.split_once(' ').unwrap_or_default();
    format!("{before}UID:<uid> {after}")
}

// laws 2.7: objects claimed by two placements
#[tokio::test(start_paused = true)]
async fn the_second_claim_fails_and_the_first_does_not_notice() {
    let scene = Scene::new().await;
    let shared = [selector("rbac.authorization.k8s.io", "v1", "ClusterRole", "shared")];
    scene
        .hub()
        .apply_object(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "shared"}, "rules": []}))
        .await;
    scene.place("first", &shared, json!({})).await;
    scene.becomes("first", "Available", "True").await;
    scene.place("second", &shared, json!({})).await;
    let told = scene.failing_on("second", "member1").await;
    expect![[r#"
        Applied=False NotAllWorkHaveBeenApplied: Work object second-work has failed to apply
        failed ClusterRole -/shared
        Applied=False FailedToTakeOver: Failed to apply the manifest (error: failed to take over a pre-existing object: the object is already owned by some other sources(s) and co-ownership is disallowed (existingOwnerRefs: [{APIVersion:placement.kubernetes-fleet.io/v1beta1 Kind:AppliedWork Name:first-work UID:<uid> Controller:<nil> BlockOwnerDeletion:true}]))
    "#]].assert_eq(&stripped(&told));
    // Not even where others may own it too.
    scene.place("second", &shared, json!({"allowCoOwnership": true})).await;
    let reworded = |found: Option<&Value>| {
        found.is_some_and(|crp| crp.to_string().contains("another Fleet AppliedWork object"))
    };
    scene.hub().eventually(CRP, "", "second", reworded).await;
    expect![[r#"
        Applied=False NotAllWorkHaveBeenApplied: Work object second-work has failed to apply
        failed ClusterRole -/shared
        Applied=False FailedToTakeOver: Failed to apply the manifest (error: failed to take over a pre-existing object: the object is already owned by another Fleet AppliedWork object)
    "#]].assert_eq(&scene.told("second", "member1").await);
    scene.becomes("first", "Available", "True").await;
    let owner = |role: &Value| role["metadata"]["ownerReferences"][0]["name"].clone();
    let role = scene.member("member1").get("clusterroles", "", "shared").await;
    assert_eq!(owner(&role), "first-work");
    scene.nothing_else_suffers().await;
    // When the first lets go, the second gets it.
    scene.hub().delete(CRP, "", "first").await;
    scene.hub().goes(CRP, "", "first").await;
    scene.becomes("second", "Available", "True").await;
    let role = scene.member("member1").get("clusterroles", "", "shared").await;
    assert_eq!(owner(&role), "second-work");
}
