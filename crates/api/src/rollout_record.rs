//! RolloutRecord: what happened in a run, entry by entry, each with the hash of the one before.
//!
//! One record a run, named like it. It outlives the run: Kubernetes would delete it with its
//! owner, so it names the run by UID and has no owner reference. Hubs only ever add entries;
//! how a chain is made and verified is `flagship_rules::record`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crd::cel::{immutable, rules};
use crate::crd::shape;
use crate::kinds::{Column, Version, kind};
use crate::null::or_default;

/// What happened in one run, or the next part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "size(self.entries) >= size(oldSelf.entries)",
        "entries are only added: none may be removed",
    ),
    (
        "size(oldSelf.entries) == 0 || size(self.entries) < size(oldSelf.entries) || self.entries[size(oldSelf.entries) - 1].hash == oldSelf.entries[size(oldSelf.entries) - 1].hash",
        "entries are only added: the last one that was there must stay where it is",
    ),
    (
        "has(self.plan) == (self.part == 1)",
        "the first part has the plan, and no other: set plan where part is 1",
    ),
])))]
pub struct RolloutRecordSpec {
    /// The run.
    pub run: RecordedRun,

    /// 1, and 2 and more where a record became too long for one object.
    #[schemars(range(min = 1, max = 10000))]
    #[schemars(extend("x-kubernetes-validations" = immutable("part is immutable")))]
    pub part: i64,

    /// The record before it of the same placement, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,

    /// What the run was going to do when it was initialized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<RecordedPlan>,

    /// The rollout policies it follows, as they were then.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub policies: Vec<RecordedPolicy>,

    /// What happened, in order.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(max = 2000))]
    pub entries: Vec<RecordEntry>,
}

/// The run a record is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedRun {
    /// Its name.
    #[schemars(length(min = 1, max = 255))]
    #[schemars(extend("x-kubernetes-validations" = immutable("a record stays with its run: run.name is immutable")))]
    pub name: String,

    /// Its UID: a later run of the same name has a record of its own.
    #[schemars(length(min = 1, max = 64))]
    #[schemars(extend("x-kubernetes-validations" = immutable("a record stays with its run: run.uid is immutable")))]
    pub uid: String,
}

/// The record before this one, as it stood when this one began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Follows {
    /// Name of its run.
    #[schemars(length(max = 255))]
    pub run: String,

    /// UID of its run.
    #[schemars(length(max = 64))]
    pub uid: String,

    /// Hash of its last entry.
    #[schemars(length(max = 64))]
    pub hash: String,
}

/// What a run was going to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedPlan {
    /// What it rolls out.
    #[schemars(length(max = 255))]
    pub placement: String,

    /// The strategy it follows.
    #[schemars(length(max = 255))]
    pub strategy: String,

    /// The version it brings, by the index of its resource snapshot.
    #[schemars(length(max = 64))]
    pub snapshot: String,

    /// Its stages, in order.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(max = 31))]
    pub stages: Vec<RecordedStage>,

    /// Clusters that lose what was placed, after the stages.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000), inner(length(max = 63)))]
    pub removes: Vec<String>,

    /// The hash that flagship plan prints; empty where the record was begun after initialization.
    #[schemars(length(max = 64))]
    pub hash: String,
}

/// A stage as it was planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedStage {
    /// Its name.
    #[schemars(length(max = 63))]
    pub name: String,

    /// Its clusters, in the order they are updated.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(max = 10000), inner(length(max = 63)))]
    pub clusters: Vec<String>,

    /// What stands around it, such as before-Approval or after-TimedWait 30m.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), inner(length(max = 128)))]
    pub gates: Vec<String>,
}

/// A policy as it was when the run was initialized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedPolicy {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,

    /// What it said.
    #[schemars(schema_with = "shape::any_object")]
    pub spec: Value,
}

/// Something that happened. Field order is part of the contract: the hash is taken over the
/// entry's JSON with the fields in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordEntry {
    /// Its number, from 1 over all parts of the record.
    #[schemars(range(min = 1))]
    pub n: i64,

    /// When it was written, which is before what it tells takes effect.
    #[schemars(schema_with = "shape::time")]
    pub time: Time,

    /// What happened.
    pub what: What,

    /// Who did it; left out, the hub by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,

    /// The stage it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub stage: Option<String>,

    /// The cluster it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub cluster: Option<String>,

    /// The gate it is about, such as before-Approval or after-TimedWait, or the check, such as
    /// production/errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub gate: Option<String>,

    /// Why, as a code: the cause of flagship why where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub cause: Option<String>,

    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub text: Option<String>,

    /// What a check has measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,

    /// Hash of the entry before it; of the record's head for the first one.
    #[schemars(length(max = 64))]
    pub previous_hash: String,

    /// SHA-256 of everything above, in hex.
    #[schemars(length(max = 64))]
    pub hash: String,
}

/// What a check has measured, in decimal: numbers would not look the same on every server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Of the updated clusters: the worst answer, or the median where they are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub value: Option<String>,

    /// The median of the clusters that are not updated yet, where they are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub rest: Option<String>,

    /// What the value must be below of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub below: Option<String>,

    /// What the value must be above of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub above: Option<String>,
}

/// What happened.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum What {
    /// Stages, clusters and version are fixed.
    Planned,
    /// The run began.
    Started,
    /// A stage began.
    StageBegan,
    /// A cluster is about to be updated, or in the last stage to lose what was placed.
    ClusterBegan,
    /// A cluster is done.
    ClusterDone,
    /// A cluster failed.
    ClusterFailed,
    /// The run goes on without a cluster.
    ClusterSkipped,
    /// A stage is over.
    StageDone,
    /// A gate is closed: somebody must approve, or time must pass.
    GateWaits,
    /// Somebody approved.
    Approved,
    /// A timed wait is over.
    WaitOver,
    /// Somebody who may approve said no.
    Rejected,
    /// Somebody let a stage pass by the rules for emergencies.
    GlassBroken,
    /// A check was asked.
    CheckMeasured,
    /// A check has passed.
    CheckPassed,
    /// A check has failed.
    CheckFailed,
    /// A freeze holds the run.
    Frozen,
    /// No freeze holds it any more.
    Unfrozen,
    /// No window is open: nothing of the run is under way, and nothing may begin.
    WindowClosed,
    /// No window holds it any more.
    WindowOpened,
    /// A cluster takes longer than it should.
    Stuck,
    /// More clusters have failed than may.
    BudgetSpent,
    /// Somebody stopped the run.
    Stopped,
    /// Somebody let it go on.
    Resumed,
    /// The run has ended; the cause says how.
    Ended,
}

/// Somebody, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Who {
    /// A user, or where only managedFields know, the client that wrote; empty if unknown.
    #[schemars(length(max = 255))]
    pub name: String,

    /// How it is known.
    pub known: Known,
}

/// How it is known who did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Known {
    /// The API server says who sent it.
    Admission,
    /// managedFields name the client that wrote it.
    ManagedFields,
    /// Whoever sent it says so, and nobody has checked it.
    Said,
    /// Nothing tells.
    Unknown,
}

kind! {
    /// What happened in a ClusterStagedUpdateRun: its plan, its policies and a chain of entries.
    pub struct ClusterRolloutRecord {
        /// The run, its plan, and what happened.
        spec: required RolloutRecordSpec,
    }
    group: flagship, version: "v1alpha1", scope: Cluster,
    plural: "clusterrolloutrecords", short: ["crrec"], status_subresource: false,
    versions: [Version::named("v1alpha1").columns(COLUMNS)],
    rules: &[],
}

kind! {
    /// What happened in a StagedUpdateRun: its plan, its policies and a chain of entries.
    pub struct RolloutRecord {
        /// The run, its plan, and what happened.
        spec: required RolloutRecordSpec,
    }
    group: flagship, version: "v1alpha1", scope: Namespaced,
    plural: "rolloutrecords", short: ["rrec"], status_subresource: false,
    versions: [Version::named("v1alpha1").columns(COLUMNS)],
    rules: &[],
}

const COLUMNS: &[Column] = &[
    Column::text("Run", ".spec.run.name"),
    Column::text("Placement", ".spec.plan.placement"),
    Column::text("Snapshot", ".spec.plan.snapshot"),
    Column::text("Entries", ".spec.entries[-1:].n"),
    Column::text("Last", ".spec.entries[-1:].what"),
    Column::AGE,
];
