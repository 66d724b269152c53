//! The four kinds of patches and who owns what afterwards.

use std::sync::Arc;
use std::time::Duration;

use flagship_apiserver::rest::{DeleteOptions, PatchKind, WriteOptions};
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{Env, FaultOutcome, FaultPlan, Point};
use serde_json::{Value, json};

use crate::harness::{GADGETS, MAPS, TestServer, gadget, gadget_definition};
use crate::updating::deployment;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

#[tokio::test]
async fn json_patches_apply_or_are_refused_whole() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    let path = format!("{MAPS}/a");
    let good = json!([
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "replace", "path": "/data/k", "value": "w"},
        {"op": "add", "path": "/data/n", "value": "1"},
    ]);
    let now = api.patch("json", &path, good).await.ok(200);
    assert_eq!(now["data"], json!({"k": "w", "n": "1"}));
    for bad in [
        json!([{"op": "test", "path": "/data/k", "value": "v"}]),
        json!([{"op": "remove", "path": "/data/gone"}]),
        json!([{"op": "replace", "path": "/data/gone/deeper", "value": 1}]),
    ] {
        let reply = api.patch("json", &path, bad.clone()).await;
        assert_eq!((reply.code, reply.body["reason"].as_str()), (422, Some("Invalid")), "{bad}");
    }
    assert_eq!(api.get(&path).await.ok(200)["data"], now["data"]);
}

#[tokio::test]
async fn a_patch_is_blamed_for_what_cannot_be_read() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    let strict = format!("{MAPS}/a?fieldValidation=Strict");
    let said = async |kind: &str, patch: Value| {
        let reply = api.patch(kind, &strict, patch).await;
        assert_eq!((reply.code, reply.body["reason"].as_str()), (422, Some("Invalid")));
        assert_eq!(reply.body["details"]["causes"][0]["field"], "patch");
        reply.body["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        said("strategic", json!({"foo": 1})).await,
        r#" "" is invalid: patch: Invalid value: "map[foo:1]": strict decoding error: unknown field "foo""#
    );
    for (kind, patch) in
        [("merge", json!({"foo": 1})), ("json", json!([{"op": "add", "path": "/foo", "value": 1}]))]
    {
        let says = said(kind, patch).await;
        assert!(says.starts_with(r#" "" is invalid: patch: Invalid value: "{"#), "{says}");
        assert!(says.ends_with(r#": strict decoding error: unknown field "foo""#), "{says}");
    }
    let wrong = said("merge", json!({"data": {"a": 5}})).await;
    assert!(wrong.contains("json: cannot unmarshal number into Go struct field"), "{wrong}");
    // Without being strict, what is unknown is left out.
    api.patch("merge", &format!("{MAPS}/a?fieldValidation=Ignore"), json!({"foo": 1}))
        .await
        .ok(200);
}

#[tokio::test]
async fn a_patch_of_nothing_is_not_found_and_an_apply_creates() {
    let api = TestServer::new();
    api.patch("merge", &format!("{MAPS}/a"), json!({})).await.refused(
        404,
        "NotFound",
        "configmaps \"a\" not found",
    );
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
    let made =
        api.patch("apply", &format!("{MAPS}/a?fieldManager=me"), object.clone()).await.ok(201);
    assert_eq!(made["metadata"]["name"], "a");
    api.patch("apply", &format!("{MAPS}/a?fieldManager=me"), object).await.ok(200);
}

#[tokio::test]
async fn a_patch_may_carry_a_revision() {
    let api = TestServer::new();
    let made = api.config("a", json!({})).await;
    let path = format!("{MAPS}/a");
    let old = made["metadata"]["resourceVersion"].clone();
    let patch = |value: &str| json!({"metadata": {"resourceVersion": old}, "data": {"k": value}});
    api.patch("merge", &path, patch("1")).await.ok(200);
    assert_eq!(api.patch("merge", &path, patch("2")).await.code, 409);
}

#[tokio::test]
async fn strategic_patches_merge_lists_of_built_in_kinds_only() {
    let api = TestServer::new();
    api.post(DEPLOYMENTS, deployment("web", 1)).await.ok(201);
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s:1"}]}}}});
    let now = api.patch("strategic", &format!("{DEPLOYMENTS}/web"), patch).await.ok(200);
    let containers = now["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 2);
    api.define(gadget_definition()).await;
    api.post(GADGETS, gadget("g", 1)).await.ok(201);
    api.patch("strategic", &format!("{GADGETS}/g"), json!({})).await.refused(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    );
    let odd =
        api.send_with("PATCH", &format!("{MAPS}/a"), &["Content-Type: text/plain"], "{}").await;
    assert_eq!(odd.code, 415);
}

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .map(|e| {
            format!("{} {} {}", text(&e["manager"]), text(&e["operation"]), text(&e["subresource"]))
        })
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[tokio::test]
async fn every_write_records_its_manager() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let agent = "User-Agent: kubectl/v1.34 (linux)";
    let made = api.send_with("POST", GADGETS, &[agent], gadget("g", 1).to_string()).await.ok(201);
    assert_eq!(managers(&made), ["kubectl Update"]);
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!(entry["apiVersion"], "example.com/v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert_eq!(entry["time"], "2026-01-01T00:00:00Z");
    let path = format!("{GADGETS}/g");
    let status = json!({"status": {"ready": true}});
    let now =
        api.patch("merge", &format!("{path}/status?fieldManager=agent"), status).await.ok(200);
    assert_eq!(managers(&now), ["agent Update status", "kubectl Update"]);
}

#[tokio::test]
async fn apply_refuses_what_others_own_until_forced() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    api.post(&format!("{GADGETS}?fieldManager=first"), gadget("g", 1)).await.ok(201);
    let path = format!("{GADGETS}/g");
    let reply = api.patch("apply", &format!("{path}?fieldManager=second"), gadget("g", 2)).await;
    assert_eq!((reply.code, reply.body["reason"].as_str()), (409, Some("Conflict")));
    let cause = &reply.body["details"]["causes"][0];
    assert_eq!(cause["reason"], "FieldManagerConflict");
    assert_eq!(cause["field"], ".spec.size");
    assert!(cause["message"].as_str().unwrap().starts_with("conflict with \"first\""));
    let forced = format!("{path}?fieldManager=second&force=true");
    let now = api.patch("apply", &forced, gadget("g", 2)).await.ok(200);
    assert_eq!(now["spec"]["size"], 2);
    assert!(managers(&now).contains(&"second Apply".to_owned()), "{:?}", managers(&now));
    let same = api.patch("apply", &forced, gadget("g", 2)).await.ok(200);
    assert_eq!(same["metadata"]["resourceVersion"], now["metadata"]["resourceVersion"]);
}

/// Found by a Go client: defaults inside a list that is compared whole made every apply a
/// change, as only the time of its manager differed in the end.
#[tokio::test(start_paused = true)]
async fn applying_the_same_again_later_changes_nothing() {
    let api = TestServer::new();
    let mut definition = gadget_definition();
    let fields = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    fields["spec"]["properties"]["parts"] = json!({"type": "array", "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "color": {"type": "string", "default": "red"}},
    }});
    api.define(definition).await;
    let mut wanted = gadget("a", 1);
    wanted["spec"]["parts"] = json!([{"name": "wheel"}]);
    let path = format!("{GADGETS}/a?fieldManager=robot");
    let first = api.patch("apply", &path, wanted.clone()).await.ok(201);
    assert_eq!(first["spec"]["parts"][0]["color"], "red");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(api.patch("apply", &path, wanted.clone()).await.ok(200), first);
    wanted["spec"]["parts"][0]["name"] = json!("tyre");
    let changed = api.patch("apply", &path, wanted).await.ok(200);
    assert_ne!(changed["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let time = |object: &Value| object["metadata"]["managedFields"][0]["time"].clone();
    assert_ne!(time(&changed), time(&first));
}

#[tokio::test]
async fn apply_has_its_own_rules() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let path = format!("{GADGETS}/g");
    api.patch("apply", &path, gadget("g", 1)).await.refused(
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
    );
    let mut managed = gadget("g", 1);
    managed["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    api.patch("apply", &format!("{path}?fieldManager=m"), managed).await.refused(
        400,
        "BadRequest",
        "metadata.managedFields must be nil",
    );
    let reply = api.patch("merge", &format!("{path}?force=true"), json!({})).await;
    assert_eq!(reply.code, 422);
    let yaml = "apiVersion: example.com/v1\nkind: Gadget\nspec:\n  size: 4\n";
    let header = "Content-Type: application/apply-patch+yaml";
    let made =
        api.send_with("PATCH", &format!("{path}?fieldManager=m"), &[header], yaml).await.ok(201);
    assert_eq!(made["spec"]["size"], 4);
    // What a manager no longer applies goes away; what others added stays.
    let two = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"labels": {"a": "b"}}, "spec": {"size": 4}});
    api.patch("apply", &format!("{path}?fieldManager=m"), two).await.ok(200);
    let now =
        api.send_with("PATCH", &format!("{path}?fieldManager=m"), &[header], yaml).await.ok(200);
    assert_eq!(now["metadata"]["labels"], Value::Null);
}

#[tokio::test]
async fn an_applied_status_goes_to_its_own_path() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    api.post(GADGETS, gadget("g", 1)).await.ok(201);
    let mut object = gadget("g", 9);
    object["status"] = json!({"ready": true});
    let path = format!("{GADGETS}/g/status?fieldManager=agent");
    let now = api.patch("apply", &path, object).await.ok(200);
    assert_eq!(now["status"], json!({"ready": true}));
    assert_eq!(now["spec"]["size"], 1);
    assert!(managers(&now).contains(&"agent Apply status".to_owned()), "{:?}", managers(&now));
}

/// A server where every write of `racer` waits before it is committed.
fn slow_server() -> TestServer {
    let env = Env::simulated(3);
    let slow = Rule {
        point: Point::PreCommit,
        who: "racer".to_owned(),
        cluster: String::new(),
        resource: String::new(),
        verbs: Verbs::Writes,
        when: When::Always,
        window: None,
        effect: Effect::Do(FaultOutcome::Delay(Duration::from_millis(5))),
    };
    let plan = FaultPlan::new(1, env.clock.clone(), vec![slow]);
    TestServer::in_env(env.with_faults(Arc::new(plan)))
}

#[tokio::test(start_paused = true)]
async fn racing_patches_all_arrive_and_racing_updates_conflict() {
    let api = slow_server();
    api.config("a", json!({})).await;
    let local = api.cluster.local("racer");
    let options = WriteOptions::default();
    let patches = (0..20).map(|n| {
        let patch = json!({"data": {(format!("k{n}")): "v"}});
        local.patch("configmaps", "default", "a", "", PatchKind::Merge, patch, &options)
    });
    for outcome in futures::future::join_all(patches).await {
        outcome.unwrap();
    }
    let now = local.get("configmaps", "default", "a").await.unwrap();
    assert_eq!(now["data"].as_object().unwrap().len(), 21);
    let updates = (0..3).map(|n| {
        let mut object = now.clone();
        object["data"]["n"] = json!(n.to_string());
        local.update("configmaps", object)
    });
    let outcomes = futures::future::join_all(updates).await;
    let codes: Vec<u16> =
        outcomes.into_iter().map(|outcome| outcome.map_or_else(|e| e.code, |_| 200)).collect();
    assert_eq!(codes, [200, 409, 409]);
}

#[tokio::test(start_paused = true)]
async fn unconditional_updates_and_deletions_outlast_any_race() {
    let api = slow_server();
    let mut object = api.config("a", json!({})).await;
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let local = api.cluster.local("racer");
    let updates = (0..10).map(|n| {
        let mut object = object.clone();
        object["data"]["n"] = json!(n.to_string());
        local.update("configmaps", object)
    });
    for outcome in futures::future::join_all(updates).await {
        outcome.unwrap();
    }
    let labels = |n: usize| json!({"metadata": {"labels": {"n": n.to_string()}}});
    // Somebody quicker writes each time before the deletion is committed.
    let quick = async {
        for n in 0..10 {
            api.patch("merge", &format!("{MAPS}/a"), labels(n)).await.ok(200);
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    };
    let deletion = local.delete("configmaps", "default", "a", DeleteOptions::default());
    let ((), gone) = futures::join!(quick, deletion);
    gone.unwrap();
    assert_eq!(api.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn racing_applies_and_puts_of_a_new_object_become_updates() {
    let api = slow_server();
    let local = api.cluster.local("racer");
    let applies = ["one", "two", "three"].map(|manager| {
        let local = local.clone();
        async move {
            let patch = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {manager: "v"},
            });
            let options =
                WriteOptions { field_manager: Some(manager.into()), ..WriteOptions::default() };
            local.patch("configmaps", "default", "a", "", PatchKind::Apply, patch, &options).await
        }
    });
    for outcome in futures::future::join_all(applies).await {
        outcome.unwrap();
    }
    let now = local.get("configmaps", "default", "a").await.unwrap();
    assert_eq!(now["data"], json!({"one": "v", "three": "v", "two": "v"}));
    let account = |key: &str| json!({"metadata": {"name": "a", "namespace": "default", "labels": {"by": key}}});
    let puts = ["one", "two", "three"].map(|key| local.update("endpoints", account(key)));
    for outcome in futures::future::join_all(puts).await {
        outcome.unwrap();
    }
}
