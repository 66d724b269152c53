//! Nodes: what they are made of, and what the scheduler asks about them.
//!
//! A node is written once and then left alone: its heartbeat is the process
//! itself, so an idle cluster writes nothing.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::condition;
use crate::config::WorkloadConfig;
use crate::object::{Fields, Labels, stamp};
use crate::resources::{Amounts, amounts};

/// The version simulated kubelets report.
pub const VERSION: &str = "v1.34.1";

/// What is remembered of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Its taints, as written.
    pub taints: Vec<Value>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Whether it says it is ready.
    pub ready: bool,
    /// What it offers to pods.
    pub allocatable: Amounts,
    /// Its address.
    pub ip: String,
    /// The first two thirds of its pods' addresses, as in `10.244.1`.
    pub subnet: String,
}

impl Node {
    /// Reads a node.
    pub fn of(node: &Value) -> Self {
        let address = |kind: &str| {
            let all = node.list("/status/addresses").iter();
            all.clone().find(|a| a.text("/type") == kind).map(|a| a.text("/address").to_owned())
        };
        let cidr = node.text("/spec/podCIDR");
        Self {
            name: node.name().to_owned(),
            labels: node.labels(),
            taints: node.list("/spec/taints").to_vec(),
            unschedulable: node.is_true("/spec/unschedulable"),
            ready: condition::is_true(node.list("/status/conditions"), "Ready"),
            allocatable: amounts(node.at("/status/allocatable")),
            ip: address("InternalIP").unwrap_or_default(),
            subnet: cidr.rsplit_once('.').map_or("10.244.0", |(front, _)| front).to_owned(),
        }
    }

    /// The lowest pod address that is not taken.
    pub fn free_ip(&self, taken: &std::collections::BTreeSet<String>) -> String {
        let all = (2..255).map(|last| format!("{}.{last}", self.subnet));
        all.into_iter().find(|ip| !taken.contains(ip)).unwrap_or_default()
    }
}

/// Name of the `number`-th node of a cluster.
pub fn name(number: u32, config: &WorkloadConfig) -> String {
    format!("{}-{number}", config.node_prefix)
}

/// The `number`-th node of a cluster, with its status.
pub fn make(number: u32, config: &WorkloadConfig, now: Timestamp) -> Value {
    let name = name(number, config);
    let ip = format!("172.18.{}.{}", number / 250, number % 250 + 2);
    let memory = u64::from(config.node_memory_gib) << 20;
    let capacity = |reserved_cpu: u32, reserved_memory: u64| {
        let cpu = match reserved_cpu {
            0 => config.node_cpu.to_string(),
            milli => format!("{}m", (config.node_cpu * 1_000).saturating_sub(milli)),
        };
        json!({
            "cpu": cpu, "memory": format!("{}Ki", memory.saturating_sub(reserved_memory)),
            "ephemeral-storage": "102350Mi", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
            // More would not find an address in the node's range.
            "pods": config.node_pods.min(250).to_string(),
        })
    };
    let at = stamp(now);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": at, "lastTransitionTime": at})
    };
    let cidr = format!("10.{}.{}.0/24", 244 + number / 256 % 8, number % 256);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name,
            },
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr], "providerID": format!("flagship://{name}")},
        "status": {
            "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
            "capacity": capacity(0, 0),
            "allocatable": capacity(100, 262_144),
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure",
                    "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID",
                    "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "bootID": "", "machineID": "",
                "systemUUID": "", "kernelVersion": "6.8.0-flagship", "osImage": "Flagship simulated node",
                "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": VERSION,
                "kubeProxyVersion": "",
            },
        },
    })
}
