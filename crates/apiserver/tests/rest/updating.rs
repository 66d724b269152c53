//! Replacing objects and their status.

use serde_json::{Value, json};

use crate::harness::{GADGETS, MAPS, TestServer, gadget, gadget_definition, revision};

#[tokio::test]
async fn a_stale_revision_is_a_conflict() {
    let api = TestServer::new();
    let first = api.config("a", json!({})).await;
    let path = format!("{MAPS}/a");
    let mut second = first.clone();
    second["data"]["k"] = json!("w");
    api.put(&path, second).await.ok(200);
    api.put(&path, first).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again",
    );
}

#[tokio::test]
async fn a_revision_may_be_left_out_for_built_in_kinds_only() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    api.put(&format!("{MAPS}/a"), json!({"metadata": {"name": "a"}, "data": {}})).await.ok(200);
    api.define(gadget_definition()).await;
    api.post(GADGETS, gadget("g", 1)).await.ok(201);
    let reply = api.put(&format!("{GADGETS}/g"), gadget("g", 2)).await;
    assert_eq!(reply.code, 422);
    assert_eq!(reply.body["details"]["causes"][0]["field"], "metadata.resourceVersion");
    assert_eq!(
        reply.body["message"],
        "gadgets.example.com \"g\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

#[tokio::test]
async fn a_write_that_changes_nothing_takes_no_revision() {
    let api = TestServer::new();
    let made = api.config("a", json!({})).await;
    let before = api.cluster.store().revision();
    let same = api.put(&format!("{MAPS}/a"), made.clone()).await.ok(200);
    assert_eq!(same, made);
    let patched =
        api.patch("merge", &format!("{MAPS}/a"), json!({"data": {"k": "v"}})).await.ok(200);
    assert_eq!(revision(&patched), revision(&made));
    assert_eq!(api.cluster.store().revision(), before);
}

#[tokio::test]
async fn another_uid_is_another_object() {
    let api = TestServer::new();
    let mut made = api.config("a", json!({})).await;
    let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
    made["metadata"]["uid"] = json!("other");
    api.put(&format!("{MAPS}/a"), made).await.refused(
        409,
        "Conflict",
        &format!("Operation cannot be fulfilled on configmaps \"a\": Precondition failed: UID in precondition: other, UID in object meta: {uid}"),
    );
}

#[tokio::test]
async fn what_the_server_owns_survives_an_update_without_it() {
    let api = TestServer::new();
    let made = api.config("a", json!({})).await;
    let sent = json!({"metadata": {"name": "a"}, "data": {"k": "w"}});
    let now = api.put(&format!("{MAPS}/a"), sent).await.ok(200);
    for key in ["uid", "creationTimestamp", "namespace"] {
        assert_eq!(now["metadata"][key], made["metadata"][key], "{key}");
    }
    let wrong = json!({"metadata": {"name": "b"}});
    api.put(&format!("{MAPS}/a"), wrong).await.refused(
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
    api.put(&format!("{MAPS}/z"), json!({"metadata": {"name": "z"}})).await.refused(
        404,
        "NotFound",
        "configmaps \"z\" not found",
    );
}

#[tokio::test]
async fn generation_counts_changes_of_the_specification() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let mut object = api.post(GADGETS, gadget("g", 1)).await.ok(201);
    let path = format!("{GADGETS}/g");
    object["metadata"]["labels"] = json!({"a": "b"});
    let mut object = api.put(&path, object).await.ok(200);
    assert_eq!(object["metadata"]["generation"], 1, "labels are not the specification");
    object["spec"]["size"] = json!(2);
    let mut object = api.put(&path, object).await.ok(200);
    assert_eq!(object["metadata"]["generation"], 2);
    object["status"] = json!({"ready": true});
    let object = api.put(&format!("{path}/status"), object).await.ok(200);
    assert_eq!(object["metadata"]["generation"], 2);
    assert_eq!(object["status"], json!({"ready": true}));
}

#[tokio::test]
async fn each_path_writes_only_its_own_half() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let mut object = api.post(GADGETS, gadget("g", 1)).await.ok(201);
    let path = format!("{GADGETS}/g");
    object["spec"]["size"] = json!(9);
    object["metadata"]["labels"] = json!({"a": "b"});
    object["status"] = json!({"ready": true});
    let mut object = api.put(&format!("{path}/status"), object).await.ok(200);
    assert_eq!(object["spec"]["size"], 1);
    assert_eq!(object["metadata"]["labels"], Value::Null);
    assert_eq!(object["status"]["ready"], true);
    object["status"]["ready"] = json!(false);
    object["spec"]["size"] = json!(5);
    let object = api.put(&path, object).await.ok(200);
    assert_eq!(object["status"]["ready"], true);
    assert_eq!(object["spec"]["size"], 5);
    api.put(&format!("{path}/nothing"), object).await.refused(
        404,
        "NotFound",
        "gadgets.example.com \"g\" not found",
    );
}

#[tokio::test]
async fn transition_rules_see_the_old_object() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let mut object = gadget("g", 1);
    object["spec"]["fixed"] = json!("x");
    let mut object = api.post(GADGETS, object).await.ok(201);
    object["spec"]["fixed"] = json!("y");
    let reply = api.put(&format!("{GADGETS}/g"), object).await;
    assert_eq!(reply.code, 422);
    assert_eq!(reply.body["details"]["causes"][0]["field"], "spec.fixed");
    let message = reply.body["message"].as_str().unwrap();
    assert!(message.ends_with("fixed is immutable"), "{message}");
}

#[tokio::test]
async fn deployments_count_generations_and_keep_their_status() {
    let api = TestServer::new();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let made = api.post(path, deployment("web", 2)).await.ok(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let mut next = made.clone();
    next["spec"]["replicas"] = json!(3);
    next["status"] = json!({"replicas": 99});
    let next = api.put(&format!("{path}/web"), next).await.ok(200);
    assert_eq!(next["metadata"]["generation"], 2);
    assert_ne!(next["status"]["replicas"], 99);
    let mut status = next.clone();
    status["status"] = json!({"replicas": 3, "observedGeneration": 2});
    let status = api.put(&format!("{path}/web/status"), status).await.ok(200);
    assert_eq!(status["status"]["replicas"], 3);
    assert_eq!(status["metadata"]["generation"], 2);
}

pub fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "img:1"}]},
            },
        },
    })
}

#[tokio::test]
async fn scale_shows_and_sets_replicas() {
    let api = TestServer::new();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    api.post(path, deployment("web", 2)).await.ok(201);
    let scale = api.get(&format!("{path}/web/scale")).await.ok(200);
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["spec"], json!({"replicas": 2}));
    assert_eq!(scale["status"]["selector"], "app=web");
    let patched = api
        .patch("merge", &format!("{path}/web/scale"), json!({"spec": {"replicas": 5}}))
        .await
        .ok(200);
    assert_eq!(patched["spec"]["replicas"], 5);
    assert_eq!(api.get(&format!("{path}/web")).await.ok(200)["spec"]["replicas"], 5);
    let stale = api.put(&format!("{path}/web/scale"), scale).await;
    assert_eq!(stale.code, 409);

    api.define(gadget_definition()).await;
    api.post(GADGETS, gadget("g", 4)).await.ok(201);
    let mut scale = api.get(&format!("{GADGETS}/g/scale")).await.ok(200);
    assert_eq!(scale["spec"]["replicas"], 4);
    scale["spec"]["replicas"] = json!(6);
    api.put(&format!("{GADGETS}/g/scale"), scale).await.ok(200);
    assert_eq!(api.get(&format!("{GADGETS}/g")).await.ok(200)["spec"]["size"], 6);
    let negative = json!({"spec": {"replicas": -1}});
    assert_eq!(api.patch("merge", &format!("{GADGETS}/g/scale"), negative).await.code, 422);
}

#[tokio::test]
async fn a_write_to_status_is_not_judged_by_the_metadata_it_cannot_change() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let mut object = api.post(GADGETS, gadget("g", 1)).await.ok(201);
    object["metadata"]["creationTimestamp"] = json!("2000-01-01T00:00:00Z");
    object["metadata"]["deletionTimestamp"] = json!("2000-01-01T00:00:00Z");
    object["status"] = json!({"ready": true});
    let path = format!("{GADGETS}/g");
    let now = api.put(&format!("{path}/status"), object.clone()).await.ok(200);
    assert_eq!(now["status"], json!({"ready": true}));
    assert_ne!(now["metadata"]["creationTimestamp"], object["metadata"]["creationTimestamp"]);
    object["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
    assert_eq!(api.put(&path, object).await.code, 422);
}

#[tokio::test]
async fn metadata_passes_through_the_status_of_built_in_kinds() {
    let api = TestServer::new();
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let services = MAPS.replace("configmaps", "services");
    api.post(&services, service).await.ok(201);
    let patch = json!({"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}},
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}});
    let now = api.patch("merge", &format!("{services}/s/status"), patch).await.ok(200);
    assert_eq!(now["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(now["metadata"]["labels"], json!({"c": "d"}));
    assert_eq!(now["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.1");
    // Definitions put theirs back, as other newer kinds do.
    api.define(gadget_definition()).await;
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.com";
    let patch = json!({"metadata": {"annotations": {"a": "b"}}});
    let now = api.patch("merge", &format!("{definition}/status"), patch).await.ok(200);
    assert!(now["metadata"]["annotations"].is_null());
}
