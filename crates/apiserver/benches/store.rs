//! What the store costs in time and memory.
//!
//! `cargo bench -p flagship-apiserver --bench store` prints a table of what was asked for
//! and what was measured, then lets criterion time single commits. Memory is what the
//! process grows by (`/proc/self/statm`), beside what `Store::footprint` computes; nothing
//! measured is freed, so that no figure is flattered by memory that was used before.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_store::env::Env;
use flagship_store::{
    Change, Encoded, Expect, Filter, Head, Limits, ObjectKey, OwnedScope, Pairs, Resource, Scope,
    Store, Stored, Subscription, WatchFrom, Write,
};
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::time::Instant;

fn main() {
    // Criterion's own word for "only see whether it runs".
    let brief = std::env::args().any(|arg| arg == "--test");
    let scale = if brief { 100 } else { 1 };
    table(scale);
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    commits(&mut criterion);
    criterion.final_summary();
}

// ---- the table

fn table(scale: usize) {
    println!("\n| what | asked | measured |\n|---|---|---|");
    let row =
        |what: &str, asked: &str, measured: String| println!("| {what} | {asked} | {measured} |");

    let clusters = 10_000 / scale;
    let (fresh, filled) = idle_clusters(clusters);
    let kilobytes = |cost: &Cost| format!("{:.1} KB", cost.bytes as f64 / 1024.0);
    row("fresh cluster of a server", "64 KB", kilobytes(&fresh));
    row("Server::add_cluster_with", "1 ms", format!("{:.3} ms", millis(fresh.time)));
    row("idle cluster, 12 base objects", "64 KB", kilobytes(&filled));
    row("adding and filling it", "-", format!("{:.3} ms", millis(filled.time)));
    let empty = timed(10_000 / scale, |_| {
        black_box(Store::new(Env::simulated(1), Limits::member()));
    });
    row("an empty store", "-", format!("{:.5} ms", millis(empty)));

    let objects = 100_000 / scale;
    for (what, make) in [("pod", pod as Make), ("config map", config_map), ("work", work)] {
        let (grown, computed, json) = stored(objects, make);
        let measured =
            format!("{grown} B measured, {computed} B computed, beside {json} B of JSON");
        row(&format!("one {what} beside its JSON"), "400 B", measured);
    }
    row("one idle watch", "-", format!("{} B", idle_watches(10_000 / scale)));

    let writes = 200_000 / scale;
    let few = Agents::new(10_000, 10).write(writes, 10);
    let many = Agents::new(10_000, 10_000).write(writes, 10);
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    row("write, 10 watchers", "-", format!("{} ns", few.as_nanos()));
    row("write, 10,000 watchers", "-", format!("{} ns", many.as_nanos()));
    row("ratio", "1.5", format!("{ratio:.2}"));
    let everywhere = Agents::new(10_000, 10_000).write(writes, 10_000);
    row("write to any of 10,000 watched", "-", format!("{} ns", everywhere.as_nanos()));
    let encode = timed(20_000 / scale, |n| {
        black_box(Encoded::new(&pod(n)));
    });
    row("building and encoding a pod", "-", format!("{} ns", encode.as_nanos()));
    println!();
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

/// Time of one call, averaged.
fn timed(calls: usize, mut call: impl FnMut(usize)) -> Duration {
    let start = Instant::now();
    (0..calls).for_each(&mut call);
    start.elapsed() / u32::try_from(calls).unwrap_or(u32::MAX)
}

/// Bytes the process has in memory; 0 where there is no `/proc`.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * 4096
}

/// Bytes and time of one cluster of a server, as it is added and with a dozen objects.
/// Nothing is left out: registry, hooks, locks and handle are the server's own.
fn idle_clusters(count: usize) -> (Cost, Cost) {
    let server = Server::new(Env::simulated(1));
    // What the process makes once, such as the built-in schemas, is no cluster's cost.
    fill(&server.add_cluster("warm-up"));
    let env = Env::simulated(1);
    let mut clusters = Vec::with_capacity(count);
    let before = resident();
    let time = timed(count, |n| {
        let store = Store::new(env.clone(), Limits::member());
        clusters.push(server.add_cluster_with(&format!("member-{n:05}"), store));
    });
    let fresh = Cost { bytes: resident().saturating_sub(before) / count, time };
    let filling = timed(count, |n| fill(&clusters[n]));
    let bytes = resident().saturating_sub(before) / count;
    let filled = Cost { bytes, time: time + filling };
    std::mem::forget((server, clusters));
    (fresh, filled)
}

struct Cost {
    bytes: usize,
    time: Duration,
}

/// What the controllers of an idle cluster write.
fn fill(cluster: &ClusterHandle) {
    let local = cluster.local("kube-controller-manager");
    let create = |resource: &str, namespace: &str, object: Value| {
        let made = local.create(resource, namespace, object).now_or_never();
        made.expect("nothing delays a write here").expect("the object is valid");
    };
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        create("serviceaccounts", namespace, json!({"metadata": {"name": "default"}}));
    }
    for n in 0..3 {
        create(
            "nodes",
            "",
            json!({"metadata": {"name": format!("node-{n}"), "labels": {"kubernetes.io/os": "linux"}},
            "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}}),
        );
    }
}

type Make = fn(usize) -> Value;

/// Bytes of one object beside its JSON (measured, computed) and those of its JSON.
fn stored(count: usize, make: Make) -> (usize, usize, usize) {
    // No history, for it would be counted along.
    let limits = Limits { history: 0, ..Limits::default() };
    let store = Store::new(Env::simulated(1), limits);
    let before = resident();
    for n in 0..count {
        create(&store, "things", &make(n));
    }
    let grown = resident().saturating_sub(before);
    let size = store.footprint();
    std::mem::forget(store);
    (grown.saturating_sub(size.json) / count, size.overhead / count, size.json / count)
}

fn idle_watches(count: usize) -> usize {
    let store = Store::new(Env::simulated(1), Limits::default());
    let before = resident();
    let watches: Vec<_> = (0..count).map(|n| watch(&store, n)).collect();
    let grown = resident().saturating_sub(before);
    std::mem::forget(watches);
    grown / count
}

// ---- one write among many watchers

/// Agents, each with one object in a namespace of its own; some of them watch it.
struct Agents {
    store: Arc<Store>,
    works: Resource,
    objects: Vec<Arc<Stored>>,
    watches: Vec<Subscription>,
    head: Head,
    json: Encoded,
}

impl Agents {
    fn new(agents: usize, watchers: usize) -> Self {
        let store = Store::new(Env::simulated(1), Limits::default());
        let object = work(0);
        let (head, json) = (Head::of(&object, Pairs::default()), Encoded::new(&object));
        let works: Resource = "works".into();
        let objects = (0..agents).map(|n| {
            let key = ObjectKey::new(namespace(n), "w");
            let change = Change::Put { head: head.clone(), json: json.clone() };
            store.commit(Write { resource: &works, key, expect: Expect::Absent, change })
        });
        let objects = objects.collect::<Result<_, _>>().expect("each has its own place");
        let watches = (0..watchers).map(|n| watch(&store, n)).collect();
        Self { store, works, objects, watches, head, json }
    }

    /// Time of one commit when commits go round the first so many agents. The watcher
    /// reads what it is sent; encoding is not counted.
    fn write(&mut self, writes: usize, over: usize) -> Duration {
        let round = |agents: &mut Self| timed(writes / 5, |n| agents.write_one(n % over));
        let mut rounds: Vec<_> = (0..6).map(|_| round(self)).collect();
        rounds.remove(0); // warming up
        rounds.sort();
        rounds[rounds.len() / 2]
    }

    fn write_one(&mut self, at: usize) {
        let change = Change::Put { head: self.head.clone(), json: self.json.clone() };
        self.commit(at, change);
    }

    fn commit(&mut self, at: usize, change: Change) {
        let there = &self.objects[at];
        let expect = Expect::At(there.revision);
        let key = there.key.clone();
        let write = Write { resource: &self.works, key, expect, change };
        self.objects[at] = self.store.commit(write).expect("nobody else writes");
        if let Some(watch) = self.watches.get_mut(at) {
            black_box(watch.next().now_or_never());
        }
    }
}

fn watch(store: &Store, n: usize) -> Subscription {
    let scope = OwnedScope::Namespace(namespace(n).into());
    let mut watch = store
        .watch("works", WatchFrom::Now, Filter::within(scope))
        .expect("the present can always be watched");
    black_box(watch.next().now_or_never());
    watch
}

fn commits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("commit");
    for watchers in [10, 10_000] {
        let mut agents = Agents::new(10_000, watchers);
        let mut at = 0;
        group.bench_function(format!("{watchers} watchers"), |bencher| {
            let (head, json) = (agents.head.clone(), agents.json.clone());
            bencher.iter_batched(
                || Change::Put { head: head.clone(), json: json.clone() },
                |change| {
                    at = (at + 1) % 10;
                    agents.commit(at, change);
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
    let agents = Agents::new(10_000, 0);
    criterion.bench_function("list 10,000", |bencher| {
        bencher.iter(|| black_box(agents.store.list("works", Scope::All)));
    });
    let key = ObjectKey::new(namespace(77), "w");
    criterion.bench_function("get one of 10,000", |bencher| {
        bencher.iter(|| black_box(agents.store.get("works", &key)));
    });
    let then = agents.store.revision() - 500;
    criterion.bench_function("list 10,000 as of 500 revisions ago", |bencher| {
        bencher.iter(|| black_box(agents.store.list_at("works", Scope::All, then)));
    });
}

// ---- objects

const UID: &str = "0f3c8a52-6c1e-4d7b-9a41-5be0c2d7e913";

fn namespace(n: usize) -> String {
    format!("fleet-member-{n:05}")
}

fn create(store: &Store, resource: &str, object: &Value) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let fields = match object["kind"].as_str() {
        Some("Pod") => Pairs::new([
            ("spec.hostNetwork", "false"),
            ("spec.nodeName", "node-1"),
            ("spec.restartPolicy", "Always"),
            ("spec.schedulerName", "default-scheduler"),
            ("spec.serviceAccountName", "default"),
            ("status.nominatedNodeName", ""),
            ("status.phase", "Running"),
            ("status.podIP", "10.244.1.7"),
        ]),
        _ => Pairs::default(),
    };
    let change = Change::Put { head: Head::of(object, fields), json: Encoded::new(object) };
    let key = ObjectKey::new(text("namespace"), text("name"));
    let resource = &resource.into();
    let written = store.commit(Write { resource, key, expect: Expect::Absent, change });
    written.expect("names are unique");
}

fn config_map(n: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("settings-{n:06}"), "namespace": "team-a", "uid": UID,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "data": {"level": "info"}})
}

fn work(n: usize) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "Work",
        "metadata": {"name": format!("placement-{n:06}-work"), "namespace": namespace(n / 20), "uid": UID,
            "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes-fleet.io/parent-CRP": "web",
                "kubernetes-fleet.io/parent-resource-snapshot-index": "7"}},
        "spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "registry.example/web:1.2.3"}]}}}}]}},
        "status": {"conditions": [{"type": "Applied", "status": "True", "reason": "WorkAppliedCompleted",
            "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

fn pod(n: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("web-7d4b9c6f5-{n:06}"), "namespace": "shop", "uid": UID,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5",
                "uid": UID, "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"nodeName": "node-1", "restartPolicy": "Always", "serviceAccountName": "default",
            "containers": [{"name": "web", "image": "registry.example/web:1.2.3",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]},
        "status": {"phase": "Running", "podIP": "10.244.1.7",
            "conditions": [{"type": "Ready", "status": "True"}]}})
}
