//! A thousand clusters in one thread, under paused time: what starting them costs, what
//! an idle hour of theirs costs, and what they weigh.
//!
//! `cargo bench -p flagship-workloads`

#[path = "../tests/cluster/mod.rs"]
#[allow(dead_code, reason = "stories use more of it")]
mod cluster;

use std::time::{Duration, Instant};

use cluster::deployment;
use flagship_apiserver::rest::Server;
use flagship_store::env::Env;
use flagship_store::{Limits, Store};
use flagship_workloads::{WorkloadConfig, Workloads};

const CLUSTERS: usize = 1_000;

#[allow(clippy::print_stdout, reason = "a benchmark prints its table")]
fn main() {
    println!(
        "| {CLUSTERS} clusters, each with | start, each | an idle hour of all | memory, each |"
    );
    println!("|---|---|---|---|");
    for (what, deployments) in [("nothing", 0), ("a Deployment of 3 pods", 1)] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let (start, hour, memory) = runtime.block_on(idle_hour(deployments));
        println!("| {what} | {start:.1} ms | {hour:.2} ms | {memory:.0} KB |");
    }
}

/// Starts the clusters, lets them settle, and lets an hour pass.
#[allow(clippy::disallowed_methods, reason = "measures the simulator itself, decides nothing")]
async fn idle_hour(deployments: usize) -> (f64, f64, f64) {
    let (begun, before) = (Instant::now(), resident());
    let env = Env::simulated(1);
    let server = Server::new(env.clone());
    let workloads = Workloads::new(WorkloadConfig::default());
    let mut running = Vec::new();
    for number in 0..CLUSTERS {
        let store = Store::new(env.clone(), Limits::member());
        let cluster = server.add_cluster_with(&format!("member{number}"), store);
        running.push(workloads.spawn(cluster.clone()));
        for n in 0..deployments {
            let object = deployment(&format!("web{n}"), 3, "nginx");
            let user = cluster.local("user");
            user.create("deployments.apps", "default", object).await.expect("accepted");
        }
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let start = begun.elapsed();
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let hour = begun.elapsed();
    #[allow(clippy::cast_precision_loss, reason = "a thousand is exact")]
    let each = 1.0 / CLUSTERS as f64;
    (start.as_secs_f64() * 1e3 * each, hour.as_secs_f64() * 1e3, (resident() - before) * each)
}

/// Kilobytes of this process.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|p| p.parse().ok()).unwrap_or(0.0);
    pages * 4.096
}
