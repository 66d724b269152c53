//! Media types of requests and answers.

use serde_json::json;

use crate::harness::{MAPS, TestServer, names};

const PARTIAL: &str = "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str =
    "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

#[tokio::test]
async fn answers_are_json_unless_only_something_else_is_accepted() {
    let api = TestServer::new();
    for accept in
        ["*/*", "application/json", "application/vnd.kubernetes.protobuf,application/json"]
    {
        let header = format!("Accept: {accept}");
        let reply = api.send_with("GET", MAPS, &[&header], "").await;
        assert_eq!(reply.headers["content-type"], "application/json", "{accept}");
        reply.ok(200);
    }
    let only = "Accept: application/vnd.kubernetes.protobuf";
    api.send_with("GET", MAPS, &[only], "").await.refused(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml",
    );
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_yaml_as_well_but_watches_do_not() {
    let api = TestServer::new();
    let yaml = ["Accept: application/yaml"];
    let text = async |path: &str| {
        let reply = api.send_with("GET", path, &yaml, "").await;
        assert_eq!(reply.headers["content-type"], "application/yaml", "{path}");
        (reply.code, reply.body.as_str().unwrap().to_owned())
    };
    let maps = "/api/v1/namespaces/kube-public/configmaps";
    let empty = "apiVersion: v1\nkind: ConfigMapList\nmetadata:\n  resourceVersion: ";
    let (code, none) = text(maps).await;
    assert!(code == 200 && none.starts_with(empty) && none.ends_with("\nitems: []\n"), "{none}");
    // What a reader of YAML 1.1 would take for something else is quoted.
    let data = json!({"n": "null", "t": "yes", "z": "0123", "lines": "a\nb\n"});
    for name in ["a", "b"] {
        api.post(maps, json!({"metadata": {"name": name}, "data": data})).await.ok(201);
    }
    let read = |text: &str| serde_saphyr::from_str::<serde_json::Value>(text).unwrap();
    let (_, one) = text(&format!("{maps}/a")).await;
    assert!(one.contains("\n  \"n\": \"null\"\n  t: \"yes\"\n  z: \"0123\"\n"), "{one}");
    assert_eq!(read(&one), api.get(&format!("{maps}/a")).await.ok(200));
    let (_, both) = text(maps).await;
    assert_eq!(read(&both), api.get(maps).await.ok(200));
    let (code, gone) = text(&format!("{maps}/c")).await;
    assert_eq!((code, read(&gone)["reason"].as_str()), (404, Some("NotFound")));
    let table = ["Accept: application/yaml;as=Table;v=v1;g=meta.k8s.io"];
    let rows = api.send_with("GET", maps, &table, "").await;
    let rows = read(rows.body.as_str().unwrap());
    assert_eq!((&rows["kind"], &rows["rows"][1]["cells"][0]), (&json!("Table"), &json!("b")));
    let (code, refused) = text(&format!("{maps}?watch=true")).await;
    let says = "only the following media types are accepted: application/json;stream=watch";
    assert_eq!((code, read(&refused)["message"].as_str()), (406, Some(says)));
}

#[tokio::test]
async fn an_encoded_slash_is_a_slash() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    let one = api.get("/api%2Fv1/namespaces/default%2Fconfigmaps/a").await.ok(200);
    assert_eq!(one["metadata"]["name"], "a");
    api.get("/api/v1/namespaces/default/configmaps/a%2F..%2Fa").await.refused(
        404,
        "NotFound",
        "the server could not find the requested resource",
    );
    let index = api.get("/").await.ok(200);
    let paths = names_of(&index);
    for path in ["/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz/etcd", "/metrics", "/version"]
    {
        assert!(paths.contains(&path), "{path}");
    }
    assert!(paths.is_sorted());
}

fn names_of(index: &serde_json::Value) -> Vec<&str> {
    index["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect()
}

#[tokio::test]
async fn bodies_are_json_or_yaml() {
    let api = TestServer::new();
    let yaml = "metadata:\n  name: y\ndata:\n  answer: \"42\"\n";
    let made = api.send_with("POST", MAPS, &["Content-Type: application/yaml"], yaml).await.ok(201);
    assert_eq!(made["data"]["answer"], "42");
    let plain = r#"{"metadata":{"name":"j"}}"#;
    api.send_with("POST", MAPS, &[], plain).await.ok(201);
    for media in ["application/cbor", "text/plain"] {
        let header = format!("Content-Type: {media}");
        let reply = api.send_with("POST", MAPS, &[&header], plain).await;
        reply.refused(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        );
    }
}

#[tokio::test]
async fn only_metadata_is_sent_when_that_is_asked_for() {
    let api = TestServer::new();
    let made = api.config("a", json!({"x": "y"})).await;
    let want = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    });
    let path = format!("{MAPS}/a");
    assert_eq!(api.send_with("GET", &path, &[PARTIAL], "").await.ok(200), want);

    let list = api.send_with("GET", MAPS, &[PARTIAL_LIST], "").await.ok(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(list["items"], json!([want]));
    assert_eq!(names(&list), ["a"]);
}

#[tokio::test]
async fn a_review_is_never_a_table() {
    let api = TestServer::new();
    let table = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1";
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    api.send_with("POST", path, &[table], review.to_string()).await.refused(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml",
    );
    api.post(path, review).await.ok(201);
}
