//! Whole clusters under paused time, on the real in-process server.

mod cluster;

use cluster::{Town, deployment};
use flagship_workloads::WorkloadConfig;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_new_cluster_has_nodes_accounts_and_certificates() {
    let town = Town::new(1, WorkloadConfig { root_ca: "CERT".into(), ..WorkloadConfig::default() });
    town.pass(5).await;
    assert_eq!(town.names("nodes", ""), ["node-1", "node-2"]);
    let node = town.get("nodes", "", "node-1");
    assert_eq!(node["status"]["capacity"]["cpu"], "8");
    assert_eq!(town.names("serviceaccounts", "default"), ["default"]);
    let map = town.get("configmaps", "kube-system", "kube-root-ca.crt");
    assert_eq!(map["data"]["ca.crt"], "CERT");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available() {
    let town = Town::new(1, WorkloadConfig::default());
    town.create("deployments.apps", deployment("web", 3, "nginx:1.28")).await;
    town.pass(10).await;
    let web = town.get("deployments.apps", "default", "web");
    assert_eq!(web["status"]["availableReplicas"], 3, "{web:#}");
    let pods = town.list("pods", "default");
    let mut ips: Vec<&str> = pods.iter().filter_map(|p| p["status"]["podIP"].as_str()).collect();
    ips.sort_unstable();
    ips.dedup();
    assert_eq!(ips.len(), 3, "every pod has an address of its own");
    let mut nodes: Vec<&str> = pods.iter().filter_map(|p| p["spec"]["nodeName"].as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes, ["node-1", "node-2"]);
    assert_eq!(
        town.conditions("deployments.apps", "web"),
        [
            "Available=True MinimumReplicasAvailable: Deployment has minimum availability.",
            "Progressing=True NewReplicaSetAvailable: ReplicaSet \"web-#\" has successfully progressed.",
        ]
    );
}
