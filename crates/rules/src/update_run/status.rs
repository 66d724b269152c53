//! The conditions of runs, stages, clusters and tasks: one sentence each.
//!
//! Order of the list is order of first writing, and clients compare it: Started comes
//! before Succeeded, Progressing before Succeeded. When each is said is decided elsewhere.

use flagship_api::condition::{
    Condition, ConditionDraft, ConditionStatus, Conditions, Generation, carry_over, draft,
    wire_time,
};
use flagship_api::condition_type::{stage_task, update_run, updating_cluster};
use flagship_api::names::StageSide;
use flagship_api::reason::update_run as reason;
use flagship_api::staged_update::StageTaskType;
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageTaskStatus, StageUpdatingStatus, UpdateRunStatus,
};
use jiff::Timestamp;

use super::lifecycle::says;
use super::messages::stuck_names;

/// What a task says that somebody was asked for, where nobody counts.
pub const ASKED: &str = "ApprovalRequest object is created";

/// Makes the whole record speak about this generation, and drops waits of approvals.
pub fn refresh(status: &mut UpdateRunStatus, generation: Generation) {
    carry_over(&mut status.conditions, generation);
    for stage in status.stages_status.iter_mut().chain(status.deletion_stage_status.as_mut()) {
        carry_over(&mut stage.conditions, generation);
        for cluster in &mut stage.clusters {
            carry_over(&mut cluster.conditions, generation);
        }
        let tasks = stage.before_stage_task_status.iter_mut();
        for task in tasks.chain(&mut stage.after_stage_task_status) {
            carry_over(&mut task.conditions, generation);
        }
    }
    let stages = status.staged_update_strategy_snapshot.iter_mut().flat_map(|s| &mut s.stages);
    for stage in stages {
        let tasks = stage.before_stage_tasks.iter_mut().chain(&mut stage.after_stage_tasks);
        for task in tasks.filter(|task| task.r#type == StageTaskType::Approval) {
            task.wait_time = None;
        }
    }
}

/// What a run says that cannot be read itself, beside the conditions that it has: as long as it
/// is so, nothing of it is acted upon. One that has ended needs no word.
pub fn run_unreadable(told: &[Condition], field: &str, why: &str) -> Option<ConditionDraft> {
    let initialized = says(told, update_run::INITIALIZED);
    let ended =
        says(told, update_run::SUCCEEDED).is_some() || initialized == Some(ConditionStatus::False);
    let kind = match initialized {
        Some(ConditionStatus::True) => update_run::PROGRESSING,
        _ => update_run::INITIALIZED,
    };
    let what = match field {
        "" => "the update run itself".to_owned(),
        field => format!("field {field} of the update run"),
    };
    let text =
        format!("cannot be read: {what}: {why}; correct it, and the update run goes on by itself");
    (!ended).then(|| draft(kind).is_unknown(reason::INPUT_UNREADABLE).because(text))
}

/// Drops what was said while the run could not be read.
pub fn readable_again(status: &mut UpdateRunStatus) {
    let over = |told: &Condition| {
        told.type_ == update_run::PROGRESSING && told.reason == reason::INPUT_UNREADABLE
    };
    status.conditions.retain(|told| !over(told));
}

/// What the Progressing condition of a run says, decided once at the end of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionValue {
    /// It moves.
    Progressing,
    /// A task of this stage is open.
    Waiting(StageSide, String),
    /// These clusters of this stage take too long.
    Stuck(Vec<String>, String),
    /// Started clusters are still finishing.
    Stopping,
    /// Nothing is in flight.
    Stopped,
    /// A freeze holds it, in these words.
    Frozen(String),
    /// No window is open, in these words.
    Closed(String),
    /// Checks are not done, in these words.
    Checking(String),
    /// Somebody has changed the policies that it follows, in these words.
    PoliciesChanged(String),
    /// Everything is done.
    Succeeded,
    /// Everything is done, but for what this says.
    SucceededWithout(String),
    /// Everything was tried, and this went wrong.
    FailedAtTheEnd(String),
}

/// Writes conditions for one generation at one moment.
#[derive(Debug, Clone, Copy)]
pub struct ConditionWriter {
    /// Generation of the run.
    pub generation: Generation,
    /// The present moment.
    pub now: Timestamp,
}

impl ConditionWriter {
    fn write(self, draft: ConditionDraft, into: &mut Vec<Condition>) {
        draft.set(into, self.generation, self.now);
    }

    /// The plan of the run is fixed.
    pub fn initialized(self, status: &mut UpdateRunStatus) {
        let draft = draft(update_run::INITIALIZED).is_true(reason::INITIALIZED);
        self.write(draft.because("The UpdateRun initialized successfully"), &mut status.conditions);
    }

    /// There is no plan yet, because something it needs cannot be read.
    pub fn initialization_waits(self, status: &mut UpdateRunStatus, text: &str) {
        let draft = draft(update_run::INITIALIZED).is_unknown(reason::INPUT_UNREADABLE);
        self.write(draft.because(text), &mut status.conditions);
    }

    /// There will be no plan.
    pub fn not_initialized(self, status: &mut UpdateRunStatus, text: &str) {
        let draft = draft(update_run::INITIALIZED).is_false(reason::INITIALIZATION_FAILED);
        self.write(draft.because(text), &mut status.conditions);
    }

    /// How the run is doing.
    pub fn progress(self, status: &mut UpdateRunStatus, value: &ConditionValue) {
        let progressing = draft(update_run::PROGRESSING);
        let draft = match value {
            ConditionValue::Progressing => progressing
                .is_true(reason::PROGRESSING)
                .because("The update run is making progress"),
            ConditionValue::Waiting(side, stage) => {
                let side = match side {
                    StageSide::Before => "before",
                    StageSide::After => "after",
                };
                progressing.is_false(reason::WAITING).because(format!(
                    "The updateRun is waiting for {side}-stage tasks in stage {stage} to complete"
                ))
            }
            ConditionValue::Stuck(clusters, stage) => return self.stuck(status, &format!(
                "The updateRun is stuck waiting for {} cluster(s) in stage {stage} to finish updating, please check placement status for potential errors",
                stuck_names(clusters)
            )),
            ConditionValue::Stopping => progressing.is_unknown(reason::STOPPING).because(
                "The update run is the process of stopping, waiting for all the updating/deleting clusters to finish updating before completing the stop process",
            ),
            ConditionValue::Stopped => {
                progressing.is_false(reason::STOPPED).because("The update run has been stopped")
            }
            ConditionValue::Frozen(told) => {
                progressing.is_false(reason::FROZEN).because(told.as_str())
            }
            ConditionValue::Closed(told) => {
                progressing.is_false(reason::WINDOW_CLOSED).because(told.as_str())
            }
            ConditionValue::Checking(told) => {
                progressing.is_true(reason::CHECKING).because(told.as_str())
            }
            ConditionValue::PoliciesChanged(told) => {
                progressing.is_false(reason::POLICIES_CHANGED).because(told.as_str())
            }
            ConditionValue::Succeeded | ConditionValue::SucceededWithout(_) => {
                progressing.is_false(reason::SUCCEEDED).because("All stages are completed")
            }
            ConditionValue::FailedAtTheEnd(text) => return self.failed(status, text),
        };
        self.write(draft, &mut status.conditions);
        let said = match value {
            ConditionValue::Succeeded => "All stages are completed successfully",
            ConditionValue::SucceededWithout(said) => said,
            _ => return,
        };
        let draft = draft_succeeded(true, reason::SUCCEEDED).because(said);
        self.write(draft, &mut status.conditions);
    }

    /// Clusters take too long, in these words.
    pub fn stuck(self, status: &mut UpdateRunStatus, text: &str) {
        let draft = draft(update_run::PROGRESSING).is_false(reason::STUCK);
        self.write(draft.because(text), &mut status.conditions);
    }

    /// The run ended badly.
    pub fn failed(self, status: &mut UpdateRunStatus, text: &str) {
        let progressing = draft(update_run::PROGRESSING).is_false(reason::FAILED);
        let progressing =
            progressing.because("The stages are aborted due to a non-recoverable error");
        self.write(progressing, &mut status.conditions);
        self.write(draft_succeeded(false, reason::FAILED).because(text), &mut status.conditions);
    }

    /// A stage has clusters in flight, now or a moment ago.
    pub fn stage_started(self, stage: &mut StageUpdatingStatus) {
        self.stage_begins(stage);
        let draft = draft(update_run::PROGRESSING).is_true(reason::stage::STARTED);
        self.write(draft.because("Clusters in the stage started updating"), &mut stage.conditions);
    }

    /// A stage has had something to do.
    pub fn stage_begins(self, stage: &mut StageUpdatingStatus) {
        stage.start_time.get_or_insert_with(|| wire_time(self.now));
    }

    /// A stage waits for a task on this side.
    pub fn stage_waits(self, stage: &mut StageUpdatingStatus, side: StageSide) {
        let draft = draft(update_run::PROGRESSING).is_false(reason::stage::WAITING);
        let draft = draft.because(match side {
            StageSide::Before => "Not all before-stage tasks are completed, waiting for approval",
            StageSide::After => {
                "All clusters in the stage are updated, waiting for after-stage tasks to complete"
            }
        });
        self.write(draft, &mut stage.conditions);
    }

    /// A stage has failed its checks, and ends or goes on with the next pass.
    pub fn stage_checks_failed(self, stage: &mut StageUpdatingStatus, text: &str) {
        let draft = draft(update_run::PROGRESSING).is_false(reason::stage::CHECKS_FAILED);
        self.write(draft.because(text), &mut stage.conditions);
    }

    /// A stage is done.
    pub fn stage_succeeded(self, stage: &mut StageUpdatingStatus) {
        self.stage_ends(
            stage,
            true,
            reason::stage::SUCCEEDED,
            "All clusters in the stage are updated and after-stage tasks are completed",
            "Stage update completed successfully",
        );
    }

    /// A stage had nothing to do.
    pub fn stage_skipped(self, stage: &mut StageUpdatingStatus) {
        self.stage_begins(stage);
        let said = "Stage skipped because it has no clusters";
        self.stage_ends(stage, true, reason::stage::SKIPPED_NO_CLUSTERS, said, said);
    }

    /// A stage ended badly.
    pub fn stage_failed(self, stage: &mut StageUpdatingStatus, text: &str) {
        let said = "Stage update aborted due to a non-recoverable error";
        self.stage_ends(stage, false, reason::stage::FAILED, said, text);
    }

    fn stage_ends(
        self,
        stage: &mut StageUpdatingStatus,
        well: bool,
        reason: &'static str,
        progressing: &str,
        succeeded: &str,
    ) {
        // A clock that was put back must not turn them round.
        let start = stage.start_time.as_ref().map_or(self.now, |start| start.0);
        stage.end_time.get_or_insert_with(|| wire_time(self.now.max(start)));
        let stopped = draft(update_run::PROGRESSING).is_false(reason).because(progressing);
        self.write(stopped, &mut stage.conditions);
        self.write(draft_succeeded(well, reason).because(succeeded), &mut stage.conditions);
    }

    /// A stage stops; `in_flight` tells whether anything is still moving.
    pub fn stage_stops(self, stage: &mut StageUpdatingStatus, in_flight: bool) {
        let progressing = draft(update_run::PROGRESSING);
        let draft = if in_flight {
            progressing.is_unknown(reason::stage::STOPPING).because(
                "Waiting for all the updating clusters to finish updating before completing the stop process",
            )
        } else {
            progressing.is_false(reason::stage::STOPPED).because(
                "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed",
            )
        };
        self.write(draft, &mut stage.conditions);
    }

    /// A cluster is promised to be updated.
    pub fn cluster_started(self, cluster: &mut ClusterUpdatingStatus) {
        let draft = draft(updating_cluster::STARTED).is_true(reason::cluster::STARTED);
        self.write(draft.because("Cluster update started"), &mut cluster.conditions);
    }

    /// A cluster is updated.
    pub fn cluster_succeeded(self, cluster: &mut ClusterUpdatingStatus) {
        let draft = draft(updating_cluster::SUCCEEDED).is_true(reason::cluster::SUCCEEDED);
        let draft = draft.because("Cluster update completed successfully");
        self.not_before_its_start(cluster).write(draft, &mut cluster.conditions);
    }

    /// A cluster was lost to somebody else.
    pub fn cluster_failed(self, cluster: &mut ClusterUpdatingStatus, text: &str) {
        let draft = draft(updating_cluster::SUCCEEDED).is_false(reason::cluster::FAILED);
        self.not_before_its_start(cluster).write(draft.because(text), &mut cluster.conditions);
    }

    /// The run goes on without a cluster.
    pub fn cluster_skipped(self, cluster: &mut ClusterUpdatingStatus, text: &str) {
        let draft = draft(updating_cluster::SUCCEEDED).is_false(reason::cluster::SKIPPED);
        self.not_before_its_start(cluster).write(draft.because(text), &mut cluster.conditions);
    }

    /// Promises may bear a time that is a second ahead.
    fn not_before_its_start(self, cluster: &ClusterUpdatingStatus) -> Self {
        let started = cluster.conditions.of_type(updating_cluster::STARTED);
        let start = started.map_or(self.now, |started| started.last_transition_time.0);
        Self { now: self.now.max(start), ..self }
    }

    /// A person was asked.
    pub fn request_created(self, task: &mut StageTaskStatus) {
        let draft =
            draft(stage_task::APPROVAL_REQUEST_CREATED).is_true(reason::task::REQUEST_CREATED);
        self.write(draft.because(ASKED), &mut task.conditions);
    }

    /// People were asked, and this is how many have answered.
    pub fn request_counted(self, task: &mut StageTaskStatus, told: &str) {
        let draft =
            draft(stage_task::APPROVAL_REQUEST_CREATED).is_true(reason::task::REQUEST_CREATED);
        self.write(draft.because(told), &mut task.conditions);
    }

    /// A person said yes.
    pub fn request_approved(self, task: &mut StageTaskStatus) {
        let draft =
            draft(stage_task::APPROVAL_REQUEST_APPROVED).is_true(reason::task::REQUEST_APPROVED);
        self.write(draft.because("ApprovalRequest object is approved"), &mut task.conditions);
    }

    /// Time has passed.
    pub fn wait_elapsed(self, task: &mut StageTaskStatus) {
        let draft = draft(stage_task::WAIT_TIME_ELAPSED).is_true(reason::task::WAIT_TIME_ELAPSED);
        self.write(draft.because("Wait time elapsed"), &mut task.conditions);
    }
}

fn draft_succeeded(well: bool, reason: &'static str) -> ConditionDraft {
    let truth = if well { ConditionStatus::True } else { ConditionStatus::False };
    draft(update_run::SUCCEEDED).is(truth, reason)
}
