//! A run as it was at some moment, from its record: the status it had then, as far as a board
//! shows it.

use flagship_api::condition::{Condition, Conditions, Generation};
use flagship_api::condition_type::update_run::PROGRESSING;
use flagship_api::names::{DELETION_STAGE, StageSide, approval_request};
use flagship_api::reason::update_run as reason;
use flagship_api::rollout_record::{RecordEntry, RecordedPlan, RecordedStage, What};
use flagship_api::staged_update::{
    StageConfig, StageTask, StageTaskType, UpdateRunSpec, UpdateRunState, UpdateStrategySpec,
};
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageTaskStatus, StageUpdatingStatus, UpdateRunStatus,
};

use super::recorded::gate_name;
use super::status::{ConditionValue, ConditionWriter};

/// What a run wanted and said after these entries of its record.
pub fn replayed(
    run: &str,
    plan: &RecordedPlan,
    entries: &[&RecordEntry],
) -> (UpdateRunSpec, UpdateRunStatus) {
    let mut spec = UpdateRunSpec {
        placement_name: plan.placement.clone(),
        resource_snapshot_index: plan.snapshot.clone(),
        staged_rollout_strategy_name: plan.strategy.clone(),
        state: Some(UpdateRunState::Initialize),
    };
    let mut status = UpdateRunStatus::default();
    for entry in entries {
        let writer = ConditionWriter { generation: Generation(1), now: entry.time.0 };
        if entry.what == What::Planned || status.stages_status.is_empty() {
            lay_out(run, plan, &mut status);
        }
        match entry.what {
            What::Started | What::Resumed => spec.state = Some(UpdateRunState::Run),
            What::Stopped => spec.state = Some(UpdateRunState::Stop),
            _ => {}
        }
        let stopping = spec.state == Some(UpdateRunState::Stop);
        on_run(writer, entry, stopping, &mut status);
        on_stage(writer, entry, &mut status);
    }
    (spec, status)
}

/// Stages and clusters before anything has begun.
fn lay_out(run: &str, plan: &RecordedPlan, status: &mut UpdateRunStatus) {
    let untouched = |name: &String| ClusterUpdatingStatus {
        cluster_name: name.clone(),
        ..ClusterUpdatingStatus::default()
    };
    let stage = |stage: &RecordedStage| {
        let tasks = |side: StageSide, word: &str| -> Vec<StageTaskStatus> {
            let on_side = kinds(&stage.gates, word);
            let task = |(kind, _)| StageTaskStatus {
                r#type: kind,
                approval_request_name: match kind {
                    StageTaskType::Approval => approval_request(run, side, &stage.name),
                    StageTaskType::TimedWait => String::new(),
                },
                conditions: Vec::new(),
            };
            on_side.into_iter().map(task).collect()
        };
        StageUpdatingStatus {
            stage_name: stage.name.clone(),
            clusters: stage.clusters.iter().map(untouched).collect(),
            before_stage_task_status: tasks(StageSide::Before, "before"),
            after_stage_task_status: tasks(StageSide::After, "after"),
            ..StageUpdatingStatus::default()
        }
    };
    let config = |stage: &RecordedStage| {
        let tasks = |word: &str| -> Vec<StageTask> {
            let on_side = kinds(&stage.gates, word).into_iter();
            on_side.map(|(kind, wait)| StageTask { r#type: kind, wait_time: wait }).collect()
        };
        StageConfig {
            name: stage.name.clone(),
            before_stage_tasks: tasks("before"),
            after_stage_tasks: tasks("after"),
            ..StageConfig::default()
        }
    };
    status.resource_snapshot_index_used.clone_from(&plan.snapshot);
    status.stages_status = plan.stages.iter().map(stage).collect();
    status.staged_update_strategy_snapshot =
        Some(UpdateStrategySpec { stages: plan.stages.iter().map(config).collect() });
    status.deletion_stage_status = Some(StageUpdatingStatus {
        stage_name: DELETION_STAGE.to_owned(),
        clusters: plan.removes.iter().map(untouched).collect(),
        ..StageUpdatingStatus::default()
    });
}

/// Gates of one side, with their wait.
fn kinds(gates: &[String], side: &str) -> Vec<(StageTaskType, Option<String>)> {
    let all = [StageTaskType::Approval, StageTaskType::TimedWait];
    let read = gates.iter().filter_map(|gate| {
        let (name, wait) = match gate.split_once(' ') {
            Some((name, wait)) => (name, Some(wait.to_owned())),
            None => (gate.as_str(), None),
        };
        let kind = all.into_iter().find(|kind| gate_name(side, *kind) == name)?;
        Some((kind, wait))
    });
    read.collect()
}

fn on_run(
    writer: ConditionWriter,
    entry: &RecordEntry,
    stopping: bool,
    status: &mut UpdateRunStatus,
) {
    let text = entry.text.as_deref().unwrap_or_default();
    match entry.what {
        What::Planned => writer.initialized(status),
        What::Frozen => writer.progress(status, &ConditionValue::Frozen(text.to_owned())),
        What::Stopped => {
            let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
            let mut clusters = stages.flat_map(|stage| &stage.clusters);
            let moving = clusters.any(super::lifecycle::in_flight);
            let value = if moving { ConditionValue::Stopping } else { ConditionValue::Stopped };
            writer.progress(status, &value);
        }
        What::GateWaits => {
            let stage = entry.stage.clone().unwrap_or_default();
            let before = entry.gate.as_deref().is_some_and(|gate| gate.starts_with("before"));
            let side = if before { StageSide::Before } else { StageSide::After };
            writer.progress(status, &ConditionValue::Waiting(side, stage));
        }
        What::Ended => match entry.cause.as_deref() {
            Some(reason::SUCCEEDED) => {
                writer.progress(status, &ConditionValue::SucceededWithout(text.to_owned()));
            }
            Some(reason::INITIALIZATION_FAILED) => writer.not_initialized(status, text),
            _ => writer.failed(status, text),
        },
        What::WindowClosed => writer.progress(status, &ConditionValue::Closed(text.to_owned())),
        What::Stuck => writer.stuck(status, text),
        What::ClusterDone | What::ClusterFailed | What::ClusterSkipped if stopping => {
            finish_stopping(writer, entry, status);
        }
        What::ClusterDone | What::ClusterFailed | What::ClusterSkipped => {
            get_on(writer, status);
        }
        What::BudgetSpent
        | What::Rejected
        | What::GlassBroken
        | What::CheckMeasured
        | What::CheckPassed
        | What::CheckFailed => {}
        _ => writer.progress(status, &ConditionValue::Progressing),
    }
}

/// A run that was stuck is not any more when one of its clusters gets on, well or badly.
fn get_on(writer: ConditionWriter, status: &mut UpdateRunStatus) {
    if told(status).is_some_and(|told| told.reason == reason::STUCK) {
        writer.progress(status, &ConditionValue::Progressing);
    }
}

/// A run that was stopped while clusters were under way has stopped with the last of them.
fn finish_stopping(writer: ConditionWriter, entry: &RecordEntry, status: &mut UpdateRunStatus) {
    let finishes = [reason::STOPPING, reason::STUCK];
    if told(status).is_none_or(|told| !finishes.contains(&told.reason.as_str())) {
        return;
    }
    let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
    let mut flying =
        stages.flat_map(|stage| &stage.clusters).filter(|c| super::lifecycle::in_flight(c));
    let last = flying.all(|c| Some(&c.cluster_name) == entry.cluster.as_ref());
    let value = if last { ConditionValue::Stopped } else { ConditionValue::Stopping };
    writer.progress(status, &value);
}

fn told(status: &UpdateRunStatus) -> Option<&Condition> {
    status.conditions.of_type(PROGRESSING)
}

fn on_stage(writer: ConditionWriter, entry: &RecordEntry, status: &mut UpdateRunStatus) {
    let Some(name) = &entry.stage else { return };
    let mut stages = status.stages_status.iter_mut().chain(status.deletion_stage_status.as_mut());
    let Some(stage) = stages.find(|stage| stage.stage_name == *name) else { return };
    match entry.what {
        What::StageBegan => return writer.stage_started(stage),
        What::StageDone if stage.clusters.is_empty() => return writer.stage_skipped(stage),
        What::StageDone => return writer.stage_succeeded(stage),
        _ => {}
    }
    if let Some(gate) = &entry.gate {
        return on_gate(writer, entry, gate, stage);
    }
    let mut clusters = stage.clusters.iter_mut();
    let named = clusters.find(|cluster| Some(&cluster.cluster_name) == entry.cluster.as_ref());
    let Some(cluster) = named else { return };
    let text = entry.text.as_deref().unwrap_or_default();
    match entry.what {
        What::ClusterBegan => writer.cluster_started(cluster),
        What::ClusterDone => writer.cluster_succeeded(cluster),
        What::ClusterFailed => writer.cluster_failed(cluster, text),
        What::ClusterSkipped => writer.cluster_skipped(cluster, text),
        _ => {}
    }
}

fn on_gate(
    writer: ConditionWriter,
    entry: &RecordEntry,
    gate: &str,
    stage: &mut StageUpdatingStatus,
) {
    let (side, word) = match gate.starts_with("before") {
        true => (StageSide::Before, "before"),
        false => (StageSide::After, "after"),
    };
    if entry.what == What::GateWaits {
        writer.stage_waits(stage, side);
    }
    let tasks = match side {
        StageSide::Before => &mut stage.before_stage_task_status,
        StageSide::After => &mut stage.after_stage_task_status,
    };
    let Some(task) = tasks.iter_mut().find(|task| gate_name(word, task.r#type) == gate) else {
        return;
    };
    match (entry.what, task.r#type) {
        (What::GateWaits, StageTaskType::Approval) => writer.request_created(task),
        (What::Approved, _) => writer.request_approved(task),
        (What::WaitOver, _) => writer.wait_elapsed(task),
        _ => {}
    }
}
