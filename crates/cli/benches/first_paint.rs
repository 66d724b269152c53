//! How long a person waits for the first answer: `status`, `why`, `watch` and `clusters` on a
//! hub of 300 and of 1,000 clusters, 150 of which are stuck.
//!
//! The hub is an embedded API server behind TLS in this process, filled with what the
//! controllers of such a fleet would have written; the commands are processes of the real
//! binary. The time is from starting the process until its first line can be read, so it has
//! the start of the program, the TLS handshake and all requests in it. Members do not answer:
//! the kubeconfig has the hub alone.
//! `cargo bench -p flagship-cli --bench first_paint`, with other counts behind `--`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::disallowed_methods, reason = "measures commands, decides nothing")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]
#![allow(missing_docs, reason = "a benchmark")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flagship_api::kinds;
use flagship_edge::{Authority, Config};
use flagship_fleet::{EmbeddedFleet, FleetSpec, HUB};
use flagship_runtime::env::Env;
use flagship_store::{Change, Encoded, Expect, Head, ObjectKey, Write};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_flagship");
const STUCK: usize = 150;
const LOOKS: usize = 50;

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    let counts = if asked.is_empty() { vec![300, 1000] } else { asked };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!("| clusters | stuck | command | first line: p50 | p99 |");
    println!("|---|---|---|---|---|");
    for clusters in counts {
        let folder = std::env::temp_dir().join(format!("flagship-first-paint-{clusters}"));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).unwrap();
        let fleet = runtime.block_on(filled(clusters));
        let kubeconfig = folder.join("kubeconfig");
        let written = fleet.edge().unwrap().kubeconfig().unwrap().with_current(HUB);
        written.write(&kubeconfig).unwrap();
        for line in ["status big-run", "why big-run", "watch big-run", "status", "clusters"] {
            let mut times: Vec<Duration> =
                (0..LOOKS).map(|_| first_line(line, &kubeconfig)).collect();
            times.sort();
            let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
            println!(
                "| {clusters} | {STUCK} | `{line}` | {} ms | {} ms |",
                at(50).as_millis(),
                at(99).as_millis()
            );
        }
        runtime.block_on(fleet.shutdown());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

/// From starting the command until its first line is there.
fn first_line(line: &str, kubeconfig: &Path) -> Duration {
    let begun = Instant::now();
    let mut process = Command::new(BINARY)
        .args(line.split(' '))
        .env("KUBECONFIG", kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let took = begun.elapsed();
    assert!(!first.trim().is_empty(), "{line} said nothing");
    drop(process.kill());
    drop(process.wait());
    took
}

/// A hub on which `big-run` has done a part of its clusters, and 150 are stuck.
async fn filled(clusters: usize) -> EmbeddedFleet {
    let authority = Authority::create(Env::system().now()).unwrap();
    let mut spec = FleetSpec::named(Vec::new());
    spec.hub_admission = false;
    let fleet = EmbeddedFleet::builder(spec).edge(Config::local(0, authority)).build();
    let fleet = fleet.await.unwrap();
    let hub = Hub { fleet: &fleet, now: Env::system().now() };
    let names: Vec<String> = (1..=clusters).map(|number| format!("member{number}")).collect();
    for (at, name) in names.iter().enumerate() {
        hub.member(name, at);
        hub.binding(name, at);
    }
    hub.placement(&names);
    hub.run(&names);
    fleet
}

struct Hub<'a> {
    fleet: &'a EmbeddedFleet,
    now: Timestamp,
}

impl Hub<'_> {
    fn ago(&self, seconds: i64) -> String {
        let then = self.now.checked_sub(SignedDuration::from_secs(seconds)).unwrap();
        format!("{then:.0}")
    }

    fn condition(&self, kind: &str, status: &str, reason: &str, since: i64) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "as usual",
            "observedGeneration": 1, "lastTransitionTime": self.ago(since)})
    }

    /// Writes an object as a controller would have left it.
    fn put(&self, kind: &str, namespace: &str, name: &str, mut object: Value) {
        let info = kinds::find(kind).unwrap();
        object["kind"] = json!(info.kind);
        object["apiVersion"] = json!(format!("{}/v1beta1", info.group));
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(name);
        metadata["uid"] = json!(format!("{kind}-{name}"));
        metadata["generation"] = json!(1);
        metadata["creationTimestamp"] = json!(self.ago(3000));
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        let resource = format!("{}.{}", info.plural, info.group).into();
        let key = ObjectKey::new(namespace, name);
        let (head, json) = (Head::of(&object, Default::default()), Encoded::new(&object));
        let (expect, change) = (Expect::Absent, Change::Put { head, json });
        let store = self.fleet.handle(HUB).store();
        store.commit(Write { resource: &resource, key, expect, change }).unwrap();
    }

    fn member(&self, name: &str, at: usize) {
        // Two of the stuck ones have fallen silent.
        let heard = if at < 2 { 900 } else { 5 };
        let agents = json!([{"type": "MemberAgent", "conditions": [
            self.condition("Joined", "True", "InternalMemberClusterJoined", 2900),
            self.condition("Healthy", "True", "InternalMemberClusterHealthy", 2900)],
            "lastReceivedHeartbeat": self.ago(heard)}]);
        let conditions = json!([
            self.condition("ReadyToJoin", "True", "MemberClusterReadyToJoin", 2900),
            self.condition("Joined", "True", "MemberClusterJoined", 2900)
        ]);
        let spec = json!({"identity": {"kind": "User", "name": format!("{name}-agent")},
            "heartbeatPeriodSeconds": 15});
        let properties: Value = json!({
            "kubernetes-fleet.io/node-count": {"value": "2", "observationTime": self.ago(5)}});
        let status = json!({"conditions": conditions, "agentStatus": agents,
            "properties": properties});
        let labels = json!({"environment": "production"});
        let member = json!({"metadata": {"labels": labels}, "spec": spec, "status": status});
        self.put("MemberCluster", "", name, member);
        let report = json!({"metadata": {}, "spec": {"state": "Join"},
            "status": {"conditions": [], "agentStatus": agents}});
        self.put("InternalMemberCluster", &format!("fleet-member-{name}"), name, report);
    }

    fn is_stuck(at: usize) -> bool {
        at < STUCK
    }

    fn binding(&self, name: &str, at: usize) {
        let placed = json!({"kubernetes-fleet.io/parent-CRP": "demo"});
        let spec = json!({"state": "Bound", "resourceSnapshotName": "demo-1-snapshot",
            "schedulingPolicySnapshotName": "demo-0", "targetCluster": name,
            "clusterDecision": {"clusterName": name, "selected": true, "reason": "picked"}});
        let begun = |kind| self.condition(kind, "True", "AsWanted", 400);
        let works = if Self::is_stuck(at) { "False" } else { "True" };
        let available = self.condition("Available", works, "NotAllWorkAreAvailable", 400);
        let mut status = json!({"conditions": [begun("RolloutStarted"), begun("Overridden"),
            begun("WorkSynchronized"), begun("Applied"), available]});
        if Self::is_stuck(at) {
            let failed = self.condition("Available", "False", "ManifestNotAvailableYet", 400);
            status["failedPlacements"] = json!([{"group": "apps", "version": "v1",
                "kind": "Deployment", "namespace": "test-namespace", "name": "nginx-deployment",
                "condition": failed}]);
        }
        let binding = json!({"metadata": {"labels": placed}, "spec": spec, "status": status});
        self.put("ClusterResourceBinding", "", &format!("demo-{name}-e1a567da"), binding);
        let cause = json!([{"group": "apps", "kind": "Deployment",
            "namespace": "test-namespace", "name": "nginx-deployment", "cause": "IMAGE_NOT_FOUND",
            "container": "nginx", "says": "container nginx: image \"nginx:9\": not found"}]);
        let notes = match Self::is_stuck(at) {
            true => json!({"flagship.dev/failure-causes": cause.to_string()}),
            false => json!({}),
        };
        // Works carry whole manifests, which nobody should have to read for an overview.
        let manifests: Vec<Value> = (0..4)
            .map(|n| {
                json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("app-{n}"), "namespace": "test-namespace"},
                "data": {"text": "x".repeat(2000)}})
            })
            .collect();
        let work = json!({"metadata": {"labels": placed, "annotations": notes},
            "spec": {"workload": {"manifests": manifests}}, "status": {}});
        self.put("Work", &format!("fleet-member-{name}"), "demo-work", work);
    }

    fn placement(&self, names: &[String]) {
        let scheduled = self.condition("Scheduled", "True", "Scheduled", 2900);
        // The hub reports on a hundred clusters at most.
        let entries: Vec<Value> = names
            .iter()
            .take(100)
            .map(|name| json!({"clusterName": name, "conditions": [scheduled]}))
            .collect();
        let conditions = json!([self.condition(
            "ClusterResourcePlacementScheduled",
            "True",
            "SchedulingPolicyFulfilled",
            2900
        )]);
        let selectors = json!([{"group": "", "version": "v1", "kind": "Namespace",
            "name": "test-namespace"}]);
        let placement = json!({"metadata": {},
            "spec": {"resourceSelectors": selectors, "strategy": {"type": "External"}},
            "status": {"conditions": conditions, "placementStatuses": entries}});
        self.put("ClusterResourcePlacement", "", "demo", placement);
    }

    fn run(&self, names: &[String]) {
        let started = self.condition("Started", "True", "ClusterUpdatingStarted", 400);
        let done = self.condition("Succeeded", "True", "ClusterUpdatingSucceeded", 350);
        let clusters: Vec<Value> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                // The last tenth has not begun.
                let conditions = match at {
                    at if Self::is_stuck(at) => json!([started]),
                    at if at >= names.len() * 9 / 10 => json!([]),
                    _ => json!([started, done]),
                };
                json!({"clusterName": name, "conditions": conditions})
            })
            .collect();
        let stage = json!({"stageName": "production", "startTime": self.ago(500),
            "clusters": clusters,
            "conditions": [self.condition("Progressing", "True", "StageUpdatingStarted", 500)]});
        let conditions = json!([
            self.condition("Initialized", "True", "UpdateRunInitializedSuccessfully", 600),
            self.condition("Progressing", "False", "UpdateRunStuck", 100)
        ]);
        let status = json!({"conditions": conditions, "resourceSnapshotIndexUsed": "1",
            "stagesStatus": [stage],
            "stagedUpdateStrategySnapshot": {"stages": [{"name": "production"}]}});
        let spec = json!({"placementName": "demo", "stagedRolloutStrategyName": "all",
            "state": "Run"});
        self.put(
            "ClusterStagedUpdateRun",
            "",
            "big-run",
            json!({"metadata": {},
            "spec": spec, "status": status}),
        );
    }
}
