//! A cluster with all of our definitions, and how to ask it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use flagship_api::crd;
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_store::env::Env;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tower::Service;

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A cluster that serves every kind. All tests share it, as nobody asks for a name twice.
#[derive(Clone)]
pub struct Fleet {
    pub server: Server,
    pub cluster: ClusterHandle,
    pub kinds: Arc<[Kind]>,
}

/// Compiling the rules of 28 kinds takes most of a second, so it is done once.
static SHARED: OnceCell<Fleet> = OnceCell::const_new();

/// How many names were given out.
static NAMED: AtomicUsize = AtomicUsize::new(0);

/// One definition, as it was sent.
pub struct Kind {
    pub crd: Value,
}

/// One served version of a kind.
#[derive(Clone, Copy)]
pub struct Version<'a> {
    pub kind: &'a Kind,
    pub entry: &'a Value,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

impl Fleet {
    pub async fn new() -> Self {
        SHARED.get_or_init(Self::install).await.clone()
    }

    async fn install() -> Self {
        let server = Server::new(Env::simulated(28));
        let cluster = server.add_cluster("hub");
        let kinds = crd::all().into_iter().map(|crd| Kind { crd }).collect();
        let fleet = Self { server, cluster, kinds };
        for kind in fleet.kinds.iter() {
            let reply = fleet.send("POST", DEFINITIONS, &kind.crd).await;
            assert_eq!(reply.warnings, [""; 0], "{}", kind.name());
            reply.ok(201);
        }
        fleet
    }

    pub fn kind(&self, name: &str) -> &Kind {
        self.kinds.iter().find(|kind| kind.name() == name).unwrap()
    }

    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let media = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder().method(method).uri(path).header("Content-Type", media);
        let mut service = self.cluster.clone();
        let reply = service.call(request.body(Full::new(bytes)).unwrap()).await.unwrap();
        let (parts, body) = reply.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let warnings = parts.headers.get_all("warning").iter();
        Reply {
            code: parts.status.as_u16(),
            warnings: warnings.map(|text| text.to_str().unwrap().to_owned()).collect(),
            body: serde_json::from_slice(&bytes).unwrap(),
        }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &Value::Null).await
    }

    /// A name nobody has.
    pub fn fresh_name() -> String {
        format!("n{}", NAMED.fetch_add(1, Ordering::Relaxed))
    }

    /// Gives an object a type and, where it has none, a name.
    pub fn dress(&self, version: Version<'_>, mut object: Value) -> Value {
        object["apiVersion"] = version.api_version().into();
        object["kind"] = version.kind.name().into();
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = Self::fresh_name().into();
        }
        object
    }

    /// Creates an object, with its status if that is a matter of its own.
    pub async fn create(&self, version: Version<'_>, object: Value) -> Reply {
        let object = self.dress(version, object);
        let made = self.send("POST", &version.path(), &object).await;
        if made.code != 201 || object["status"].is_null() || !version.has_status() {
            return made;
        }
        self.put(version, made.body, object).await
    }

    /// Replaces an object, or its status where `new` has one and that has its own path.
    pub async fn put(&self, version: Version<'_>, old: Value, mut new: Value) -> Reply {
        let name = old["metadata"]["name"].as_str().unwrap();
        new = self.dress(version, new);
        new["metadata"] = old["metadata"].clone();
        let mut path = format!("{}/{name}", version.path());
        if version.has_status() && !new["status"].is_null() {
            path.push_str("/status");
        }
        self.send("PUT", &path, &new).await
    }
}

impl Kind {
    pub fn name(&self) -> &str {
        self.crd["spec"]["names"]["kind"].as_str().unwrap()
    }

    pub fn group(&self) -> &str {
        self.crd["spec"]["group"].as_str().unwrap()
    }

    pub fn plural(&self) -> &str {
        self.crd["spec"]["names"]["plural"].as_str().unwrap()
    }

    pub fn is_namespaced(&self) -> bool {
        self.crd["spec"]["scope"] == "Namespaced"
    }

    pub fn versions(&self) -> impl Iterator<Item = Version<'_>> {
        let entries = self.crd["spec"]["versions"].as_array().unwrap().iter();
        entries.map(|entry| Version { kind: self, entry })
    }

    pub fn storage(&self) -> Version<'_> {
        self.versions().find(|version| version.entry["storage"] == true).unwrap()
    }
}

impl<'a> Version<'a> {
    pub fn name(self) -> &'a str {
        self.entry["name"].as_str().unwrap()
    }

    pub fn schema(self) -> &'a Value {
        &self.entry["schema"]["openAPIV3Schema"]
    }

    pub fn api_version(self) -> String {
        format!("{}/{}", self.kind.group(), self.name())
    }

    pub fn has_status(self) -> bool {
        !self.entry["subresources"]["status"].is_null()
    }

    /// Where its objects are.
    pub fn path(self) -> String {
        let namespace = if self.kind.is_namespaced() { "/namespaces/default" } else { "" };
        format!("/apis/{}{namespace}/{}", self.api_version(), self.kind.plural())
    }

    /// For messages of failing tests.
    pub fn label(self) -> String {
        format!("{} {}", self.kind.name(), self.name())
    }
}

impl Reply {
    /// The body, if the code is as expected.
    #[track_caller]
    pub fn ok(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{:#}", self.body);
        self.body
    }

    /// What is wrong with an object, one line for each cause: `reason | field: message`.
    /// The message for people must say the same.
    #[track_caller]
    pub fn causes(&self, version: Version<'_>) -> Vec<String> {
        let body = &self.body;
        if self.code < 300 {
            return Vec::new();
        }
        assert_eq!((self.code, &body["reason"]), (422, &json!("Invalid")), "{body:#}");
        assert_eq!(body["details"]["kind"], version.kind.name());
        assert_eq!(body["details"]["group"], version.kind.group());
        let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
        let causes = body["details"]["causes"].as_array().unwrap();
        let says: Vec<String> = causes
            .iter()
            .map(|c| format!("{}: {}", text(c, "field"), text(c, "message")))
            .collect();
        let list = match says.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let whole = format!(
            "{}.{} {} is invalid: {list}",
            version.kind.name(),
            version.kind.group(),
            body["details"]["name"],
        );
        assert_eq!(body["message"], whole);
        causes.iter().zip(says).map(|(c, says)| format!("{} | {says}", text(c, "reason"))).collect()
    }
}
