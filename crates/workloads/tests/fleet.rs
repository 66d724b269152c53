//! Many clusters in one thread: idle ones write nothing.
//!
//! What they cost is measured by `benches/fleet.rs`.

mod cluster;

use std::time::Duration;

use cluster::deployment;
use flagship_apiserver::rest::Server;
use flagship_store::env::Env;
use flagship_store::{Limits, Store};
use flagship_workloads::{WorkloadConfig, Workloads};

fn revisions(server: &Server) -> u64 {
    let clusters = server.clusters();
    clusters.iter().filter_map(|n| server.cluster(n)).map(|c| c.store().revision()).sum()
}

#[tokio::test(start_paused = true)]
async fn an_idle_hour_of_fifty_clusters_writes_nothing() {
    let env = Env::simulated(1);
    let server = Server::new(env.clone());
    let workloads = Workloads::new(WorkloadConfig::default());
    let mut running = Vec::new();
    for number in 0..50 {
        let store = Store::new(env.clone(), Limits::member());
        let cluster = server.add_cluster_with(&format!("member{number}"), store);
        running.push(workloads.spawn(cluster.clone()));
        let user = cluster.local("user");
        user.create("deployments.apps", "default", deployment("web", 3, "nginx")).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let settled = revisions(&server);
    assert!(settled > 50 * 20, "the clusters did start something: {settled}");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(revisions(&server), settled);
}
