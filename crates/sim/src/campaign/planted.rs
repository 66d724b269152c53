//! Bugs that are planted to see whether the campaign finds them.
//!
//! Nothing that ships contains them: they sit between a hub and its API server, and change what
//! the hub reads or what becomes of its writes as the bug would.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flagship_api::keys::own;
use flagship_apiserver::rest::ClusterHandle;
use flagship_runtime::client::Client;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::{BoxError, Service};

use super::people::HIDDEN;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Bug {
    /// Bindings are written before the run's record, as KubeFleet does.
    RecordLast,
    /// Bindings do not bear the run that wrote them.
    NoFence,
    /// A success that was reported for an earlier generation counts for the present one.
    StaleSuccess,
    /// Nobody wakes for an approval.
    LostWakeUp,
    /// An approval counts whatever generation of the request it is about.
    AnyGeneration,
    /// A wait is counted from five minutes before the last cluster was done.
    WrongClock,
    /// That an eviction was carried out is not written down.
    DoubleEviction,
    /// A snapshot is removed although a run works with it.
    SnapshotPruned,
    /// One more cluster at once than a stage allows.
    OneSlotTooMany,
    /// One event in five about bindings is not delivered.
    DroppedEvent,
    /// A message shows what a Secret holds.
    LeakedSecret,
    /// The record of a run that has ended is written anew.
    RestlessRecord,
}

/// All of them.
pub const BUGS: [Bug; 12] = [
    Bug::RecordLast,
    Bug::NoFence,
    Bug::StaleSuccess,
    Bug::LostWakeUp,
    Bug::AnyGeneration,
    Bug::WrongClock,
    Bug::DoubleEviction,
    Bug::SnapshotPruned,
    Bug::OneSlotTooMany,
    Bug::DroppedEvent,
    Bug::LeakedSecret,
    Bug::RestlessRecord,
];

/// How long the record comes after the bindings.
const LATER: Duration = Duration::from_millis(300);

/// The client of a hub, with a bug between it and the server.
pub(super) fn client(server: ClusterHandle, bug: Option<Bug>) -> Client {
    match bug {
        None => Client::in_process(server),
        Some(bug) => Client::in_process(Buggy { server, bug, memory: Arc::default() }),
    }
}

#[derive(Clone)]
struct Buggy {
    server: ClusterHandle,
    bug: Bug,
    memory: Arc<Memory>,
}

/// What a bug remembers.
#[derive(Default)]
struct Memory {
    events: AtomicU64,
    done: Mutex<BTreeSet<String>>,
}

impl Memory {
    /// Whether this is seen for the first time.
    fn is_new(&self, what: String) -> bool {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).insert(what)
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl<B> Service<Request<B>> for Buggy
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let buggy = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            buggy.pass(Request::from_parts(parts, body)).await
        })
    }
}

impl Buggy {
    async fn send(&self, request: Request<Bytes>) -> Result<Answer, BoxError> {
        let (parts, body) = request.into_parts();
        let mut server = self.server.clone();
        let answer = server.call(Request::from_parts(parts, Full::new(body))).await?;
        Ok(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
    }

    async fn pass(&self, request: Request<Bytes>) -> Result<Answer, BoxError> {
        let path = request.uri().path().to_owned();
        if request.method() != Method::GET {
            return self.write(request, &path).await;
        }
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let answer = self.send(request).await?;
        if !self.changes_reads_of(&path) || !answer.status().is_success() {
            return Ok(answer);
        }
        match is_watch {
            true => Ok(self.watched(answer)),
            false => {
                let (parts, body) = answer.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let mut value: Value = serde_json::from_slice(&bytes)?;
                match value["items"].as_array_mut() {
                    Some(items) => items.iter_mut().for_each(|item| self.read(item)),
                    None => self.read(&mut value),
                }
                Ok(Response::from_parts(parts, whole(value.to_string())))
            }
        }
    }

    fn changes_reads_of(&self, path: &str) -> bool {
        let about = |plural: &str| path.contains(plural);
        match self.bug {
            Bug::StaleSuccess | Bug::DroppedEvent => about("resourcebindings"),
            Bug::LostWakeUp | Bug::AnyGeneration => about("approvalrequests"),
            Bug::OneSlotTooMany => about("stagedupdate"),
            _ => false,
        }
    }

    /// A watch, line by line.
    fn watched(&self, answer: Answer) -> Answer {
        let (parts, body) = answer.into_parts();
        let buggy = self.clone();
        let mut rest = BytesMut::new();
        let lines = body.into_data_stream().map(move |piece| {
            rest.extend_from_slice(&piece?);
            let mut out = Vec::new();
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest.split_to(end + 1);
                out.extend(buggy.line(&line));
            }
            Ok::<_, BoxError>(http_body::Frame::data(Bytes::from(out)))
        });
        // An empty frame says nothing.
        let lines = lines.flat_map(|frame| {
            let empty =
                matches!(&frame, Ok(frame) if frame.data_ref().is_some_and(Bytes::is_empty));
            stream::iter((!empty).then_some(frame))
        });
        Response::from_parts(parts, BodyExt::boxed_unsync(StreamBody::new(lines)))
    }

    /// What becomes of one event.
    fn line(&self, line: &[u8]) -> Vec<u8> {
        let Ok(mut event) = serde_json::from_slice::<Value>(line) else { return line.to_vec() };
        if event["type"] == "MODIFIED" {
            match self.bug {
                Bug::LostWakeUp => return Vec::new(),
                Bug::DroppedEvent
                    if self.memory.events.fetch_add(1, Ordering::Relaxed) % 5 == 4 =>
                {
                    return Vec::new();
                }
                _ => {}
            }
        }
        if event["type"] != "BOOKMARK" {
            self.read(&mut event["object"]);
        }
        let mut out = event.to_string().into_bytes();
        out.push(b'\n');
        out
    }

    /// What a hub reads instead of what is there.
    fn read(&self, object: &mut Value) {
        let generation = object["metadata"]["generation"].clone();
        match self.bug {
            Bug::StaleSuccess | Bug::AnyGeneration => {
                let about = if self.bug == Bug::AnyGeneration { "Approved" } else { "Available" };
                for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten()
                {
                    if condition["type"] == about && condition["status"] == "True" {
                        condition["observedGeneration"] = generation.clone();
                    }
                }
            }
            Bug::OneSlotTooMany => slots(object, 1),
            _ => {}
        }
    }

    async fn write(&self, mut request: Request<Bytes>, path: &str) -> Result<Answer, BoxError> {
        let is_record = path.contains("stagedupdateruns") && path.ends_with("/status");
        let Ok(mut body) = serde_json::from_slice::<Value>(request.body()) else {
            return self.send(request).await;
        };
        match self.bug {
            Bug::NoFence if path.contains("resourcebindings") => {
                if let Some(notes) = body["metadata"]["annotations"].as_object_mut() {
                    notes.remove(own::UPDATE_RUN_UID);
                    notes.remove(own::UPDATE_RUN_GENERATION);
                }
            }
            Bug::RecordLast if is_record && self.is_promise(&body) => {
                let buggy = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(LATER).await;
                    // Whether it is refused, nobody learns.
                    drop(buggy.send(request).await);
                });
                return Ok(Response::new(whole(body.to_string())));
            }
            Bug::WrongClock if is_record => self.earlier(&mut body),
            Bug::OneSlotTooMany if is_record => slots(&mut body, -1),
            Bug::DoubleEviction if path.contains("placementevictions") => {
                let get = Request::get(plain(path)).body(Bytes::new())?;
                return self.send(get).await;
            }
            Bug::LeakedSecret if path.contains("resourcebindings") && path.ends_with("/status") => {
                for condition in body["status"]["conditions"].as_array_mut().into_iter().flatten() {
                    if condition["type"] == "Available" {
                        condition["message"] = json!(format!("the password {HIDDEN} was refused"));
                    }
                }
            }
            _ => {}
        }
        *request.body_mut() = Bytes::from(body.to_string());
        let answer = self.send(request).await?;
        if is_record && answer.status().is_success() {
            self.after_record(path, &body).await?;
        }
        Ok(answer)
    }

    async fn after_record(&self, path: &str, body: &Value) -> Result<(), BoxError> {
        let text = body.to_string();
        let uid = body["metadata"]["uid"].as_str().unwrap_or_default();
        match self.bug {
            Bug::SnapshotPruned
                if text.contains("ClusterUpdatingStarted") && self.memory.is_new(uid.into()) =>
            {
                let index = body["status"]["resourceSnapshotIndexUsed"].as_str().unwrap_or("0");
                let placement = body["spec"]["placementName"].as_str().unwrap_or_default();
                let snapshots = plain(path).replace("stagedupdateruns", "resourcesnapshots");
                let (folder, _) = snapshots.rsplit_once('/').unwrap_or_default();
                let uri = format!("{folder}/{placement}-{index}-snapshot");
                let delete = Request::delete(uri).body(Bytes::new())?;
                self.send(delete).await.map(drop)
            }
            Bug::RestlessRecord if text.contains("\"type\":\"Succeeded\"") => {
                let (buggy, path) = (self.clone(), path.to_owned());
                if !self.memory.is_new(uid.into()) {
                    return Ok(());
                }
                tokio::spawn(async move {
                    for pass in 0.. {
                        tokio::time::sleep(Duration::from_secs(60)).await;
                        if buggy.write_again(&path, pass).await.is_err() {
                            return;
                        }
                    }
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Buggy {
    /// Writes a record as it is, in other words.
    async fn write_again(&self, path: &str, pass: u64) -> Result<(), BoxError> {
        let found = self.send(Request::get(plain(path)).body(Bytes::new())?).await?;
        let found = found.into_body().collect().await?.to_bytes();
        let mut object: Value = serde_json::from_slice(&found)?;
        let message = object.pointer_mut("/status/conditions/0/message");
        *message.ok_or("the record is gone")? = json!(format!("pass {pass}"));
        let put = Request::put(path).header(http::header::CONTENT_TYPE, "application/json");
        self.send(put.body(Bytes::from(object.to_string()))?).await.map(drop)
    }

    /// Whether a record is the first that calls so many clusters started.
    fn is_promise(&self, body: &Value) -> bool {
        let started = body.to_string().matches("ClusterUpdatingStarted").count();
        let uid = body["metadata"]["uid"].as_str().unwrap_or_default();
        started > 0 && self.memory.is_new(format!("{uid} {started}"))
    }

    /// Dates the end of a stage and of each of its clusters five minutes back, once.
    fn earlier(&self, body: &mut Value) {
        let uid = body["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        for stage in body["status"]["stagesStatus"].as_array_mut().into_iter().flatten() {
            let name = stage["stageName"].as_str().unwrap_or_default().to_owned();
            self.date_back(&format!("{uid} {name}"), "Progressing", &mut stage["conditions"]);
            for cluster in stage["clusters"].as_array_mut().into_iter().flatten() {
                let name = cluster["clusterName"].as_str().unwrap_or_default().to_owned();
                let place = format!("{uid} {name}");
                self.date_back(&place, "Succeeded", &mut cluster["conditions"]);
            }
        }
    }

    fn date_back(&self, place: &str, kind: &str, conditions: &mut Value) {
        for condition in conditions.as_array_mut().into_iter().flatten() {
            // A stage that no longer progresses has its clusters behind it.
            let wanted = if kind == "Progressing" { "False" } else { "True" };
            let is_it = condition["type"] == kind && condition["status"] == wanted;
            let time = condition["lastTransitionTime"].as_str().and_then(|t| t.parse().ok());
            if let Some(time) = time.filter(|_: &Timestamp| is_it)
                && self.memory.is_new(format!("{place} {kind}"))
            {
                let early = time.checked_sub(SignedDuration::from_mins(5)).unwrap_or(time);
                condition["lastTransitionTime"] = json!(early);
            }
        }
    }
}

/// The path of the object itself.
fn plain(path: &str) -> String {
    let uri: Uri = path.parse().unwrap_or_default();
    uri.path().trim_end_matches("/status").to_owned()
}

fn whole(text: String) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

/// Changes every number of clusters at once.
fn slots(value: &mut Value, by: i64) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_i64().filter(|_| name == "maxConcurrency") {
                    Some(number) => *field = json!(number + by),
                    None => slots(field, by),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| slots(item, by)),
        _ => {}
    }
}
