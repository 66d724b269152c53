//! Watches.

use std::sync::Arc;
use std::time::Duration;

use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{Env, FaultOutcome, FaultPlan, Point};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{MAPS, TestServer, revision};

#[tokio::test(start_paused = true)]
async fn without_a_revision_the_present_comes_first() {
    let api = TestServer::new();
    api.config("b", json!({})).await;
    api.config("a", json!({})).await;
    for query in ["watch=true", "watch=1&resourceVersion=0", "&watch=true&resourceVersion="] {
        let mut watch = api.watch(&format!("{MAPS}?{query}&timeoutSeconds=5")).await;
        assert_eq!(watch.line().await, "ADDED a");
        assert_eq!(watch.line().await, "ADDED b");
        assert!(watch.is_quiet().await);
        assert_eq!(watch.line().await, "END");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_time_is_over_before_it_begins_ends_at_once() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    let begun = Instant::now();
    let mut watch = api.watch(&format!("{MAPS}?watch=true&timeoutSeconds=-5")).await;
    while watch.line().await != "END" {}
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // No time is no limit, and a list has no time to keep.
    let mut watch = api.watch(&format!("{MAPS}?watch=true&timeoutSeconds=0")).await;
    assert_eq!(watch.line().await, "ADDED a");
    assert!(watch.is_quiet().await);
    api.get(&format!("{MAPS}?timeoutSeconds=-5")).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn the_old_paths_of_watches_are_served() {
    let api = TestServer::new();
    api.config("b", json!({})).await;
    api.config("a", json!({})).await;
    for (path, lines) in [
        ("namespaces/default/configmaps?watch=false", &["ADDED a", "ADDED b", "END"][..]),
        ("namespaces/default/configmaps/b", &["ADDED b", "END"]),
        ("configmaps?fieldSelector=metadata.name%3Da", &["ADDED a", "END"]),
        ("namespaces/default", &["ADDED default", "END"]),
    ] {
        let more = if path.contains('?') { '&' } else { '?' };
        let mut watch = api.watch(&format!("/api/v1/watch/{path}{more}timeoutSeconds=5")).await;
        for line in lines {
            assert_eq!(watch.line().await, *line, "{path}");
        }
    }
    let refused = api.post("/api/v1/watch/namespaces/default/configmaps", json!({})).await;
    assert_eq!(refused.code, 405);
    assert_eq!(api.get("/api/v1/watch/namespaces/default/configmaps/a/b").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn events_come_strictly_after_a_revision_and_in_order() {
    let api = TestServer::new();
    let a = api.config("a", json!({})).await;
    let mut watch = api.watch(&format!("{MAPS}?watch=true&resourceVersion={}", revision(&a))).await;
    assert!(watch.is_quiet().await);
    api.config("b", json!({})).await;
    api.patch("merge", &format!("{MAPS}/a"), json!({"data": {"k": "w"}})).await.ok(200);
    api.delete(&format!("{MAPS}/b")).await.ok(200);
    assert_eq!(watch.line().await, "ADDED b");
    assert_eq!(watch.line().await, "MODIFIED a");
    let last = watch.next().await.unwrap();
    assert_eq!(last["type"], "DELETED");
    assert_eq!(revision(&last["object"]), api.cluster.store().revision());
    assert_eq!(last["object"]["data"], json!({"k": "v"}), "the final object is whole");
}

#[tokio::test(start_paused = true)]
async fn objects_enter_and_leave_a_selection() {
    let api = TestServer::new();
    let start = api.cluster.store().revision();
    let path = format!("{MAPS}?watch=true&labelSelector=on%3Dyes&resourceVersion={start}");
    let mut watch = api.watch(&path).await;
    api.config("a", json!({"on": "no"})).await;
    let labels = |on: &str| json!({"metadata": {"labels": {"on": on}}});
    api.patch("merge", &format!("{MAPS}/a"), labels("yes")).await.ok(200);
    api.patch("merge", &format!("{MAPS}/a"), json!({"data": {"k": "w"}})).await.ok(200);
    let left = api.patch("merge", &format!("{MAPS}/a"), labels("no")).await.ok(200);
    api.delete(&format!("{MAPS}/a")).await.ok(200);
    assert_eq!(watch.line().await, "ADDED a");
    assert_eq!(watch.line().await, "MODIFIED a");
    let gone = watch.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(revision(&gone["object"]), revision(&left));
    assert!(watch.is_quiet().await, "its deletion is nobody's business here");
}

#[tokio::test(start_paused = true)]
async fn a_revision_too_old_is_an_error_event() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    api.cluster.store().compact(None, u64::MAX);
    let mut watch = api.watch(&format!("{MAPS}?watch=true&resourceVersion=1")).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["kind"], "Status");
    assert_eq!(event["object"]["code"], 410);
    assert_eq!(event["object"]["reason"], "Expired");
    assert!(
        event["object"]["message"].as_str().unwrap().starts_with("too old resource version: 1 (")
    );
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_it_said_it_would() {
    let api = TestServer::new();
    let begun = Instant::now();
    let lines = api.watch(&format!("{MAPS}?watch=true&timeoutSeconds=90")).await.rest().await;
    assert_eq!(lines, [""; 0]);
    assert_eq!(begun.elapsed(), Duration::from_secs(90));
    let begun = Instant::now();
    api.watch(&format!("{MAPS}?watch=true")).await.rest().await;
    let minutes = begun.elapsed().as_secs() / 60;
    assert!((30..=60).contains(&minutes), "{minutes}");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_at_the_end() {
    let api = TestServer::new();
    let a = api.config("a", json!({})).await;
    let path = format!(
        "{MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion={}",
        revision(&a)
    );
    let mut watch = api.watch(&path).await;
    // Something elsewhere moves the cluster on; the bookmark tells.
    api.post("/api/v1/namespaces", json!({"metadata": {"name": "x"}})).await.ok(201);
    let begun = Instant::now();
    let mut at = Vec::new();
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(event["object"]["kind"], "ConfigMap");
        assert_eq!(event["object"]["apiVersion"], "v1");
        assert_eq!(revision(&event["object"]), api.cluster.store().revision());
        at.push(begun.elapsed().as_secs());
    }
    assert_eq!(at, [60, 120, 150]);
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_in_a_marked_bookmark() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    let path = format!(
        "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=0"
    );
    let mut watch = api.watch(&path).await;
    assert_eq!(watch.line().await, "ADDED a");
    let mark = watch.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(
        mark["object"]["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    assert_eq!(revision(&mark["object"]), api.cluster.store().revision());
    api.config("b", json!({})).await;
    assert_eq!(watch.line().await, "ADDED b");
    let without = api.get(&format!("{MAPS}?watch=true&sendInitialEvents=true")).await;
    assert_eq!(without.code, 422);
}

#[tokio::test(start_paused = true)]
async fn initial_events_are_never_older_than_asked_for() {
    let env = Env::simulated(3);
    let stale = Rule {
        point: Point::WatchStart,
        who: String::new(),
        cluster: String::new(),
        resource: "configmaps".to_owned(),
        verbs: Verbs::Any,
        when: When::Always,
        window: None,
        effect: Effect::Do(FaultOutcome::Stale(100)),
    };
    let plan = FaultPlan::new(1, env.clock.clone(), vec![stale]);
    let api = TestServer::in_env(env.with_faults(Arc::new(plan)));
    api.config("a", json!({})).await;
    let b = api.config("b", json!({})).await;
    api.config("c", json!({})).await;
    let watch = |asked: u64| {
        format!(
            "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion={asked}"
        )
    };
    let mut seen = api.watch(&watch(revision(&b))).await;
    assert_eq!(seen.line().await, "ADDED a");
    assert_eq!(seen.line().await, "ADDED b");
    assert_eq!(
        revision(&seen.next().await.unwrap()["object"]),
        revision(&b),
        "stale, but not too stale"
    );
    assert_eq!(seen.line().await, "ADDED c");
    let future = api.cluster.store().revision() + 1;
    let says = format!("Timeout: Too large resource version: {future}, current: {}", future - 1);
    api.get(&watch(future)).await.refused(504, "Timeout", &says);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_never_idle_gets_bookmarks_and_ends_all_the_same() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    let start = api.cluster.store().revision();
    let path = format!(
        "{MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion={start}"
    );
    let mut watch = api.watch(&path).await;
    let begun = Instant::now();
    let (mut last, mut marks) = (start, 0);
    for n in 0..100 {
        let patch = json!({"data": {"k": n.to_string()}});
        api.patch("merge", &format!("{MAPS}/a"), patch).await.ok(200);
        tokio::time::advance(Duration::from_secs(10)).await;
        let Some(event) = watch.next().await else { break };
        if event["type"] == "BOOKMARK" {
            assert_eq!(revision(&event["object"]), last, "all before it has been sent");
            marks += 1;
        }
        last = revision(&event["object"]);
    }
    assert_eq!(marks, 3, "two on the way and one at the end");
    assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_single_object_can_be_watched_by_its_path() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    api.config("b", json!({})).await;
    let watch = api.watch(&format!("{MAPS}/b?watch=true&timeoutSeconds=1")).await;
    assert_eq!(watch.rest().await, ["ADDED b"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_cut_off_and_writers_never_wait() {
    let api = TestServer::new();
    let mut watch = api
        .watch(&format!("{MAPS}?watch=true&resourceVersion={}", api.cluster.store().revision()))
        .await;
    api.config("a", json!({})).await;
    for n in 0..3_000 {
        let patch = json!({"data": {"k": n.to_string()}});
        api.patch("merge", &format!("{MAPS}/a"), patch).await.ok(200);
    }
    let (mut seen, mut last) = (0, Value::Null);
    while let Some(event) = watch.next().await {
        assert_ne!(last["type"], "ERROR", "nothing follows the end");
        seen += usize::from(event["type"] != "ERROR");
        last = event;
    }
    assert_eq!(seen, 1024, "the queue is bounded, and what it holds has no gap");
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

#[tokio::test(start_paused = true)]
async fn the_watches_of_a_removed_cluster_end() {
    let api = TestServer::new();
    let mut watch = api.watch(&format!("{MAPS}?watch=true")).await;
    assert!(watch.is_quiet().await);
    assert!(api.server.remove_cluster("hub"));
    assert_eq!(watch.next().await, None::<Value>);
}

#[tokio::test(start_paused = true)]
async fn a_wiped_cluster_sends_old_watchers_back_to_listing() {
    let api = TestServer::new();
    for name in ["a", "b", "c"] {
        api.config(name, json!({})).await;
    }
    let old = api.cluster.store().revision();
    let wiped = TestServer { cluster: api.server.add_cluster("hub"), server: api.server };
    let mut watch = wiped.watch(&format!("{MAPS}?watch=true&resourceVersion={old}")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
}
