//! Runs in trouble: lost answers, conflicts, cut and late watches, crashes. Whatever happens
//! on the way, the run ends as it would have without.

use std::time::Duration;

use flagship_sim::testing::{Delays, faults, tries_everything};
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{FaultOutcome as Fault, Point};
use serde_json::json;

use crate::update_run::story::{SCOPES, Scope, Story, stage};

/// How late answers and events may come while a hub is in trouble.
const LATE: Delays = Delays { request: Duration::from_secs(2), event: Duration::from_secs(8) };

async fn live(scope: Scope, seed: u64, rules: Vec<Rule>) -> Story {
    let mut story = Story::seeded(scope, seed).await;
    let before = json!({"beforeStageTasks": [{"type": "Approval"}]});
    let after = json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "20s"}, {"type": "Approval"}]});
    story.strategy(json!([stage("canary", after), stage("prod", before)])).await;
    story.disturb(rules);
    story.run("r", json!({"state": "Run"})).await;
    for round in 0..40 {
        story.pass(15).await;
        story.all_work().await;
        for request in story.requests() {
            if story.request(&request)["status"].get("conditions").is_none() {
                story.approve(&request).await;
            }
        }
        match round {
            1 => story.set_state("r", "Stop").await,
            3 => story.set_state("r", "Run").await,
            5 => {
                story.kill("hub").await;
                story.start_as("hub").await;
            }
            _ => {}
        }
        if round > 5 && story.said("r", "Succeeded").starts_with("True") {
            break;
        }
    }
    story.faults.heal();
    story.pass(60).await;
    story.all_work().await;
    story.pass(60).await;
    story
}

// checklist 13.5 writes that fail: bindings, start signals, requests, acceptance, status
#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_a_run_ends_the_same() {
    for scope in SCOPES {
        let calm = live(scope, 1, Vec::new()).await;
        assert!(calm.said("r", "Succeeded").starts_with("True"), "{}", calm.told("r"));
        for seed in if tries_everything() { 2..8 } else { 2..3 } {
            let story = live(scope, seed, faults("hub", LATE)).await;
            assert_eq!(story.told("r"), calm.told("r"), "seed {seed}");
            assert_eq!(story.holds(), calm.holds(), "seed {seed}");
            assert_eq!(story.resource_snapshots(), ["web-0-snapshot"], "seed {seed}");
        }
    }
}

// law S11: a hub that was put aside cannot undo what its successor has done
#[tokio::test(start_paused = true)]
async fn a_run_goes_on_after_its_hub_has_crashed() {
    for scope in SCOPES {
        let mut story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.kill("hub").await;
        story.works("m2").await;
        assert!(story.holds()[0].starts_with("m1 Scheduled"));
        story.start_as("other").await;
        assert!(story.holds()[0].starts_with("m1 Bound"), "{:?}", story.holds());
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

// What a record says is told although a write that follows it is refused: no later pass
// would find it new.
#[tokio::test(start_paused = true)]
async fn an_event_is_not_lost_when_a_binding_cannot_be_written() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        let refused = Effect::Do(Fault::Answer { code: 409, retry_after: None });
        story.disturb(vec![Rule {
            who: "hub".to_owned(),
            resource: scope.bindings.to_owned(),
            verbs: Verbs::Writes,
            when: When::First(1),
            ..Rule::at(Point::Request, refused)
        }]);
        story.run("r", json!({"state": "Run"})).await;
        assert!(story.holds()[1].starts_with("m2 Bound"), "{:?}", story.holds());
        let events = story.events_of("StagedUpdateRun");
        let told = "r: stage canary updates its 1 cluster(s) to snapshot 0, now m2";
        assert!(events.iter().any(|event| event.contains(told)), "{events:?}");
    }
}
