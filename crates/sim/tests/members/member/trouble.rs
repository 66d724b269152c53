//! Things go wrong on the way, and others are not held up.

use flagship_member::{Member, Readiness};
use flagship_runtime::client::Client;
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{FaultOutcome, Point};
use serde_json::json;

use crate::member::scene::*;

fn on(scene: &Scene, cluster: &str, effect: FaultOutcome) -> Rule {
    let mut rule = Rule::at(Point::Request, Effect::Do(effect));
    rule.who = "member1".to_owned();
    rule.cluster = scene.fleet.cluster_name(cluster);
    rule
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_away_stops_nothing_on_the_member() {
    let scene = Scene::new().await;
    scene.given("w", &[namespace("app"), config_map("c", json!({"a": "1"}))]).await;
    scene.fleet.disturb(vec![on(&scene, "hub", FaultOutcome::Sever)]);
    scene.fleet.pass(120).await;
    scene.member().delete("configmaps", "app", "c").await;
    scene.fleet.pass(2).await;
    assert!(scene.member().find("configmaps", "app", "c").await.is_some());
    scene.fleet.faults.heal();
    scene.fleet.pass(60).await;
    scene.work("w", &[namespace("app"), config_map("c", json!({"a": "2"}))]).await;
    scene.becomes("w", "Available", "True").await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_fails_that_manifest_and_nothing_else() {
    let scene = Scene::new().await;
    let mut rule = on(&scene, "member1", FaultOutcome::Hang);
    rule.resource = "secrets".to_owned();
    rule.verbs = Verbs::Only(vec!["create".into()]);
    scene.fleet.disturb(vec![rule]);
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"}, "stringData": {"password": "hunter2"}});
    scene.work("stuck", &[secret, namespace("app")]).await;
    scene.work("fine", &[namespace("other")]).await;
    scene.fleet.pass(2).await;
    scene.becomes("fine", "Available", "True").await;
    scene.becomes("stuck", "Applied", "False").await;
    let told = scene.told("stuck").await;
    assert!(told.contains("ManifestApplyFailed: Failed to apply the manifest (error: failed to apply the manifest: failed to create manifest object:"), "{told}");
    assert!(!told.contains("hunter2"));
    assert!(scene.member().find("namespaces", "", "app").await.is_some());
    scene.fleet.faults.heal();
    scene.becomes("stuck", "Available", "True").await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_in_the_servers_words() {
    let scene = Scene::new().await;
    scene.work("w", &[config_map("c", json!({})), namespace("other")]).await;
    scene.becomes("w", "Applied", "False").await;
    let told = scene.told("w").await;
    assert!(told.contains("failed to create manifest object: error returned by the API server: namespaces \"app\" not found"), "{told}");
    scene.member().apply_object(&namespace("app")).await;
    scene.becomes("w", "Available", "True").await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_may_not_watch_is_looked_at_by_the_clock() {
    let scene = Scene::new().await;
    let mut rule = on(&scene, "member1", FaultOutcome::Answer { code: 403, retry_after: None });
    rule.resource = "configmaps".to_owned();
    rule.verbs = Verbs::Only(vec!["list".into(), "watch".into()]);
    scene.fleet.disturb(vec![rule]);
    scene.given("w", &[namespace("app"), config_map("c", json!({"a": "1"}))]).await;
    scene.member().patch("configmaps", "app", "c", json!({"data": {"a": "edited"}})).await;
    scene.fleet.pass(10).await;
    let data = scene.member().get("configmaps", "app", "c").await["data"].clone();
    assert_eq!(data, json!({"a": "1"}));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_at_any_write_loses_track_of_nothing() {
    for nth in 1..=5 {
        let mut scene = Scene::new().await;
        let mut rule = Rule::at(Point::PostCommit, Effect::Do(FaultOutcome::Hang));
        rule.who = "member1".to_owned();
        rule.verbs = Verbs::Writes;
        rule.when = When::Nth(nth);
        scene.fleet.disturb(vec![rule]);
        scene
            .work(
                "w",
                &[namespace("app"), config_map("one", json!({})), config_map("two", json!({}))],
            )
            .await;
        scene.fleet.pass(3).await;
        scene.fleet.kill("member1").await;
        scene.fleet.faults.heal();
        // Nobody asks for the first any more, whether it came or not.
        scene.work("w", &[namespace("app"), config_map("two", json!({}))]).await;
        scene.fleet.start("member1");
        scene.becomes("w", "Available", "True").await;
        assert!(scene.member().find("configmaps", "app", "one").await.is_none(), "{nth}");
        assert!(scene.member().find("configmaps", "app", "two").await.is_some(), "{nth}");
        scene.hub().delete("works", SPACE, "w").await;
        scene.hub().goes("works", SPACE, "w").await;
        scene.member().goes("namespaces", "", "app").await;
    }
}

// checklist fleet 12.54
#[tokio::test(start_paused = true)]
async fn an_agent_is_ready_once_it_reached_hub_and_member() {
    let scene = Scene::new().await;
    let fleet = &scene.fleet;
    let client = |cluster: &str| {
        Client::in_process(fleet.handle(cluster).called_by("probed")).named("probed")
    };
    let (env, metrics) = (fleet.env.clone(), fleet.metrics.clone());
    let options = flagship_member::Options::default();
    let agent = Member::new("member1", client("member1"), client("hub"), env, metrics, options);
    assert_eq!(agent.ready(), Readiness::Idle);
    let away =
        |cluster: &str| Rule { who: "probed".into(), ..on(&scene, cluster, FaultOutcome::Sever) };
    fleet.disturb(vec![away("hub"), away("member1")]);
    let running = agent.clone();
    let task = tokio::spawn(async move { running.run(std::future::pending()).await });
    fleet.pass(5).await;
    let told = agent.ready().to_string();
    assert!(!agent.ready().is_ready());
    for missing in [
        "Works on the hub: ",
        "InternalMemberClusters on the hub: ",
        "AppliedWorks on the member: ",
    ] {
        assert!(told.contains(missing), "{missing} in {told}");
    }
    fleet.disturb(vec![away("member1")]);
    fleet.pass(60).await;
    let told = agent.ready().to_string();
    assert!(told.starts_with("not listed yet: AppliedWorks on the member: "), "{told}");
    fleet.faults.heal();
    fleet.pass(60).await;
    assert_eq!(agent.ready(), Readiness::Working);
    // Who was ready stays so while the hub is away: a probe must not take the agent out.
    fleet.disturb(vec![away("hub")]);
    fleet.pass(600).await;
    assert!(agent.ready().is_ready());
    task.abort();
    drop(task.await);
    assert_eq!(agent.ready(), Readiness::Idle);
}
