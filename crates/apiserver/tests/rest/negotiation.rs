//! Media types of requests and answers.

use serde_json::json;

use crate::harness::{MAPS, World, names};

const PARTIAL: &str = "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str =
    "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

#[tokio::test]
async fn answers_are_json_unless_only_something_else_is_accepted() {
    let world = World::new();
    for accept in
        ["*/*", "application/json", "application/vnd.kubernetes.protobuf,application/json"]
    {
        let header = format!("Accept: {accept}");
        let reply = world.send_with("GET", MAPS, &[&header], "").await;
        assert_eq!(reply.headers["content-type"], "application/json", "{accept}");
        reply.ok(200);
    }
    let only = "Accept: application/vnd.kubernetes.protobuf";
    world.send_with("GET", MAPS, &[only], "").await.refused(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json",
    );
}

#[tokio::test]
async fn bodies_are_json_or_yaml() {
    let world = World::new();
    let yaml = "metadata:\n  name: y\ndata:\n  answer: \"42\"\n";
    let made =
        world.send_with("POST", MAPS, &["Content-Type: application/yaml"], yaml).await.ok(201);
    assert_eq!(made["data"]["answer"], "42");
    let plain = r#"{"metadata":{"name":"j"}}"#;
    world.send_with("POST", MAPS, &[], plain).await.ok(201);
    for media in ["application/cbor", "text/plain"] {
        let header = format!("Content-Type: {media}");
        let reply = world.send_with("POST", MAPS, &[&header], plain).await;
        reply.refused(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        );
    }
}

#[tokio::test]
async fn only_metadata_is_sent_when_that_is_asked_for() {
    let world = World::new();
    let made = world.config("a", json!({"x": "y"})).await;
    let want = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    });
    let path = format!("{MAPS}/a");
    assert_eq!(world.send_with("GET", &path, &[PARTIAL], "").await.ok(200), want);

    let list = world.send_with("GET", MAPS, &[PARTIAL_LIST], "").await.ok(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(list["items"], json!([want]));
    assert_eq!(names(&list), ["a"]);
}
