//! Many clusters in one thread: what idle ones cost.

mod cluster;

use std::time::Duration;

use cluster::deployment;
use flagship_apiserver::env::Env;
use flagship_apiserver::rest::Server;
use flagship_apiserver::store::{Limits, Store};
use flagship_workloads::{WorkloadConfig, Workloads};

/// Megabytes of this process.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|p| p.parse().ok()).unwrap_or(0.0);
    pages * 4096.0 / 1e6
}

#[allow(clippy::disallowed_methods)] // measures the simulator itself, decides nothing
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Starts clusters, lets them settle, and returns real milliseconds for an idle hour.
async fn idle_hour(clusters: usize, deployments: usize) -> (f64, f64, f64) {
    let before = resident();
    let start = clock();
    let env = Env::simulated(1);
    let server = Server::new(env.clone());
    let workloads = Workloads::new(WorkloadConfig::default());
    let mut handles = Vec::new();
    for number in 0..clusters {
        let name = format!("member{number}");
        let cluster = server.add_cluster_with(&name, Store::new(env.clone(), Limits::member()));
        handles.push(workloads.spawn(cluster.clone()));
        let user = cluster.local("user");
        for n in 0..deployments {
            let object = deployment(&format!("web{n}"), 3, "nginx");
            user.create("deployments.apps", "default", object).await.expect("accepted");
        }
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let startup = start.elapsed().as_secs_f64() * 1e3;
    let revisions: u64 = server
        .clusters()
        .iter()
        .filter_map(|n| server.cluster(n))
        .map(|c| c.store().revision())
        .sum();
    let start = clock();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let cost = start.elapsed().as_secs_f64() * 1e3;
    let after: u64 = server
        .clusters()
        .iter()
        .filter_map(|n| server.cluster(n))
        .map(|c| c.store().revision())
        .sum();
    assert_eq!(revisions, after, "an idle hour writes nothing");
    (startup, cost, resident() - before)
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_fifty_idle_clusters_costs_milliseconds() {
    let (_, cost, _) = idle_hour(50, 0).await;
    assert!(cost < 50.0, "{cost} ms");
}

/// `cargo test -p flagship-workloads --release --test fleet -- --ignored --nocapture`
#[tokio::test(start_paused = true)]
#[ignore = "a measurement"]
async fn measure() {
    for (clusters, deployments) in [(1_000, 0), (1_000, 1)] {
        let (startup, cost, memory) = idle_hour(clusters, deployments).await;
        println!(
            "{clusters} clusters, {deployments} deployments of 3: start {startup:.0} ms, idle hour {cost:.1} ms, {:.0} KB a cluster",
            memory * 1e3 / clusters as f64
        );
    }
}
