//! A server that answers from a script, for tests of what a real one rarely does.
//!
//! Each request takes the next answer and is written down. Past the end of the
//! script nothing answers any more.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};

use crate::client::Client;

pub(crate) enum Answer {
    /// A whole answer with its status.
    Json(u16, Value),
    /// An error with `Retry-After`.
    RetryAfter(u16, &'static str),
    /// A watch: lines with the pause before each.
    Lines(Vec<(Duration, Value)>, End),
}

pub(crate) enum End {
    Close,
    Break,
    Silence,
}

#[derive(Clone, Default)]
pub(crate) struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Self::default();
        script.answers.lock().unwrap().extend(answers);
        script
    }

    pub(crate) fn client(&self) -> Client {
        Client::in_process(self.clone())
    }

    /// The requests so far, as `GET /path` and the body behind it.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

type Lines = StreamBody<BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>;

impl tower::Service<Request<Body>> for Script {
    type Response = Response<Lines>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let script = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let line = format!("{} {} {}", parts.method, parts.uri, String::from_utf8_lossy(&body));
            script.log.lock().unwrap().push(line.trim_end().to_owned());
            let answer = script.answers.lock().unwrap().pop_front();
            Ok(match answer {
                None => std::future::pending().await,
                Some(Answer::Json(code, value)) => whole(code, value),
                Some(Answer::RetryAfter(code, after)) => {
                    let mut response = whole(code, status(code, "Busy"));
                    response.headers_mut().insert("retry-after", after.parse().unwrap());
                    response
                }
                Some(Answer::Lines(lines, end)) => {
                    Response::new(StreamBody::new(watch(lines, end)))
                }
            })
        })
    }
}

fn whole(code: u16, value: Value) -> Response<Lines> {
    let frame = Ok(Frame::data(Bytes::from(value.to_string())));
    let body = StreamBody::new(stream::iter([frame]).boxed());
    Response::builder().status(code).body(body).unwrap()
}

fn watch(
    lines: Vec<(Duration, Value)>,
    end: End,
) -> BoxStream<'static, Result<Frame<Bytes>, std::io::Error>> {
    let lines = stream::iter(lines).then(|(pause, line)| async move {
        tokio::time::sleep(pause).await;
        Ok(Frame::data(Bytes::from(format!("{line}\n"))))
    });
    match end {
        End::Close => lines.boxed(),
        End::Break => {
            let reset = std::io::Error::other("connection reset");
            lines.chain(stream::iter([Err(reset)])).boxed()
        }
        End::Silence => lines.chain(stream::pending()).boxed(),
    }
}

/// A failure as servers write it.
pub(crate) fn status(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": reason,
    })
}

/// A ConfigMap with one entry.
pub(crate) fn map(name: &str, version: u64, text: &str) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {
            "namespace": "app", "name": name, "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(),
        },
        "data": {"text": text},
    })
}

/// A list of ConfigMaps.
pub(crate) fn list(version: u64, items: impl IntoIterator<Item = Value>) -> Value {
    json!({
        "kind": "ConfigMapList", "apiVersion": "v1",
        "metadata": {"resourceVersion": version.to_string()},
        "items": items.into_iter().collect::<Vec<_>>(),
    })
}

/// A line of a watch.
pub(crate) fn event(what: &str, object: Value) -> (Duration, Value) {
    (Duration::ZERO, json!({"type": what, "object": object}))
}
