//! Watches come with what is applied and go with it.

use flagship_sim::fleet::FleetConfig;
use serde_json::json;

use crate::scene::*;

/// Resources of the member that the agent began to watch so far.
fn watched(scene: &Scene) -> Vec<String> {
    let own = format!("{}/", scene.fleet.cluster_name("member1"));
    let mut all: Vec<String> = Vec::new();
    for line in scene.fleet.trace.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let Some(place) = words[3].strip_prefix(&own) else { continue };
        if words[1] == "member1" && words[2] == "watch" {
            all.push(place.split('/').next().unwrap().to_owned());
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn one_watch_serves_all_works_and_ends_with_the_last() {
    let scene = Scene::with(FleetConfig::of(1).traced()).await;
    scene.given("one", &[namespace("app"), config_map("a", json!({}))]).await;
    scene.given("two", &[config_map("b", json!({}))]).await;
    let count = |scene: &Scene| watched(scene).iter().filter(|one| *one == "configmaps").count();
    assert_eq!(count(&scene), 1);
    scene.hub().delete("works", SPACE, "one").await;
    scene.hub().goes("works", SPACE, "one").await;
    scene.fleet.pass(20 * 60).await;
    let before = count(&scene);
    assert!(before > 1, "the watch goes on, from time to time anew");
    scene.hub().delete("works", SPACE, "two").await;
    scene.hub().goes("works", SPACE, "two").await;
    scene.fleet.pass(20 * 60).await;
    assert_eq!(count(&scene), before, "nobody is left to watch for");
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_starts_or_stops_working_shows_within_a_second() {
    let scene = Scene::new().await;
    scene.given("w", &[namespace("app"), deployment("web", "nginx:1", 2)]).await;
    scene.fleet.quiet(30).await;
    for pod in scene.member().list("pods", "app").await {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let status = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        scene.member().patch_status("pods", "app", &name, status).await;
    }
    let status = json!({"availableReplicas": 0, "unavailableReplicas": 2, "readyReplicas": 0});
    scene.member().patch_status("deployments", "app", "web", status).await;
    scene.fleet.pass(1).await;
    let told = scene.told("w").await;
    let fell = told.contains("Available=False SomeManifestsAreNotAvailable");
    let again = scene.becomes("w", "Available", "True").await;
    assert!(fell || again["status"]["conditions"][1]["lastTransitionTime"].is_string(), "{told}");
}

// member 15.1.1: without watches the clock decides
#[tokio::test(start_paused = true)]
async fn without_watches_looks_come_by_the_clock() {
    let mut config = FleetConfig::of(1);
    config.member.watch_applied = false;
    let scene = Scene::with(config).await;
    scene.given("w", &[namespace("app"), config_map("c", json!({"a": "1"}))]).await;
    scene.fleet.pass(40 * 60).await;
    scene.member().patch("configmaps", "app", "c", json!({"data": {"a": "edited"}})).await;
    scene.fleet.pass(5).await;
    let data = scene.member().get("configmaps", "app", "c").await["data"].clone();
    assert_eq!(data, json!({"a": "edited"}), "nobody looked yet");
    scene.fleet.pass(15 * 60).await;
    let data = scene.member().get("configmaps", "app", "c").await["data"].clone();
    assert_eq!(data, json!({"a": "1"}));
}

#[tokio::test(start_paused = true)]
async fn whoever_fights_over_an_object_does_not_keep_the_agent_spinning() {
    let scene = Scene::with(FleetConfig::of(1).traced()).await;
    scene.given("w", &[namespace("app"), config_map("c", json!({"a": "1"}))]).await;
    let before = scene.writes().len();
    for round in 0..600 {
        let theirs = json!({"data": {"a": format!("theirs {round}")}});
        scene.member().patch("configmaps", "app", "c", theirs).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let writes = scene.writes().len() - before;
    assert!(writes < 2 * 40, "{writes} writes in a minute");
}
