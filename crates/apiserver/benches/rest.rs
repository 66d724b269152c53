//! The request path on one core: validated custom resources, written and read.
//!
//! Each row is one kind of request through the whole pipeline (decode, prune, default,
//! validate with a CEL rule, record managers, commit), without sockets.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_store::env::Env;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::Service;

const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

fn definition() -> Value {
    let condition = json!({
        "type": "object", "required": ["type", "status"],
        "properties": {
            "type": {"type": "string", "maxLength": 316}, "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string", "maxLength": 1024}, "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
    });
    let spec = json!({
        "type": "object", "required": ["size"],
        "x-kubernetes-validations": [
            {"rule": "!has(self.fixed) || !has(oldSelf.fixed) || self.fixed == oldSelf.fixed", "message": "fixed is immutable"},
            {"rule": "self.size >= 0", "message": "size must not be negative"},
        ],
        "properties": {
            "size": {"type": "integer", "minimum": 0}, "fixed": {"type": "string"},
            "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
            "parts": {
                "type": "array", "maxItems": 100, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "pattern": "^[a-z0-9-]+$"}, "weight": {"type": "integer", "default": 1},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                }},
            },
        },
    });
    let status = json!({"type": "object", "properties": {
        "conditions": {"type": "array", "items": condition, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            }],
        },
    })
}

/// About a kilobyte, as a Work or a binding of a fleet would have.
fn gadget(name: &str, size: u64) -> Value {
    let parts: Vec<Value> = (0..8)
        .map(|n| json!({"name": format!("part-{n}"), "weight": n, "labels": {"app": "web", "tier": "front"}}))
        .collect();
    json!({
        "apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": name, "labels": {"app": "web", "fleet": "one"}, "annotations": {"example.com/note": "measured"}},
        "spec": {"size": size, "fixed": "x", "parts": parts},
    })
}

fn world() -> (Runtime, ClusterHandle) {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime is made");
    let cluster = Server::new(Env::system()).add_cluster("hub");
    let local = cluster.local("bench");
    let crd = "customresourcedefinitions.apiextensions.k8s.io";
    runtime.block_on(local.create(crd, "", definition())).expect("the definition is good");
    (runtime, cluster)
}

async fn send(cluster: &ClusterHandle, method: &str, path: &str, body: Bytes) -> (u16, usize) {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("Content-Type", media);
    let request = request.body(Full::new(body)).expect("the request is well-formed");
    let response = cluster.clone().call(request).await.expect("no faults are planned");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("bodies do not fail").to_bytes();
    (code, bytes.len())
}

fn writes(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("rest");
    group.throughput(Throughput::Elements(1)).sample_size(20);

    let (runtime, cluster) = world();
    let mut next = 0_u64;
    group.bench_function("create a custom resource", |b| {
        b.iter(|| {
            next += 1;
            let body = Bytes::from(gadget(&format!("g{next}"), next).to_string());
            let (code, _) = runtime.block_on(send(&cluster, "POST", GADGETS, body));
            assert_eq!(code, 201);
        });
    });

    let (runtime, cluster) = world();
    let local = cluster.local("bench");
    let made = local.create("gadgets.example.com", "default", gadget("g", 0));
    let mut object = runtime.block_on(made).expect("the object is good");
    let mut size = 0_u64;
    group.bench_function("update a custom resource", |b| {
        b.iter(|| {
            size += 1;
            object["spec"]["size"] = json!(size);
            let done = runtime.block_on(local.update("gadgets.example.com", object.clone()));
            object = done.expect("nobody else writes");
        });
    });
    group.bench_function("update its status", |b| {
        b.iter(|| {
            size += 1;
            object["status"]["conditions"] = json!([{
                "type": "Ready", "status": "True", "reason": "R", "message": size.to_string(),
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": size,
            }]);
            let done = runtime.block_on(local.update_status("gadgets.example.com", object.clone()));
            object = done.expect("nobody else writes");
        });
    });
    group.bench_function("merge-patch a custom resource", |b| {
        let path = format!("{GADGETS}/g");
        b.iter(|| {
            size += 1;
            let body = Bytes::from(json!({"spec": {"size": size}}).to_string());
            let (code, _) = runtime.block_on(send(&cluster, "PATCH", &path, body));
            assert_eq!(code, 200);
        });
    });
    group.finish();
}

fn reads(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("rest");
    group.throughput(Throughput::Elements(1)).sample_size(20);
    let (runtime, cluster) = world();
    let local = cluster.local("bench");
    for n in 0..1_000 {
        let object = gadget(&format!("g{n}"), n);
        runtime.block_on(local.create("gadgets.example.com", "default", object)).expect("good");
    }
    group.bench_function("get one", |b| {
        let path = format!("{GADGETS}/g500");
        b.iter(|| black_box(runtime.block_on(send(&cluster, "GET", &path, Bytes::new()))));
    });
    group.bench_function("list a thousand", |b| {
        b.iter(|| black_box(runtime.block_on(send(&cluster, "GET", GADGETS, Bytes::new()))));
    });
    group.finish();
}

criterion_group!(benches, writes, reads);
criterion_main!(benches);
