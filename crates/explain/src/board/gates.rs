//! What stands before and after a stage: approvals and waits, open or passed.

use flagship_api::condition::Conditions;
use flagship_api::condition_type::{stage_task, update_run};
use flagship_api::staged_update::StageTaskType;
use flagship_api::staged_update_status::{StageTaskStatus, StageUpdatingStatus, UpdateRunStatus};
use jiff::Timestamp;
use serde::Serialize;

use flagship_rules::update_run::lifecycle;

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
    let configured = lifecycle::configured(run, &stage.stage_name);
    let wait_of = |at: usize| {
        let task = configured.and_then(|stage| stage.after_stage_tasks.get(at));
        task.and_then(|task| task.wait_time.clone()).unwrap_or_default()
    };
    // A run that has ended waits for nothing any more.
    let open = !lifecycle::has_ended(run);
    let before = stage.before_stage_task_status.iter().map(|task| {
        let closed = stage.start_time.is_none() && asked(task) && open;
        gate(Side::Before, task, closed, String::new(), None)
    });
    let finished = is_finished(stage) && open;
    let after = stage.after_stage_task_status.iter().enumerate().map(|(at, task)| {
        let wait =
            if task.r#type == StageTaskType::TimedWait { wait_of(at) } else { String::new() };
        let end = lifecycle::wait_ends(stage, &wait).filter(|_| finished);
        let left = end.map(|end| end.duration_since(now).as_secs().max(0));
        gate(Side::After, task, finished, wait, left)
    });
    before.chain(after).collect()
}

fn gate(side: Side, task: &StageTaskStatus, closed: bool, wait: String, left: Option<i64>) -> Gate {
    let state = if lifecycle::is_passed(task) {
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

fn asked(task: &StageTaskStatus) -> bool {
    task.conditions.of_type(stage_task::APPROVAL_REQUEST_CREATED).is_some()
}

/// Whether all clusters of the stage are done.
fn is_finished(stage: &StageUpdatingStatus) -> bool {
    let progressing = stage.conditions.of_type(update_run::PROGRESSING);
    stage.start_time.is_some() && progressing.is_some_and(|found| found.status == "False")
}
