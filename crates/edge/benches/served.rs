//! What clients of the whole server see: how soon it is ready, how many durable writes it
//! takes, and how long a request takes over TLS.
//!
//! `cargo bench -p flagship-edge` prints the table. The server is a
//! process of its own with its state in a folder on the disk of `target/`, or in the folder
//! that `FLAGSHIP_BENCH_FOLDER` names; the clients are this process, on the same machine.
//! `-- --test` only sees whether it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/process/mod.rs"]
#[allow(dead_code, reason = "the load attack uses the rest")]
mod process;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use flagship_apiserver::rest::Server;
use flagship_store::Limits;
use flagship_store::durable::Durable;
use flagship_store::env::Env;
use futures::future::join_all;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use process::served::{Bounds, NOW, Served, serve_if_asked};
use process::wire::{Connector, MAPS, create, get, read};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

fn main() {
    serve_if_asked();
    // Criterion's own word for "only see whether it runs".
    let brief = std::env::args().any(|arg| arg == "--test");
    let scale = if brief { 100 } else { 1 };
    let runtime = Runtime::new().expect("threads can be started");
    let row =
        |what: &str, goal: &str, measured: String| println!("| {what} | {goal} | {measured} |");
    println!("\n| what | goal | measured |\n|---|---|---|");

    let starts = (10 / scale).max(1);
    let fresh = (0..starts).map(|_| started(&runtime, &Scratch::new().0).1);
    row("start to ready, an empty folder", "300 ms", spread(fresh.collect()));

    let scratch = Scratch::new();
    row("writing and flushing 4 KiB to this disk", "", spread(flushes(&scratch.0, 200 / scale)));
    let objects = 10_000 / scale;
    let span = Duration::from_secs(5) / u32::try_from(scale).unwrap_or(1);
    let served = Served::start(&scratch.0, &[], Bounds::Default);
    row("memory when ready", "", format!("{} MiB", served.memory(NOW) / 1024));
    let admin = served.wire().admin("admin");
    for writers in [1, 10, 100] {
        let (rate, each) = runtime.block_on(writing(&admin, writers, span));
        let what = format!("durable creates a second over TLS, {writers} at a time");
        row(&what, "", format!("{rate}; each {}", spread(each)));
    }
    for writers in [1, 10, 100] {
        let (rate, each) = runtime.block_on(writing_inside(&Scratch::new().0, writers, span));
        let what = format!("durable creates a second in the process, {writers} at a time");
        row(&what, "", format!("{rate}; each {}", spread(each)));
    }
    drop(served);

    let scratch = Scratch::new();
    let served = Served::start(&scratch.0, &[], Bounds::Default);
    let admin = served.wire().admin("admin");
    runtime.block_on(filling(&admin, objects));
    let calls = 5_000 / scale;
    row("get over TLS", "", spread(runtime.block_on(getting(&admin, calls))));
    row("list of 500 over TLS", "", spread(runtime.block_on(listing(&admin, calls / 10))));
    let (acknowledged, told) = runtime.block_on(watching(&admin, calls / 5));
    row("durable create over TLS, one after another", "", spread(acknowledged));
    row("from sending it to the event at a watcher", "", spread(told));
    served.stop();

    let again = |end: fn(Served)| {
        let times = (0..starts).map(|_| {
            let (served, took) = started(&runtime, &scratch.0);
            end(served);
            took
        });
        spread(times.collect())
    };
    let what = format!("restart to ready with {objects} objects");
    row(&format!("{what}, after a clean end"), "300 ms", again(Served::stop));
    drop(started(&runtime, &scratch.0));
    row(&format!("{what}, after kill -9"), "300 ms", again(drop));
    println!();
}

/// A folder on a real disk, gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let within = std::env::var_os("FLAGSHIP_BENCH_FOLDER")
            .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
        let name = Env::system().entropy.uuid();
        let folder = within.join(format!("served-{name}"));
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Half of all, all but one in a hundred, and all took no longer.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |percent: usize| times.get((times.len().saturating_sub(1)) * percent / 100).copied();
    let text = |time: Option<Duration>| match time.unwrap_or_default() {
        long if long >= Duration::from_millis(10) => format!("{:.0} ms", millis(long)),
        short if short >= Duration::from_millis(1) => format!("{:.1} ms", millis(short)),
        tiny => format!("{:.2} ms", millis(tiny)),
    };
    if times.len() < 100 {
        return format!("{} (at most {})", text(at(50)), text(at(100)));
    }
    format!("p50 {}, p99 {}", text(at(50)), text(at(99)))
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

/// A server, and the time from the start of its process until its cluster said over TLS
/// that it is ready.
fn started(runtime: &Runtime, folder: &Path) -> (Served, Duration) {
    let before = Instant::now();
    let served = Served::start(folder, &[], Bounds::Default);
    let connector = served.wire().unauthenticated();
    runtime.block_on(async {
        let mut sender = connector.http1().await.expect("it listens");
        let answer = sender.send_request(get("/clusters/hub/readyz")).await.expect("it answers");
        let (code, _) = read(answer).await.expect("the answer is whole");
        assert_eq!(code, 200);
    });
    (served, before.elapsed())
}

/// What the disk alone takes.
fn flushes(folder: &Path, count: usize) -> Vec<Duration> {
    let mut file = File::create(folder.join("probe")).expect("the folder is ours");
    let times = (0..count).map(|_| {
        let before = Instant::now();
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).expect("there is room");
        before.elapsed()
    });
    times.collect()
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"text": "x".repeat(800)}})
}

/// Writers with a connection each, as long as the span is; writes a second, and how long
/// each write took until it was acknowledged.
async fn writing(connector: &Connector, writers: usize, span: Duration) -> (usize, Vec<Duration>) {
    let each = (0..writers).map(|writer| {
        let connector = connector.clone();
        tokio::spawn(async move {
            let mut sender = connector.http2().await.expect("it listens");
            let (begun, mut times) = (Instant::now(), Vec::new());
            while begun.elapsed() < span {
                let object = map(&format!("w{writers}-{writer}-{}", times.len()));
                let before = Instant::now();
                let answer = sender.send_request(create(MAPS, &object)).await.expect("it answers");
                let (code, body) = read(answer).await.expect("the answer is whole");
                assert_eq!(code, 201, "{body:?}");
                times.push(before.elapsed());
            }
            times
        })
    });
    let begun = Instant::now();
    let times = join_all(each).await.into_iter().flat_map(|times| times.expect("no panic"));
    rate(times.collect(), begun.elapsed())
}

/// The same without sockets.
async fn writing_inside(folder: &Path, writers: usize, span: Duration) -> (usize, Vec<Duration>) {
    let env = Env::system();
    let durable = Durable::open(&folder.join("state")).expect("the folder is ours");
    let store = durable.store("hub", env.clone(), Limits::default()).expect("the file is whole");
    let cluster = Server::new(env).add_cluster_with("hub", store);
    let each = (0..writers).map(|writer| {
        let local = cluster.local("bench");
        tokio::spawn(async move {
            let (begun, mut times) = (Instant::now(), Vec::new());
            while begun.elapsed() < span {
                let object = map(&format!("w{writer}-{}", times.len()));
                let before = Instant::now();
                local.create("configmaps", "default", object).await.expect("the object is good");
                times.push(before.elapsed());
            }
            times
        })
    });
    let begun = Instant::now();
    let times = join_all(each).await.into_iter().flat_map(|times| times.expect("no panic"));
    rate(times.collect(), begun.elapsed())
}

fn rate(times: Vec<Duration>, span: Duration) -> (usize, Vec<Duration>) {
    ((times.len() as f64 / span.as_secs_f64()).round() as usize, times)
}

/// Five hundred objects in a namespace of their own, and the others elsewhere.
async fn filling(connector: &Connector, objects: usize) {
    let mut sender = connector.http2().await.expect("it listens");
    let space = json!({"metadata": {"name": "listed"}});
    let made = create("/clusters/hub/api/v1/namespaces", &space);
    let (code, _) =
        read(sender.send_request(made).await.expect("it answers")).await.expect("whole");
    assert_eq!(code, 201);
    let all: Vec<usize> = (0..objects.max(500)).collect();
    for hundred in all.chunks(100) {
        let answers = hundred.iter().map(|n| {
            let path = if *n < 500 { LISTED } else { MAPS };
            let sent = sender.send_request(create(path, &map(&format!("m{n}"))));
            async { read(sent.await.expect("it answers")).await.expect("the answer is whole").0 }
        });
        let codes = join_all(answers).await;
        assert!(codes.iter().all(|code| *code == 201), "{codes:?}");
    }
}

const LISTED: &str = "/clusters/hub/api/v1/namespaces/listed/configmaps";

async fn getting(connector: &Connector, calls: usize) -> Vec<Duration> {
    asking(connector, &format!("{LISTED}/m250"), calls, |body| body["metadata"]["name"] == "m250")
        .await
}

async fn listing(connector: &Connector, calls: usize) -> Vec<Duration> {
    let whole = |body: &Value| body["items"].as_array().is_some_and(|items| items.len() == 500);
    asking(connector, &format!("{LISTED}?limit=500"), calls, whole).await
}

/// The same request again and again on one connection, one after another.
async fn asking(
    connector: &Connector,
    path: &str,
    calls: usize,
    is_right: impl Fn(&Value) -> bool,
) -> Vec<Duration> {
    let mut sender = connector.http2().await.expect("it listens");
    let mut times = Vec::new();
    for call in 0..calls + 10 {
        let before = Instant::now();
        let answer = sender.send_request(get(path)).await.expect("it answers");
        let (code, body) = read(answer).await.expect("the answer is whole");
        let took = before.elapsed();
        if call < 10 {
            // Warming up, and a look at what comes.
            let body = serde_json::from_slice(&body).unwrap_or_default();
            assert!(code == 200 && is_right(&body), "{code} {body}");
        } else {
            times.push(took);
        }
    }
    times
}

/// How long creations took, and how long until a watcher on another connection had the event.
async fn watching(connector: &Connector, writes: usize) -> (Vec<Duration>, Vec<Duration>) {
    let mut sender = connector.http2().await.expect("it listens");
    let path = format!("{MAPS}?watch=true&resourceVersion={}", newest(&mut sender).await);
    let mut watcher = connector.http2().await.expect("it listens");
    let watch = watcher.send_request(get(&path)).await.expect("it answers").into_body();
    let (tell, mut told) = mpsc::unbounded_channel();
    let reading = tokio::spawn(names(watch, tell));
    let (mut acknowledged, mut events) = (Vec::new(), Vec::new());
    for n in 0..writes {
        let name = format!("watched-{n}");
        let before = Instant::now();
        let answer = sender.send_request(create(MAPS, &map(&name))).await.expect("it answers");
        let (code, _) = read(answer).await.expect("the answer is whole");
        acknowledged.push(before.elapsed());
        assert_eq!(code, 201);
        let event = timeout(Duration::from_secs(10), told.recv()).await.expect("the event comes");
        let (seen, at) = event.expect("the watch goes on");
        assert_eq!(seen, name);
        events.push(at - before);
    }
    reading.abort();
    (acknowledged, events)
}

/// The revision a watch of config maps may begin at.
async fn newest(sender: &mut process::wire::Http2) -> String {
    let answer = sender.send_request(get(&format!("{MAPS}?limit=1"))).await.expect("it answers");
    let (_, body) = read(answer).await.expect("the answer is whole");
    let list: Value = serde_json::from_slice(&body).expect("JSON");
    list["metadata"]["resourceVersion"].as_str().expect("lists have one").to_owned()
}

/// Tells the name in every event, and when it came.
async fn names(mut watch: Incoming, tell: mpsc::UnboundedSender<(String, Instant)>) {
    let mut begun: Vec<u8> = Vec::new();
    while let Some(frame) = watch.frame().await {
        let bytes: Bytes = frame.expect("the watch goes on").into_data().unwrap_or_default();
        let at = Instant::now();
        begun.extend_from_slice(&bytes);
        while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = begun.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).expect("a line is an event");
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            if tell.send((name.to_owned(), at)).is_err() {
                return;
            }
        }
    }
}
