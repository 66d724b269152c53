//! Sending requests and reading answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use flagship_apiserver::rest::{Body, ClusterHandle, Server};
use flagship_store::env::Env;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::Service;

/// A server with one cluster.
pub struct TestServer {
    pub server: Server,
    pub cluster: ClusterHandle,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub headers: BTreeMap<String, String>,
    pub warnings: Vec<String>,
    pub body: Value,
}

/// A watch being read.
pub struct Watch(Body, Vec<u8>);

impl TestServer {
    pub fn new() -> Self {
        Self::in_env(Env::simulated(7))
    }

    pub fn in_env(env: Env) -> Self {
        let server = Server::new(env);
        let cluster = server.add_cluster("hub");
        Self { server, cluster }
    }

    pub async fn raw(&self, request: Request<Full<Bytes>>) -> http::Response<Body> {
        let mut service = self.cluster.clone();
        service.call(request).await.unwrap()
    }

    /// Sends a request with headers, given as `Name: value`.
    pub async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: impl Into<Bytes>,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for header in headers {
            let (name, value) = header.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        reply(self.raw(request.body(Full::new(body.into())).unwrap()).await).await
    }

    pub async fn send(&self, method: &str, path: &str, body: Value) -> Reply {
        let bytes = if body.is_null() { String::new() } else { body.to_string() };
        let kind = match (method, path) {
            ("PATCH", _) => "Content-Type: application/merge-patch+json",
            _ => "Content-Type: application/json",
        };
        self.send_with(method, path, &[kind], bytes).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, Value::Null).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send("PUT", path, body).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, Value::Null).await
    }

    /// Sends a patch of a kind: `json`, `merge`, `strategic` or `apply`.
    pub async fn patch(&self, kind: &str, path: &str, body: Value) -> Reply {
        let media = match kind {
            "json" => "Content-Type: application/json-patch+json",
            "merge" => "Content-Type: application/merge-patch+json",
            "strategic" => "Content-Type: application/strategic-merge-patch+json",
            _ => "Content-Type: application/apply-patch+yaml",
        };
        self.send_with("PATCH", path, &[media], body.to_string()).await
    }

    /// Creates a ConfigMap in `default` and returns it.
    pub async fn config(&self, name: &str, labels: Value) -> Value {
        let body = json!({"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}});
        self.post(MAPS, body).await.ok(201)
    }

    /// Installs a definition and expects it to be served.
    pub async fn define(&self, crd: Value) -> Value {
        let made = self.post(DEFINITIONS, crd).await.ok(201);
        let established = made["status"]["conditions"].as_array().is_some_and(|all| {
            all.iter().any(|c| c["type"] == "Established" && c["status"] == "True")
        });
        assert!(established, "{made:#}");
        made
    }

    pub async fn watch(&self, path: &str) -> Watch {
        self.watch_with(path, &[]).await
    }

    pub async fn watch_with(&self, path: &str, headers: &[&str]) -> Watch {
        let mut request = Request::builder().method(Method::GET).uri(path);
        for header in headers {
            let (name, value) = header.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let response = self.raw(request.body(Full::default()).unwrap()).await;
        assert_eq!(response.status(), 200);
        Watch(response.into_body(), Vec::new())
    }
}

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

/// A definition with a status subresource and a small schema.
pub fn gadget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["size"],
                            "properties": {
                                "size": {"type": "integer", "minimum": 0},
                                "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                                "fixed": {
                                    "type": "string",
                                    "x-kubernetes-validations": [
                                        {"rule": "self == oldSelf", "message": "fixed is immutable"},
                                    ],
                                },
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": {"size": {"type": "integer"}, "ready": {"type": "boolean"}},
                        },
                    },
                }},
            }],
        },
    })
}

pub fn gadget(name: &str, size: i64) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": name}, "spec": {"size": size},
    })
}

pub async fn reply(response: http::Response<Body>) -> Reply {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let headers = parts
        .headers
        .iter()
        .map(|(k, v)| (k.to_string(), v.to_str().unwrap().to_owned()))
        .collect();
    let warnings = parts
        .headers
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().unwrap().to_owned())
        .collect();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Reply { code: parts.status.as_u16(), headers, warnings, body }
}

impl Reply {
    /// The body, if the code is as expected.
    #[track_caller]
    pub fn ok(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{:#}", self.body);
        self.body
    }

    /// Holds the answer against `code reason: message`.
    #[track_caller]
    pub fn refused(self, code: u16, reason: &str, message: &str) -> Value {
        let got = (
            self.code,
            self.body["reason"].as_str().unwrap_or_default(),
            self.body["message"].as_str().unwrap_or_default(),
        );
        assert_eq!(got, (code, reason, message), "{:#}", self.body);
        assert_eq!(self.body["kind"], "Status");
        assert_eq!(self.body["status"], "Failure");
        assert_eq!(self.body["code"], code);
        self.body
    }
}

impl Watch {
    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.1.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.1.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            match self.0.frame().await {
                Some(frame) => self.1.extend_from_slice(frame.unwrap().data_ref().unwrap()),
                None => return None,
            }
        }
    }

    /// The next event as `TYPE name`.
    pub async fn line(&mut self) -> String {
        match self.next().await {
            None => "END".to_owned(),
            Some(event) => {
                let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
                format!("{} {name}", event["type"].as_str().unwrap())
            }
        }
    }

    /// Everything until the stream ends, as `TYPE name`.
    pub async fn rest(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.line().await {
                line if line == "END" => return lines,
                line => lines.push(line),
            }
        }
    }

    /// Whether nothing is waiting to be read.
    pub async fn is_quiet(&mut self) -> bool {
        let Self(body, buffer) = self;
        if !buffer.is_empty() {
            return false;
        }
        let mut frame = Box::pin(body.frame());
        std::future::poll_fn(|context| match frame.as_mut().poll(context) {
            Poll::Pending => Poll::Ready(true),
            Poll::Ready(_) => Poll::Ready(false),
        })
        .await
    }
}

/// The resourceVersion of an object or list.
#[track_caller]
pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// The names of the items of a list.
pub fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// For hooks that tests add.
pub type Hook = Arc<dyn flagship_apiserver::rest::Admission>;
