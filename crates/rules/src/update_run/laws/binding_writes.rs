//! Who may touch a binding, when, and with what: S2, S3, S4, S5, S7, S9 and S11.

use flagship_api::binding::ResourceBindingSpec;
use flagship_api::condition::ConditionStatus;
use flagship_api::condition_type::update_run;
use flagship_api::reason::update_run as reason;
use flagship_api::staged_update::{StageConfig, StageTaskType, UpdateRunState};
use flagship_api::staged_update_status::StageUpdatingStatus;

use super::super::delivery::Target;
use super::super::gates::{DeleteForeignRequest, is_foreign};
use super::super::lifecycle::{in_flight, says};
use super::super::observed::Observed;
use super::super::reconcile::Action;
use super::record::{has_elapsed, is_approved};
use super::{Told, broken, reason_of};
use crate::model::Binding;

/// Holds one write against the laws.
pub fn judge(before: &Observed, action: &Action) -> Told {
    let mut told = Vec::new();
    if let Action::DeleteForeignRequest(dismiss) = action {
        return dismissed(before, dismiss);
    }
    let touches = match action {
        Action::UpdateBinding(deliver) => Some(deliver.binding.as_str()),
        Action::SignalStart(signal) => Some(signal.binding.as_str()),
        Action::DeleteBinding(withdraw) => Some(withdraw.binding.as_str()),
        _ => None,
    };
    let Some(name) = touches else { return told };
    let Some(found) = before.bindings.iter().find(|binding| binding.name == name) else {
        told.push(broken("S7", format!("{name} is written and does not exist")));
        return told;
    };
    if reason_of(&before.run.status) == Some(reason::STOPPED)
        && before.run.state() == UpdateRunState::Stop
    {
        told.push(broken("S4", format!("{name} is written after the run said it stopped")));
    }
    match action {
        Action::DeleteBinding(withdraw) => {
            if (&withdraw.uid, &withdraw.resource_version) != (&found.uid, &found.resource_version)
            {
                told.push(broken("S7", format!("{name} is deleted without its version")));
            }
            told.extend(deleted_last(before, found));
        }
        Action::UpdateBinding(deliver) => {
            if found
                .fence
                .as_ref()
                .is_some_and(|fence| deliver.fence.to_api().is_behind(&fence.to_api()))
            {
                told.push(broken("S11", format!("{name} was fenced by a later generation")));
            }
            told.extend(in_turn(before, found));
            told.extend(uses_the_record(before, &deliver.spec, found.cluster()));
        }
        _ => told.extend(in_turn(before, found)),
    }
    told
}

/// S3, for a request that goes: it must be this version of one that was not made for the run.
fn dismissed(before: &Observed, dismiss: &DeleteForeignRequest) -> Told {
    let name = &dismiss.request;
    let found = before.approvals.iter().find(|request| request.name == *name);
    let is_meant = found.is_some_and(|request| {
        (&request.uid, &request.resource_version) == (&dismiss.uid, &dismiss.resource_version)
            && is_foreign(&before.run, request)
    });
    if is_meant { Vec::new() } else { vec![broken("S3", format!("{name} of a living run goes"))] }
}

/// S2, and the halves of S3 and S5 that guard the first write of a stage.
fn in_turn(before: &Observed, binding: &Binding) -> Told {
    let mut told = Vec::new();
    let (cluster, status) = (binding.cluster(), &before.run.status);
    let strategy = status.staged_update_strategy_snapshot.iter().flat_map(|s| &s.stages);
    for (config, stage) in strategy.zip(&status.stages_status) {
        let name = &stage.stage_name;
        if let Some(entry) = stage.clusters.iter().find(|entry| entry.cluster_name == cluster) {
            if !in_flight(entry) {
                told.push(broken("S1", format!("{cluster} is touched without a promise")));
            }
            if stage.before_stage_task_status.iter().any(|task| !is_approved(task)) {
                told.push(broken("S3", format!("{cluster} of {name} before the approval")));
            }
            return told;
        }
        if says(&stage.conditions, update_run::SUCCEEDED) != Some(ConditionStatus::True) {
            told.push(broken("S2", format!("{cluster} while {name} is not done")));
        }
        if !has_waited(config, stage) {
            told.push(broken("S5", format!("{cluster} while {name} has to wait")));
        }
    }
    told.push(broken("S2", format!("{cluster} belongs to no stage")));
    told
}

/// Whether the waits after a stage are recorded as over. Their length is asked about when that is
/// recorded, by the clock of the hub that records it: the next hub's may be behind. A stage
/// without clusters is left out with its waits.
fn has_waited(config: &StageConfig, stage: &StageUpdatingStatus) -> bool {
    let mut tasks = config.after_stage_tasks.iter().enumerate();
    stage.clusters.is_empty()
        || tasks.all(|(at, task)| {
            task.r#type != StageTaskType::TimedWait
                || stage.after_stage_task_status.get(at).is_some_and(has_elapsed)
        })
}

/// S7.
fn deleted_last(before: &Observed, binding: &Binding) -> Told {
    let (status, cluster) = (&before.run.status, binding.cluster());
    let mut told = Vec::new();
    let done = |stage: &StageUpdatingStatus| {
        says(&stage.conditions, update_run::SUCCEEDED) == Some(ConditionStatus::True)
    };
    if !status.stages_status.iter().all(done) {
        told.push(broken("S7", format!("{cluster} is swept before every stage is done")));
    }
    let listed = status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters);
    if !listed.into_iter().any(|entry| entry.cluster_name == cluster && in_flight(entry)) {
        told.push(broken("S7", format!("{cluster} is swept and was not promised")));
    }
    if !binding.is_unscheduled() {
        told.push(broken("S7", format!("{cluster} is swept and was chosen again")));
    }
    told
}

/// S9, for a write.
fn uses_the_record(before: &Observed, spec: &ResourceBindingSpec, cluster: &str) -> Told {
    let status = &before.run.status;
    let stages = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let entry = stages.into_iter().find(|entry| entry.cluster_name == cluster);
    let same = Target::of(before, status).is_ok_and(|target| {
        entry.is_some_and(|entry| {
            spec.resource_snapshot_name == target.snapshot
                && spec.apply_strategy == target.apply
                && spec.resource_override_snapshots == entry.resource_override_snapshots
                && spec.cluster_resource_override_snapshots
                    == entry.cluster_resource_override_snapshots
        })
    });
    if same { Vec::new() } else { vec![broken("S9", format!("{cluster} gets something else"))] }
}
