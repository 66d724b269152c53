//! What it costs to serve only what is durable, beside the old way in one run.
//!
//! `cargo bench -p flagship-apiserver --bench durable` lets writers create objects in a
//! cluster on disk, one at a time and many, while others get, list and watch. Both ways take
//! turns, three rounds each, on new files in the temporary folder; the table shows the round
//! in the middle. The old way lets readers see a change as soon as it is made and keeps no
//! log of changes for the next start.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flagship_apiserver::rest::{ClusterHandle, Local, Server};
use flagship_store::durable::Durable;
use flagship_store::env::Env;
use flagship_store::{Filter, Limits, WatchFrom};
use futures::StreamExt;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

const MAPS: &str = "configmaps";
/// Objects that lists show.
const LISTED: usize = 500;
const ROUNDS: usize = 3;

fn main() {
    let brief = std::env::args().any(|argument| argument == "--test");
    let time = if brief { Duration::from_millis(50) } else { Duration::from_secs(5) };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!(
        "\n| writers | readers see | creates a second | create p99 | get p99 | list of {LISTED} p99 | sent to watched p50 | p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for writers in [1, 10, 100] {
        let mut rounds: BTreeMap<bool, Vec<Round>> = BTreeMap::new();
        for _ in 0..ROUNDS {
            for early in [true, false] {
                let round = runtime.block_on(round(writers, early, time));
                rounds.entry(early).or_default().push(round);
            }
        }
        for (early, way) in [(true, "every change at once"), (false, "what is durable")] {
            let all = &rounds[&early];
            let median = |of: fn(&Round) -> f64| {
                let mut values: Vec<f64> = all.iter().map(of).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            println!(
                "| {writers} | {way} | {:.0} | {:.1} ms | {:.3} ms | {:.2} ms | {:.1} ms | {:.1} ms |",
                median(|round| round.creates),
                median(|round| round.create),
                median(|round| round.get),
                median(|round| round.list),
                median(|round| round.watch.0),
                median(|round| round.watch.1),
            );
        }
    }
}

/// Creates a second, and milliseconds: p99 but for the watch, which also has p50.
struct Round {
    creates: f64,
    create: f64,
    get: f64,
    list: f64,
    watch: (f64, f64),
}

async fn round(writers: usize, early_reads: bool, time: Duration) -> Round {
    let folder = scratch();
    let env = Env::system();
    let durable = Durable::open(&folder.join("state")).unwrap();
    let limits = Limits { early_reads, ..Limits::default() };
    let store = durable.store("hub", env.clone(), limits).unwrap();
    let cluster = Server::new(env).add_cluster_with("hub", store);
    let local = cluster.local("bench");
    local.create("namespaces", "", json!({"metadata": {"name": "listed"}})).await.unwrap();
    for n in 0..LISTED {
        create(&local, "listed", &format!("m{n}")).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(Mutex::new(BTreeMap::new()));
    let watching = tokio::spawn(watch(cluster.clone(), sent.clone()));
    let getting = tokio::spawn(again(stop.clone(), cluster.clone(), |local, n| async move {
        local.get(MAPS, "listed", &format!("m{}", n % LISTED)).await.unwrap();
    }));
    let listing = tokio::spawn(again(stop.clone(), cluster.clone(), |local, _| async move {
        local.list(MAPS, Some("listed"), None).await.unwrap();
    }));
    let begun = Instant::now();
    let mut writing = JoinSet::new();
    for writer in 0..writers {
        let (local, stop, sent) = (cluster.local("writer"), stop.clone(), sent.clone());
        writing.spawn(async move {
            let mut times = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let name = format!("w{writer}-{}", times.len());
                let begun = Instant::now();
                sent.lock().unwrap().insert(name.clone(), begun);
                create(&local, "default", &name).await;
                times.push(begun.elapsed());
            }
            times
        });
    }
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    let written: Vec<Duration> = writing.join_all().await.into_iter().flatten().collect();
    let creates = written.len() as f64 / begun.elapsed().as_secs_f64();
    let (got, listed) = (getting.await.unwrap(), listing.await.unwrap());
    cluster.store().close();
    let watched = watching.await.unwrap();
    drop((local, cluster, durable));
    std::fs::remove_dir_all(&folder).unwrap();
    Round {
        creates,
        create: at(written, 0.99),
        get: at(got, 0.99),
        list: at(listed, 0.99),
        watch: (at(watched.clone(), 0.5), at(watched, 0.99)),
    }
}

async fn create(local: &Local, namespace: &str, name: &str) {
    let map = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(500)}});
    local.create(MAPS, namespace, map).await.unwrap();
}

/// Does something over and over with little pauses, and notes how long it took.
async fn again<F: Future<Output = ()>>(
    stop: Arc<AtomicBool>,
    cluster: ClusterHandle,
    act: impl Fn(Local, usize) -> F,
) -> Vec<Duration> {
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        act(cluster.local("reader"), times.len()).await;
        times.push(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    times
}

/// How long after they were sent creates are seen by a watcher.
async fn watch(
    cluster: ClusterHandle,
    sent: Arc<Mutex<BTreeMap<String, Instant>>>,
) -> Vec<Duration> {
    let store = cluster.store().clone();
    let mut watch = store.watch(MAPS, WatchFrom::Now, Filter::default()).unwrap();
    drop(store);
    let mut times = Vec::new();
    while let Some(seen) = watch.next().await {
        let name = seen.object().unwrap().key.name.to_string();
        times.extend(sent.lock().unwrap().remove(&name).map(|begun| begun.elapsed()));
    }
    times
}

fn at(mut times: Vec<Duration>, part: f64) -> f64 {
    times.sort_unstable();
    let index = (times.len() as f64 * part) as usize;
    let time = times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or_default();
    time.as_secs_f64() * 1000.0
}

fn scratch() -> PathBuf {
    let path = std::env::temp_dir().join(format!("flagship-durable-bench-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir(&path).unwrap();
    path
}
