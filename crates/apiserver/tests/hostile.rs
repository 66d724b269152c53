//! Input that means harm: refused, or served with bounded memory, and never a panic.
//!
//! Memory is the peak of this process as Linux counts it; elsewhere only answers are
//! measured. Tests that measure run one at a time, and the bounds leave room for the others.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

use bytes::Bytes;
use flagship_apiserver::rest::{Body, ClusterHandle, Server};
use flagship_store::env::Env;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tower::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Held by a test that measures memory.
static MEASURING: Mutex<()> = Mutex::const_new(());
/// What the other tests may add to a measurement meanwhile, in MiB.
const NOISE: usize = 200;

/// Memory held now and at most since [`forget_peak`], in MiB; 0 where nobody counts.
fn memory(line: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|text| text.strip_prefix(line));
    line.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0) / 1024
}

const NOW: &str = "VmRSS:";
const PEAK: &str = "VmHWM:";

fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").ok();
}

/// Sends a body and says what came back, how many bytes it had, and by how many MiB
/// memory grew meanwhile.
async fn measured(cluster: &ClusterHandle, path: &str, body: String) -> (u16, Value, usize) {
    let _alone = MEASURING.lock().await;
    forget_peak();
    let before = memory(NOW);
    let request = Request::post(path).header("Content-Type", "application/json");
    let response = raw(cluster, request.body(Full::new(body.into())).unwrap()).await;
    let code = response.status().as_u16();
    let warnings: usize = response.headers().get_all("Warning").iter().map(|w| w.len()).sum();
    assert!(warnings < 20_000, "{warnings} bytes of warnings");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let grown = memory(PEAK).saturating_sub(before);
    assert!(grown < NOISE, "memory grew by {grown} MiB");
    (code, serde_json::from_slice(&bytes).unwrap(), bytes.len())
}

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
    // A path that nobody serves is answered in plain text, as Kubernetes does.
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn post(cluster: &ClusterHandle, body: impl Into<Bytes>) -> (u16, Value) {
    send(cluster, "POST", MAPS, "application/json", body).await
}

#[tokio::test]
async fn an_object_over_one_and_a_half_mebibytes_is_refused() {
    let cluster = cluster();
    let map = |bytes: usize| {
        json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(bytes)}}).to_string()
    };
    let (code, _) = post(&cluster, map(900_000)).await;
    assert_eq!(code, 201);
    let definition = json!({
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
        send(&cluster, "POST", definitions, "application/json", definition.to_string()).await;
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

/// A definition of `blobs.example.com` with this schema for `spec`.
async fn define_blobs(cluster: &ClusterHandle, spec: Value) {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "blobs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "blobs", "kind": "Blob"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, body) =
        send(cluster, "POST", definitions, "application/json", definition.to_string()).await;
    assert_eq!(code, 201, "{body}");
}

const BLOBS: &str = "/apis/example.com/v1/blobs";

fn blob(spec: Value) -> Value {
    let metadata = json!({"name": "b"});
    json!({"apiVersion": "example.com/v1", "kind": "Blob", "metadata": metadata, "spec": spec})
}

/// As many entries as a body of three MiB has room for, with keys as short as can be.
fn crowd(open: &str, entry: impl Fn(&str) -> String, close: &str) -> String {
    let mut body = open.to_owned();
    for n in 0.. {
        let entry = entry(&format!("{n:x}"));
        if body.len() + entry.len() + close.len() > 3 * 1024 * 1024 {
            break;
        }
        body.push_str(&entry);
        body.push(',');
    }
    body.pop();
    body + close
}

#[tokio::test]
async fn as_many_keys_as_a_body_holds_are_refused_and_many_are_served() {
    let cluster = cluster();
    let open = r#"{"metadata":{"name":"a"},"#;
    let text = |key: &str| format!("\"{key}\":\"\"");
    let (code, body, _) =
        measured(&cluster, MAPS, crowd(&format!("{open}\"data\":{{"), text, "}}")).await;
    assert_eq!((code, body["reason"].as_str()), (413, Some("RequestEntityTooLarge")), "{body}");
    let strict = format!("{MAPS}?fieldValidation=Strict");
    for (path, want) in [(&strict, 400), (&MAPS.to_owned(), 201)] {
        let (code, _, size) = measured(&cluster, path, crowd(open, text, "}")).await;
        assert_eq!(code, want);
        assert!(size < 10_000, "the answer has {size} bytes");
    }
    let entries: Vec<String> = (0..50_000).map(|n| format!("\"k{n}\":\"\"")).collect();
    let many = format!("{{\"metadata\":{{\"name\":\"b\"}},\"data\":{{{}}}}}", entries.join(","));
    let (code, body) = post(&cluster, many).await;
    assert_eq!(code, 201, "{body}");
}

#[tokio::test]
async fn thousands_of_controllers_are_one_finding() {
    let cluster = cluster();
    define_blobs(&cluster, json!({"type": "object"})).await;
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
    let mut object = json!({"metadata": {"name": "a", "ownerReferences": vec![owner; 2000]}});
    for path in [MAPS, BLOBS] {
        let (code, body, size) = measured(&cluster, path, object.to_string()).await;
        assert_eq!(code, 422);
        assert_eq!(body["details"]["causes"].as_array().unwrap().len(), 1);
        assert!(size < 1000, "the answer has {size} bytes");
        object["apiVersion"] = json!("example.com/v1");
        object["kind"] = json!("Blob");
    }
}

#[tokio::test]
async fn a_long_key_is_not_said_again_for_everything_below_it() {
    let cluster = cluster();
    let field = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let fields = json!({"type": "object", "additionalProperties": field});
    define_blobs(&cluster, json!({"type": "object", "additionalProperties": fields})).await;
    let long = "k".repeat(300_000);
    // Unknown fields, told as warnings.
    let unknown: Value = (0..12_000).map(|n| (format!("u{n}"), json!(1))).collect();
    let object = blob(json!({ &long: {"x": unknown} }));
    let (code, _, _) = measured(&cluster, BLOBS, object.to_string()).await;
    assert_eq!(code, 201);
    // Repeated fields.
    let twice = "{\"a\":1,\"a\":2}";
    let lists = vec![twice; 12_000].join(",");
    let body = format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{\"{long}\":[{lists}]}}}}");
    let (_, _, size) = measured(&cluster, MAPS, body).await;
    assert!(size < 10_000, "the answer has {size} bytes");
    // Wrong types.
    let wrong: Value = (0..12_000).map(|n| (format!("u{n}"), json!({"a": "x"}))).collect();
    let object = blob(json!({ &long: wrong }));
    let (code, _, size) = measured(&cluster, BLOBS, object.to_string()).await;
    assert_eq!(code, 422);
    assert!(size < 200_000, "the answer has {size} bytes");
}

#[tokio::test]
async fn an_answer_shows_a_hundred_findings_and_counts_the_rest() {
    let cluster = cluster();
    let labels: Value = (0..100_000).map(|n| (format!("{n}"), json!("not a label"))).collect();
    let rules = vec![json!({}); 100_000];
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    for (path, object) in [
        (MAPS, json!({"metadata": {"name": "a", "labels": labels}})),
        (roles, json!({"metadata": {"name": "a"}, "rules": rules})),
    ] {
        let (code, body, size) = measured(&cluster, path, object.to_string()).await;
        assert_eq!((code, body["reason"].as_str()), (422, Some("Invalid")));
        assert_eq!(body["details"]["causes"].as_array().unwrap().len(), 100);
        assert!(body["message"].as_str().unwrap().ends_with(", and at least 900 more]"));
        assert!(size < 100_000, "the answer has {size} bytes");
    }
}

#[tokio::test]
async fn what_nests_too_deep_to_be_read_again_is_never_stored() {
    let cluster = cluster();
    let preserve = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    define_blobs(&cluster, preserve).await;
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    // The object and its spec are two levels, so these end at 126, 127 and 128.
    for (levels, want) in [(124, 201), (125, 201), (126, 400)] {
        let body = blob(json!({"s": "DEEP"})).to_string().replace("\"DEEP\"", &nested(levels));
        let (code, answer) = send(&cluster, "POST", BLOBS, "application/json", body).await;
        assert_eq!(code, want, "{levels}: {answer}");
        if code == 201 {
            let path = format!("{BLOBS}/b");
            assert_eq!(send(&cluster, "DELETE", &path, "application/json", "").await.0, 200);
        }
    }
    // Callers in the same process send values that nobody has parsed.
    let local = cluster.local("tester");
    let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let made = local.create("blobs.example.com", "", blob(json!({"s": deep(126)}))).await;
    assert_eq!(made.map_err(|error| error.code), Err(413));
    let made = local.create("blobs.example.com", "", blob(json!({"s": deep(125)}))).await;
    assert!(made.is_ok(), "{made:?}");
    let path = format!("{BLOBS}/b");
    assert_eq!(send(&cluster, "DELETE", &path, "application/json", "").await.0, 200);
    // A patch can build deeper than it is itself.
    let object = blob(json!({"a": {}})).to_string();
    assert_eq!(send(&cluster, "POST", BLOBS, "application/json", object).await.0, 201);
    for (levels, want) in [(123, 200), (124, 200), (125, 413), (126, 400)] {
        let patch =
            format!("[{{\"op\":\"add\",\"path\":\"/spec/a/b\",\"value\":{}}}]", nested(levels));
        let (code, answer) =
            send(&cluster, "PATCH", &path, "application/json-patch+json", patch).await;
        assert_eq!(code, want, "{levels}: {answer}");
        assert_eq!(send(&cluster, "GET", &path, "application/json", "").await.0, 200);
    }
    assert_eq!(send(&cluster, "DELETE", &path, "application/json", "").await.0, 200);
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
    const WATCHES: usize = 10_000;
    let _alone = MEASURING.lock().await;
    let cluster = cluster();
    let mut watches = Vec::new();
    forget_peak();
    let before = memory(NOW);
    for n in 0..WATCHES {
        let namespace = if n % 2 == 0 { "default" } else { "kube-public" };
        let path = format!("/api/v1/namespaces/{namespace}/secrets?watch=true&timeoutSeconds=300");
        let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
        watches.push(raw(&cluster, request).await.into_body());
    }
    // About 2 KiB each, and what others do meanwhile.
    let grown = memory(PEAK).saturating_sub(before);
    assert!(grown < 100, "{WATCHES} watches take {grown} MiB");
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
