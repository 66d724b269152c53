//! Sends a script to a server: ours in this process, or a real one behind `kubectl proxy`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use flagship_apiserver::auth::{User, group};
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_store::env::Env;
use http_body_util::{BodyExt, Full};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tower::Service;

use crate::script::{Request, Script};

/// What a server said to one request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    /// Those that clients act upon.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// Headers worth comparing.
const HEADERS: [&str; 4] = ["content-type", "warning", "retry-after", "allow"];

pub enum Target {
    Ours(ClusterHandle),
    /// `host:port` that needs neither TLS nor credentials.
    Real(String),
}

impl Target {
    pub fn ours() -> Self {
        Self::Ours(Server::new(Env::simulated(7)).add_cluster("hub"))
    }

    pub async fn play(&self, script: &Script) -> Vec<Answer> {
        let namespace = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, script.namespace);
        let made = Request {
            method: "POST".into(),
            path: "/api/v1/namespaces".into(),
            headers: Vec::new(),
            body: namespace,
        };
        assert_eq!(self.send(&made).await.status, 201, "the namespace of {}", script.name);
        let mut answers = Vec::new();
        for request in &script.requests {
            let answer = self.send(&request.filled(script, &answers)).await;
            self.served(request, &answer).await;
            answers.push(answer);
        }
        answers
    }

    /// A real server serves a new definition, and heeds a new policy, a moment after it took it.
    async fn served(&self, request: &Request, answer: &Answer) {
        let guards = request.path.contains("/validatingadmissionpolic") && answer.status < 300;
        if let (Self::Real(_), true, true) = (self, guards, request.method.starts_with('P')) {
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        }
        let defines = request.path.ends_with("/customresourcedefinitions") && answer.status == 201;
        if let (Self::Real(_), true) = (self, defines) {
            let name = answer.json()["spec"]["names"]["plural"].as_str().unwrap().to_owned();
            let path = format!("/apis/example.com/v1/{name}");
            let wait = Request { method: "GET".into(), path, ..Request::default() };
            while self.send(&wait).await.status != 200 {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        }
    }

    async fn send(&self, request: &Request) -> Answer {
        let Request { method, path, headers, body } = request;
        let mut sent = http::Request::builder().method(method.as_str());
        let mut headers = headers.clone();
        headers.push(("User-Agent".into(), "script/1".into()));
        if !body.is_empty() && !headers.iter().any(|(name, _)| name == "Content-Type") {
            headers.push(("Content-Type".into(), "application/json".into()));
        }
        for (name, value) in &headers {
            sent = sent.header(name, value);
        }
        let body = Full::new(Bytes::from(body.clone()));
        match self {
            Self::Ours(cluster) => {
                let mut request = sent.uri(path.as_str()).body(body).unwrap();
                request.extensions_mut().insert(Arc::new(admin()));
                let mut service = cluster.clone();
                let (parts, body) = service.call(request).await.unwrap().into_parts();
                answer(parts, body.collect().await.unwrap().to_bytes())
            }
            Self::Real(address) => {
                let request =
                    sent.uri(path.as_str()).header("Host", "localhost").body(body).unwrap();
                let stream = tokio::net::TcpStream::connect(address).await.unwrap();
                let stream = hyper_util::rt::TokioIo::new(stream);
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(stream).await.unwrap();
                let connection = tokio::spawn(connection);
                let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
                let bytes = body.collect().await.unwrap().to_bytes();
                connection.abort();
                answer(parts, bytes)
            }
        }
    }
}

/// Who sends the requests, as in `scripts/real-fleet`.
fn admin() -> User {
    User { uid: "admin".into(), ..User::authenticated("admin", [group::MASTERS]) }
}

fn answer(parts: http::response::Parts, body: Bytes) -> Answer {
    let mut headers = BTreeMap::new();
    for name in HEADERS {
        let all: Vec<&str> =
            parts.headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).collect();
        if !all.is_empty() {
            headers.insert(name.to_owned(), all.join(" | "));
        }
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    Answer { status: parts.status.as_u16(), headers, body }
}

impl Answer {
    /// The body as JSON, whichever way it is written; what is neither is a string.
    pub fn json(&self) -> Value {
        if self.headers.get("content-type").is_some_and(|kind| kind == "application/yaml") {
            return serde_saphyr::from_str(&self.body).unwrap();
        }
        serde_json::from_str(&self.body).unwrap_or_else(|_| Value::String(self.body.clone()))
    }
}
