//! A ReplicaSet, reduced to what its Deployment asks about it.
//!
//! A Deployment keeps ten old ReplicaSets and looks at all of them in every pass. The
//! shell keeps one of these for each, made once when the object changes; whole sets are
//! read only to be adopted or released.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::condition;
use crate::hash::Fingerprint;
use crate::object::{Fields, Labels, unset};
use crate::plan::Target;

/// The label that keeps sets of one deployment apart.
pub const HASH: &str = "pod-template-hash";

/// What is remembered of a ReplicaSet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetFacts {
    /// Names it and no other.
    pub target: Target,
    /// `metadata.resourceVersion`, the precondition of every write.
    pub version: String,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// UID of its controller, if it has one.
    pub controller: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When deletion was asked for.
    pub deleting: bool,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.replicas`.
    pub size: i64,
    /// `spec.minReadySeconds`.
    pub delay: i64,
    /// Tells its template from others.
    pub template: Fingerprint,
    /// `status.observedGeneration`.
    pub observed: i64,
    /// `status.replicas`.
    pub actual: i64,
    /// `status.readyReplicas`.
    pub ready: i64,
    /// `status.availableReplicas`.
    pub available: i64,
    /// Its word that it cannot make or remove pods.
    pub failure: Option<Failure>,
}

/// The condition `ReplicaFailure`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Such as `FailedCreate`.
    pub reason: String,
    /// The server's words.
    pub message: String,
}

impl SetFacts {
    /// Reads a ReplicaSet.
    pub fn of(set: &Value) -> Self {
        let failure = condition::find(set.list("/status/conditions"), "ReplicaFailure");
        Self {
            target: Target::of(super::SETS, set),
            version: set.text("/metadata/resourceVersion").to_owned(),
            labels: set.labels(),
            annotations: set.strings("/metadata/annotations"),
            controller: set.controller_uid().map(str::to_owned),
            created: set.created(),
            deleting: set.is_deleting(),
            generation: set.generation(),
            size: set.int("/spec/replicas").unwrap_or(1),
            delay: set.int("/spec/minReadySeconds").unwrap_or(0),
            template: fingerprint(set.at("/spec/template")),
            observed: set.int("/status/observedGeneration").unwrap_or(0),
            actual: set.int("/status/replicas").unwrap_or(0),
            ready: set.int("/status/readyReplicas").unwrap_or(0),
            available: set.int("/status/availableReplicas").unwrap_or(0),
            failure: failure.map(|c| Failure {
                status: c.text("/status").to_owned(),
                reason: c.text("/reason").to_owned(),
                message: c.text("/message").to_owned(),
            }),
        }
    }
}

/// Equal for templates that mean the same, but for the label that the controller adds.
pub(super) fn fingerprint(template: &Value) -> Fingerprint {
    let mut metadata = template.at("/metadata").clone();
    unset(&mut metadata, &["labels", HASH]);
    unset(&mut metadata, &["creationTimestamp"]);
    Fingerprint::of(&[&metadata, template.at("/spec")])
}
