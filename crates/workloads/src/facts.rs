//! A pod, reduced to what controllers, services and the scheduler ask about it.
//!
//! The shell keeps one of these for every pod of a cluster and reads whole pods
//! only when a kubelet acts on one: a pod as JSON costs many times as much.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::condition;
use crate::object::{Fields, Labels};
use crate::plan::Target;

/// What is remembered of a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// UID of its controller, if it has one.
    pub controller: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When deletion was asked for.
    pub deleting: bool,
    /// `status.phase`; empty reads as `Pending`.
    pub phase: Phase,
    /// Since when it is ready; `None` while it is not.
    pub ready_since: Option<Timestamp>,
    /// The node it is bound to, or empty.
    pub node: String,
    /// Its address, or empty.
    pub ip: String,
    /// Restarts of its containers, the highest.
    pub restarts: i64,
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub deletion_cost: i64,
    /// `batch.kubernetes.io/job-completion-index`.
    pub index: Option<i64>,
    /// Whether a finalizer keeps it after it ended.
    pub finalizers: Vec<String>,
    /// When its last container ended, for pods that have.
    pub finished: Option<Timestamp>,
    /// What it asks of its node.
    pub requests: crate::resources::Amounts,
    /// Named container ports: name, protocol, number.
    pub ports: Vec<(String, String, i64)>,
    /// `spec.hostname`.
    pub hostname: String,
    /// The node that its affinity names, for pods of DaemonSets.
    pub aimed_at: String,
}

/// `status.phase`, in the order deletion prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Phase {
    /// Not all containers have started.
    Pending,
    /// The node does not answer.
    Unknown,
    /// At least one container runs.
    Running,
    /// All containers ended well.
    Succeeded,
    /// A container ended badly.
    Failed,
}

impl Pod {
    /// Reads a pod.
    pub fn of(pod: &Value) -> Self {
        let conditions = pod.list("/status/conditions");
        let ready = condition::find(conditions, "Ready").filter(|c| c.text("/status") == "True");
        let containers = pod.list("/status/containerStatuses");
        let phase = match pod.text("/status/phase") {
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            "Unknown" => Phase::Unknown,
            _ => Phase::Pending,
        };
        let ended = || {
            let ends = containers.iter().filter_map(|c| c.time("/state/terminated/finishedAt"));
            ends.max().or_else(|| {
                let ready = condition::find(conditions, "Ready")?;
                ready.time("/lastTransitionTime")
            })
        };
        Self {
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            labels: pod.labels(),
            controller: pod.controller_uid().map(str::to_owned),
            created: pod.created(),
            deleting: pod.is_deleting(),
            phase,
            ready_since: ready.and_then(|c| c.time("/lastTransitionTime")),
            node: pod.text("/spec/nodeName").to_owned(),
            ip: pod.text("/status/podIP").to_owned(),
            restarts: containers.iter().filter_map(|c| c.int("/restartCount")).max().unwrap_or(0),
            deletion_cost: pod
                .annotation("controller.kubernetes.io/pod-deletion-cost")
                .and_then(|c| c.parse().ok())
                .unwrap_or(0),
            index: pod
                .annotation("batch.kubernetes.io/job-completion-index")
                .and_then(|i| i.parse().ok()),
            finalizers: pod
                .list("/metadata/finalizers")
                .iter()
                .filter_map(|f| f.as_str().map(str::to_owned))
                .collect(),
            finished: if phase.is_final() { ended() } else { None },
            requests: crate::resources::requests(pod),
            ports: pod
                .list("/spec/containers")
                .iter()
                .flat_map(|c| c.list("/ports"))
                .filter_map(|p| {
                    let protocol = p.at("/protocol").as_str().unwrap_or("TCP");
                    Some((
                        p.text("/name").to_owned(),
                        protocol.to_owned(),
                        p.int("/containerPort")?,
                    ))
                })
                .collect(),
            hostname: pod.text("/spec/hostname").to_owned(),
            aimed_at: pod
                .text(
                    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                     /nodeSelectorTerms/0/matchFields/0/values/0",
                )
                .to_owned(),
        }
    }

    /// How a plan names it.
    pub fn target(&self) -> Target {
        Target {
            resource: "pods".into(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Still to be counted: neither ended nor going.
    pub fn is_active(&self) -> bool {
        !self.deleting && !self.phase.is_final()
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    /// Ready for at least `min_ready` seconds.
    pub fn is_available(&self, min_ready: i64, now: Timestamp) -> bool {
        self.ready_since.is_some_and(|since| {
            min_ready == 0 || now.as_second().saturating_sub(since.as_second()) >= min_ready
        })
    }

    /// When a ready pod becomes available, if it has still to wait for that.
    pub fn available_at(&self, min_ready: i64, now: Timestamp) -> Option<Timestamp> {
        let since = self.ready_since?;
        if self.is_available(min_ready, now) {
            return None;
        }
        Timestamp::from_second(since.as_second().saturating_add(min_ready)).ok()
    }
}

impl Phase {
    /// Whether the pod has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}
