//! Deleting objects.

use serde_json::{Value, json};

use crate::harness::{GADGETS, MAPS, PODS, TestServer, gadget, gadget_definition, names, revision};

#[tokio::test]
async fn an_object_without_finalizers_is_gone_at_once() {
    let api = TestServer::new();
    let made = api.config("a", json!({})).await;
    let status = api.delete(&format!("{MAPS}/a")).await.ok(200);
    assert_eq!(status["status"], "Success");
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]})
    );
    api.delete(&format!("{MAPS}/a")).await.refused(404, "NotFound", "configmaps \"a\" not found");
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_removed() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let mut object = gadget("g", 1);
    object["metadata"]["finalizers"] = json!(["a.io/x", "b.io/y"]);
    api.post(GADGETS, object).await.ok(201);
    let path = format!("{GADGETS}/g");
    let marked = api.delete(&path).await.ok(200);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);

    let again = api.delete(&path).await.ok(200);
    assert_eq!(revision(&again), revision(&marked), "a second deletion changes nothing");

    let mut added = marked.clone();
    added["metadata"]["finalizers"] = json!(["a.io/x", "b.io/y", "c.io/z"]);
    let reply = api.put(&path, added).await;
    assert_eq!(reply.code, 422);
    assert_eq!(reply.body["details"]["causes"][0]["field"], "metadata.finalizers");
    assert_eq!(reply.body["details"]["causes"][0]["reason"], "FieldValueForbidden");

    let one =
        api.patch("merge", &path, json!({"metadata": {"finalizers": ["b.io/y"]}})).await.ok(200);
    assert_eq!(one["metadata"]["deletionTimestamp"], marked["metadata"]["deletionTimestamp"]);
    let mut watch =
        api.watch(&format!("{GADGETS}?watch=true&resourceVersion={}", revision(&one))).await;
    api.patch("merge", &path, json!({"metadata": {"finalizers": null}})).await.ok(200);
    assert_eq!(api.get(&path).await.code, 404);
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(revision(&event["object"]), api.cluster.store().revision());
}

#[tokio::test]
async fn preconditions_protect_from_deleting_another_object() {
    let api = TestServer::new();
    let made = api.config("a", json!({})).await;
    let path = format!("{MAPS}/a");
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let body = json!({"preconditions": {"uid": "other"}});
    api.send("DELETE", &path, body).await.refused(
        409,
        "Conflict",
        &format!("Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not match the UID in record ({uid}). The object might have been deleted and then recreated"),
    );
    let body = json!({"preconditions": {"resourceVersion": "1"}});
    assert_eq!(api.send("DELETE", &path, body).await.code, 409);
    let body = json!({"preconditions": {"uid": uid, "resourceVersion": made["metadata"]["resourceVersion"]}});
    api.send("DELETE", &path, body).await.ok(200);
}

#[tokio::test]
async fn propagation_leaves_its_finalizer() {
    let api = TestServer::new();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let name = policy.to_lowercase();
        api.config(&name, json!({})).await;
        let body = json!({"propagationPolicy": policy});
        let marked = api.send("DELETE", &format!("{MAPS}/{name}"), body).await.ok(200);
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
    }
    // Changing one's mind: background takes the server's own finalizers off again.
    let gone = api.delete(&format!("{MAPS}/orphan?propagationPolicy=Background")).await.ok(200);
    assert!(gone["metadata"]["deletionTimestamp"].is_string() || gone["status"] == "Success");
    assert_eq!(api.get(&format!("{MAPS}/orphan")).await.code, 404);
    let odd = json!({"propagationPolicy": "Sideways"});
    assert_eq!(api.send("DELETE", &format!("{MAPS}/foreground"), odd).await.code, 422);
}

#[tokio::test]
async fn jobs_leave_their_pods_behind_unless_told_otherwise() {
    let api = TestServer::new();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}],
    }}}});
    api.post(jobs, job.clone()).await.ok(201);
    let path = format!("{jobs}/a");
    let marked = api.delete(&path).await.ok(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    api.delete(&format!("{path}?propagationPolicy=Foreground")).await.ok(200);
    let again = api.delete(&path).await.ok(200);
    assert_eq!(
        again["metadata"]["finalizers"],
        json!(["foregroundDeletion"]),
        "what was decided stays"
    );
    api.delete(&format!("{path}?propagationPolicy=Background")).await.ok(200);
    assert_eq!(api.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let api = TestServer::new();
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        api.config(name, json!({"app": app})).await;
    }
    let deleted = api.delete(&format!("{MAPS}?labelSelector=app%3Dx")).await.ok(200);
    assert_eq!(deleted["kind"], "ConfigMapList");
    assert_eq!(names(&deleted), ["a", "c"]);
    assert_eq!(names(&api.get(MAPS).await.ok(200)), ["b"]);
    let namespaces = api.delete("/api/v1/namespaces").await;
    assert_eq!(namespaces.code, 405);
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn a_running_pod_is_given_time() {
    let api = TestServer::new();
    api.post(PODS, pod("idle")).await.ok(201);
    let gone = api.delete(&format!("{PODS}/idle")).await.ok(200);
    assert_eq!(gone["kind"], "Pod", "pods are returned, not a Status");
    assert_eq!(api.get(&format!("{PODS}/idle")).await.code, 404);

    let mut busy = pod("busy");
    busy["spec"]["nodeName"] = json!("n1");
    api.post(PODS, busy).await.ok(201);
    let path = format!("{PODS}/busy");
    let marked = api.delete(&path).await.ok(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    let sooner = api.delete(&format!("{path}?gracePeriodSeconds=10")).await.ok(200);
    assert_eq!(sooner["metadata"]["deletionTimestamp"], "2026-01-01T00:00:10Z");
    let later = api.delete(&format!("{path}?gracePeriodSeconds=60")).await.ok(200);
    assert_eq!(later["metadata"]["deletionGracePeriodSeconds"], 10);
    api.delete(&format!("{path}?gracePeriodSeconds=0")).await.ok(200);
    assert_eq!(api.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_namespace_goes_when_it_is_finalized() {
    let api = TestServer::new();
    let made = api.post("/api/v1/namespaces", json!({"metadata": {"name": "x"}})).await.ok(201);
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(made["status"]["phase"], "Active");
    let mut marked = api.delete("/api/v1/namespaces/x").await.ok(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(marked["spec"]["finalizers"], json!(["kubernetes"]));
    marked["spec"]["finalizers"] = json!([]);
    api.put("/api/v1/namespaces/x/finalize", marked).await.ok(200);
    assert_eq!(api.get("/api/v1/namespaces/x").await.code, 404);
    api.delete("/api/v1/namespaces/default").await.refused(
        403,
        "Forbidden",
        "namespaces \"default\" is forbidden: this namespace may not be deleted",
    );
}
