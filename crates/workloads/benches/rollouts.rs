//! One cluster whose Deployments have a past: what a new image costs its controllers.
//!
//! Twenty Deployments of one pod, each with as many old ReplicaSets as it keeps. One thread,
//! paused time; the processor time of the thread is measured, not the time on the wall.
//!
//! `cargo bench -p flagship-workloads --bench rollouts`

#[path = "../tests/cluster/mod.rs"]
#[allow(dead_code, reason = "stories use more of it")]
mod cluster;

use std::time::Duration;

use cluster::deployment;
use flagship_apiserver::rest::{Local, PatchKind, Server, WriteOptions};
use flagship_store::env::Env;
use flagship_store::{Limits, Store};
use flagship_workloads::{WorkloadConfig, Workloads};
use serde_json::json;

const DEPLOYMENTS: usize = 20;
/// As many as a Deployment keeps by default, and the one it runs.
const PAST: usize = 11;
const MEASURED: usize = 10;

#[allow(clippy::print_stdout, reason = "a benchmark prints its table")]
fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    println!("| one rollout, 1 pod | processor | passes | parses | writes | events |");
    println!("|---|---|---|---|---|---|");
    runtime.block_on(async {
        let env = Env::simulated(1);
        let server = Server::new(env.clone());
        let store = Store::new(env.clone(), Limits::member());
        let cluster = server.add_cluster_with("member1", store);
        let workloads = Workloads::new(WorkloadConfig::default());
        let _running = workloads.spawn(cluster.clone());
        let user = cluster.local("user");
        for n in 0..DEPLOYMENTS {
            let object = deployment(&format!("web{n}"), 1, "nginx:0");
            user.create("deployments.apps", "default", object).await.expect("accepted");
        }
        for round in 1..=PAST {
            roll_all(&user, round).await;
            if round == 1 {
                // The first rollout has one old ReplicaSet to look at.
                measure(&workloads, &user, "no past", PAST * 2).await;
            }
        }
        measure(&workloads, &user, "10 old ReplicaSets", PAST * 4).await;
    });
}

#[allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#[allow(clippy::cast_precision_loss, reason = "counts are small")]
async fn measure(workloads: &Workloads, user: &Local, what: &str, from: usize) {
    let (begun, before) = (processor_time(), workloads.effort());
    let rounds = if what == "no past" { 1 } else { MEASURED };
    for round in from..from + rounds {
        roll_all(user, round).await;
    }
    let (spent, after) = (processor_time() - begun, workloads.effort());
    let each = |from: u64, to: u64| (to - from) as f64 / (rounds * DEPLOYMENTS) as f64;
    println!(
        "| {what} | {:.2} ms | {:.1} | {:.1} | {:.1} | {:.1} |",
        spent * 1e3 / (rounds * DEPLOYMENTS) as f64,
        each(before.passes, after.passes),
        each(before.parses, after.parses),
        each(before.writes, after.writes),
        each(before.events, after.events),
    );
}

/// A new image for every Deployment, one after the other.
async fn roll_all(user: &Local, round: usize) {
    for n in 0..DEPLOYMENTS {
        let name = format!("web{n}");
        let container = json!([{"name": name, "image": format!("nginx:{round}")}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": container}}}});
        let (kind, options) = (PatchKind::Merge, WriteOptions::default());
        let patched =
            user.patch("deployments.apps", "default", &name, "", kind, patch, &options).await;
        patched.expect("accepted");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

/// Seconds that this thread has run.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: f64 = text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    nanos / 1e9
}
