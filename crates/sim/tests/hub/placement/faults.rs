//! Placements while the hub is cut off, refused, delayed and killed.

use flagship_runtime::env::Entropy;
use flagship_store::env::plan::{Effect, Rule, Verbs};
use flagship_store::env::{FaultOutcome, Point};
use serde_json::json;
use std::time::Duration;

use crate::placement::story::{COPIES, CRS, Story, everywhere, namespace};
use flagship_sim::testing::{CRP, CSPS, sometimes, text, tries_everything};

// checklist 20.10
#[tokio::test(start_paused = true)]
async fn nothing_is_selected_by_halves_while_a_type_cannot_be_seen() {
    let story = Story::cluster_wide(71).await;
    story.map("app", "settings", "x").await;
    let unseen = |point| Rule {
        resource: "configmaps".to_owned(),
        ..Rule::at(point, Effect::Do(FaultOutcome::Hang))
    };
    story.disturb(vec![unseen(Point::Request), unseen(Point::WatchStart)]);
    let story = story.starts().await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    let mut only = namespace("app");
    only["selectionScope"] = json!("NamespaceOnly");
    story.crp("only", everywhere(&[only])).await;
    story.pass(120).await;
    assert_eq!(story.version(CRP, "", "only"), "0: Namespace app");
    assert!(story.get(CRP, "", "web")["status"].is_null());
    assert_eq!(story.snapshots(CRS), ["only-0-snapshot latest"]);
    story.faults.heal();
    story.pass(120).await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap settings");
}

#[tokio::test(start_paused = true)]
async fn the_first_version_has_what_was_there_before_the_placement() {
    let story = Story::cluster_wide(72).await.starts().await;
    let late = Effect::Do(FaultOutcome::Delay(Duration::from_secs(3)));
    let resource = "configmaps".to_owned();
    story.disturb(vec![Rule { resource, ..Rule::at(Point::WatchEvent, late) }]);
    story.map("app", "settings", "x").await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.pass(30).await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap settings");
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot latest"]);
}

fn weather() -> Vec<Rule> {
    let rule = |point, effect, chance, verbs| sometimes("hub*", point, effect, chance, verbs);
    vec![
        rule(Point::PreCommit, Effect::Do(FaultOutcome::Sever), 0.15, Verbs::Writes),
        rule(Point::PostCommit, Effect::Do(FaultOutcome::Sever), 0.15, Verbs::Writes),
        rule(Point::PostCommit, Effect::DelayUpTo(Duration::from_secs(5)), 0.2, Verbs::Writes),
        rule(Point::WatchEvent, Effect::DelayUpTo(Duration::from_secs(20)), 0.2, Verbs::Any),
        rule(Point::WatchEvent, Effect::Do(FaultOutcome::Sever), 0.02, Verbs::Any),
    ]
}

/// Changes content and policy at random while the hub has a hard time.
async fn lived_through(seed: u64) -> Story {
    let mut story = Story::cluster_wide(seed).await.starts().await;
    let chance = Entropy::seeded(seed);
    let mut accessible = everywhere(&[namespace("app")]);
    accessible["statusReportingScope"] = json!("NamespaceAccessible");
    accessible["revisionHistoryLimit"] = json!(2);
    story.crp("web", accessible).await;
    story.disturb(weather());
    let mut lives = 0;
    for step in 0..25 {
        let name = format!("map-{}", chance.u64() % 3);
        match (story.find("configmaps", "app", &name), chance.u64() % 6) {
            (None, _) => story.map("app", &name, &step.to_string()).await,
            (Some(_), 0) => story.delete("configmaps", "app", &name).await,
            (Some(_), 1) => {
                let policy =
                    json!({"tolerations": [{"key": format!("k{step}"), "operator": "Exists"}]});
                story.patch(CRP, "", "web", json!({"spec": {"policy": policy}})).await;
            }
            (Some(_), 2) => {
                let old = if lives == 0 { "hub".to_owned() } else { format!("hub-{lives}") };
                lives += 1;
                story.kill(&old).await;
                let options = story.options.clone();
                story.start(&format!("hub-{lives}"), options);
            }
            (Some(_), _) => story.change("app", &name, &step.to_string()).await,
        }
        tokio::time::sleep(Duration::from_millis(chance.u64() % 8_000)).await;
    }
    story.faults.heal();
    story.pass(300).await;
    story
}

#[tokio::test(start_paused = true)]
async fn once_the_weather_clears_status_and_snapshots_tell_what_is_there() {
    for seed in if tries_everything() { 72..84 } else { 72..74 } {
        let story = lived_through(seed).await;
        let mut maps = story.list("configmaps", "app");
        maps.retain(|map| text(&map["metadata"]["name"]).starts_with("map-"));
        let names: Vec<_> = maps.iter().map(|map| text(&map["metadata"]["name"])).collect();
        let latest: Vec<_> =
            story.snapshots(CRS).into_iter().filter(|name| name.ends_with(" latest")).collect();
        let [latest] = latest.as_slice() else { panic!("seed {seed}: {latest:?}") };
        let snapshot = story.get(CRS, "", latest.trim_end_matches(" latest"));
        let content = snapshot["spec"]["selectedResources"].as_array().unwrap();
        let values: Vec<_> = content[1..].iter().map(|one| one["data"].clone()).collect();
        assert_eq!(values, maps.iter().map(|map| map["data"].clone()).collect::<Vec<_>>());
        let index = text(&snapshot["metadata"]["labels"]["kubernetes-fleet.io/resource-index"]);
        let named: String = names.iter().map(|name| format!(", ConfigMap {name}")).collect();
        assert_eq!(story.version(CRP, "", "web"), format!("{index}: Namespace app{named}"));
        assert!(story.snapshots(CRS).len() <= 2, "seed {seed}: {:?}", story.snapshots(CRS));
        let policies = story.snapshots(CSPS);
        assert!(policies.len() <= 2, "seed {seed}: {policies:?}");
        assert_eq!(policies.iter().filter(|name| name.ends_with(" latest")).count(), 1);
        let placement = story.get(CRP, "", "web");
        let generation = &placement["metadata"]["generation"];
        assert_eq!(
            story.conditions(CRP, "", "web")[0],
            format!("Scheduled True SchedulingPolicyFulfilled ({generation})")
        );
        let copy = story.get(COPIES, "app", "web");
        assert_eq!(copy["sourceStatus"]["observedResourceIndex"], json!(index));
    }
}
