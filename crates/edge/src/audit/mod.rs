//! Who did what: one line of JSON for each request, as Kubernetes' `Event` of
//! `audit.k8s.io/v1`.
//!
//! Requests that come over the network are logged; what runs inside the process is not, for
//! nobody sent it. All clusters are in one log, and the annotation [`CLUSTER`] says which was
//! asked. `policy` decides how much is logged of what.
//!
//! A line is written before the answer goes on, as Kubernetes does in its `blocking` mode: who
//! has the answer has the line. A log that cannot be written is said, and stops nobody.

mod policy;

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flagship_apiserver::auth::{RequestAttributes, User};
use flagship_files::Rotating;
use flagship_store::env::Env;
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use policy::{Level, Policy, Stage, Verdict};

/// The annotation that names the cluster that was asked.
const CLUSTER: &str = "flagship.dev/cluster";

/// Larger bodies are left out, and an annotation says so.
const LARGEST_BODY: usize = 1 << 20;

/// Where to log, and how much of it is kept.
#[derive(Debug, Clone)]
pub struct AuditConfig<'a> {
    /// The file that is written.
    pub path: &'a Path,
    /// The text of a policy; without one the metadata of every request is logged.
    pub policy: Option<&'a str>,
    /// How many bytes a file may have before the next is begun.
    pub most_bytes: u64,
    /// How many older files are kept.
    pub backups: usize,
}

/// An audit log.
pub struct Audit {
    policy: Policy,
    log: Mutex<Rotating>,
}

/// Why there is no audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The policy cannot be used.
    #[error("the audit policy cannot be used: {0}")]
    Policy(String),
    /// The file cannot be written.
    #[error("the audit log cannot be written")]
    Log(#[source] std::io::Error),
}

/// What is known of a request before it is answered.
pub(super) struct Asked<'a> {
    /// Path and query, without the cluster.
    pub(super) uri: String,
    pub(super) ask: &'a RequestAttributes,
    pub(super) headers: &'a HeaderMap,
    pub(super) from: IpAddr,
    /// The cluster that was named, if one was.
    pub(super) cluster: Option<&'a str>,
    /// Who sent it.
    pub(super) sender: &'a User,
    /// As whom, if somebody else.
    pub(super) acting: Option<&'a User>,
}

/// A request that is logged. Its last line is written when this is dropped.
pub(super) struct Record {
    audit: Arc<Audit>,
    env: Env,
    verdict: Verdict,
    event: Map<String, Value>,
    /// Whether the answer has begun, and with it everything but its end is known.
    answered: bool,
    watch: bool,
    /// The answer so far, where it is logged.
    body: Option<Vec<u8>>,
}

impl Audit {
    /// Opens the log.
    pub fn open(config: &AuditConfig<'_>) -> Result<Self, AuditError> {
        let policy = match config.policy {
            Some(text) => Policy::read(text).map_err(AuditError::Policy)?,
            None => Policy::metadata(),
        };
        let log = Rotating::open(config.path, config.most_bytes, config.backups);
        Ok(Self { policy, log: Mutex::new(log.map_err(AuditError::Log)?) })
    }

    /// Begins the record of a request; `None` if the policy does not want it.
    pub(super) fn begin(self: &Arc<Self>, env: &Env, asked: &Asked<'_>) -> Option<Record> {
        let user = asked.acting.unwrap_or(asked.sender);
        let verdict = self.policy.verdict(user, asked.ask);
        if verdict.level == Level::None {
            return None;
        }
        let event = began(env, asked, verdict.level);
        let (audit, env) = (self.clone(), env.clone());
        let body = (verdict.level == Level::RequestResponse).then(Vec::new);
        let record = Record { audit, env, verdict, event, answered: false, watch: false, body };
        record.write(Stage::RequestReceived);
        Some(record)
    }

    fn write(&self, event: &Map<String, Value>) {
        let Ok(mut line) = serde_json::to_vec(event) else { return };
        line.push(b'\n');
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = log.write_lines(&line) {
            tracing::error!(%why, "the audit log could not be written");
        }
    }
}

/// What every line of a request has.
fn began(env: &Env, asked: &Asked<'_>, level: Level) -> Map<String, Value> {
    let text = |name: header::HeaderName| {
        let value = asked.headers.get(name).map(HeaderValue::as_bytes);
        value.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let (RequestAttributes::Resource { verb, .. } | RequestAttributes::Path { verb, .. }) =
        asked.ask;
    let mut event = Map::new();
    let mut put = |key: &str, value: Value| event.insert(key.to_owned(), value);
    put("kind", json!("Event"));
    put("apiVersion", json!("audit.k8s.io/v1"));
    put("level", json!(level.name()));
    put("auditID", json!(env.entropy.uuid()));
    put("requestURI", json!(asked.uri));
    put("verb", json!(verb));
    put("user", user(asked.sender));
    if let Some(acting) = asked.acting {
        put("impersonatedUser", user(acting));
    }
    put("sourceIPs", json!([asked.from.to_canonical().to_string()]));
    if let Some(agent) = text(header::USER_AGENT) {
        put("userAgent", json!(agent));
    }
    if let RequestAttributes::Resource { at, .. } = asked.ask {
        let all = [
            ("resource", Some(&at.resource)),
            ("namespace", at.namespace.as_ref()),
            ("name", at.name.as_ref()),
            ("apiGroup", Some(&at.group)),
            ("apiVersion", Some(&at.version)),
            ("subresource", at.subresource.as_ref()),
        ];
        let known = all.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let known = known.filter(|(_, value)| !value.is_empty());
        put("objectRef", known.map(|(key, value)| (key.to_owned(), json!(value))).collect());
    }
    put("requestReceivedTimestamp", json!(stamp(env.clock.now())));
    if let Some(cluster) = asked.cluster {
        put("annotations", json!({CLUSTER: cluster}));
    }
    event
}

fn user(user: &User) -> Value {
    let mut told = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        told["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        told["extra"] = json!(user.extra);
    }
    told
}

/// A moment to the microsecond, as Kubernetes' `MicroTime`.
fn stamp(at: Timestamp) -> String {
    format!("{at:.6}")
}

impl Record {
    /// The ID by which client and log speak of the same request.
    pub(super) fn id(&self) -> Option<HeaderValue> {
        self.event.get("auditID")?.as_str()?.parse().ok()
    }

    /// Adds an annotation.
    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        let all = self.event.entry("annotations").or_insert_with(|| json!({}));
        all[key] = json!(value);
    }

    /// The body of the request, which is logged where the policy says so.
    pub(super) fn request(&mut self, body: &[u8]) {
        if self.verdict.level < Level::Request || body.is_empty() {
            return;
        }
        self.put_body("requestObject", body);
    }

    fn put_body(&mut self, key: &str, body: &[u8]) {
        if body.len() > LARGEST_BODY {
            self.annotate("audit.k8s.io/truncated", "true");
            return;
        }
        // What is no JSON is left out: a log of lines has no place for it.
        if let Ok(mut value) = serde_json::from_slice::<Value>(body) {
            if self.verdict.omit_managed_fields {
                drop_managed_fields(&mut value);
            }
            self.event.insert(key.to_owned(), value);
        }
    }

    /// The answer begins.
    pub(super) fn answered(&mut self, code: u16, watch: bool) {
        self.answered = true;
        self.watch = watch;
        self.event.insert("responseStatus".to_owned(), json!({"metadata": {}, "code": code}));
        if watch {
            self.body = None;
            self.write(Stage::ResponseStarted);
        }
    }

    /// More of the answer.
    pub(super) fn more(&mut self, bytes: &Bytes) {
        if let Some(body) = &mut self.body
            && body.len() <= LARGEST_BODY
        {
            body.extend_from_slice(bytes);
        }
    }

    fn write(&self, stage: Stage) {
        if !self.verdict.logs(stage) {
            return;
        }
        let mut event = self.event.clone();
        event.insert("stage".to_owned(), json!(stage.name()));
        event.insert("stageTimestamp".to_owned(), json!(stamp(self.env.clock.now())));
        self.audit.write(&event);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.answered {
            // The client went away before there was an answer.
            let gone = json!({"metadata": {}, "status": "Failure", "code": 499});
            self.event.insert("responseStatus".to_owned(), gone);
        }
        if let Some(body) = self.body.take().filter(|body| !body.is_empty()) {
            self.put_body("responseObject", &body);
        }
        self.write(Stage::ResponseComplete);
    }
}

/// Takes `metadata.managedFields` out of an object, or out of those of a list.
fn drop_managed_fields(value: &mut Value) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(drop_managed_fields);
    }
}
