//! Crashes, conflicts and a second hub.

use std::time::Duration;

use flagship_runtime::env::Entropy;
use flagship_store::env::plan::{Effect, Rule, Verbs};
use flagship_store::env::{FaultOutcome, Point};
use serde_json::json;

use crate::rollout::story::{CLUSTER_WIDE, CRO, CROS, Story, labelling, of_namespace, rolling};
use flagship_sim::testing::{CRB, sometimes, text};

// 8: a binding spec update and its `RolloutStarted` are two writes; a crash between them is
// repaired.
#[tokio::test(start_paused = true)]
async fn a_delivery_nobody_spoke_of_is_made_good_after_a_crash() {
    let mut story = Story::begin(60, CLUSTER_WIDE, 2).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.kill("hub").await;
    // As if the hub had died between the two writes of its deliveries.
    for member in ["m1", "m2"] {
        let name = text(&story.binding(member)["metadata"]["name"]);
        let decision = json!({"clusterDecision": {"reason": "touched"}});
        story.patch(CRB, "", &name, json!({"spec": decision})).await;
    }
    assert_eq!(story.told(), ["m1 Bound 0 (stale)", "m2 Bound 0 (stale)"]);
    story.start_as("next").await;
    assert_eq!(story.told(), ["m1 Bound 0 started", "m2 Bound 0 started"]);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_starts_late_goes_on_where_the_other_stopped() {
    let mut story = Story::begin(61, CLUSTER_WIDE, 3).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.changes("v1").await;
    story.kill("hub").await;
    story.works("m1").await;
    story.start_as("next").await;
    assert_eq!(story.told(), ["m1 Bound 1 started", "m2 Bound 1 started", "m3 Bound 0 held back"]);
}

#[tokio::test(start_paused = true)]
async fn when_all_is_rolled_out_nothing_is_written_and_nobody_looks() {
    let story = Story::begin(62, CLUSTER_WIDE, 3).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    let (passes, writes) = (story.rollout_passes(), binding_writes(&story));
    story.heartbeats(5).await;
    assert_eq!(story.rollout_passes(), passes);
    assert_eq!(binding_writes(&story), writes);
}

fn binding_writes(story: &Story) -> usize {
    story.writes("hub").iter().filter(|write| write.contains("bindings")).count()
}

fn weather() -> Vec<Rule> {
    let rule = |point, effect, chance, verbs| sometimes("hub*", point, effect, chance, verbs);
    let answer = |code| Effect::Do(FaultOutcome::Answer { code, retry_after: None });
    vec![
        rule(Point::Request, answer(409), 0.1, Verbs::Writes),
        rule(Point::PreCommit, Effect::Do(FaultOutcome::Sever), 0.1, Verbs::Writes),
        rule(Point::PostCommit, Effect::Do(FaultOutcome::Sever), 0.1, Verbs::Writes),
        rule(Point::Request, answer(503), 0.05, Verbs::Reads),
        rule(Point::WatchEvent, Effect::DelayUpTo(Duration::from_secs(10)), 0.2, Verbs::Any),
        rule(Point::WatchEvent, Effect::Do(FaultOutcome::Sever), 0.02, Verbs::Any),
    ]
}

/// Clusters whose binding nobody has reported on since it was last changed.
fn out_of_service(story: &Story) -> Vec<String> {
    let out = story.bindings_of(CRB, "web").into_iter().filter(|binding| {
        let said = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let generation = &binding["metadata"]["generation"];
        !said.iter().any(|c| c["type"] == "Available" && c["observedGeneration"] == *generation)
    });
    out.map(|binding| text(&binding["spec"]["targetCluster"])).collect()
}

/// Versions and overrides come while the hub has a hard time and crashes; members report
/// when they notice. At most one cluster is out of service at any time.
async fn lived_through(seed: u64) {
    let mut story = Story::begin(seed, CLUSTER_WIDE, 4).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    let chance = Entropy::seeded(seed);
    story.disturb(weather());
    let mut life = 0;
    for minute in 0..40 {
        match minute {
            3 | 17 => {
                let data = json!({"data": {"key": format!("v{minute}")}});
                story.patch("configmaps", "app", "settings", data).await;
            }
            9 => {
                let spec = of_namespace(labelling(Some("prod"), "a"));
                story.create(CRO, json!({"metadata": {"name": "wide"}, "spec": spec})).await;
            }
            22 => {
                let policy = labelling(None, "b");
                story.patch(CRO, "", "wide", json!({"spec": {"policy": policy}})).await;
            }
            6 | 13 | 24 => {
                story
                    .kill(&format!(
                        "hub{}",
                        if life == 0 { String::new() } else { life.to_string() }
                    ))
                    .await;
                life += 1;
                story.start_as(&format!("hub{life}")).await;
            }
            30 => story.faults.heal(),
            _ => {}
        }
        for _ in 0..6 {
            story.pass(5).await;
            let out = out_of_service(&story);
            assert!(out.len() <= 1, "seed {seed}, minute {minute}: {out:?} {:?}", story.told());
            if let Some(cluster) = out.first().filter(|_| chance.u64().is_multiple_of(3)) {
                story.says(cluster, "Available", "True AllWorkAreAvailable", "").await;
            }
        }
    }
    let done: Vec<String> = (1..=4).map(|n| format!("m{n} Bound 2 with wide-1 started")).collect();
    assert_eq!(story.told(), done, "seed {seed}");
    assert_eq!(story.frozen(CROS), ["wide-0", "wide-1 latest"]);
}

// 8: every pass is a pure function of what is stored and of the clock.
#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_the_budget_is_kept_and_the_end_is_reached() {
    lived_through(70).await;
}
