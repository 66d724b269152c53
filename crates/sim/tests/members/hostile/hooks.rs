//! Webhooks on a member that deny, hang, or never leave an object alone.

use std::sync::atomic::{AtomicU64, Ordering};

use expect_test::expect;
use flagship_apiserver::rest::{Mutation, Review};
use flagship_sim::fleet::FleetConfig;
use flagship_store::env::plan::{Effect, Rule, Verbs};
use flagship_store::env::{FaultOutcome, Point};
use serde_json::{Value, json};

use crate::hostile::scene::*;

async fn guarded(scene: &Scene) {
    scene.namespace("guarded").await;
    scene.map("guarded", "denied", json!({"a": "1"})).await;
    scene.map("guarded", "fine", json!({"a": "1"})).await;
    scene.place("guarded", &[selector("", "v1", "Namespace", "guarded")], json!({})).await;
}

// laws 2.7: webhooks on the member that deny
#[tokio::test(start_paused = true)]
async fn a_denial_is_told_in_the_hooks_words_and_heals() {
    let scene = Scene::new().await;
    let refuses =
        |review: &Review<'_>| (review.name == "denied").then(|| "not on a Friday".to_owned());
    scene.hook("member1", Hook { refuses: Some(Box::new(refuses)), ..Hook::default() });
    guarded(&scene).await;
    let told = scene.failing_on("guarded", "member1").await;
    expect![[r#"
        Applied=False NotAllWorkHaveBeenApplied: Work object guarded-work has failed to apply
        failed ConfigMap guarded/denied
        Applied=False ManifestApplyFailed: Failed to apply the manifest (error: failed to apply the manifest: failed to create manifest object: error returned by the API server: admission webhook "guard.example.com" denied the request: not on a Friday)
    "#]].assert_eq(&told);
    let there = |found: Option<&Value>| found.is_some();
    scene.member("member1").eventually("configmaps", "guarded", "fine", there).await;
    scene.member("member2").eventually("configmaps", "guarded", "denied", there).await;
    scene.nothing_else_suffers().await;
    scene.hook("member1", Hook::default());
    scene.becomes("guarded", "Available", "True").await;
}

// laws 2.7: webhooks on the member that hang
#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_holds_up_its_own_object_only() {
    let scene = Scene::new().await;
    let mut rule = Rule::at(Point::Request, Effect::Do(FaultOutcome::Hang));
    rule.who = "member1".to_owned();
    rule.cluster = scene.fleet.cluster_name("member1");
    rule.resource = "services".to_owned();
    rule.verbs = Verbs::Only(vec!["create".into()]);
    scene.fleet.disturb(vec![rule]);
    scene.namespace("hanging").await;
    scene.map("hanging", "fine", json!({})).await;
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "slow", "namespace": "hanging"}, "spec": {"ports": [{"port": 80}]}});
    scene.hub().apply_object(&service).await;
    scene.place("hanging", &[selector("", "v1", "Namespace", "hanging")], json!({})).await;
    let there = |found: Option<&Value>| found.is_some();
    scene.member("member1").eventually_within(5, "configmaps", "hanging", "fine", there).await;
    // While it hangs, not after.
    scene.nothing_else_suffers().await;
    let told = scene.failing_on("hanging", "member1").await;
    expect![[r#"
        Applied=False NotAllWorkHaveBeenApplied: Work object hanging-work has failed to apply
        failed Service hanging/slow
        Applied=False ManifestApplyFailed: Failed to apply the manifest (error: failed to apply the manifest: failed to create manifest object: error returned by the API server: no answer within 30s)
    "#]].assert_eq(&told);
    scene.nothing_else_suffers().await;
    scene.fleet.faults.heal();
    scene.becomes("hanging", "Available", "True").await;
}

// laws 2.7: webhooks on the member that mutate forever
#[tokio::test(start_paused = true)]
async fn a_hook_that_never_leaves_an_object_alone_is_not_chased() {
    let scene = Scene::with(FleetConfig::of(2).traced()).await;
    let writes = AtomicU64::new(0);
    let changes = move |review: &mut Mutation<'_>| {
        if review.name == "restless" {
            let count = writes.fetch_add(1, Ordering::Relaxed);
            review.object["data"]["a"] = json!(format!("mine {count}"));
        }
    };
    scene.hook("member1", Hook { changes: Some(Box::new(changes)), ..Hook::default() });
    scene.namespace("restless").await;
    scene.map("restless", "restless", json!({"a": "1"})).await;
    scene.place("restless", &[selector("", "v1", "Namespace", "restless")], json!({})).await;
    scene.becomes("restless", "Available", "True").await;
    let patches = |scene: &Scene| {
        let own = format!("{}/configmaps", scene.fleet.cluster_name("member1"));
        let is_write = |line: &&String| line.contains(" patch ") && line.contains(&own);
        scene.fleet.trace.lines().iter().filter(is_write).count()
    };
    let before = patches(&scene);
    scene.fleet.pass(600).await;
    let after = patches(&scene) - before;
    assert!(after <= 130, "{after} writes in ten minutes, more than one every five seconds");
    scene.nothing_else_suffers().await;
    // Where the edit must not be overwritten it is told as what it is.
    let strategy = json!({"whenToApply": "IfNotDrifted"});
    scene.place("restless", &[selector("", "v1", "Namespace", "restless")], strategy).await;
    scene.becomes("restless", "Applied", "False").await;
    let told = scene.failing_on("restless", "member1").await;
    assert!(told.contains("FoundDrifts") && told.contains("/data/a member=mine "), "{told}");
}
