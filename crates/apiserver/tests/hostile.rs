//! Input that means harm: refused, or served with bounded memory, and never a panic.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

use bytes::Bytes;
use flagship_apiserver::env::Env;
use flagship_apiserver::rest::{Body, ClusterHandle, Server};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn cluster() -> ClusterHandle {
    Server::new(Env::simulated(5)).add_cluster("hub")
}

async fn raw(cluster: &ClusterHandle, request: Request<Full<Bytes>>) -> http::Response<Body> {
    cluster.clone().call(request).await.unwrap()
}

async fn send(
    cluster: &ClusterHandle,
    method: &str,
    path: &str,
    media: &str,
    body: impl Into<Bytes>,
) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("Content-Type", media);
    let response = raw(cluster, request.body(Full::new(body.into())).unwrap()).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

async fn post(cluster: &ClusterHandle, body: impl Into<Bytes>) -> (u16, Value) {
    send(cluster, "POST", MAPS, "application/json", body).await
}

#[tokio::test]
async fn an_object_over_one_and_a_half_mebibytes_is_refused() {
    let cluster = cluster();
    let map = |bytes: usize| {
        // Three values, because a ConfigMap's own limit is one MiB in all.
        json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(bytes)}}).to_string()
    };
    let (code, _) = post(&cluster, map(900_000)).await;
    assert_eq!(code, 201);
    let secret = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "blobs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "blobs", "kind": "Blob"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, _) =
        send(&cluster, "POST", definitions, "application/json", secret.to_string()).await;
    assert_eq!(code, 201);
    let blob = |bytes: usize| {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Blob", "metadata": {"name": "b"},
            "spec": "x".repeat(bytes),
        });
        object.to_string()
    };
    let blobs = "/apis/example.com/v1/blobs";
    let (code, body) = send(&cluster, "POST", blobs, "application/json", blob(1_600_000)).await;
    assert_eq!((code, body["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
    let (code, body) = send(&cluster, "POST", blobs, "application/json", blob(3_200_000)).await;
    assert_eq!(
        (code, body["message"].as_str()),
        (413, Some("Request entity too large: limit is 3145728"))
    );
    let (code, _) = send(&cluster, "POST", blobs, "application/json", blob(1_400_000)).await;
    assert_eq!(code, 201);
}

#[tokio::test]
async fn a_hundred_thousand_levels_are_refused() {
    let cluster = cluster();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        let (code, _) = post(&cluster, deep.clone()).await;
        assert_eq!(code, 400);
        let inside = format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{deep}}}");
        assert_eq!(post(&cluster, inside).await.0, 400);
        let yaml = send(&cluster, "POST", MAPS, "application/yaml", deep.clone()).await;
        assert_eq!(yaml.0, 400);
        for media in [
            "merge-patch+json",
            "json-patch+json",
            "strategic-merge-patch+json",
            "apply-patch+yaml",
        ] {
            let path = format!("{MAPS}/a?fieldManager=m");
            let (code, _) =
                send(&cluster, "PATCH", &path, &format!("application/{media}"), deep.clone()).await;
            assert_eq!(code, 400, "{media}");
        }
    }
}

#[tokio::test]
async fn a_million_keys_are_refused_and_many_are_served() {
    let cluster = cluster();
    let keys = |count: usize| {
        let entries: Vec<String> = (0..count).map(|n| format!("\"k{n}\":\"\"")).collect();
        format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{{}}}}}", entries.join(","))
    };
    assert_eq!(post(&cluster, keys(1_000_000)).await.0, 413);
    let (code, body) = post(&cluster, keys(50_000)).await;
    assert_eq!(code, 201, "{body}");
    let unknown: Vec<String> = (0..100_000).map(|n| format!("\"u{n}\":1")).collect();
    let unknown = format!("{{\"metadata\":{{\"name\":\"b\"}},{}}}", unknown.join(","));
    let path = format!("{MAPS}?fieldValidation=Strict");
    let (code, body) = send(&cluster, "POST", &path, "application/json", unknown).await;
    assert_eq!(code, 400);
    assert!(body.to_string().len() < 10_000, "the answer stays small");
}

#[tokio::test]
async fn bad_text_is_refused() {
    let cluster = cluster();
    let table: [&[u8]; 6] = [
        b"",
        b"{\"metadata\":{\"name\":\"\xff\"}}",
        b"{\"metadata\":{\"name\":\"a\"}",
        b"{\"metadata\":{\"name\":\"a\"}} x",
        b"null",
        b"\"text\"",
    ];
    for body in table {
        let (code, answer) = post(&cluster, Bytes::copy_from_slice(body)).await;
        assert_eq!((code, answer["reason"].as_str()), (400, Some("BadRequest")), "{body:?}");
    }
    assert_eq!(send(&cluster, "POST", MAPS, "application/yaml", &b"\xff\xfe"[..]).await.0, 400);
}

#[tokio::test]
async fn odd_paths_and_queries_are_refused() {
    let cluster = cluster();
    let table = [
        ("/api/v1//namespaces", 404),
        ("/api/v1/namespaces/..", 404),
        ("/api/v1/namespaces/default/configmaps/a%2F..%2Fb", 404),
        ("/api/v1/namespaces/default/configmaps/%ff", 400),
        ("/api/v1/namespaces/default/configmaps/%zz", 400),
        ("/api/v1/namespaces/default/configmaps?labelSelector=%zz", 400),
        ("/api/v1/namespaces/default/configmaps?limit=99999999999999999999", 400),
        ("/api/v1/namespaces/default/configmaps?resourceVersion=-1", 400),
        ("/api/v1/namespaces/default/configmaps?continue=%00", 400),
        ("/api/v1/namespaces/default/nodes", 404),
        ("/api/v1/nodes/n/status/deeper/still", 404),
        ("/apis/apps/v1/configmaps", 404),
    ];
    for (path, want) in table {
        let (code, _) = send(&cluster, "GET", path, "application/json", "").await;
        assert_eq!(code, want, "{path}");
    }
    let long = format!("{MAPS}?labelSelector={}", "a,".repeat(20_000));
    let (code, _) = send(&cluster, "GET", &long, "application/json", "").await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn an_altered_token_never_panics_and_never_leaks() {
    let cluster = cluster();
    for name in ["a", "b", "c"] {
        post(&cluster, json!({"metadata": {"name": name}}).to_string()).await;
    }
    let (_, page) = send(&cluster, "GET", &format!("{MAPS}?limit=1"), "", "").await;
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    for at in 0..token.len() {
        let mut altered = token.clone().into_bytes();
        altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).unwrap();
        let path = format!("{MAPS}?limit=1&continue={altered}");
        let (code, _) = send(&cluster, "GET", &path, "", "").await;
        assert_eq!(code, 400, "byte {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_idle_watches_cost_little_and_all_end() {
    let cluster = cluster();
    let mut watches = Vec::new();
    for n in 0..10_000 {
        let namespace = if n % 2 == 0 { "default" } else { "kube-public" };
        let path = format!("/api/v1/namespaces/{namespace}/secrets?watch=true&timeoutSeconds=300");
        let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
        watches.push(raw(&cluster, request).await.into_body());
    }
    // Writes elsewhere wake none of them; one here wakes half.
    let (code, _) = post(&cluster, json!({"metadata": {"name": "a"}}).to_string()).await;
    assert_eq!(code, 201);
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}}).to_string();
    assert_eq!(send(&cluster, "POST", secrets, "application/json", secret).await.0, 201);
    let mut told = 0;
    for mut watch in watches {
        while let Some(frame) = watch.frame().await {
            let bytes = frame.unwrap().into_data().unwrap();
            assert!(bytes.starts_with(b"{\"type\":\"ADDED\""));
            told += 1;
        }
    }
    assert_eq!(told, 5_000);
}

#[tokio::test]
async fn strange_objects_never_panic() {
    let cluster = cluster();
    let strange = [
        json!({"metadata": {"name": "a"}, "data": []}),
        json!({"metadata": {"name": "a", "ownerReferences": [[], 1]}}),
        json!({"metadata": {"name": "a", "managedFields": [1, {}]}}),
        json!({"metadata": {"name": "a", "managedFields": [{"fieldsV1": {"f:": 1, "k:{": {}}}]}}),
        json!({"metadata": {"name": "a", "finalizers": [""], "labels": {"": ""}}}),
        json!({"metadata": {"name": "a", "creationTimestamp": "never"}}),
        json!({"metadata": {"name": "x".repeat(100_000)}}),
        json!({"metadata": {"generateName": "é".repeat(60)}}),
        json!({"apiVersion": 5, "kind": {}, "metadata": {"name": "a"}}),
        json!([{"metadata": {"name": "a"}}]),
    ];
    let resources = [
        MAPS,
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/services",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/batch/v1/namespaces/default/jobs",
        "/api/v1/namespaces",
    ];
    for path in resources {
        for object in &strange {
            let (code, _) =
                send(&cluster, "POST", path, "application/json", object.to_string()).await;
            assert!(matches!(code, 201 | 400 | 409 | 422), "{path} {code} {object}");
            for half in ["spec", "status", "metadata"] {
                let odd = json!({"metadata": {"name": "b"}, half: object});
                let (code, _) =
                    send(&cluster, "POST", path, "application/json", odd.to_string()).await;
                assert!(matches!(code, 201 | 400 | 409 | 422), "{path} {code} {half} {object}");
            }
        }
    }
}
