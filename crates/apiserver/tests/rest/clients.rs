//! What stock clients ask for besides objects: schemas, reviews, protobuf bodies, tags.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{GADGETS, MAPS, TestServer, gadget, gadget_definition};

const PROTOBUF: &str = "Content-Type: application/vnd.kubernetes.protobuf";
const AGGREGATED: &str =
    "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A field of number `n` that holds bytes.
fn field(n: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![n << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend_from_slice(bytes);
    out
}

fn enclosed(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, raw)].concat()
}

#[tokio::test]
async fn built_in_kinds_come_in_protobuf() {
    let api = TestServer::new();
    let entry = field(2, &[field(1, b"k"), field(2, b"v")].concat());
    let map = [field(1, &field(1, b"a")), entry].concat();
    let body = enclosed("v1", "ConfigMap", &map);
    let made = api.send_with("POST", MAPS, &[PROTOBUF], body).await.ok(201);
    assert_eq!((&made["metadata"]["name"], &made["data"]), (&json!("a"), &json!({"k": "v"})));

    let options = enclosed("v1", "DeleteOptions", &field(4, b"Background"));
    let gone = api.send_with("DELETE", &format!("{MAPS}/a"), &[PROTOBUF], options).await;
    assert_eq!(gone.ok(200)["status"], "Success");

    let odd = enclosed("v1", "Secret", &[]);
    assert_eq!(api.send_with("POST", MAPS, &[PROTOBUF], odd).await.code, 400);
    let broken = api.send_with("POST", MAPS, &[PROTOBUF], "k8s\0\u{a}\u{7f}").await;
    let says = "the protobuf body cannot be read: a field is longer than the message";
    broken.refused(400, "BadRequest", says);
}

#[tokio::test]
async fn custom_kinds_do_not_come_in_protobuf() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let body = gadget("g", 1).to_string();
    let refused = api.send_with("POST", GADGETS, &[PROTOBUF], body).await;
    assert_eq!(refused.code, 415);
}

/// What typed Go clients create, recorded; the server must make the same of it as of JSON.
#[tokio::test]
async fn a_deployment_in_protobuf_is_the_same_as_in_json() {
    let api = TestServer::new();
    let packed = include_bytes!("../../../kinds/tests/golden/protobuf.jsonl.gz");
    let mut plain = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut plain).unwrap();
    let cases = plain.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let empty = cases.into_iter().find(|case| case["json"]["kind"] == "Deployment").unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let body = STANDARD.decode(empty["protobuf"].as_str().unwrap()).unwrap();
    let one = api.send_with("POST", path, &[PROTOBUF], body).await;
    let other = api.post(path, empty["json"].clone()).await;
    assert_eq!((one.code, &one.body), (other.code, &other.body));
    assert_eq!(one.code, 422);
}

#[tokio::test]
async fn schemas_are_found_by_group_and_change_their_tag_with_the_definition() {
    let api = TestServer::new();
    let made = api.define(gadget_definition()).await;
    let index = api.get("/openapi/v3").await.ok(200);
    let url = |index: &Value, path: &str| {
        index["paths"][path]["serverRelativeURL"].as_str().unwrap_or_default().to_owned()
    };
    assert!(url(&index, "api/v1").starts_with("/openapi/v3/api/v1?hash="));
    let before = url(&index, "apis/example.com/v1");
    let reply = api.get(&before).await;
    let tag = reply.headers["etag"].clone();
    let document = reply.ok(200);
    let schema = &document["components"]["schemas"]["com.example.v1.Gadget"];
    let gvk = json!({"group": "example.com", "version": "v1", "kind": "Gadget"});
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([gvk]));
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["type"], "integer");
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(schema["properties"]["metadata"]["$ref"], format!("#/components/schemas/{meta}"));
    assert!(document["components"]["schemas"][meta].is_object());
    let patch =
        &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"], gvk);
    let names: Vec<&Value> =
        patch["parameters"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert!(names.contains(&&json!("fieldValidation")));

    let header = format!("If-None-Match: {tag}");
    assert_eq!(api.send_with("GET", &before, &[&header], "").await.code, 304);
    let mut changed = made;
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("new");
    let path = format!("{}/gadgets.example.com", crate::harness::DEFINITIONS);
    api.put(&path, changed).await.ok(200);
    let index = api.get("/openapi/v3").await.ok(200);
    assert_ne!(url(&index, "apis/example.com/v1"), before);
    assert_eq!(api.get("/openapi/v3/apis/nothing/v1").await.code, 404);
}

#[tokio::test]
async fn questions_about_rights_are_described_too() {
    let api = TestServer::new();
    let document = api.get("/openapi/v3/apis/authorization.k8s.io/v1").await.ok(200);
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let post = &document["paths"][path]["post"];
    assert_eq!(post["x-kubernetes-group-version-kind"]["kind"], "SubjectAccessReview");
    let name = "io.k8s.api.authorization.v1.SubjectAccessReviewSpec";
    let spec = &document["components"]["schemas"][name];
    assert!(spec["properties"]["resourceAttributes"].is_object(), "{spec}");
}

#[tokio::test]
async fn older_tools_find_all_kinds_in_one_document() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let document = api.get("/openapi/v2").await.ok(200);
    let definitions = &document["definitions"];
    assert_eq!(document["swagger"], "2.0");
    for (name, kind) in [
        ("com.example.v1.Gadget", "Gadget"),
        ("com.example.v1.GadgetList", "GadgetList"),
        ("io.k8s.api.apps.v1.Deployment", "Deployment"),
        ("io.k8s.api.apps.v1.DeploymentList", "DeploymentList"),
        ("io.k8s.api.authentication.v1.TokenReview", "TokenReview"),
    ] {
        let gvk = &definitions[name]["x-kubernetes-group-version-kind"][0];
        assert_eq!(gvk["kind"], kind, "{name}");
    }
    let list = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/gadgets"]["get"];
    assert_eq!(list["x-kubernetes-action"], "list");
    assert_eq!(
        list["responses"]["200"]["schema"]["$ref"],
        "#/definitions/com.example.v1.GadgetList"
    );
    assert!(!document.to_string().contains("#/components/"));
}

#[tokio::test]
async fn every_reference_in_a_document_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let api = TestServer::new();
    let index = api.get("/openapi/v3").await.ok(200);
    for path in index["paths"].as_object().unwrap().keys() {
        let document = api.get(&format!("/openapi/v3/{path}")).await.ok(200);
        let mut found = Vec::new();
        references(&document, &mut found);
        let schemas = &document["components"]["schemas"];
        for reference in found {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(schemas[name].is_object(), "{path}: {reference}");
        }
    }
}

#[tokio::test]
async fn discovery_is_not_sent_twice() {
    let api = TestServer::new();
    let first = api.send_with("GET", "/apis", &[AGGREGATED], "").await;
    let tag = format!("If-None-Match: {}", first.headers["etag"]);
    assert_eq!(api.send_with("GET", "/apis", &[AGGREGATED, &tag], "").await.code, 304);
    api.define(gadget_definition()).await;
    assert_eq!(api.send_with("GET", "/apis", &[AGGREGATED, &tag], "").await.code, 200);
}

#[tokio::test]
async fn health_can_be_told_at_length() {
    let api = TestServer::new();
    let text = async |path: &str| api.get(path).await.ok(200).as_str().unwrap().to_owned();
    assert_eq!(text("/livez").await, "ok");
    let long = text("/readyz?verbose&exclude=ping").await;
    assert!(long.starts_with("[+]ping excluded: ok\n[+]etcd ok\n"), "{long}");
    assert!(long.ends_with("\nreadyz check passed\n"), "{long}");
    assert_eq!(text("/readyz/etcd").await, "ok");
    assert_eq!(api.get("/readyz/nothing").await.code, 404);
}

#[tokio::test]
async fn reviews_are_answered_and_not_stored() {
    let api = TestServer::new();
    let ask = async |plural: &str, spec: Value| {
        let group = if plural == "selfsubjectreviews" { "authentication" } else { "authorization" };
        api.post(&format!("/apis/{group}.k8s.io/v1/{plural}"), json!({"spec": spec})).await
    };
    let pods = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let own = ask("selfsubjectaccessreviews", pods.clone()).await.ok(201);
    assert_eq!(own["status"], json!({"allowed": true}));
    assert_eq!(own["kind"], "SelfSubjectAccessReview");
    let mut bob = pods;
    bob["user"] = json!("bob");
    let other = ask("subjectaccessreviews", bob).await.ok(201);
    assert_eq!(other["status"], json!({"allowed": false}));
    let who = ask("selfsubjectreviews", json!({})).await.ok(201);
    assert_eq!(who["status"]["userInfo"]["username"], "anonymous");
    assert_eq!(ask("selfsubjectaccessreviews", json!({})).await.code, 422);
    let rules = ask("selfsubjectrulesreviews", json!({"namespace": "default"})).await.ok(201);
    assert_eq!(rules["status"]["resourceRules"][0]["resources"], json!(["*"]));
    let list = api.get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").await;
    assert_eq!(list.code, 405);
}
