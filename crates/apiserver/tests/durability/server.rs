//! A durable server in a folder, and requests to it.

use std::path::Path;

use bytes::Bytes;
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_store::Limits;
use flagship_store::durable::Durable;
use flagship_store::env::Env;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::Service;

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A cluster whose writes are acknowledged when they are on the disk.
pub fn open(folder: &Path) -> (Durable, ClusterHandle) {
    let env = Env::system();
    let durable = Durable::open(&folder.join("state")).unwrap();
    let store = durable.store("hub", env.clone(), Limits::default()).unwrap();
    (durable, Server::new(env).add_cluster_with("hub", store))
}

/// Status code and body of an answer.
pub async fn ask(cluster: &ClusterHandle, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let answer = cluster.clone().call(request).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// A config map with a count in it, and as much more as wanted.
pub fn counted(name: &str, count: u64, more: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"count": count.to_string(), "more": "x".repeat(more)}})
}

/// The count and the revision of a config map.
pub fn count_of(map: &Value) -> (u64, u64) {
    let number = |value: &Value| value.as_str().unwrap().parse().unwrap();
    (number(&map["data"]["count"]), number(&map["metadata"]["resourceVersion"]))
}
