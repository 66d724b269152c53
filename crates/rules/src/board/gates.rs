//! What stands before and after a stage: approvals and waits, open or passed.

use flagship_api::condition::Conditions;
use flagship_api::condition_type::{stage_task, update_run};
use flagship_api::staged_update::StageTaskType;
use flagship_api::staged_update_status::{StageTaskStatus, StageUpdatingStatus, UpdateRunStatus};
use flagship_base::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// On which side of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// Before its first cluster.
    Before,
    /// After its last.
    After,
}

/// How far a gate has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GateState {
    /// Its turn has not come.
    Ahead,
    /// It holds the run up.
    Closed,
    /// It has been passed.
    Passed,
}

/// An approval or a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// On which side of the stage.
    pub side: Side,
    /// How far it has come.
    pub state: GateState,
    /// The approval request; empty for a wait.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub approval: String,
    /// How long the wait is, as the strategy says; empty for an approval.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wait: String,
    /// Seconds of the wait that are left, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<i64>,
}

/// The gates of a stage, in the order they are met.
pub fn of(stage: &StageUpdatingStatus, run: &UpdateRunStatus, now: Timestamp) -> Vec<Gate> {
    let configured = run
        .staged_update_strategy_snapshot
        .as_ref()
        .and_then(|strategy| strategy.stages.iter().find(|found| found.name == stage.stage_name));
    let wait_of = |at: usize| {
        let task = configured.and_then(|stage| stage.after_stage_tasks.get(at));
        task.and_then(|task| task.wait_time.clone()).unwrap_or_default()
    };
    let before = stage.before_stage_task_status.iter().map(|task| {
        let closed = stage.start_time.is_none() && asked(task);
        gate(Side::Before, task, closed, String::new(), None)
    });
    let finished = finished_at(stage);
    let after = stage.after_stage_task_status.iter().enumerate().map(|(at, task)| {
        let wait =
            if task.r#type == StageTaskType::TimedWait { wait_of(at) } else { String::new() };
        let left = finished.and_then(|since| left(since, &wait, now));
        gate(Side::After, task, finished.is_some(), wait, left)
    });
    before.chain(after).collect()
}

fn gate(side: Side, task: &StageTaskStatus, closed: bool, wait: String, left: Option<i64>) -> Gate {
    let state = if passed(task) {
        GateState::Passed
    } else if closed {
        GateState::Closed
    } else {
        GateState::Ahead
    };
    Gate {
        side,
        state,
        approval: task.approval_request_name.clone(),
        wait,
        seconds_left: left.filter(|_| state == GateState::Closed),
    }
}

fn passed(task: &StageTaskStatus) -> bool {
    [stage_task::APPROVAL_REQUEST_APPROVED, stage_task::WAIT_TIME_ELAPSED]
        .iter()
        .any(|kind| task.conditions.of_type(kind).is_some_and(|found| found.status == "True"))
}

fn asked(task: &StageTaskStatus) -> bool {
    task.conditions.of_type(stage_task::APPROVAL_REQUEST_CREATED).is_some()
}

/// When all clusters of the stage were done; nothing while any is not.
fn finished_at(stage: &StageUpdatingStatus) -> Option<Timestamp> {
    let progressing = stage.conditions.of_type(update_run::PROGRESSING)?;
    let waiting = progressing.status == "False" && stage.start_time.is_some();
    waiting.then_some(progressing.last_transition_time.0)
}

fn left(since: Timestamp, wait: &str, now: Timestamp) -> Option<i64> {
    let wait: GoDuration = wait.parse().ok()?;
    let wait = SignedDuration::try_from(wait.as_std()).ok()?;
    let end = since.checked_add(wait).ok()?;
    Some(end.duration_since(now).as_secs().max(0))
}
