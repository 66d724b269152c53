//! What one pass over an update run costs: time, allocations and bytes of reading the mirrors
//! and planning, and the memory that a binding and its Work take in the mirrors.
//!
//! The run is in the middle of its only stage: half of the clusters are done, the others are
//! on their way, so the pass looks at everything and has nothing to write.
//! `cargo bench -p flagship-hub --bench run_pass`

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flagship_api::names::ObjectKey;
use flagship_hub::FilledMirrors;
use flagship_rules::update_run::{Waiting, plan};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TIME: &str = "2026-01-01T00:00:00Z";
const ROUNDS: usize = 50;

#[allow(clippy::print_stdout, reason = "a benchmark prints its table")]
fn main() {
    for count in [100, 1_000] {
        // Its own for each size: what reflectors held goes with their runtime, not while the
        // next mirrors are measured.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let filled = |bindings, works| runtime.block_on(filled(objects(count, bindings, works)));
        let (without, with) = (filled(0, 0), filled(count, 0));
        let whole = filled(count, count);
        let cost = pass(&with.mirrors, count);
        println!("{count} bindings");
        println!("  observe  {}", cost.observe);
        println!("  plan     {}", cost.plan);
        println!(
            "  memory   {} bytes per binding in the mirror, {} per Work",
            (with.bytes - without.bytes) / count,
            (whole.bytes - with.bytes) / count
        );
    }
}

/// Mirrors, and the bytes they hold.
struct Filled {
    mirrors: FilledMirrors,
    bytes: usize,
}

async fn filled(objects: Vec<(&'static str, Value)>) -> Filled {
    let client = Client::in_process(tower::service_fn(serve(objects)));
    let region = Region::new(ALLOCATOR);
    let mirrors = FilledMirrors::new(client, Env::simulated(1)).await;
    let held = region.change();
    Filled { mirrors, bytes: held.bytes_allocated.saturating_sub(held.bytes_deallocated) }
}

struct Cost {
    observe: Share,
    plan: Share,
}

/// What one part of a pass takes: the fastest round, and allocations on average.
#[derive(Default)]
struct Share {
    time: Duration,
    allocations: usize,
    bytes: usize,
}

impl std::fmt::Display for Share {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { time, allocations, bytes } = self;
        write!(out, "{time:>10.1?} {allocations:>8} allocations {bytes:>10} bytes")
    }
}

#[allow(clippy::disallowed_methods, reason = "measures a pass, decides nothing")]
fn measured<T>(into: &mut Share, work: impl FnOnce() -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let begun = Instant::now();
    let result = work();
    let took = begun.elapsed();
    into.time = if into.time.is_zero() { took } else { into.time.min(took) };
    let change = region.change();
    into.allocations += change.allocations + change.reallocations;
    into.bytes += change.bytes_allocated;
    result
}

fn pass(mirrors: &FilledMirrors, count: usize) -> Cost {
    let key = ObjectKey::cluster("run");
    let (mut observing, mut planning) = (Share::default(), Share::default());
    for round in 0..=ROUNDS {
        let seen = measured(&mut observing, || mirrors.observe(&key)).expect("the run is mirrored");
        let plan = measured(&mut planning, || plan(&seen));
        assert!(plan.actions.is_empty(), "the run has something to write: {:?}", plan.events);
        let [Waiting::Updating { clusters, .. }] = plan.waiting.as_slice() else {
            panic!("the run does not wait for its clusters: {:?}", plan.waiting)
        };
        assert_eq!(clusters.len(), count / 2);
        if round == 0 {
            // The first one warms caches up.
            (observing, planning) = Default::default();
        }
    }
    let each = |share: Share| Share {
        allocations: share.allocations / ROUNDS,
        bytes: share.bytes / ROUNDS,
        ..share
    };
    Cost { observe: each(observing), plan: each(planning) }
}

/// Answers every streamed list with the objects of its resource, and then stays silent.
fn serve(
    objects: Vec<(&'static str, Value)>,
) -> impl Fn(Request<Body>) -> std::future::Ready<Result<Response<Lines>, Infallible>> {
    let objects = Arc::new(objects);
    move |request| {
        let path = request.uri().path().to_owned();
        let named = objects.iter().filter(|(resource, _)| path.ends_with(&format!("/{resource}")));
        let end = json!({"type": "BOOKMARK", "object": {"metadata": {
            "resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"},
        }}});
        let events = named.map(|(_, object)| json!({"type": "ADDED", "object": object}));
        let lines: Vec<_> = events
            .chain([end])
            .map(|event| Ok(Frame::data(Bytes::from(format!("{event}\n")))))
            .collect();
        let body = stream::iter(lines).chain(stream::pending()).boxed();
        std::future::ready(Ok(Response::new(StreamBody::new(body))))
    }
}

type Lines = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// A placement of so many clusters with so many bindings and Works, and its run.
fn objects(clusters: usize, bindings: usize, works: usize) -> Vec<(&'static str, Value)> {
    let name = |number: usize| format!("member-{number:04}");
    let done = |number: usize| number < clusters / 2;
    let mut all = vec![
        ("clusterresourceplacements", placement()),
        ("clusterschedulingpolicysnapshots", policy()),
        ("clusterresourcesnapshots", snapshot()),
        ("clusterstagedupdateruns", run((0..clusters).map(|n| (name(n), done(n))))),
    ];
    all.extend((0..clusters).map(|n| ("memberclusters", cluster(&name(n)))));
    all.extend((0..bindings).map(|n| ("clusterresourcebindings", binding(&name(n), done(n)))));
    all.extend((0..works).map(|n| ("works", work(&name(n), done(n)))));
    all
}

fn meta(name: &str, more: Value) -> Value {
    let mut meta = json!({
        "name": name, "uid": format!("uid-of-{name}-0000-0000-000000000000"), "generation": 1,
        "resourceVersion": "7", "creationTimestamp": TIME,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        meta[key] = value.clone();
    }
    meta
}

fn says(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "observedGeneration": 1, "lastTransitionTime": TIME})
}

fn apply_strategy() -> Value {
    json!({"type": "ClientSideApply", "comparisonOption": "PartialComparison",
        "whenToApply": "Always", "whenToTakeOver": "Always"})
}

fn placement() -> Value {
    json!({
        "metadata": meta("web", json!({})),
        "spec": {
            "resourceSelectors": [
                {"group": "", "version": "v1", "kind": "Namespace", "name": "web"},
            ],
            "strategy": {"type": "External", "applyStrategy": apply_strategy()},
        },
    })
}

fn policy() -> Value {
    let labels = json!({"kubernetes-fleet.io/parent-CRP": "web",
        "kubernetes-fleet.io/is-latest-snapshot": "true", "kubernetes-fleet.io/policy-index": "0"});
    let scheduled = says("Scheduled", "True", "SchedulingPolicyFulfilled", "found all");
    json!({
        "metadata": meta("web-0", json!({"labels": labels})),
        "spec": {"policyHash": ""},
        "status": {"observedCRPGeneration": 1, "conditions": [scheduled]},
    })
}

fn snapshot() -> Value {
    let labels = json!({"kubernetes-fleet.io/parent-CRP": "web",
        "kubernetes-fleet.io/is-latest-snapshot": "true", "kubernetes-fleet.io/resource-index": "0"});
    json!({"metadata": meta("web-0-snapshot", json!({"labels": labels})),
        "spec": {"selectedResources": []}})
}

fn cluster(name: &str) -> Value {
    json!({
        "metadata": meta(name, json!({"labels": {"env": "prod", "region": "eu-west"}})),
        "spec": {"identity": {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}},
    })
}

fn binding(cluster: &str, done: bool) -> Value {
    let meta = meta(
        &format!("web-{cluster}-1a2b3c4d"),
        json!({
            "labels": {"kubernetes-fleet.io/parent-CRP": "web"},
            "annotations": {"flagship.dev/update-run-uid": "uid-of-run-0000-0000-000000000000",
                "flagship.dev/update-run-generation": "1"},
            "finalizers": ["kubernetes-fleet.io/work-cleanup",
                "kubernetes-fleet.io/scheduler-crb-cleanup"],
        }),
    );
    let mut conditions = vec![
        says(
            "RolloutStarted",
            "True",
            "RolloutStarted",
            "Detected the new changes on the \
            resources and started the rollout process, resourceSnapshotIndex: 0, updateRun: run",
        ),
        says("Overridden", "True", "NoOverrideSpecified", "No override rules are configured"),
        says("WorkSynchronized", "True", "AllWorkSynced", "All of the works are synchronized"),
    ];
    if done {
        conditions.push(says("Applied", "True", "AllWorkHaveBeenApplied", "All work are applied"));
        conditions.push(says("Available", "True", "AllWorkAreAvailable", "All are available"));
    }
    json!({
        "metadata": meta,
        "spec": {
            "state": "Bound", "resourceSnapshotName": "web-0-snapshot",
            "schedulingPolicySnapshotName": "web-0", "targetCluster": cluster,
            "clusterDecision": {"clusterName": cluster, "selected": true,
                "reason": "picked by scheduling policy"},
            "applyStrategy": apply_strategy(),
        },
        "status": {"conditions": conditions},
    })
}

fn work(cluster: &str, done: bool) -> Value {
    let mut meta = meta(
        "web-work",
        json!({
            "labels": {"kubernetes-fleet.io/parent-CRP": "web",
                "kubernetes-fleet.io/parent-resource-binding": format!("web-{cluster}-1a2b3c4d"),
                "kubernetes-fleet.io/parent-resource-snapshot-index": "0"},
            "annotations": {
                "kubernetes-fleet.io/parent-resource-snapshot-name": "web-0-snapshot",
                "kubernetes-fleet.io/parent-resource-override-snapshot-hash": "0".repeat(64),
                "kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash":
                    "0".repeat(64),
                "flagship.dev/manifests-hash": "1".repeat(64)},
            "finalizers": ["kubernetes-fleet.io/work-cleanup"],
            "namespace": format!("fleet-member-{cluster}"),
        }),
    );
    meta["uid"] = json!(format!("uid-of-{cluster}-work-000-000000000000"));
    let mut conditions = vec![says("Applied", "True", "WorkAppliedCompleted", "Work is applied")];
    if done {
        conditions.push(says("Available", "True", "WorkAvailable", "Work is available"));
    }
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    let identifier = json!({"ordinal": 0, "version": "v1", "kind": "Namespace", "name": "web"});
    json!({
        "metadata": meta,
        "spec": {"workload": {"manifests": [manifest]}, "applyStrategy": apply_strategy()},
        "status": {"conditions": conditions,
            "manifestConditions": [{"identifier": identifier, "conditions": conditions}]},
    })
}

fn run(clusters: impl Iterator<Item = (String, bool)>) -> Value {
    let entries = clusters.map(|(name, done)| {
        let mut conditions = vec![says("Started", "True", "ClusterUpdatingStarted", "")];
        if done {
            conditions.push(says("Succeeded", "True", "ClusterUpdatingSucceeded", ""));
        }
        json!({"clusterName": name, "conditions": conditions})
    });
    let entries: Vec<Value> = entries.collect();
    json!({
        "metadata": meta("run", json!({
            "finalizers": ["kubernetes-fleet.io/stagedupdaterun-finalizer"],
        })),
        "spec": {"placementName": "web", "resourceSnapshotIndex": "0",
            "stagedRolloutStrategyName": "all", "state": "Run"},
        "status": {
            "policySnapshotIndexUsed": "0", "policyObservedClusterCount": entries.len(),
            "resourceSnapshotIndexUsed": "0", "appliedStrategy": apply_strategy(),
            "stagedUpdateStrategySnapshot": {
                "stages": [{"name": "all", "labelSelector": {}, "maxConcurrency": "100%"}],
            },
            "stagesStatus": [{
                "stageName": "all", "clusters": entries, "startTime": TIME,
                "conditions": [says("Progressing", "True", "StageUpdatingStarted",
                    "Clusters in the stage started updating")],
            }],
            "deletionStageStatus": {"stageName": "kubernetes-fleet.io/deleteStage", "clusters": []},
            "conditions": [
                says("Initialized", "True", "UpdateRunInitializedSuccessfully", "initialized"),
                says("Progressing", "True", "UpdateRunProgressing",
                    "The update run is making progress"),
            ],
        },
    })
}
