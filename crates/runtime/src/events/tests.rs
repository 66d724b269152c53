//! What reaches the server of what is said.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use super::*;
use crate::fake::{Answer, Script, map, status};

/// A server that takes everything.
fn recorder(script: &Script) -> (Recorder, Metrics) {
    let metrics = Metrics::default();
    let recorder =
        Recorder::new(&script.client(), &Env::simulated(1), &metrics, "placement-controller");
    let running = recorder.clone();
    tokio::spawn(async move { running.run().await });
    (recorder, metrics)
}

fn taking(count: usize) -> Script {
    Script::new((0..count).map(|_| {
        let event = json!({"metadata": {"name": "e", "namespace": "app"}, "involvedObject": {}});
        Answer::Json(201, event)
    }))
}

fn web() -> ConfigMap {
    serde_json::from_value(map("web", 3, "x")).unwrap()
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn bodies(script: &Script) -> Vec<Value> {
    let log = script.log();
    log.iter().map(|line| serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_names_its_object_and_its_author() {
    let script = taking(1);
    let (recorder, _) = recorder(&script);
    recorder.note(&web(), EventType::Normal, "PlacementApplied", "Resources have been applied");
    settle().await;
    let event = &bodies(&script)[0];
    assert_eq!(event["involvedObject"]["name"], "web");
    assert_eq!(event["involvedObject"]["uid"], "uid-web");
    assert_eq!(event["involvedObject"]["kind"], "ConfigMap");
    assert_eq!(event["metadata"]["namespace"], "app");
    assert_eq!(event["type"], "Normal");
    assert_eq!(event["reason"], "PlacementApplied");
    assert_eq!(event["source"]["component"], "placement-controller");
    assert_eq!(event["firstTimestamp"], "2026-01-01T00:00:00Z");
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("web."));
}

#[tokio::test(start_paused = true)]
async fn repeats_raise_the_count() {
    let script = taking(9);
    let (recorder, _) = recorder(&script);
    for _ in 0..3 {
        recorder.note(&web(), EventType::Warning, "Stuck", "still waiting");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    tokio::time::sleep(Duration::from_secs(3600)).await;
    recorder.note(&web(), EventType::Warning, "Stuck", "still waiting");
    settle().await;
    let log = script.log();
    let verbs: Vec<_> = log.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(verbs, ["POST", "PATCH", "PATCH", "POST"], "after an hour it is a new event");
    let patch = &bodies(&script)[2];
    assert_eq!(patch["count"], 3);
    assert_eq!(patch["lastTimestamp"], "2026-01-01T00:02:00Z");
}

#[tokio::test(start_paused = true)]
async fn many_words_about_one_thing_are_combined() {
    let script = taking(30);
    let (recorder, _) = recorder(&script);
    for n in 0..13 {
        recorder.note(&web(), EventType::Warning, "Stuck", &format!("waiting for cluster {n}"));
        settle().await;
    }
    let messages: Vec<_> = bodies(&script).iter().map(|body| body["message"].clone()).collect();
    assert_eq!(messages.len(), 13);
    assert_eq!(messages[9], "waiting for cluster 9");
    assert_eq!(messages[10], "(combined from similar events): waiting for cluster 10");
    let verbs: String = script.log().iter().map(|line| line.chars().nth(1).unwrap()).collect();
    assert_eq!(verbs, "OOOOOOOOOOOAA", "eleven posts, then the combined one is patched");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_talks_without_end_is_muted() {
    let script = taking(100);
    let (recorder, metrics) = recorder(&script);
    for n in 0..40 {
        recorder.note(&web(), EventType::Warning, &format!("Reason{n}"), "words");
        settle().await;
    }
    assert_eq!(script.log().len(), 25);
    assert_eq!(recorder.dropped(), 15);
    tokio::time::sleep(Duration::from_secs(300)).await;
    recorder.note(&web(), EventType::Warning, "Later", "words");
    settle().await;
    assert_eq!(script.log().len(), 26);
    let line =
        r#"flagship_events_dropped_total{component="placement-controller",reason="muted"} 15"#;
    assert!(metrics.render().contains(line), "{}", metrics.render());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_costs_the_event_and_nothing_else() {
    let refusal = || Answer::Json(403, status(403, "Forbidden"));
    let script = Script::new([refusal(), refusal()]);
    let (recorder, _) = recorder(&script);
    for _ in 0..2 {
        recorder.note(&web(), EventType::Normal, "Applied", "words");
        settle().await;
    }
    assert_eq!(recorder.dropped(), 2);
}

// An event about an object that cannot be read is all that people get to know of it.
#[tokio::test(start_paused = true)]
async fn an_event_that_a_busy_server_refused_is_tried_again() {
    let busy = || Answer::Json(503, status(503, "ServiceUnavailable"));
    let event = json!({"metadata": {"name": "e", "namespace": "app"}, "involvedObject": {}});
    let script = Script::new([
        busy(),
        Answer::Json(504, status(504, "Timeout")),
        Answer::Json(409, status(409, "AlreadyExists")),
        busy(),
        Answer::Json(200, event),
    ]);
    let (recorder, _) = recorder(&script);
    recorder.note(&web(), EventType::Warning, "Malformed", "cannot be read");
    tokio::time::sleep(Duration::from_secs(10)).await;
    // The one that was there already is ours, so that a repeat raises its count.
    recorder.note(&web(), EventType::Warning, "Malformed", "cannot be read");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let log = script.log();
    let verbs: Vec<_> = log.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(verbs, ["POST", "POST", "POST", "PATCH", "PATCH"]);
    let names: Vec<_> = bodies(&script).iter().map(|b| b["metadata"]["name"].clone()).collect();
    assert_eq!((&names[0], &names[0]), (&names[1], &names[2]), "one event, not three");
    assert_eq!(recorder.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_line_drops_notes_without_waiting() {
    let script = Script::default();
    let (recorder, _) = recorder(&script);
    for n in 0..LINE + 7 {
        recorder.note(&web(), EventType::Normal, &n.to_string(), "words");
    }
    assert_eq!(recorder.dropped(), 7);
}

#[test]
fn long_messages_are_cut_between_characters() {
    assert_eq!(capped("short"), "short");
    assert_eq!(capped(&"x".repeat(1024)).len(), 1024);
    let cut = capped(&"é".repeat(600));
    assert!(cut.len() <= LONGEST_MESSAGE && cut.ends_with("é..."), "{}", cut.len());
}
