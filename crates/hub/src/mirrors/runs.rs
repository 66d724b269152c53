//! What is kept of update runs and of the approvals they wait for, in either scope.
//!
//! A run that has ended, and whose record speaks of its present generation, is kept
//! without its stages: nobody will do anything to it, and there may be thousands.

use std::sync::Arc;

use flagship_api::approval_decision::{Approval, ClusterApproval};
use flagship_api::names::ObjectKey;
use flagship_api::staged_update::UpdateRunSpec;
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::policy::approvals::Word;
use flagship_rules::update_run;
use flagship_runtime::client::Precondition;
use flagship_runtime::effects::Kind;
use flagship_runtime::reflector::{IndexId, Store};
use kube_core::Resource;

use super::Set;
use super::placements::values;
use crate::patches::finalizers_of;
use crate::scope::{Parts, Scoped};

/// What belongs to the update runs of one scope.
#[derive(Clone)]
pub(crate) struct RunMirrors {
    pub runs: Store<Run>,
    pub approvals: Store<update_run::Approval>,
    /// What people said to them.
    pub words: Store<Word>,
    by_placement: IndexId,
    by_uid: IndexId,
    by_run: IndexId,
    by_request: IndexId,
}

/// What somebody said to a request, of either scope.
pub(crate) trait Said: Kind + Send + Sync + 'static {
    fn word(&self) -> Word;
}

impl Said for ClusterApproval {
    fn word(&self) -> Word {
        Word::read(&self.metadata, &self.spec)
    }
}

impl Said for Approval {
    fn word(&self) -> Word {
        Word::read(&self.metadata, &self.spec)
    }
}

/// What is kept of an update run.
#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    pub precondition: Precondition,
    pub finalizers: Vec<String>,
    /// The placement it rolls out.
    pub placement: ObjectKey,
    /// As the rules see it; without stages once it is settled.
    pub value: update_run::Run,
    /// As other runs see it.
    pub rival: update_run::OtherRun,
}

impl RunMirrors {
    pub(super) fn new<S: Scoped>(set: &mut Set<'_>) -> Self {
        let runs = set.mirror(|object: S::UpdateRun| Run::read(&object));
        let by_placement = runs.index(|_, run: &Run| vec![run.placement.to_string()]);
        let by_uid = runs.index(|_, run| vec![run.precondition.uid.clone()]);
        let approvals = set.mirror(|object: S::ApprovalRequest| {
            Some(update_run::Approval::read(object.meta(), object.spec(), object.status()))
        });
        let by_run = approvals.index(|key, request: &update_run::Approval| {
            let run = |name: &str| ObjectKey::new(key.namespace.as_deref(), name).to_string();
            let mut runs: Vec<String> = request.labelled.iter().map(|name| run(name)).collect();
            runs.push(run(&request.run));
            runs.dedup();
            runs
        });
        let words = set.mirror(|object: S::Word| Some(object.word()));
        let by_request = words.index(|key, word: &Word| {
            vec![ObjectKey::new(key.namespace.as_deref(), &word.spec.request).to_string()]
        });
        let (runs, approvals) = (set.add(runs.optional()), set.add(approvals.optional()));
        let words = set.add(words.optional());
        Self { runs, approvals, words, by_placement, by_uid, by_run, by_request }
    }

    /// All runs of a placement.
    pub fn of(&self, placement: &ObjectKey) -> Vec<Arc<Run>> {
        values(self.runs.by(self.by_placement, &placement.to_string()))
    }

    /// The runs of a placement that have not ended.
    pub fn open(&self, placement: &ObjectKey) -> impl Iterator<Item = Arc<Run>> + use<> {
        self.of(placement).into_iter().filter(|run| !run.rival.ended)
    }

    /// Whether a run that has not ended recorded an override snapshot for a cluster.
    pub fn name_override(&self, snapshot: &ObjectKey) -> bool {
        self.runs.all().iter().filter(|(_, run)| !run.rival.ended).any(|(_, run)| {
            let stages = run.value.status.stages_status.iter();
            stages.flat_map(|stage| &stage.clusters).any(|cluster| match &snapshot.namespace {
                None => cluster.cluster_resource_override_snapshots.contains(&snapshot.name),
                Some(namespace) => cluster
                    .resource_override_snapshots
                    .iter()
                    .any(|named| named.name == snapshot.name && named.namespace == *namespace),
            })
        })
    }

    /// The run of that UID.
    pub fn with_uid(&self, uid: &str) -> Option<Arc<Run>> {
        values(self.runs.by(self.by_uid, uid)).pop()
    }

    /// What people said to a request.
    pub fn words_to(&self, request: &ObjectKey) -> Vec<Arc<Word>> {
        values(self.words.by(self.by_request, &request.to_string()))
    }

    /// Requests that name a run in their label or their spec.
    pub fn approvals_of(&self, run: &ObjectKey) -> Vec<Arc<update_run::Approval>> {
        values(self.approvals.by(self.by_run, &run.to_string()))
    }
}

impl Run {
    /// What is kept of a run of either scope.
    pub fn read<K>(object: &K) -> Option<Self>
    where
        K: Parts<Spec = UpdateRunSpec, Status = UpdateRunStatus>,
    {
        let (meta, spec) = (object.meta(), object.spec());
        let nothing = UpdateRunStatus::default();
        let status = object.status().unwrap_or(&nothing);
        let rival = update_run::OtherRun::read(meta, status);
        let mut value = update_run::Run::read(meta, spec, status);
        let current = |generation: Option<i64>| generation == Some(value.generation);
        let told = status.conditions.iter().all(|c| current(c.observed_generation));
        if rival.ended && told && !value.deleting {
            let conditions = std::mem::take(&mut value.status.conditions);
            value.status = UpdateRunStatus { conditions, ..UpdateRunStatus::default() };
        }
        Some(Self {
            precondition: Precondition::of(object)?,
            finalizers: finalizers_of(meta).to_vec(),
            placement: value.placement_key(),
            value,
            rival,
        })
    }

    /// Index of the version it works with; empty until it has chosen one.
    pub fn resource_index(&self) -> &str {
        let used = self.value.status.resource_snapshot_index_used.as_str();
        if used.is_empty() { &self.value.spec.resource_snapshot_index } else { used }
    }
}
