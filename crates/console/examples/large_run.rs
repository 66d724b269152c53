//! A console over a made-up hub with one run of 5,000 clusters: what it sends and holds.
//!
//! `cargo run --release -p flagship-console --example large_run` prints figures of the server;
//! with `serve` it prints a link and changes cells until it is stopped, for a browser and for
//! `scripts/console-benchmark`: `one` finishes one cluster every 300 ms and prints when it was
//! written, `all` changes every cell as fast as it can, `still` changes nothing.

use std::convert::Infallible;
use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flagship_api::names::ObjectKey;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_console::{Act, Answer, Commands, Console, Guard, Key};
use flagship_explain::why::MemberView;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use futures::future::{BoxFuture, FutureExt};
use futures::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

const CLUSTERS: usize = 5000;
const PAGES: usize = 50;
const STAGES: [(&str, usize); 4] = [("staging", 100), ("canary", 400), ("eu", 2000), ("us", 2500)];

/// Nobody clicks here.
struct Nobody;

impl Commands for Nobody {
    fn act(&self, _: Act) -> BoxFuture<'_, Result<String, String>> {
        async { Err("nobody acts here".to_owned()) }.boxed()
    }

    fn plan(&self, _: &ObjectKey, _: Option<&str>) -> BoxFuture<'_, Result<Value, String>> {
        async { Err("nobody plans here".to_owned()) }.boxed()
    }

    fn changes(&self, _: &ObjectKey, _: &str, _: &str) -> BoxFuture<'_, Result<Value, String>> {
        async { Err("nobody compares here".to_owned()) }.boxed()
    }

    fn look(&self, _: &str, _: &ResourceIdentifier) -> BoxFuture<'_, MemberView> {
        async { MemberView::default() }.boxed()
    }
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "",
        "observedGeneration": 1, "lastTransitionTime": "2026-11-16T10:00:00Z"})
}

/// The run, its first `done` clusters being done and the next 30 under way; with `turn`, marks
/// go round so that every cell differs from the turn before.
fn run(version: u64, done: usize, turn: usize) -> Value {
    let started = condition("Started", "True", "ClusterUpdatingStarted");
    let succeeded = condition("Succeeded", "True", "ClusterUpdatingSucceeded");
    let mut at = 0;
    let stages: Vec<Value> = STAGES
        .iter()
        .map(|(name, count)| {
            let clusters: Vec<Value> = (0..*count)
                .map(|number| {
                    let mark = match turn {
                        0 if at < done => 2,
                        0 if at < done + 30 => 1,
                        0 => 0,
                        turn => (at + turn) % 3,
                    };
                    at += 1;
                    let conditions = match mark {
                        2 => json!([started, succeeded]),
                        1 => json!([started]),
                        _ => json!([]),
                    };
                    json!({"clusterName": format!("{name}-cluster-{number:04}"), "conditions": conditions})
                })
                .collect();
            json!({"stageName": name, "clusters": clusters, "startTime": "2026-11-16T10:00:00Z",
                "conditions": [condition("Progressing", "True", "StageUpdatingStarted")]})
        })
        .collect();
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": "large", "uid": "u", "generation": 1,
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-11-16T10:00:00Z"},
        "spec": {"placementName": "demo", "stagedRolloutStrategyName": "waves", "state": "Run"},
        "status": {"resourceSnapshotIndexUsed": "1", "stagesStatus": stages, "conditions": [
            condition("Initialized", "True", "UpdateRunInitializedSuccessfully"),
            condition("Progressing", "True", "UpdateRunProgressing")]},
    })
}

type Wire = UnsyncBoxBody<Bytes, Infallible>;

/// A hub that serves lists and watches of that one run, and nothing of anything else.
async fn hub(request: Request<Body>, runs: watch::Receiver<Bytes>) -> Response<Wire> {
    let ours = request.uri().path().ends_with("/clusterstagedupdateruns");
    let query = request.uri().query().unwrap_or_default();
    let whole = |status: u16, value: Value| {
        let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
        Response::builder().status(status).body(body).expect("a plain answer")
    };
    if query.contains("sendInitialEvents") {
        let why = json!({"kind": "Status", "apiVersion": "v1", "code": 422, "reason": "Invalid",
            "status": "Failure", "message": "lists are not streamed here"});
        return whole(422, why);
    }
    if !query.contains("watch=true") {
        let items: Vec<Value> = match ours {
            true => vec![serde_json::from_slice(&runs.borrow()).expect("we wrote it")],
            false => Vec::new(),
        };
        return whole(
            200,
            json!({"kind": "List", "apiVersion": "v1",
            "metadata": {"resourceVersion": "1"}, "items": items}),
        );
    }
    let events = stream::unfold(runs, move |mut runs| async move {
        if !ours || runs.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        let object = runs.borrow_and_update().clone();
        let mut line = b"{\"type\":\"MODIFIED\",\"object\":".to_vec();
        line.extend_from_slice(&object);
        line.extend_from_slice(b"}\n");
        Some((Ok(Frame::data(Bytes::from(line))), runs))
    });
    Response::new(StreamBody::new(events).boxed_unsync())
}

/// Resident megabytes of this process.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kilobytes: f64 =
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.0);
    kilobytes / 1024.0
}

struct Page(Answer);

impl Page {
    async fn open(console: &Console, key: &str) -> Self {
        let request = Request::builder()
            .uri("/events?view=run&name=large")
            .header("host", "127.0.0.1:1")
            .header("cookie", format!("flagship-console-1={key}"))
            .body(Full::new(Bytes::new()))
            .expect("a plain request");
        Self(console.answer(request).await.into_body())
    }

    async fn next(&mut self) -> Bytes {
        loop {
            let frame =
                self.0.frame().await.expect("streams do not end").unwrap_or_else(|e| match e {});
            if let Ok(data) = frame.into_data()
                && data.len() > 3
            {
                return data;
            }
        }
    }
}

fn write(told: std::fmt::Arguments<'_>) {
    drop(writeln!(std::io::stdout(), "{told}"));
}

#[tokio::main]
async fn main() {
    let (changes, runs) = watch::channel(Bytes::from(run(1, 1400, 0).to_string()));
    let client = Client::in_process(tower::service_fn(move |request: Request<Body>| {
        let runs = runs.clone();
        async move { Ok::<_, Infallible>(hub(request, runs).await) }
    }));
    let key = Key::random().expect("random numbers");
    let env = Env::system();
    let mode = std::env::args().nth(1).unwrap_or_default();
    if mode == "serve" {
        let kind = std::env::args().nth(2).unwrap_or_else(|| "one".to_owned());
        return serve(client, key, &env, changes, &kind).await;
    }
    let guard = Guard::loopback(key.clone(), 1);
    let console = Console::new(guard, client, Arc::new(Nobody), &env);
    let before = resident();
    let mut first = Page::open(&console, key.as_str()).await;
    let mut whole = first.next().await;
    while whole.len() < 50_000 {
        whole = first.next().await;
    }
    write(format_args!("{CLUSTERS} clusters: the first event has {} bytes", whole.len()));
    let mut pages = vec![first];
    for _ in 1..PAGES {
        let mut page = Page::open(&console, key.as_str()).await;
        page.next().await;
        pages.push(page);
    }
    write(format_args!("memory: {before:.1} MB before, {:.1} MB with {PAGES} pages", resident()));
    let mut took = Vec::new();
    let mut sent = 0;
    for step in 1..=40_u64 {
        let text = Bytes::from(run(step + 1, 1400 + step as usize, 0).to_string());
        let begun = Instant::now();
        changes.send_replace(text);
        let mut marked = false;
        while !marked {
            let event = pages[0].next().await;
            marked = String::from_utf8_lossy(&event).contains("\"rows\"");
            sent = event.len();
        }
        took.push(begun.elapsed());
    }
    took.sort();
    let (p50, p99) = (took[took.len() / 2], took[took.len() - 1]);
    write(format_args!(
        "one cluster done: {sent} bytes; write to event p50 {p50:?}, worst of 40 {p99:?}"
    ));
    for turn in 1..=40 {
        changes.send_replace(Bytes::from(run(100 + turn as u64, 0, turn).to_string()));
        let event = pages[0].next().await;
        sent = event.len();
    }
    write(format_args!("every cell changed: {sent} bytes"));
    write(format_args!(
        "memory: {:.1} MB after 80 changes, {} pages not reading",
        resident(),
        PAGES - 1
    ));
}

async fn serve(client: Client, key: Key, env: &Env, changes: watch::Sender<Bytes>, kind: &str) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let port = listener.local_addr().expect("it listens").port();
    write(format_args!("http://127.0.0.1:{port}/?key={}#/run/large", key.as_str()));
    let guard = Guard::loopback(key, port);
    let console = Arc::new(Console::new(guard, client, Arc::new(Nobody), env));
    let (all, still, clock) = (kind == "all", kind == "still", env.clone());
    tokio::spawn(async move {
        for step in 1.. {
            if still {
                std::future::pending::<()>().await;
            }
            let pause = if all { Duration::from_millis(16) } else { Duration::from_millis(300) };
            tokio::time::sleep(pause).await;
            let done = 1400 + step as usize;
            let next = if all { run(step + 1, 0, step as usize) } else { run(step + 1, done, 0) };
            let next = Bytes::from(next.to_string());
            if !all {
                write(format_args!("wrote {done} {}", clock.now().as_microsecond()));
            }
            changes.send_replace(next);
        }
    });
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let console = console.clone();
        // As the real one does: a change is a small write.
        drop(socket.set_nodelay(true));
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let console = console.clone();
                async move { Ok::<_, Infallible>(console.answer(request).await) }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(socket), service);
            drop(served.await);
        });
    }
}
