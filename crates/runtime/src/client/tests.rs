//! Requests and answers against a scripted server.

use flagship_api::names::ObjectKey;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::watch::{WatchEvent, WatchFrom};
use super::*;
use crate::error_action::ErrorAction;
use crate::fake::{Answer, End, Script, event, list, map, status};

fn seen(name: &str, version: u64) -> ConfigMap {
    serde_json::from_value(map(name, version, "seen")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_write_carries_what_it_was_decided_on() {
    let answers = (0..5).map(|_| Answer::Json(200, map("a", 8, "new")));
    let script = Script::new(answers);
    let maps = script.client().named("placement-controller").of::<ConfigMap>();
    let old = seen("a", 7);
    let precondition = Precondition::of(&old).unwrap();
    maps.update(&old).await.unwrap();
    maps.update_status(&old).await.unwrap();
    maps.patch(&precondition, json!({"data": {"text": "new"}})).await.unwrap();
    maps.patch_status(&precondition, json!({"status": {}})).await.unwrap();
    maps.delete(&precondition, Propagation::Background).await.unwrap();
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"text":"seen"},"metadata":{"name":"a","namespace":"app","resourceVersion":"7","uid":"uid-a"}}"#;
    let path = "/api/v1/namespaces/app/configmaps/a";
    let managed = "?fieldManager=placement-controller";
    assert_eq!(
        script.log(),
        [
            format!("PUT {path}{managed} {object}"),
            format!("PUT {path}/status{managed} {object}"),
            format!(
                r#"PATCH {path}{managed} {{"data":{{"text":"new"}},"metadata":{{"resourceVersion":"7"}}}}"#
            ),
            format!(
                r#"PATCH {path}/status{managed} {{"metadata":{{"resourceVersion":"7"}},"status":{{}}}}"#
            ),
            format!(
                r#"DELETE {path} {{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{{"resourceVersion":"7","uid":"uid-a"}},"propagationPolicy":"Background"}}"#
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_without_a_version_is_not_sent() {
    let script = Script::default();
    let maps = script.client().of::<ConfigMap>();
    let mut unread = seen("a", 7);
    unread.metadata.resource_version = None;
    let error = maps.update(&unread).await.unwrap_err();
    assert_eq!(error.to_string(), "ConfigMap app/a carries no resourceVersion to compare with");
    assert!(script.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_is_no_object_is_not_sent() {
    let script = Script::default();
    let precondition = Precondition::of(&seen("a", 7)).unwrap();
    for patch in [json!([1]), json!("text"), json!({"metadata": "text"})] {
        let error =
            script.client().of::<ConfigMap>().patch(&precondition, patch).await.unwrap_err();
        assert_eq!(error.action(), ErrorAction::Refused);
    }
    assert!(script.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_found_to_be_none() {
    let missing = || {
        let mut answer = status(404, "NotFound");
        answer["details"] = json!({"name": "a", "kind": "configmaps"});
        Answer::Json(404, answer)
    };
    let script = Script::new([missing(), missing(), Answer::Json(404, status(404, "NotFound"))]);
    let maps = script.client().of::<ConfigMap>();
    let key = ObjectKey::namespaced("app", "a");
    assert!(maps.find(&key).await.unwrap().is_none());
    assert_eq!(maps.get(&key).await.unwrap_err().action(), ErrorAction::NotFound);
    let unserved = maps.find(&key).await.unwrap_err();
    assert!(matches!(unserved, ClientError::NotServed { .. }), "{unserved}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_unreachable_after_the_timeout() {
    let script = Script::default();
    let begun = tokio::time::Instant::now();
    let error = script.client().of::<ConfigMap>().list(&Selection::all()).await.unwrap_err();
    assert_eq!(begun.elapsed(), REQUEST_TIMEOUT);
    assert!(error.outcome_unknown());
    assert_eq!(error.action(), ErrorAction::BackOff { after: None });
}

#[tokio::test(start_paused = true)]
async fn retry_after_reaches_the_verdict() {
    let script = Script::new([Answer::RetryAfter(429, "17"), Answer::RetryAfter(503, "2")]);
    let maps = script.client().of::<ConfigMap>();
    for seconds in [17, 2] {
        let error = maps.list(&Selection::all()).await.unwrap_err();
        let after = Some(Duration::from_secs(seconds));
        assert_eq!(error.action(), ErrorAction::BackOff { after });
    }
    assert_eq!(script.log().len(), 2, "nothing below the queue retries");
}

#[tokio::test(start_paused = true)]
async fn a_list_goes_through_all_pages_and_past_bad_objects() {
    let mut first = list(7, [map("a", 1, "x"), json!({"metadata": {"name": "b"}, "data": 5})]);
    first["metadata"]["continue"] = json!("more");
    let script =
        Script::new([Answer::Json(200, first), Answer::Json(200, list(7, [map("c", 3, "x")]))]);
    let selection = Selection::namespace("app").with_labels("a=b");
    let listed = script.client().of::<ConfigMap>().list(&selection).await.unwrap();
    let names: Vec<_> = listed.items.iter().filter_map(|map| map.metadata.name.clone()).collect();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(listed.resource_version, "7");
    let bad = &listed.malformed[0];
    assert_eq!(
        (bad.kind.as_str(), bad.name.as_str(), bad.field.as_str()),
        ("ConfigMap", "b", "data")
    );
    let path = "GET /api/v1/namespaces/app/configmaps?labelSelector=a%3Db&limit=500";
    assert_eq!(script.log(), [path.to_owned(), format!("{path}&continue=more")]);
}

#[tokio::test(start_paused = true)]
async fn pages_that_expire_are_fetched_again_in_one() {
    let mut first = list(7, [map("a", 1, "x")]);
    first["metadata"]["continue"] = json!("more");
    let script = Script::new([
        Answer::Json(200, first),
        Answer::Json(410, status(410, "Expired")),
        Answer::Json(200, list(9, [map("a", 1, "x"), map("b", 8, "y")])),
    ]);
    let listed = script.client().of::<ConfigMap>().list(&Selection::all()).await.unwrap();
    assert_eq!((listed.items.len(), listed.resource_version.as_str()), (2, "9"));
    assert_eq!(script.log()[2], "GET /api/v1/configmaps");
}

#[tokio::test(start_paused = true)]
async fn a_bad_line_does_not_end_a_watch_and_a_broken_one_does() {
    let bad = json!({"metadata": {"name": "b", "resourceVersion": "9"}, "data": 5});
    let mark = json!({"kind": "ConfigMap", "metadata": {"resourceVersion": "10"}});
    let lines = vec![
        event("ADDED", map("a", 8, "x")),
        event("MODIFIED", bad),
        event("BOOKMARK", mark),
        event("DELETED", map("a", 11, "x")),
        event("ERROR", status(410, "Expired")),
    ];
    let script = Script::new([Answer::Lines(lines, End::Break)]);
    let from = WatchFrom::Version("7".to_owned());
    let maps = script.client().of::<ConfigMap>();
    let mut watch = maps.watch(&Selection::all(), &from, Duration::from_secs(290)).await.unwrap();
    let mut told = Vec::new();
    while let Some(event) = watch.next().await {
        told.push(match event {
            Ok(WatchEvent::Applied(map)) => format!("applied {}", map.metadata.name.unwrap()),
            Ok(WatchEvent::Deleted(map)) => format!("deleted {}", map.metadata.name.unwrap()),
            Ok(WatchEvent::Malformed { problem, resource_version, deleted }) => {
                format!("{problem} at {resource_version:?}, deleted {deleted}")
            }
            Ok(WatchEvent::Bookmark(version)) => format!("bookmark {version}"),
            Ok(WatchEvent::ListEnded(version)) => format!("list ended {version}"),
            Err(error) => error.to_string(),
        });
    }
    assert_eq!(
        told,
        [
            "applied a",
            "ConfigMap b: data: invalid type: integer `5`, expected a map at line 1 column 9 at Some(\"9\"), deleted false",
            "bookmark 10",
            "deleted a",
            "configmaps/v1: Expired",
            "no answer about configmaps/v1",
        ]
    );
}

#[tokio::test]
async fn a_real_server_that_is_not_there_is_unreachable() {
    // The one test with a socket: that the TLS stack can be set up at all.
    let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
    config.accept_invalid_certs = true;
    let client = Client::from_config(config).unwrap();
    let error = client.of::<ConfigMap>().list(&Selection::all()).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert!(error.outcome_unknown());
}

#[tokio::test]
async fn a_kubeconfig_is_read_and_its_contexts_are_told_apart() {
    let path = std::env::temp_dir().join(format!("flagship-{}.kubeconfig", std::process::id()));
    let cluster = |port| json!({"server": format!("http://127.0.0.1:{port}")});
    let context = |name| json!({"name": name, "context": {"cluster": name, "user": "u"}});
    let file = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": cluster(1)}, {"name": "member1", "cluster": cluster(2)}],
        "contexts": [context("hub"), context("member1")],
        "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&path, file.to_string()).unwrap();
    for context in [None, Some("member1")] {
        assert!(Client::from_kubeconfig(Some(&path), context).await.is_ok());
    }
    let missing = Client::from_kubeconfig(Some(&path), Some("member9")).await;
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(missing, Err(ConnectError::Kubeconfig(_))));
}
