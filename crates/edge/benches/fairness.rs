//! How long a well-behaved client waits while another user attacks the server.
//!
//! `cargo bench -p flagship-edge --bench fairness` prints a table: the slowest of a hundred reads
//! and writes when the server is quiet, the same beside each attack, and how many times as long
//! that is. `-- --test` only sees whether it runs; a name runs the attacks that contain it.
//!
//! The server is one process with two threads and its state on the disk of `target/`. The
//! attackers are another one, which Linux runs only when nobody else wants to (`chrt --idle`):
//! they would be on other machines, and what they take from the processors themselves is not the
//! server's doing.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../tests/process/mod.rs"]
#[allow(dead_code, reason = "the load attack uses the rest")]
mod process;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flagship_edge::Authority;
use flagship_store::env::Env;
use futures::future::join_all;
use http::Request;
use hyper::body::Incoming;
use process::served::{Bounds, NOW, PEAK, Served, serve_if_asked};
use process::wire::{Connector, Http2, MAPS, Sent, Wire, create, get, read, request, whole};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

/// Where the attackers' objects are.
const THEIRS: &str = "/clusters/hub/api/v1/namespaces/kube-public/configmaps";
/// Says what the attackers' process does.
const ATTACK: &str = "FLAGSHIP_ATTACK";
/// Attackers that work at a time.
const ATTACKERS: usize = 8;
/// Watches on one HTTP/2 connection, as many as the server allows.
const STREAMS: usize = 250;

const ATTACKS: [(&str, &str); 6] = [
    ("large", "8 clients write objects of 1 MB"),
    ("apply", "8 clients apply objects of 20,000 keys"),
    ("list", "8 clients read lists of 27 MB"),
    ("table", "8 clients read tables of 27 MB of objects"),
    ("flood", "400 small reads at a time"),
    ("watch", "3,000 watches that nobody reads, of an object of 1 MB that changes"),
];

fn main() {
    serve_if_asked();
    if let Ok(attack) = std::env::var(ATTACK) {
        return attackers(&attack);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let brief = words.iter().any(|word| word == "--test");
    let span = if brief { Duration::from_millis(300) } else { Duration::from_secs(10) };
    let only: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let runtime = Runtime::new().expect("threads can be started");
    println!("\n| beside | read p99 | times quiet | write p99 | times quiet | memory grew by |");
    println!("|---|---|---|---|---|---|");
    for (name, what) in ATTACKS {
        if !only.is_empty() && !only.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let scratch = Scratch::new();
        let served = Served::start(&scratch.0, &[], Bounds::Default);
        let wire = served.wire();
        runtime.block_on(fill(&wire.admin("filler"), if brief { 1 } else { 27 }));
        let quiet = runtime.block_on(work(&wire.admin("well-behaved"), span));
        served.forget_peak();
        let before = served.memory(NOW);
        let mut attack = begin(name, &served, &scratch.0);
        // Until the attack is in full force.
        runtime.block_on(async { sleep(span / 5).await });
        let beside = runtime.block_on(work(&wire.admin("well-behaved"), span));
        let grown = served.memory(PEAK).saturating_sub(before) / 1024;
        attack.kill().ok();
        attack.wait().ok();
        let times = |beside: Duration, quiet: Duration| beside.as_secs_f64() / quiet.as_secs_f64();
        let [(read, quiet_read), (write, quiet_write)] =
            [(&beside.reads, &quiet.reads), (&beside.writes, &quiet.writes)]
                .map(|(beside, quiet)| (p99(beside), p99(quiet)));
        println!(
            "| {what} | {} after {} | {:.1} | {} after {} | {:.1} | {grown} MiB |",
            millis(read),
            millis(quiet_read),
            times(read, quiet_read),
            millis(write),
            millis(quiet_write),
            times(write, quiet_write),
        );
    }
    println!();
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn p99(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
}

/// How long each request of a well-behaved client took.
#[derive(Default)]
struct Worked {
    reads: Vec<Duration>,
    writes: Vec<Duration>,
}

/// Reads and writes a small object again and again, with a breath between.
async fn work(connector: &Connector, span: Duration) -> Worked {
    let mut sender = connector.http2().await.expect("the server takes connections");
    let own = json!({"metadata": {"name": "own"}, "data": {"k": "v"}});
    let path = format!("{MAPS}/own");
    ask(&mut sender, create(MAPS, &own)).await;
    let mut worked = Worked::default();
    let end = Instant::now() + span;
    for round in 0.. {
        let begun = Instant::now();
        if begun >= end {
            break;
        }
        assert_eq!(ask(&mut sender, get(&path)).await, 200);
        worked.reads.push(begun.elapsed());
        let begun = Instant::now();
        let change = json!({"data": {"k": format!("{round}")}});
        assert_eq!(ask(&mut sender, patch(&path, &change)).await, 200);
        worked.writes.push(begun.elapsed());
        sleep(Duration::from_millis(2)).await;
    }
    worked
}

fn patch(path: &str, change: &Value) -> Request<Sent> {
    let kind = "Content-Type: application/merge-patch+json";
    request("PATCH", path, &[kind], whole(change.to_string()))
}

async fn ask(sender: &mut Http2, request: Request<Sent>) -> u16 {
    let answer = sender.send_request(request).await.expect("the connection stays");
    read(answer).await.expect("the answer is whole").0
}

/// Makes what lists are long of.
async fn fill(connector: &Connector, objects: usize) {
    let mut sender = connector.http2().await.expect("the server takes connections");
    for at in 0..objects {
        let made = create(THEIRS, &large(&format!("large-{at}"), at));
        assert_eq!(ask(&mut sender, made).await, 201);
    }
}

fn large(name: &str, at: usize) -> Value {
    let text = format!("{at} {}", "v".repeat(1_000_000));
    json!({"metadata": {"name": name}, "data": {"k": text}})
}

/// Starts the attackers.
fn begin(name: &str, served: &Served, folder: &Path) -> Child {
    let program = std::env::current_exe().expect("this program was started from a file");
    let address = served.wire().admin("attacker").address;
    let start = |mut command: Command| {
        command
            .env(ATTACK, name)
            .env("FLAGSHIP_ATTACKED_FOLDER", folder)
            .env("FLAGSHIP_ATTACKED", address.to_string())
            .stdin(Stdio::null())
            .spawn()
    };
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(&program);
    start(idle).or_else(|_| start(Command::new(&program))).expect("this program starts twice")
}

/// In a process that was started to attack: attacks until it is ended.
fn attackers(name: &str) {
    let text = |key: &str| std::env::var(key).expect("whoever starts this says so");
    let folder = PathBuf::from(text("FLAGSHIP_ATTACKED_FOLDER"));
    let authority = Authority::at(&folder.join("certificates"), Env::system().clock.now());
    let address = text("FLAGSHIP_ATTACKED").parse().expect("an address");
    let connector =
        Wire::new(address, authority.expect("the server has made it")).admin("attacker");
    let runtime = Runtime::new().expect("threads can be started");
    runtime.block_on(async {
        match name {
            "flood" => drop(join_all((0..400).map(|_| endless(&connector, "flood"))).await),
            "watch" => watch(&connector).await,
            name => drop(join_all((0..ATTACKERS).map(|_| endless(&connector, name))).await),
        }
    });
}

/// One attacker, who sends the next request as soon as the last is answered.
async fn endless(connector: &Connector, name: &str) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let own = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut sender = connector.http2().await.expect("the server takes connections");
    let keys: BTreeMap<String, String> =
        (0..20_000).map(|at| (format!("key-{at:05}"), "v".to_owned())).collect();
    for round in 0.. {
        let name_of = format!("{name}-{own}");
        let path = format!("{THEIRS}/{name_of}");
        let request = match name {
            "large" if round == 0 => create(THEIRS, &large(&name_of, 0)),
            "large" => patch(&path, &large(&name_of, round)),
            "apply" => {
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name_of, "labels": {"round": format!("{round}")}},
                    "data": keys});
                let kind = "Content-Type: application/apply-patch+yaml";
                let path = format!("{path}?fieldManager=attacker-{}&force=true", round % 5);
                request("PATCH", &path, &[kind], whole(object.to_string()))
            }
            "list" => get(THEIRS),
            "table" => {
                let table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io";
                request("GET", THEIRS, &[table], whole(Bytes::new()))
            }
            _ => get(&format!("{MAPS}/own")),
        };
        // Who is asked to come back later does not.
        if let Ok(answer) = sender.send_request(request).await {
            read(answer).await.ok();
        }
    }
}

/// Opens watches that it never reads, and changes what they watch.
async fn watch(connector: &Connector) {
    let mut held: Vec<Incoming> = Vec::new();
    let path = format!("{THEIRS}?watch=true&timeoutSeconds=3600");
    for _ in 0..3_000 / STREAMS {
        let mut sender = connector.http2().await.expect("the server takes connections");
        let asked = join_all((0..STREAMS).map(|_| sender.send_request(get(&path)))).await;
        held.extend(asked.into_iter().flatten().map(http::Response::into_body));
    }
    let connector = Arc::new(connector.clone());
    let mut sender = connector.http2().await.expect("the server takes connections");
    let name = "large-0";
    for round in 0.. {
        ask(&mut sender, patch(&format!("{THEIRS}/{name}"), &large(name, round))).await;
    }
    drop(held);
}

/// A folder on a real disk, gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let within = std::env::var_os("FLAGSHIP_BENCH_FOLDER")
            .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
        let folder = within.join(format!("fairness-{}", Env::system().entropy.uuid()));
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
