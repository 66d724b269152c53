//! Nodes, pods and namespaces in, what is reported out.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn node(cpu: &str, memory: &str) -> Node {
    let most = json!({"cpu": cpu, "memory": memory, "pods": "110"});
    let allocatable = json!({"cpu": "1500m", "memory": memory});
    let status = json!({"capacity": most, "allocatable": allocatable});
    Node::read(&serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap())
}

fn pod(node: &str, phase: &str, requests: Value) -> Option<Amounts> {
    let containers = json!([
        {"name": "a", "resources": {"requests": requests}},
        {"name": "b"},
    ]);
    let init = json!([{"name": "i", "resources": {"requests": {"cpu": "9"}}}]);
    let spec = json!({"nodeName": node, "containers": containers, "initContainers": init});
    let pod = json!({"metadata": {}, "spec": spec, "status": {"phase": phase}});
    Amounts::of_pod(&serde_json::from_value(pod).unwrap())
}

fn seen<'a>(nodes: &'a [Node], pods: &'a [Amounts]) -> Observed<'a> {
    Observed {
        now: NOW,
        version: None,
        nodes: nodes.iter().collect(),
        pods: pods.iter().collect(),
        namespaces: None,
    }
}

// checklist fleet 12.23
#[test]
fn nodes_are_summed_and_pods_that_run_are_taken_off() {
    let nodes = [node("2", "4Gi"), node("2", "4Gi")];
    let requests = json!({"cpu": "500m", "memory": "1Gi"});
    let pods: Vec<Amounts> = [
        pod("n1", "Running", requests.clone()),
        pod("n1", "Pending", requests.clone()),
        pod("", "Pending", requests.clone()),
        pod("n1", "Succeeded", requests.clone()),
        pod("n1", "Failed", requests),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert_eq!(pods.len(), 2);
    let mut seen = seen(&nodes, &pods);
    seen.version = Some("v1.34.1");
    let collected = collect(&seen);
    expect![[r#"
        {
          "k8s.io/k8s-version": {
            "value": "v1.34.1",
            "observationTime": "1970-01-01T00:00:00Z"
          },
          "kubernetes-fleet.io/node-count": {
            "value": "2",
            "observationTime": "1970-01-01T00:00:00Z"
          }
        }
        {
          "capacity": {
            "cpu": "4",
            "memory": "8Gi"
          },
          "allocatable": {
            "cpu": "3",
            "memory": "8Gi"
          },
          "available": {
            "cpu": "2",
            "memory": "6Gi"
          },
          "observationTime": "1970-01-01T00:00:00Z"
        }"#]]
    .assert_eq(&format!(
        "{}\n{}",
        serde_json::to_string_pretty(&collected.properties).unwrap(),
        serde_json::to_string_pretty(&collected.resource_usage).unwrap()
    ));
    assert!(collected.conditions.is_empty() && collected.namespaces.is_empty());
}

#[test]
fn available_is_never_less_than_nothing() {
    let pods: Vec<Amounts> =
        pod("n1", "Running", json!({"cpu": "64", "memory": "1Gi"})).into_iter().collect();
    let usage = collect(&seen(&[node("2", "4Gi")], &pods)).resource_usage;
    assert_eq!(usage.available["cpu"].0, "0");
    assert_eq!(usage.available["memory"].0, "3Gi");
}

#[test]
fn an_empty_cluster_has_nothing() {
    let collected = collect(&seen(&[], &[]));
    assert_eq!(collected.properties["kubernetes-fleet.io/node-count"].value, "0");
    assert_eq!(collected.resource_usage.capacity["cpu"].0, "0");
}

fn namespace(meta: Value) -> Option<Namespace> {
    Namespace::read(&serde_json::from_value(json!({"metadata": meta})).unwrap())
}

// checklist fleet 12.29
#[test]
fn namespaces_name_the_work_that_owns_them() {
    let api = "placement.kubernetes-fleet.io/v1beta1";
    let owner = |kind: &str, api: &str| json!([{"apiVersion": api, "kind": kind, "name": "web-work", "uid": "u"}]);
    let owned = namespace(json!({"ownerReferences": owner("AppliedWork", api)})).unwrap();
    assert_eq!(owned.applied_work, "web-work");
    for other in [owner("Work", api), owner("AppliedWork", "v1")] {
        assert_eq!(namespace(json!({"ownerReferences": other})).unwrap().applied_work, "");
    }
    assert_eq!(namespace(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})), None);
}

#[test]
fn the_oldest_two_hundred_namespaces_are_reported_and_more_is_said() {
    let many: Vec<(String, Namespace)> = (0..=MOST_NAMESPACES)
        .map(|n| {
            let created = Timestamp::from_second(1000 - n as i64).ok();
            (format!("ns-{n:03}"), Namespace { created, applied_work: String::new() })
        })
        .collect();
    let all: Vec<(&str, &Namespace)> = many.iter().map(|(n, ns)| (n.as_str(), ns)).collect();
    let mut seen = seen(&[], &[]);
    let said = |seen: &Observed<'_>| {
        let collected = collect(seen);
        let condition = collected.conditions[0].clone();
        let told = condition.into_condition(Default::default(), NOW);
        (collected.namespaces.len(), [&told.status, &told.reason, &told.message].map(String::clone))
    };
    seen.namespaces = Some(all.clone());
    let degraded = "Namespaces are collected in a degraded mode since the number of namespaces \
        reaches the track limit";
    assert_eq!(said(&seen), (200, ["False", "Degraded", degraded].map(str::to_owned)));
    assert!(!collect(&seen).namespaces.contains_key("ns-000"), "the youngest");
    seen.namespaces = Some(all[1..].to_vec());
    let all = "All namespaces have been collected successfully";
    assert_eq!(said(&seen), (200, ["True", "Succeeded", all].map(str::to_owned)));
}
