//! The life of custom resource definitions.

use std::sync::Arc;
use std::time::Duration;

use flagship_apiserver::rest::Server;
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{Env, FaultOutcome, FaultPlan, Point};
use flagship_store::{Change, Encoded, Expect, Head, Limits, ObjectKey, Pairs, Store, Write};
use serde_json::{Value, json};

use crate::harness::{
    DEFINITIONS, GADGETS, TestServer, gadget, gadget_definition, names, revision,
};

fn condition<'a>(crd: &'a Value, kind: &str) -> &'a Value {
    let all = crd["status"]["conditions"].as_array().unwrap();
    all.iter().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_definition_is_accepted_and_served() {
    let api = TestServer::new();
    assert_eq!(api.get(GADGETS).await.code, 404);
    let crd = api.define(gadget_definition()).await;
    assert_eq!(condition(&crd, "NamesAccepted")["status"], "True");
    assert_eq!(condition(&crd, "Established")["reason"], "InitialNamesAccepted");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "GadgetList");
    assert_eq!(
        crd["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    let list = api.get(GADGETS).await.ok(200);
    assert_eq!(list["kind"], "GadgetList");
    assert_eq!(list["apiVersion"], "example.com/v1");
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    api.post(GADGETS, gadget("a", 1)).await.ok(201);
    let mut held = gadget("b", 1);
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(GADGETS, held).await.ok(201);
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let mut watch = api
        .watch(&format!("{GADGETS}?watch=true&resourceVersion={}", api.cluster.store().revision()))
        .await;
    let crd = api.delete(&path).await.ok(200);
    assert_eq!(condition(&crd, "Terminating")["reason"], "InstanceDeletionInProgress");
    assert_eq!(watch.line().await, "DELETED a");
    assert_eq!(watch.line().await, "MODIFIED b");
    assert_eq!(names(&api.get(GADGETS).await.ok(200)), ["b"]);
    let refused = api.post(GADGETS, gadget("c", 1)).await;
    assert_eq!(
        (refused.code, refused.body["message"].as_str()),
        (405, Some("create not allowed while custom resource definition is terminating"))
    );
    api.patch("merge", &format!("{GADGETS}/b"), json!({"metadata": {"finalizers": null}}))
        .await
        .ok(200);
    assert_eq!(watch.line().await, "DELETED b");
    assert_eq!(watch.line().await, "END");
    assert_eq!(api.get(&path).await.code, 404);
    assert_eq!(api.get(GADGETS).await.code, 404);
    // Coming back begins anew.
    api.define(gadget_definition()).await;
    assert_eq!(api.get(GADGETS).await.ok(200)["items"], json!([]));
}

#[tokio::test]
async fn names_that_are_taken_are_not_accepted_until_free() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let mut rival = gadget_definition();
    rival["metadata"]["name"] = json!("widgets.example.com");
    rival["spec"]["names"] = json!({"plural": "widgets", "singular": "widget", "kind": "Gadget", "listKind": "WidgetList"});
    let made = api.post(DEFINITIONS, rival).await.ok(201);
    assert_eq!(condition(&made, "NamesAccepted")["status"], "False");
    assert_eq!(condition(&made, "NamesAccepted")["reason"], "KindConflict");
    assert_eq!(condition(&made, "NamesAccepted")["message"], "\"Gadget\" is already in use");
    assert_eq!(condition(&made, "Established")["status"], "False");
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    assert_eq!(api.get(widgets).await.code, 404);
    api.delete(&format!("{DEFINITIONS}/gadgets.example.com")).await.ok(200);
    api.get(widgets).await.ok(200);
}

fn two_versions() -> Value {
    let mut crd = gadget_definition();
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        .as_object_mut()
        .unwrap()
        .remove("fixed");
    let mut same = crd["spec"]["versions"][0].clone();
    same["name"] = json!("v1beta1");
    same["storage"] = json!(false);
    same["deprecated"] = json!(true);
    crd["spec"]["versions"].as_array_mut().unwrap().extend([second, same]);
    crd
}

#[tokio::test]
async fn versions_show_the_same_object() {
    let api = TestServer::new();
    api.define(two_versions()).await;
    let mut object = gadget("g", 1);
    object["spec"]["fixed"] = json!("x");
    let v1 = api.post(GADGETS, object).await.ok(201);
    let at = |version: &str| format!("/apis/example.com/{version}/namespaces/default/gadgets");
    let v2 = api.get(&format!("{}/g", at("v2"))).await.ok(200);
    assert_eq!(v2["apiVersion"], "example.com/v2");
    assert_eq!(
        v2["spec"],
        json!({"size": 1, "color": "red"}),
        "what v2 does not know is not shown"
    );
    let beta = api.get(&format!("{}/g", at("v1beta1"))).await;
    assert_eq!(
        beta.warnings,
        [r#"299 - "example.com/v1beta1 Gadget is deprecated; use example.com/v2 Gadget""#]
    );
    let mut beta = beta.ok(200);
    assert_eq!(beta["apiVersion"], "example.com/v1beta1");
    assert_eq!(beta["spec"], v1["spec"]);

    beta["spec"]["size"] = json!(7);
    let written = api.put(&format!("{}/g", at("v1beta1")), beta).await.ok(200);
    assert_eq!(written["apiVersion"], "example.com/v1beta1");
    let stored = api.get(&format!("{GADGETS}/g")).await.ok(200);
    assert_eq!(stored["apiVersion"], "example.com/v1");
    assert_eq!((stored["spec"]["size"].as_i64(), &stored["spec"]["fixed"]), (Some(7), &json!("x")));

    let list = api.get(&at("v2")).await.ok(200);
    assert_eq!(list["apiVersion"], "example.com/v2");
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v2");
    let mut watch = api.watch(&format!("{}?watch=true", at("v2"))).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["object"]["apiVersion"], "example.com/v2");
    assert_eq!(event["object"]["spec"]["fixed"], Value::Null);
}

#[tokio::test]
async fn a_version_that_is_no_longer_served_is_gone() {
    let api = TestServer::new();
    let mut crd = api.define(two_versions()).await;
    let v2 = "/apis/example.com/v2/namespaces/default/gadgets";
    api.get(v2).await.ok(200);
    crd["spec"]["versions"][1]["served"] = json!(false);
    api.put(&format!("{DEFINITIONS}/gadgets.example.com"), crd).await.ok(200);
    assert_eq!(api.get(v2).await.code, 404);
    api.get(GADGETS).await.ok(200);
}

#[tokio::test]
async fn the_storage_version_is_remembered_when_it_moves() {
    let api = TestServer::new();
    let mut crd = api.define(two_versions()).await;
    api.post(GADGETS, gadget("g", 1)).await.ok(201);
    crd["spec"]["versions"][0]["storage"] = json!(false);
    crd["spec"]["versions"][2]["storage"] = json!(true);
    let now = api.put(&format!("{DEFINITIONS}/gadgets.example.com"), crd).await.ok(200);
    assert_eq!(now["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    // Objects written before are still shown in the version asked for.
    let old = api.get(&format!("{GADGETS}/g")).await.ok(200);
    assert_eq!(old["apiVersion"], "example.com/v1");
    for version in ["v1", "v1beta1", "v2"] {
        let path = format!("/apis/example.com/{version}/namespaces/default/gadgets");
        let list = api.get(&path).await.ok(200);
        assert_eq!(list["items"][0]["apiVersion"], format!("example.com/{version}"));
    }
    let beta = "/apis/example.com/v1beta1/namespaces/default/gadgets/g";
    let mut object = api.get(beta).await.ok(200);
    object["spec"]["size"] = json!(2);
    api.put(beta, object).await.ok(200);
    let local = api.cluster.local("x");
    let stored = local.get("gadgets.example.com", "default", "g").await.unwrap();
    assert_eq!(stored["apiVersion"], "example.com/v1beta1");
}

#[tokio::test]
async fn a_changed_schema_judges_the_next_write() {
    let api = TestServer::new();
    let mut crd = api.define(gadget_definition()).await;
    api.post(GADGETS, gadget("g", 50)).await.ok(201);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
        ["maximum"] = json!(10);
    api.put(&format!("{DEFINITIONS}/gadgets.example.com"), crd).await.ok(200);
    assert_eq!(api.post(GADGETS, gadget("h", 50)).await.code, 422);
    api.post(GADGETS, gadget("h", 5)).await.ok(201);
}

#[tokio::test]
async fn definitions_that_make_no_sense_are_refused() {
    let api = TestServer::new();
    let mut wrong_name = gadget_definition();
    wrong_name["metadata"]["name"] = json!("other.example.com");
    let mut no_storage = gadget_definition();
    no_storage["spec"]["versions"][0]["storage"] = json!(false);
    let mut bad_rule = gadget_definition();
    bad_rule["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["fixed"]["x-kubernetes-validations"][0]["rule"] = json!("self ==");
    for (what, crd) in [("name", wrong_name), ("storage", no_storage), ("rule", bad_rule)] {
        let reply = api.post(DEFINITIONS, crd).await;
        assert_eq!((reply.code, reply.body["reason"].as_str()), (422, Some("Invalid")), "{what}");
    }
}

#[tokio::test]
async fn equal_definitions_are_compiled_once() {
    let api = TestServer::new();
    for name in ["m1", "m2", "m3"] {
        let member =
            TestServer { cluster: api.server.add_cluster(name), server: api.server.clone() };
        member.define(gadget_definition()).await;
    }
    assert_eq!(api.server.compiled_kinds(), 1);
    let m1 = TestServer { cluster: api.server.cluster("m1").unwrap(), server: api.server.clone() };
    m1.post(GADGETS, gadget("g", 1)).await.ok(201);
    let m2 = TestServer { cluster: api.server.cluster("m2").unwrap(), server: api.server.clone() };
    assert_eq!(m2.get(GADGETS).await.ok(200)["items"], json!([]), "objects are not shared");
    for name in ["m1", "m2", "m3"] {
        api.server.remove_cluster(name);
    }
    drop((m1, m2));
    assert_eq!(api.server.compiled_kinds(), 0);
}

#[tokio::test]
async fn watchers_of_definitions_see_them_become_established() {
    let api = TestServer::new();
    let from = api.cluster.store().revision();
    let mut watch = api.watch(&format!("{DEFINITIONS}?watch=true&resourceVersion={from}")).await;
    let made = api.define(gadget_definition()).await;
    assert_eq!(watch.line().await, "ADDED gadgets.example.com");
    let last = watch.next().await.unwrap();
    assert_eq!(last["type"], "MODIFIED");
    assert_eq!(revision(&last["object"]), revision(&made));
}

#[tokio::test]
async fn a_definition_named_like_a_built_in_kind_touches_nothing_of_it() {
    let api = TestServer::new();
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}});
    api.post(ingresses, ingress).await.ok(201);
    let table = [
        ("ingresses", "networking.k8s.io", "PluralConflict"),
        ("events", "events.k8s.io", "PluralConflict"),
    ];
    for (plural, group, reason) in table {
        let mut crd = gadget_definition();
        let name = format!("{plural}.{group}");
        crd["metadata"] = json!({
            "name": name, "annotations": {"api-approved.kubernetes.io": "https://example.com"},
        });
        crd["spec"]["group"] = json!(group);
        crd["spec"]["names"] = json!({"plural": plural, "singular": "mine", "kind": "Mine"});
        let made = api.post(DEFINITIONS, crd).await.ok(201);
        assert_eq!(condition(&made, "NamesAccepted")["reason"], reason);
        assert_eq!(condition(&made, "Established")["status"], "False");
        // Not even a status that claims otherwise helps.
        let claim = json!({"status": {"conditions": [
            {"type": "Established", "status": "True", "reason": "Claimed", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]}});
        let path = format!("{DEFINITIONS}/{name}");
        api.patch("merge", &format!("{path}/status"), claim).await.ok(200);
        api.delete(&path).await.ok(200);
        assert_eq!(api.get(&path).await.code, 404);
    }
    assert_eq!(names(&api.get(ingresses).await.ok(200)), ["i"]);
}

/// Delays every write to gadgets by a second, just before its commit.
fn slow_gadgets() -> Env {
    let env = Env::simulated(3);
    let slow = Rule {
        point: Point::PreCommit,
        who: String::new(),
        cluster: String::new(),
        resource: "gadgets.example.com".to_owned(),
        verbs: Verbs::Writes,
        when: When::Always,
        window: None,
        effect: Effect::Do(FaultOutcome::Delay(Duration::from_secs(1))),
    };
    let plan = FaultPlan::new(1, env.clock.clone(), vec![slow]);
    env.with_faults(Arc::new(plan))
}

#[tokio::test(start_paused = true)]
async fn a_write_that_comes_after_its_definition_is_refused() {
    let api = TestServer::in_env(slow_gadgets());
    api.define(gadget_definition()).await;
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let (late, gone) = tokio::join!(api.post(GADGETS, gadget("late", 1)), api.delete(&path));
    gone.ok(200);
    late.refused(404, "NotFound", "the server could not find the requested resource");
    api.define(gadget_definition()).await;
    assert_eq!(api.get(GADGETS).await.ok(200)["items"], json!([]));

    let mut held = gadget("held", 1);
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(GADGETS, held).await.ok(201);
    let (late, _) = tokio::join!(api.post(GADGETS, gadget("late", 1)), api.delete(&path));
    late.refused(
        405,
        "MethodNotAllowed",
        "create not allowed while custom resource definition is terminating",
    );
    assert_eq!(names(&api.get(GADGETS).await.ok(200)), ["held"]);
}

#[tokio::test]
async fn a_definition_that_was_terminating_when_the_server_stopped_goes_when_it_starts() {
    let api = TestServer::new();
    let mut crd = api.define(gadget_definition()).await;
    crd["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    crd["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    let env = Env::simulated(1);
    let store = Store::new(env.clone(), Limits::default());
    for (resource, namespace, object) in [
        ("customresourcedefinitions.apiextensions.k8s.io", "", crd),
        ("gadgets.example.com", "default", gadget("g", 1)),
    ] {
        let name = object["metadata"]["name"].as_str().unwrap();
        let key = ObjectKey::new(namespace, name);
        let head = Head::of(&object, Pairs::default());
        let change = Change::Put { head, json: Encoded::new(&object) };
        let write = Write { resource: &resource.into(), key, expect: Expect::Absent, change };
        store.commit(write).unwrap();
    }
    let server = Server::new(env);
    let api = TestServer { cluster: server.add_cluster_with("hub", store), server };
    assert_eq!(api.get(&format!("{DEFINITIONS}/gadgets.example.com")).await.code, 404);
    assert!(!api.cluster.store().resources().iter().any(|r| &**r == "gadgets.example.com"));
}

#[tokio::test]
async fn what_a_definition_gains_and_loses_shows_on_objects_that_are_there() {
    let api = TestServer::new();
    let mut crd = api.define(gadget_definition()).await;
    let mut object = gadget("g", 1);
    object["spec"]["fixed"] = json!("x");
    let made = api.post(GADGETS, object).await.ok(201);
    let fields = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        ["properties"];
    fields.as_object_mut().unwrap().remove("fixed");
    fields["shape"] = json!({
        "type": "string", "default": "round",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "shape stays"}],
    });
    api.put(&format!("{DEFINITIONS}/gadgets.example.com"), crd).await.ok(200);

    let want = json!({"size": 1, "color": "red", "shape": "round"});
    let path = format!("{GADGETS}/g");
    let shown = api.get(&path).await.ok(200);
    assert_eq!(shown["spec"], want);
    assert_eq!(revision(&shown), revision(&made), "reading writes nothing");
    assert_eq!(api.get(GADGETS).await.ok(200)["items"][0]["spec"], want);
    let mut watch = api.watch(&format!("{GADGETS}?watch=true")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["spec"], want);
    let local = api.cluster.local("x");
    assert_eq!(local.get("gadgets.example.com", "default", "g").await.unwrap()["spec"], want);

    // Rules compare with what was shown.
    let reply = api.patch("merge", &path, json!({"spec": {"shape": "flat"}})).await;
    assert_eq!(reply.code, 422, "{:#}", reply.body);
    let now = api.patch("merge", &path, json!({"spec": {"size": 2}})).await.ok(200);
    assert_eq!(now["spec"], json!({"size": 2, "color": "red", "shape": "round"}));
}

#[tokio::test]
async fn an_object_is_shown_in_the_only_version_that_is_left() {
    let api = TestServer::new();
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let mut crd = api.define(two_versions()).await;
    api.post(GADGETS, gadget("g", 1)).await.ok(201);
    crd["spec"]["versions"][0]["storage"] = json!(false);
    crd["spec"]["versions"][1]["storage"] = json!(true);
    let mut crd = api.put(&path, crd).await.ok(200);
    crd["status"]["storedVersions"] = json!(["v2"]);
    let mut crd = api.put(&format!("{path}/status"), crd).await.ok(200);
    let v2 = crd["spec"]["versions"][1].clone();
    crd["spec"]["versions"] = json!([v2]);
    api.put(&path, crd).await.ok(200);
    let v2 = "/apis/example.com/v2/namespaces/default/gadgets";
    assert_eq!(api.get(&format!("{v2}/g")).await.ok(200)["apiVersion"], "example.com/v2");
}

#[tokio::test]
async fn fields_select_in_every_version_and_on_older_objects() {
    let api = TestServer::new();
    let mut crd = two_versions();
    crd["spec"]["versions"][0].as_object_mut().unwrap().remove("selectableFields");
    let mut crd = api.define(crd).await;
    let mut blue = gadget("blue", 1);
    blue["spec"]["color"] = json!("blue");
    for object in [blue, gadget("red", 2)] {
        api.post(GADGETS, object).await.ok(201);
    }
    let at = |version: &str, query: &str| {
        let path = format!("/apis/example.com/{version}/namespaces/default/gadgets");
        format!("{path}?fieldSelector={query}")
    };
    let list = api.get(&at("v2", "spec.color%3Dblue")).await.ok(200);
    assert_eq!(names(&list), ["blue"], "v2 selects what v1 stores");
    api.get(&at("v1", "spec.color%3Dblue")).await.refused(
        400,
        "BadRequest",
        "field label not supported: spec.color",
    );
    let before = api.cluster.store().revision();
    crd["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]);
    api.put(&format!("{DEFINITIONS}/gadgets.example.com"), crd).await.ok(200);
    let list = api.get(&at("v1", "spec.size%3D2")).await.ok(200);
    assert_eq!(names(&list), ["red"], "written before the field could be selected");
    assert!(revision(&list["items"][0]) <= before);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_comes_after_its_definition_changed_fits_the_new_one() {
    let api = TestServer::in_env(slow_gadgets());
    let mut crd = api.define(gadget_definition()).await;
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["shape"] =
        json!({"type": "string", "default": "round"});
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let (late, changed) = tokio::join!(api.post(GADGETS, gadget("late", 1)), api.put(&path, crd));
    changed.ok(200);
    late.ok(201);
    let shown = api.get(&format!("{GADGETS}/late")).await.ok(200);
    assert_eq!(shown["spec"]["shape"], "round");
}

#[tokio::test]
async fn writing_a_definition_compiles_it_once() {
    let api = TestServer::new();
    let mut crd = api.define(gadget_definition()).await;
    assert_eq!(api.server.compilations(), 1);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
        ["maximum"] = json!(10);
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let crd = api.put(&path, crd).await.ok(200);
    assert_eq!(api.server.compilations(), 2);
    api.put(&path, crd).await.ok(200);
    api.patch("merge", &path, json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    assert_eq!(api.server.compilations(), 2);
}

#[tokio::test]
async fn a_definition_that_wants_a_webhook_to_convert_is_refused() {
    let api = TestServer::new();
    let mut definition = gadget_definition();
    let client = json!({"url": "https://example.com/convert"});
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": client}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let many = definition["spec"]["versions"].as_array().unwrap().len() > 1;
    let mut other = definition["spec"]["versions"][0].clone();
    if !many {
        other["name"] = json!("v1beta7");
        other["storage"] = json!(false);
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        versions.push(other);
    }
    let refused = api.post(definitions, definition.clone()).await;
    assert_eq!(refused.code, 422);
    let says = refused.body["message"].as_str().unwrap().to_owned();
    assert!(
        says.contains("spec.conversion.strategy: Forbidden: conversion webhooks are not called"),
        "{says}"
    );
    // Where there is nothing to convert it is no matter.
    definition["spec"]["versions"].as_array_mut().unwrap().truncate(1);
    definition["spec"]["versions"][0]["storage"] = json!(true);
    api.post(definitions, definition).await.ok(201);
}
