//! What a run may write into its own record: S3, S5, S8 and S9.

use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};
use flagship_api::condition_type::{stage_task, update_run, updating_cluster};
use flagship_api::staged_update::{StageConfig, StageTaskType};
use flagship_api::staged_update_status::{StageTaskStatus, StageUpdatingStatus, UpdateRunStatus};
use flagship_base::duration::GoDuration;
use jiff::Timestamp;

use super::super::lifecycle::{has_ended, is_skipped, is_started, outcome, says};
use super::super::observed::Observed;
use super::{Told, broken, ending};

/// Whether an approval is recorded.
pub fn is_approved(task: &StageTaskStatus) -> bool {
    says(&task.conditions, stage_task::APPROVAL_REQUEST_APPROVED) == Some(ConditionStatus::True)
}

/// Whether a wait is recorded as over.
pub fn has_elapsed(task: &StageTaskStatus) -> bool {
    says(&task.conditions, stage_task::WAIT_TIME_ELAPSED) == Some(ConditionStatus::True)
}

/// S3.
pub fn gates_hold(read: &Observed, old: &StageUpdatingStatus, new: &StageUpdatingStatus) -> Told {
    let mut told = Vec::new();
    let known = old.before_stage_task_status.iter().chain(&old.after_stage_task_status);
    let known: Vec<&StageTaskStatus> = known.collect();
    let tasks = new.before_stage_task_status.iter().chain(&new.after_stage_task_status);
    for task in tasks.filter(|task| task.r#type == StageTaskType::Approval && is_approved(task)) {
        let name = &task.approval_request_name;
        let already =
            known.iter().any(|known| known.approval_request_name == *name && is_approved(known));
        if !already && !is_given(read, name, &new.stage_name) {
            told.push(broken("S3", format!("nobody approved {name}")));
        }
    }
    let ends = says(&new.conditions, update_run::SUCCEEDED) == Some(ConditionStatus::True)
        && says(&old.conditions, update_run::SUCCEEDED).is_none();
    let is_open = |task: &StageTaskStatus| match task.r#type {
        StageTaskType::Approval => !is_approved(task),
        StageTaskType::TimedWait => !has_elapsed(task),
    };
    if ends && !new.clusters.is_empty() && new.after_stage_task_status.iter().any(is_open) {
        told.push(broken("S3", format!("{} ends with an open task", new.stage_name)));
    }
    told
}

/// Whether somebody approved a request that was made for this run and stage.
pub fn is_given(seen: &Observed, name: &str, stage: &str) -> bool {
    // Under a policy people are counted, see P3; the hub sets the conditions.
    if let Some(enough) = super::approvals::is_given(seen, name, stage) {
        return enough;
    }
    let run = &seen.run;
    seen.approvals.iter().any(|request| {
        let at = Generation(request.generation);
        let made_for_us = request.run_uid.as_ref() == Some(&run.uid);
        let given = [APPROVED, APPROVAL_ACCEPTED];
        request.name == name
            && made_for_us
            && (request.run.as_str(), request.stage.as_str()) == (run.name.as_str(), stage)
            && given.iter().any(|given| request.conditions.is_true_at(given, at))
    })
}

/// S5.
pub fn waits_are_whole(
    now: Timestamp,
    config: &StageConfig,
    old: &StageUpdatingStatus,
    new: &StageUpdatingStatus,
) -> Told {
    let done = new.clusters.iter();
    let done = done.filter_map(|c| c.conditions.of_type(updating_cluster::SUCCEEDED));
    // What is dated later than now was dated before the clock was set back, or by another clock.
    let last = done.map(|condition| condition.last_transition_time.0).filter(|date| *date <= now);
    let last = last.max();
    let mut told = Vec::new();
    for (at, task) in new.after_stage_task_status.iter().enumerate() {
        let known = old.after_stage_task_status.get(at).is_some_and(has_elapsed);
        if known || !has_elapsed(task) {
            continue;
        }
        let wait = config.after_stage_tasks.get(at).and_then(|task| task.wait_time.as_ref());
        let wait: GoDuration = wait.and_then(|text| text.parse().ok()).unwrap_or_default();
        if last.is_some_and(|last| now.duration_since(last) < wait.as_signed_duration()) {
            told.push(broken("S5", format!("{} waited too short", new.stage_name)));
        }
    }
    told
}

/// S8.
pub fn monotone(old: &UpdateRunStatus, new: &UpdateRunStatus) -> Told {
    let mut told = conditions_grow("run", &old.conditions, &new.conditions);
    if has_ended(old) && ending(old) != ending(new) {
        told.push(broken("S8", "the run changed after its end"));
    }
    if says(&old.conditions, update_run::INITIALIZED) != Some(ConditionStatus::True) {
        return told;
    }
    let names = |status: &UpdateRunStatus| -> Vec<(String, Vec<String>)> {
        let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
        let clusters = |stage: &StageUpdatingStatus| {
            stage.clusters.iter().map(|c| c.cluster_name.clone()).collect()
        };
        stages.map(|stage| (stage.stage_name.clone(), clusters(stage))).collect()
    };
    if names(old) != names(new) {
        told.push(broken("S8", "stages or clusters changed"));
        return told;
    }
    let olds = old.stages_status.iter().chain(&old.deletion_stage_status);
    let new_stages = new.stages_status.iter().chain(&new.deletion_stage_status);
    for (old, new) in olds.zip(new_stages) {
        let name = &new.stage_name;
        told.extend(conditions_grow(name, &old.conditions, &new.conditions));
        if (old.start_time.is_some() && old.start_time != new.start_time)
            || (old.end_time.is_some() && old.end_time != new.end_time)
        {
            told.push(broken("S8", format!("{name} began or ended twice")));
        }
        if let (Some(start), Some(end)) = (&new.start_time, &new.end_time)
            && start.0 > end.0
        {
            told.push(broken("S8", format!("{name} ended before it began")));
        }
        for (old, new) in old.clusters.iter().zip(&new.clusters) {
            let name = &new.cluster_name;
            told.extend(conditions_grow(name, &old.conditions, &new.conditions));
            let back = is_started(old) && !is_started(new);
            let undone = outcome(old).is_some() && outcome(old) != outcome(new);
            let begun = is_started(new) || is_skipped(new);
            if back || undone || (outcome(new).is_some() && !begun) {
                told.push(broken("S8", format!("{name} went back")));
            }
        }
    }
    told
}

fn conditions_grow(what: &str, old: &[Condition], new: &[Condition]) -> Told {
    let mut told = Vec::new();
    for condition in old {
        let kind = &condition.type_;
        let Some(now) = new.of_type(kind) else {
            told.push(broken("S8", format!("{what} lost {kind}")));
            continue;
        };
        if Generation::seen_by(now) < Generation::seen_by(condition) {
            told.push(broken("S8", format!("{what} {kind} speaks of an older generation")));
        }
        let moved = now.last_transition_time != condition.last_transition_time;
        if moved && now.status == condition.status {
            told.push(broken("S8", format!("{what} {kind} moved its time without a change")));
        }
    }
    told
}

/// S9, for the record.
pub fn frozen(old: &UpdateRunStatus, new: &UpdateRunStatus) -> Told {
    if says(&old.conditions, update_run::INITIALIZED) != Some(ConditionStatus::True) {
        return Vec::new();
    }
    let overrides = |status: &UpdateRunStatus| -> Vec<_> {
        let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
        let lists = clusters.map(|c| {
            (c.resource_override_snapshots.clone(), c.cluster_resource_override_snapshots.clone())
        });
        lists.collect()
    };
    let same = old.policy_snapshot_index_used == new.policy_snapshot_index_used
        && old.policy_observed_cluster_count == new.policy_observed_cluster_count
        && old.resource_snapshot_index_used == new.resource_snapshot_index_used
        && old.applied_strategy == new.applied_strategy
        && old.staged_update_strategy_snapshot == new.staged_update_strategy_snapshot
        && overrides(old) == overrides(new);
    if same { Vec::new() } else { vec![broken("S9", "what the run was fixed to has changed")] }
}
