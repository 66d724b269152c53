//! Where a cluster's binding stands with respect to a run, and how it is moved.
//!
//! The fence on a binding names the run that wrote it last, so a started cluster whose
//! binding differs is either not touched yet (go on) or taken by somebody else (give up).
//! When two runs both promised to update a cluster, the later promise wins; both runs
//! compare the same two records, so they agree.

use std::cmp::Ordering;

use flagship_api::apply_strategy::ApplyStrategy;
use flagship_api::binding::{BindingState, ResourceBindingSpec};
use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation, draft};
use flagship_api::condition_type::binding as kind;
use flagship_api::condition_type::updating_cluster::STARTED;
use flagship_api::names::{SnapshotIndex, master_snapshot};
use flagship_api::reason::binding::ROLLOUT_STARTED;
use flagship_api::staged_update_status::{ClusterUpdatingStatus, UpdateRunStatus};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::messages::{self, Failure};
use super::observed::{Observed, OtherRun};
use crate::model::{Binding, Fence};

/// What two times differ by at least, once they are stored.
const A_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// A binding to write. `state`, snapshot, overrides and apply strategy differ from what
/// was read, everything else in the spec is the scheduler's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateBinding {
    /// The binding.
    pub binding: String,
    /// The cluster.
    pub cluster: String,
    /// It must still be this object.
    pub uid: String,
    /// It must still be this version.
    pub resource_version: String,
    /// The spec to write.
    pub spec: ResourceBindingSpec,
    /// The mark to leave in the same write.
    pub fence: Fence,
}

/// A start signal to give. Follows [`UpdateBinding`] of the same binding if there is one: then
/// version and generation are those that write returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalStart {
    /// The binding.
    pub binding: String,
    /// It must still be this object.
    pub uid: String,
    /// It must still be this version, or the one our write has made of it.
    pub resource_version: String,
    /// What the condition says.
    pub message: String,
}

impl SignalStart {
    /// Sets the condition, with a time of its own whatever was there.
    pub fn give(&self, conditions: &mut Vec<Condition>, generation: i64, now: Timestamp) {
        let draft = draft(kind::ROLLOUT_STARTED).is_true(ROLLOUT_STARTED).because(&*self.message);
        draft.set_afresh(conditions, Generation(generation), now);
    }
}

/// What a run wants its bindings to hold.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name of the master snapshot.
    pub snapshot: String,
    /// Its index.
    pub index: String,
    /// How to apply it.
    pub apply: Option<ApplyStrategy>,
}

impl Target {
    /// The recorded target of a run.
    pub fn of(seen: &Observed, status: &UpdateRunStatus) -> Result<Self, Failure> {
        let index = &status.resource_snapshot_index_used;
        let number: SnapshotIndex =
            index.parse().map_err(|error| messages::bad_index(index, error))?;
        Ok(Self {
            snapshot: master_snapshot(&seen.run.spec.placement_name, number),
            index: index.clone(),
            apply: status.applied_strategy.clone(),
        })
    }

    /// Whether a binding holds what this cluster is to get, whatever its state.
    pub fn is_on(&self, binding: &Binding, entry: &ClusterUpdatingStatus) -> bool {
        let spec = &binding.spec;
        spec.resource_snapshot_name == self.snapshot
            && spec.resource_override_snapshots == entry.resource_override_snapshots
            && spec.cluster_resource_override_snapshots == entry.cluster_resource_override_snapshots
            && spec.apply_strategy == self.apply
    }

    /// The write that makes a binding hold it.
    pub fn deliver(
        &self,
        seen: &Observed,
        to: &Binding,
        entry: &ClusterUpdatingStatus,
    ) -> UpdateBinding {
        let spec = ResourceBindingSpec {
            state: BindingState::Bound,
            resource_snapshot_name: self.snapshot.clone(),
            resource_override_snapshots: entry.resource_override_snapshots.clone(),
            cluster_resource_override_snapshots: entry.cluster_resource_override_snapshots.clone(),
            apply_strategy: self.apply.clone(),
            ..to.spec.clone()
        };
        UpdateBinding {
            binding: to.name.clone(),
            cluster: entry.cluster_name.clone(),
            uid: to.uid.clone(),
            resource_version: to.resource_version.clone(),
            spec,
            fence: seen.run.fence(),
        }
    }

    /// Whether a binding of a started cluster may have worked for this run before: it heard
    /// its start signal and was rewritten, or another run has written it. By now somebody
    /// may have called the cluster finished, so what is done to it is announced.
    pub fn may_be_late(&self, seen: &Observed, binding: &Binding, delivery: Delivery) -> bool {
        match delivery {
            Delivery::Untouched => {
                binding.fence.as_ref().is_some_and(|fence| fence.run != seen.run.uid)
            }
            Delivery::Unsignalled => {
                let ours = self.signal(seen, binding).message;
                was_signalled(binding).is_some_and(|told| told.message == ours)
            }
            _ => false,
        }
    }

    /// The start signal for a binding that holds it.
    pub fn signal(&self, seen: &Observed, to: &Binding) -> SignalStart {
        SignalStart {
            binding: to.name.clone(),
            uid: to.uid.clone(),
            resource_version: to.resource_version.clone(),
            message: format!(
                "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: {}, updateRun: {}",
                self.index, seen.run.name
            ),
        }
    }
}

/// How far a cluster is, by its binding alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Not as the run wants it.
    Untouched,
    /// As the run wants it, without a valid start signal.
    Unsignalled,
    /// On its way, or failing: nobody can tell them apart for good.
    Running,
    /// Works.
    Done,
    /// Somebody else wrote it after this run did, or promised to later than this run did.
    Taken,
}

/// Looks at a cluster's binding.
pub fn look(
    seen: &Observed,
    target: &Target,
    binding: &Binding,
    entry: &ClusterUpdatingStatus,
) -> Delivery {
    // Somebody has seen a later version of it: this one decides nothing.
    if seen.run.announced.is_ahead_of(binding) {
        return Delivery::Running;
    }
    if !target.is_on(binding, entry) || binding.spec.state != BindingState::Bound {
        let started = entry.conditions.of_type(STARTED);
        let lost = started
            .is_some_and(|started| is_taken(seen, binding, entry, started.last_transition_time.0));
        return if lost { Delivery::Taken } else { Delivery::Untouched };
    }
    let at = Generation(binding.generation);
    if !binding.status.conditions.is_true_at(kind::ROLLOUT_STARTED, at) {
        return Delivery::Unsignalled;
    }
    let works = [kind::AVAILABLE, kind::DIFF_REPORTED];
    if works.iter().any(|works| binding.status.conditions.is_true_at(works, at)) {
        return Delivery::Done;
    }
    Delivery::Running
}

/// The start signal that a binding has heard, for whatever generation.
pub fn was_signalled(binding: &Binding) -> Option<&Condition> {
    start_signal(&binding.status.conditions)
}

/// The start signal among the conditions of a binding.
pub fn start_signal(conditions: &[Condition]) -> Option<&Condition> {
    let told = conditions.of_type(kind::ROLLOUT_STARTED);
    told.filter(|told| ConditionStatus::of(told) == ConditionStatus::True)
}

fn is_taken(
    seen: &Observed,
    binding: &Binding,
    entry: &ClusterUpdatingStatus,
    started: Timestamp,
) -> bool {
    let run = &seen.run;
    let Some(fence) = &binding.fence else { return is_taken_unfenced(seen, binding, started) };
    if fence.run == run.uid {
        return true;
    }
    // A run that is gone cannot insist.
    let Some(rival) = rival(seen, &fence.run) else { return false };
    let Some(theirs) = rival.started.get(&entry.cluster_name) else { return false };
    match theirs.cmp(&started) {
        // Neither knew of the other's promise. One of two that are busy gives way, and both
        // know which; one that is done does not insist.
        Ordering::Equal => {
            rival.busy.contains(&entry.cluster_name)
                && (rival.created, &rival.uid) > (run.created, &run.uid)
        }
        later => later == Ordering::Greater,
    }
}

/// Bindings that only KubeFleet has written so far say by whom in their start signal.
fn is_taken_unfenced(seen: &Observed, binding: &Binding, started: Timestamp) -> bool {
    let Some(signal) = binding.status.conditions.of_type(kind::ROLLOUT_STARTED) else {
        return false;
    };
    let Some((_, writer)) = signal.message.rsplit_once("updateRun: ") else { return false };
    let written = signal.last_transition_time.0;
    if writer == seen.run.name { written >= seen.run.created } else { written > started }
}

/// Another run of the same placement.
pub fn rival<'a>(seen: &'a Observed, uid: &str) -> Option<&'a OtherRun> {
    seen.rivals.iter().find(|rival| rival.uid == uid)
}

/// The moment of a promise made now: later than those of others for this cluster, although
/// times are whole seconds and clocks disagree, so that everybody knows whose is the latest.
pub fn promise_time(seen: &Observed, cluster: &str) -> Timestamp {
    let others = seen.rivals.iter().filter_map(|rival| rival.started.get(cluster)).max();
    let later = others.and_then(|last| last.saturating_add(A_SECOND).ok());
    later.map_or(seen.now, |later| later.max(seen.now))
}
