//! Lists: revisions, pages and snapshots.

use serde_json::{Value, json};

use crate::harness::{GADGETS, MAPS, TestServer, gadget, gadget_definition, names, revision};

#[tokio::test]
async fn a_list_carries_the_revision_it_shows() {
    let api = TestServer::new();
    api.config("b", json!({})).await;
    let last = api.config("a", json!({})).await;
    let list = api.get(MAPS).await.ok(200);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["apiVersion"], "v1");
    assert_eq!(names(&list), ["a", "b"]);
    assert_eq!(revision(&list), revision(&last));
    assert_eq!(list["items"][0]["metadata"], last["metadata"]);
    let empty = api.get("/api/v1/secrets").await.ok(200);
    assert_eq!(empty["items"], json!([]));
}

#[tokio::test]
async fn a_list_of_large_and_small_objects_is_whole() {
    let api = TestServer::new();
    for (name, bytes) in [("a", 20_000), ("b", 10), ("c", 100_000), ("d", 20_000), ("e", 1)] {
        let map = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(bytes)}});
        api.post(MAPS, map).await.ok(201);
    }
    let list = api.get(MAPS).await.ok(200);
    assert_eq!(names(&list), ["a", "b", "c", "d", "e"]);
    assert_eq!(list["items"][2]["data"]["text"].as_str().map(str::len), Some(100_000));
    let page = api.get(&format!("{MAPS}?limit=1")).await.ok(200);
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn pages_come_from_one_snapshot() {
    let api = TestServer::new();
    for name in ["a", "b", "c", "d", "e"] {
        api.config(name, json!({})).await;
    }
    let first = api.get(&format!("{MAPS}?limit=2")).await.ok(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    api.delete(&format!("{MAPS}/c")).await.ok(200);
    api.config("bb", json!({})).await;
    let second = api.get(&format!("{MAPS}?limit=2&continue={token}")).await.ok(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(revision(&second), revision(&first));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = api.get(&format!("{MAPS}?limit=2&continue={token}")).await.ok(200);
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third["metadata"]["continue"], Value::Null);
    assert_eq!(third["metadata"]["remainingItemCount"], Value::Null);
}

#[tokio::test]
async fn remaining_items_are_not_counted_under_selectors() {
    let api = TestServer::new();
    for name in ["a", "b", "c"] {
        api.config(name, json!({"app": "x"})).await;
    }
    let page = api.get(&format!("{MAPS}?limit=1&labelSelector=app%3Dx")).await.ok(200);
    assert!(page["metadata"]["continue"].is_string());
    assert_eq!(page["metadata"]["remainingItemCount"], Value::Null);
    // A full page with nothing matching after it is the last one.
    let page = api.get(&format!("{MAPS}?limit=3&labelSelector=app%3Dx")).await.ok(200);
    assert_eq!(page["metadata"]["continue"], Value::Null);
}

#[tokio::test]
async fn an_expired_or_altered_token_is_refused() {
    let api = TestServer::new();
    for name in ["a", "b", "c"] {
        api.config(name, json!({})).await;
    }
    let first = api.get(&format!("{MAPS}?limit=1")).await.ok(200);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    for bad in ["x", "AAAA", &format!("{token}A"), &token[1..]] {
        let reply = api.get(&format!("{MAPS}?limit=1&continue={bad}")).await;
        assert_eq!((reply.code, reply.body["reason"].as_str()), (400, Some("BadRequest")));
        let says = reply.body["message"].as_str().unwrap_or_default();
        assert!(says.starts_with("invalid continue token: continue key is not valid"), "{says}");
    }
    // A token belongs to its query.
    let other = format!("/api/v1/configmaps?limit=1&continue={token}");
    assert_eq!(api.get(&other).await.code, 400);
    api.config("d", json!({})).await;
    api.cluster.store().compact(None, u64::MAX);
    api.get(&format!("{MAPS}?limit=1&continue={token}")).await.refused(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
    );
}

#[tokio::test]
async fn a_revision_asked_for_is_a_lower_bound_or_exact() {
    let api = TestServer::new();
    let a = api.config("a", json!({})).await;
    api.config("b", json!({})).await;
    let at = revision(&a);
    let exact =
        api.get(&format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact")).await.ok(200);
    assert_eq!(names(&exact), ["a"]);
    assert_eq!(revision(&exact), at);
    let bound = format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=NotOlderThan");
    for path in [format!("{MAPS}?resourceVersion={at}"), bound, format!("{MAPS}?resourceVersion=0")]
    {
        assert_eq!(names(&api.get(&path).await.ok(200)), ["a", "b"], "{path}");
    }
    api.cluster.store().compact(None, u64::MAX);
    let gone = api.get(&format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact")).await;
    assert_eq!((gone.code, gone.body["reason"].as_str()), (410, Some("Expired")));
    let without = api.get(&format!("{MAPS}?resourceVersionMatch=Exact")).await;
    assert_eq!(without.code, 422);
}

#[tokio::test]
async fn a_revision_from_the_future_is_a_timeout() {
    let api = TestServer::new();
    let current = api.cluster.store().revision();
    for path in [MAPS.to_owned(), "/api/v1/namespaces/default".to_owned()] {
        let reply = api.get(&format!("{path}?resourceVersion=999999")).await;
        assert_eq!(reply.headers["retry-after"], "1");
        let body = reply.refused(
            504,
            "Timeout",
            &format!("Timeout: Too large resource version: 999999, current: {current}"),
        );
        assert_eq!(body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(body["details"]["retryAfterSeconds"], 1);
    }
}

#[tokio::test]
async fn items_of_built_in_lists_leave_their_type_out() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let large = "x".repeat(40_000);
    api.post(MAPS, json!({"metadata": {"name": "a"}, "data": {"kind": "k"}})).await.ok(201);
    api.post(MAPS, json!({"metadata": {"name": "b"}, "data": {"l": large}})).await.ok(201);
    api.post(GADGETS, gadget("g", 1)).await.ok(201);
    let list = api.get(MAPS).await.ok(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    for item in list["items"].as_array().unwrap() {
        assert!(item.get("kind").is_none() && item.get("apiVersion").is_none(), "{item}");
    }
    assert_eq!(list["items"][0]["data"], json!({"kind": "k"}));
    assert_eq!(list["items"][1]["data"]["l"].as_str().map(str::len), Some(40_000));
    let list = api.get(GADGETS).await.ok(200);
    assert_eq!(list["items"][0]["kind"], "Gadget");
}
