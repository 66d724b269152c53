//! Discovery, version, health and the paths of many clusters.

use serde_json::{Value, json};
use tower::Service;

use crate::harness::{TestServer, gadget_definition, reply};

const AGGREGATED: &str =
    "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

fn entry<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|e| e[key] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn the_legacy_documents_name_groups_and_resources() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    assert_eq!(api.get("/api").await.ok(200)["versions"], json!(["v1"]));
    let groups = api.get("/apis").await.ok(200);
    assert_eq!(groups["kind"], "APIGroupList");
    let apps = entry(&groups["groups"], "name", "apps");
    assert_eq!(apps["preferredVersion"], json!({"groupVersion": "apps/v1", "version": "v1"}));
    assert_eq!(entry(&groups["groups"], "name", ""), &Value::Null);
    assert_eq!(api.get("/apis/example.com").await.ok(200)["kind"], "APIGroup");

    let core = api.get("/api/v1").await.ok(200);
    assert_eq!(core["groupVersion"], "v1");
    let pods = entry(&core["resources"], "name", "pods");
    assert_eq!(pods["kind"], "Pod");
    assert_eq!(pods["shortNames"], json!(["po"]));
    assert_eq!(entry(&core["resources"], "name", "pods/status")["kind"], "Pod");
    let custom = api.get("/apis/example.com/v1").await.ok(200);
    let gadgets = entry(&custom["resources"], "name", "gadgets");
    assert_eq!(gadgets["singularName"], "gadget");
    assert_eq!(gadgets["namespaced"], true);
    let scale = entry(&custom["resources"], "name", "gadgets/scale");
    assert_eq!(
        scale,
        &json!({
            "name": "gadgets/scale", "singularName": "", "namespaced": true,
            "kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": ["get", "patch", "update"],
        })
    );
    for path in ["/apis/nothing", "/apis/example.com/v9", "/api/v2", "/nothing"] {
        assert_eq!(api.get(path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn the_aggregated_document_is_one_answer() {
    let api = TestServer::new();
    api.define(gadget_definition()).await;
    let reply = api.send_with("GET", "/apis", &[AGGREGATED], "").await;
    assert_eq!(
        reply.headers["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let all = reply.ok(200);
    assert_eq!(all["apiVersion"], "apidiscovery.k8s.io/v2");
    let items = all["items"].as_array().unwrap();
    let ours = items.iter().find(|g| g["metadata"]["name"] == "example.com").unwrap();
    let gadgets = &ours["versions"][0]["resources"][0];
    assert_eq!(gadgets["resource"], "gadgets");
    assert_eq!(gadgets["scope"], "Namespaced");
    assert_eq!(
        gadgets["responseKind"],
        json!({"group": "example.com", "version": "v1", "kind": "Gadget"})
    );
    let core = api.send_with("GET", "/api", &[AGGREGATED], "").await.ok(200);
    assert_eq!(core["items"][0]["versions"][0]["version"], "v1");
}

#[tokio::test]
async fn version_and_health_answer() {
    let api = TestServer::new();
    assert_eq!(api.get("/version?timeout=5s").await.ok(200)["major"], "1");
    for path in ["/healthz", "/livez"] {
        assert_eq!(api.get(path).await.ok(200), json!("ok"), "{path}");
    }
    assert_eq!(api.post("/version", json!({})).await.code, 405);
}

#[tokio::test]
async fn clusters_stand_side_by_side_under_one_door() {
    let api = TestServer::new();
    api.server.add_cluster("m1");
    let send = |path: &str| {
        let mut service = api.server.service();
        let request = http::Request::builder()
            .uri(path)
            .body(http_body_util::Full::<bytes::Bytes>::default())
            .unwrap();
        async move { reply(service.call(request).await.unwrap()).await }
    };
    assert_eq!(
        send("/clusters/m1/api/v1/namespaces?limit=500").await.ok(200)["kind"],
        "NamespaceList"
    );
    assert_eq!(send("/clusters/hub/version").await.code, 200);
    assert_eq!(send("/clusters/m2/version").await.code, 404);
    assert_eq!(send("/version").await.code, 404);
    let names: Vec<String> = api.server.clusters().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["hub", "m1"]);
}
