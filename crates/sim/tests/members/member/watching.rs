//! Watches come with what is applied and go with it.

use flagship_sim::fleet::FleetConfig;
use serde_json::json;

use crate::member::scene::*;

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
    scene.fleet.pass(8 * 60).await;
    let before = count(&scene);
    assert!(before > 1, "the watch goes on, from time to time anew");
    scene.hub().delete("works", SPACE, "two").await;
    scene.hub().goes("works", SPACE, "two").await;
    scene.fleet.pass(8 * 60).await;
    assert_eq!(count(&scene), before, "nobody is left to watch for");
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_starts_or_stops_working_shows_within_a_second() {
    let scene = Scene::new().await;
    let mut web = deployment("web", "nginx:1", 2);
    web["spec"]["template"]["metadata"]["annotations"] =
        json!({"workloads.flagship.dev/ready-after": "40s"});
    scene.given("w", &[namespace("app"), web]).await;
    scene.fleet.quiet(30).await;
    for pod in scene.member().list("pods", "app").await {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        scene.member().delete("pods", "app", &name).await;
    }
    let works = async || {
        let web = scene.member().get("deployments", "app", "web").await;
        web["status"]["availableReplicas"] == 2
    };
    let told = async || scene.told("w").await.contains("Available=True AllManifestsAvailable");
    let mut late = 0;
    for _ in 0..60 {
        let before = works().await;
        scene.fleet.pass(1).await;
        late += u32::from(works().await == before && told().await != before);
    }
    assert_eq!(late, 0, "the hub knew a second later");
    assert!(works().await && told().await);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_namespace_comes_later_is_applied_when_it_comes() {
    let scene = Scene::new().await;
    scene.work("w", &[config_map("c", json!({"a": "1"}))]).await;
    scene.becomes("w", "Applied", "False").await;
    // Long enough for looks by the clock to be far apart.
    scene.fleet.pass(20 * 60).await;
    scene.member().apply_object(&namespace("app")).await;
    scene.fleet.pass(2).await;
    assert!(scene.member().find("configmaps", "app", "c").await.is_some());
}

/// How often the agent has looked at the namespace that is applied.
fn looks(scene: &Scene) -> usize {
    let lines = scene.fleet.trace.lines();
    lines.iter().filter(|line| line.contains("get") && line.contains("namespaces//app")).count()
}

/// Waits for a look by the clock, so that the next one does not fall into what follows.
async fn just_after_a_look(scene: &Scene) -> usize {
    let before = looks(scene);
    for _ in 0..15 * 60 {
        if looks(scene) > before {
            return looks(scene);
        }
        scene.fleet.pass(1).await;
    }
    panic!("nobody looked for a quarter of an hour");
}

// checklist 10.3
#[tokio::test(start_paused = true)]
async fn what_is_said_about_a_work_is_no_reason_to_look_at_it() {
    let scene = Scene::with(FleetConfig::of(1).traced()).await;
    scene.given("w", &[namespace("app")]).await;
    scene.fleet.pass(6 * 60).await;
    let before = just_after_a_look(&scene).await;
    let meta = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
    scene.hub().patch("works", SPACE, "w", meta).await;
    scene.hub().patch_status("works", SPACE, "w", json!({"conditions": []})).await;
    scene.fleet.pass(5).await;
    assert_eq!(looks(&scene), before);
    scene.work("w", &[namespace("app"), config_map("c", json!({}))]).await;
    scene.fleet.pass(1).await;
    assert!(looks(&scene) > before);
}

// Without watches the clock decides
#[tokio::test(start_paused = true)]
async fn without_watches_looks_come_by_the_clock() {
    let mut config = FleetConfig::of(1).traced();
    config.member.watch_applied = false;
    let scene = Scene::with(config).await;
    scene.given("w", &[namespace("app"), config_map("c", json!({"a": "1"}))]).await;
    scene.fleet.pass(6 * 60).await;
    just_after_a_look(&scene).await;
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
    for round in 0..300 {
        let theirs = json!({"data": {"a": format!("theirs {round}")}});
        scene.member().patch("configmaps", "app", "c", theirs).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let writes = scene.writes().len() - before;
    assert!(writes < 2 * 25, "{writes} writes in half a minute");
}

/// Whose object was listed before anybody asked for it, and has not changed since.
#[tokio::test(start_paused = true)]
async fn what_is_deleted_after_a_restart_comes_back_within_a_second() {
    let mut config = FleetConfig::of(1);
    // One Work after the other, so that the later ones find the watch at work.
    config.member.concurrent_works = 1;
    let mut scene = Scene::with(config).await;
    scene.given("first", &[namespace("app"), config_map("a", json!({}))]).await;
    for name in ["second", "third"] {
        scene.given(name, &[config_map(name, json!({}))]).await;
    }
    scene.fleet.stop("member1").await;
    scene.fleet.start("member1");
    scene.fleet.pass(6 * 60).await;
    for name in ["a", "second", "third"] {
        scene.member().delete("configmaps", "app", name).await;
    }
    scene.fleet.pass(1).await;
    for name in ["a", "second", "third"] {
        assert!(scene.member().find("configmaps", "app", name).await.is_some(), "{name}");
    }
}
