//! What the rules see: one run, and everything its placement consists of.
//!
//! Both scopes become these values at the edge; a namespaced run differs only by
//! `namespace`. Bindings, rivals and approval requests must not be older than the last
//! write of this hub: a started cluster whose binding looks foreign ends the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flagship_api::condition::Condition;
use flagship_api::names::{ObjectKey, SnapshotIndex, master_snapshot};
use flagship_api::rollout_record::{RecordEntry, RolloutRecordSpec};
use flagship_api::staged_update::{UpdateRunSpec, UpdateRunState, UpdateStrategySpec};
use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::announced::Announced;
use super::dates_ahead::DatesAhead;
use super::lifecycle::is_initialized;
use crate::model::{Binding, Cluster, Fence, PolicySnapshot, ResourceSnapshot};
pub use crate::overrides::{ClusterOverride, NamespacedOverride};
use crate::placement::selection::Selection;
use crate::placement::{PassError, Placement};
use crate::policy::approvals::Authors;
use crate::policy::{self, Adopted, Skip};
use crate::record::{Keep, Recording, chain};

/// Everything one pass over a run may look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The present moment.
    pub now: Timestamp,
    /// The run.
    pub run: Run,
    /// The placement it names, if there is one.
    pub placement: Option<Placement>,
    /// The placement's policy snapshots that are labelled latest.
    pub policy_snapshots: Vec<Arc<PolicySnapshot>>,
    /// The placement's bindings, in any order.
    pub bindings: Vec<Arc<Binding>>,
    /// The member clusters that bindings name, in any order. More do no harm.
    pub clusters: Vec<Arc<Cluster>>,
    /// The strategy the run names; only read until the run is initialized.
    pub strategy: Option<UpdateStrategySpec>,
    /// The placement's resource snapshots; only read until the run is initialized.
    pub resource_snapshots: Vec<Arc<ResourceSnapshot>>,
    /// What the placement selects now; only needed to initialize a run without an index.
    pub selection: Option<Result<Selection, PassError>>,
    /// Resource snapshot indexes that unfinished runs of the placement work with.
    pub indexes_in_runs: Vec<String>,
    /// Latest ClusterResourceOverrideSnapshots.
    pub cluster_overrides: Vec<ClusterOverride>,
    /// Latest ResourceOverrideSnapshots.
    pub overrides: Vec<NamespacedOverride>,
    /// Approval requests in the run's scope that bear its name or a name it would give.
    pub approvals: Vec<Approval>,
    /// Other runs of the same placement: those that a binding names as its last writer,
    /// finished ones included, and those under way. More do no harm.
    pub rivals: Vec<OtherRun>,
    /// Something the run depends on that is stored and cannot be read: which object, which
    /// field and why. What else was observed is worth nothing then.
    #[serde(default)]
    pub unreadable: Option<String>,
    /// Whether the resource snapshot that the run was initialized with is not there any more.
    #[serde(default)]
    pub snapshot_gone: bool,
    /// Dates in the run's record that are later than this hub's clock, and when it first saw them.
    #[serde(default)]
    pub dates_ahead: DatesAhead,
    /// Policies and freezes.
    #[serde(default)]
    pub policy: policy::Seen,
    /// The entries of the run's record; `None` where none is kept.
    #[serde(default)]
    pub record: Option<Arc<Vec<RecordEntry>>>,
    /// Choices of the operator.
    pub options: Options,
}

impl Observed {
    /// A run at a moment, and nothing around it.
    pub fn of(run: Run, now: Timestamp) -> Self {
        Self {
            now,
            run,
            placement: None,
            policy_snapshots: Vec::new(),
            bindings: Vec::new(),
            clusters: Vec::new(),
            strategy: None,
            resource_snapshots: Vec::new(),
            selection: None,
            indexes_in_runs: Vec::new(),
            cluster_overrides: Vec::new(),
            overrides: Vec::new(),
            approvals: Vec::new(),
            rivals: Vec::new(),
            unreadable: None,
            snapshot_gone: false,
            dates_ahead: DatesAhead::default(),
            policy: policy::Seen::default(),
            record: None,
            options: Options::default(),
        }
    }
}

impl Observed {
    /// As it is once entries are added to the record.
    pub fn take_down(&mut self, recording: &Recording) {
        let mut entries = self.record.as_deref().cloned().unwrap_or_default();
        let drafts = recording.drafts.iter().map(|draft| (draft.clone(), None)).collect();
        let head = RolloutRecordSpec::default();
        entries.extend(chain::sealed(&head, entries.last(), drafts, self.now));
        self.record = Some(Arc::new(entries));
    }
}

/// Choices an operator makes for the whole hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// How long a cluster may take before the run counts as stuck.
    pub stuck_after: SignedDuration,
    /// How long after its creation a run waits for the scheduler before it gives up.
    pub scheduling_grace: SignedDuration,
    /// Of which runs records are kept.
    #[serde(default)]
    pub records: Keep,
    /// Whether admission notes on freezes who sent them.
    #[serde(default)]
    pub senders_are_stamped: bool,
    /// Whether admission writes on approvals and runs who sent them, and lets nobody choose.
    #[serde(default)]
    pub approvers_are_verified: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stuck_after: SignedDuration::from_mins(5),
            scheduling_grace: SignedDuration::from_secs(5),
            records: Keep::default(),
            senders_are_stamped: false,
            approvers_are_verified: false,
        }
    }
}

/// A run of either scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its namespace; `None` for a ClusterStagedUpdateRun.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`; the status is written over this very version.
    pub resource_version: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it carries our finalizer.
    pub has_finalizer: bool,
    /// Writes it has announced in an annotation.
    pub announced: Announced,
    /// The last resource snapshot index that its hub has seen in the spec, if any. Objects do
    /// not say what was removed from them, so only a hub that was there knows.
    pub asked_index: Option<String>,
    /// The policies it follows, as they were when it was initialized.
    #[serde(default)]
    pub adopted: Option<Adopted>,
    /// Who created and started it, where admission noted that.
    #[serde(default, skip_serializing_if = "Authors::is_empty")]
    pub authors: Authors,
    /// Clusters that somebody wants to be left out.
    #[serde(default)]
    pub skips: BTreeMap<String, Skip>,
    /// The only clusters it is about; `None` for all of the placement.
    #[serde(default)]
    pub only: Option<BTreeSet<String>>,
    /// The UID of the run that it says it takes back.
    #[serde(default)]
    pub rollback_of: Option<String>,
    /// The spec as stored.
    pub spec: UpdateRunSpec,
    /// The status as stored.
    pub status: UpdateRunStatus,
}

impl Run {
    /// Whether its clusters stay those it was initialized with, whoever joins or leaves.
    pub fn keeps_its_clusters(&self) -> bool {
        self.only.is_some() || self.adopted.as_ref().is_some_and(Adopted::keeps_members)
    }

    /// What people want it to do.
    pub fn state(&self) -> UpdateRunState {
        self.spec.state.clone().unwrap_or_default()
    }

    /// Whether its stages, clusters and snapshot are fixed.
    pub fn is_initialized(&self) -> bool {
        is_initialized(&self.status)
    }

    /// Key of something in the run's scope.
    pub fn beside(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace.as_deref(), name)
    }

    /// Key of the placement it rolls out.
    pub fn placement_key(&self) -> ObjectKey {
        self.beside(&self.spec.placement_name)
    }

    /// Key of the master resource snapshot it was initialized with, if it says which.
    pub fn snapshot_key(&self) -> Option<ObjectKey> {
        let index: SnapshotIndex = self.status.resource_snapshot_index_used.parse().ok()?;
        Some(self.beside(&master_snapshot(&self.spec.placement_name, index)))
    }

    /// Key of the strategy it follows.
    pub fn strategy_key(&self) -> ObjectKey {
        self.beside(&self.spec.staged_rollout_strategy_name)
    }

    /// The mark it leaves on bindings.
    pub fn fence(&self) -> Fence {
        Fence { run: self.uid.clone(), generation: self.generation }
    }
}

/// An approval request of either scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Label `targetUpdateRun`, by which the deletion of a run sweeps.
    pub labelled: Option<String>,
    /// Annotation with the UID of the run it was made for.
    pub run_uid: Option<String>,
    /// Annotation with the hash of the plan, where a policy asks for approvals of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// `spec.parentStageRollout`.
    pub run: String,
    /// `spec.targetStage`.
    pub stage: String,
    /// What people and runs said.
    pub conditions: Vec<Condition>,
}

/// What a run reads of another run of the same placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRun {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `status.resourceSnapshotIndexUsed`.
    pub version: String,
    /// Whether it has ended, well or badly.
    pub ended: bool,
    /// Clusters of its stages that it started, and when.
    pub started: BTreeMap<String, Timestamp>,
    /// Clusters among them that it is still busy with.
    pub busy: BTreeSet<String>,
}

impl OtherRun {
    /// A run that is certainly gone, and so cannot insist on anything.
    pub fn departed(uid: &str) -> Self {
        Self {
            name: String::new(),
            uid: uid.to_owned(),
            created: Timestamp::UNIX_EPOCH,
            version: String::new(),
            ended: true,
            started: BTreeMap::new(),
            busy: BTreeSet::new(),
        }
    }
}
