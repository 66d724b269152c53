//! Facts about one run: has it ended, may it go on, what does it wait for, what would a
//! rollback go to?
//!
//! All of them are read off the stored record. The rules act on these facts; commands,
//! `why` and the board repeat them to people. Whoever reads a run's conditions for the same
//! question a second time will answer it differently one day.

use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::{approval_request, stage_task, update_run, updating_cluster};
use flagship_api::names::StageSide;
use flagship_api::reason;
use flagship_api::staged_update::{StageConfig, StageTaskType, UpdateRunSpec, UpdateRunState};
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageTaskStatus, StageUpdatingStatus, UpdateRunStatus,
};
use flagship_base::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::max_concurrency::concurrency;
use super::observed::Run;
use crate::policy::before::ByVersion;

/// What a condition of this kind says, whatever generation it is about: the record of a
/// run is carried over to every new generation.
pub fn says(conditions: &[Condition], kind: &str) -> Option<ConditionStatus> {
    conditions.of_type(kind).map(ConditionStatus::of)
}

/// Whether a cluster was promised to be updated.
pub fn is_started(cluster: &ClusterUpdatingStatus) -> bool {
    started_at(cluster).is_some()
}

/// When a cluster was promised to be updated.
pub fn started_at(cluster: &ClusterUpdatingStatus) -> Option<Timestamp> {
    let started = cluster.conditions.of_type(updating_cluster::STARTED)?;
    (ConditionStatus::of(started) == ConditionStatus::True)
        .then_some(started.last_transition_time.0)
}

/// Whether a cluster is done, well or badly.
pub fn outcome(cluster: &ClusterUpdatingStatus) -> Option<ConditionStatus> {
    says(&cluster.conditions, updating_cluster::SUCCEEDED)
        .filter(|t| *t != ConditionStatus::Unknown)
}

/// Whether a cluster is being updated right now.
pub fn in_flight(cluster: &ClusterUpdatingStatus) -> bool {
    is_started(cluster) && outcome(cluster).is_none()
}

/// Whether a cluster was updated.
pub fn is_finished(cluster: &ClusterUpdatingStatus) -> bool {
    outcome(cluster) == Some(ConditionStatus::True)
}

/// Begins the message of every cluster that a policy calls failed.
pub const FAILED_UNDER: &str = "Failed under policy ";

/// Whether the run goes on without a cluster.
pub fn is_skipped(cluster: &ClusterUpdatingStatus) -> bool {
    let told = cluster.conditions.of_type(updating_cluster::SUCCEEDED);
    told.is_some_and(|told| told.reason == reason::update_run::cluster::SKIPPED)
}

/// Whether a policy calls a cluster failed.
pub fn failed_under_policy(cluster: &ClusterUpdatingStatus) -> bool {
    let told = cluster.conditions.of_type(updating_cluster::SUCCEEDED);
    told.is_some_and(|told| {
        ConditionStatus::of(told) == ConditionStatus::False
            && told.message.starts_with(FAILED_UNDER)
    })
}

/// How far a run is with one of its clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not begun, or under way.
    Open,
    /// Updated, failed or skipped.
    Over,
}

/// How far a run is with a cluster; nothing if it is none of its stages'.
pub fn place(status: &UpdateRunStatus, cluster: &str) -> Option<Place> {
    let mut clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let found = clusters.find(|found| found.cluster_name == cluster)?;
    Some(if outcome(found).is_some() { Place::Over } else { Place::Open })
}

/// Clusters that a run has failed on, skipped or left under way.
pub fn not_updated(status: &UpdateRunStatus) -> Vec<&str> {
    let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let given_up = clusters.filter(|c| outcome(c) == Some(ConditionStatus::False) || in_flight(c));
    given_up.map(|cluster| cluster.cluster_name.as_str()).collect()
}

/// The version that a run brings; empty until it has chosen one.
pub fn version(status: &UpdateRunStatus) -> &str {
    &status.resource_snapshot_index_used
}

/// Whether nothing more is done about a cluster and the run need not end for it: updated,
/// skipped, or failed as far as a policy allows.
pub fn is_settled(cluster: &ClusterUpdatingStatus) -> bool {
    is_finished(cluster) || is_skipped(cluster) || failed_under_policy(cluster)
}

/// How a run ended. No run leaves its ending: spec.state no longer matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<'a> {
    /// Every stage is done.
    Succeeded,
    /// It was initialized and could not go on, with the condition's message.
    Failed(&'a str),
    /// Its stages could not be computed, with the condition's message.
    NotInitialized(&'a str),
}

/// How the run ended, if it has. Until then it may be stopped and resumed.
pub fn ending(status: &UpdateRunStatus) -> Option<Ending<'_>> {
    let told =
        |kind| status.conditions.of_type(kind).map(|found| (ConditionStatus::of(found), found));
    if let Some((ConditionStatus::False, found)) = told(update_run::INITIALIZED) {
        return Some(Ending::NotInitialized(&found.message));
    }
    match told(update_run::SUCCEEDED)? {
        (ConditionStatus::True, _) => Some(Ending::Succeeded),
        (ConditionStatus::False, found) => Some(Ending::Failed(&found.message)),
        (ConditionStatus::Unknown, _) => None,
    }
}

/// Whether the stages, clusters and snapshot of a run are fixed.
pub fn is_initialized(status: &UpdateRunStatus) -> bool {
    says(&status.conditions, update_run::INITIALIZED) == Some(ConditionStatus::True)
}

/// Whether a run has ended for good.
pub fn has_ended(status: &UpdateRunStatus) -> bool {
    ending(status).is_some()
}

/// Whether the API lets somebody stop the run: one that was never started it does not.
pub fn may_stop(spec: &UpdateRunSpec) -> bool {
    spec.state.clone().unwrap_or_default() != UpdateRunState::Initialize
}

/// When it ended.
pub fn ended_at(status: &UpdateRunStatus) -> Option<Timestamp> {
    let kind = match ending(status)? {
        Ending::NotInitialized(_) => update_run::INITIALIZED,
        Ending::Succeeded | Ending::Failed(_) => update_run::SUCCEEDED,
    };
    status.conditions.of_type(kind).map(|found| found.last_transition_time.0)
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Not looked at yet.
    Pending,
    /// Initialized and not started.
    Initialized,
    /// Moving.
    Running,
    /// A gate is closed.
    Waiting,
    /// A cluster takes too long.
    Stuck,
    /// Finishing what was begun.
    Stopping,
    /// Waiting to be resumed.
    Stopped,
    /// A freeze holds it.
    Frozen,
    /// No window is open.
    Closed,
    /// Checks are asked.
    Checking,
    /// Somebody has changed the policies that it follows.
    PoliciesChanged,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
}

/// Where the run stands.
pub fn phase(spec: &UpdateRunSpec, status: &UpdateRunStatus) -> Phase {
    match ending(status) {
        Some(Ending::Succeeded) => return Phase::Succeeded,
        Some(Ending::Failed(_) | Ending::NotInitialized(_)) => return Phase::Failed,
        None => {}
    }
    if !is_initialized(status) {
        return Phase::Pending;
    }
    let Some(progressing) = status.conditions.of_type(update_run::PROGRESSING) else {
        return match spec.state.clone().unwrap_or_default() {
            UpdateRunState::Initialize => Phase::Initialized,
            _ => Phase::Running,
        };
    };
    match progressing.reason.as_str() {
        reason::update_run::WAITING => Phase::Waiting,
        reason::update_run::STUCK => Phase::Stuck,
        reason::update_run::STOPPING => Phase::Stopping,
        reason::update_run::STOPPED => Phase::Stopped,
        reason::update_run::FROZEN => Phase::Frozen,
        reason::update_run::WINDOW_CLOSED => Phase::Closed,
        reason::update_run::CHECKING => Phase::Checking,
        reason::update_run::POLICIES_CHANGED => Phase::PoliciesChanged,
        _ => Phase::Running,
    }
}

/// What a run waits for between clusters.
#[derive(Clone, Copy, Debug)]
pub struct ClosedGate<'a> {
    /// The stage.
    pub stage: &'a StageUpdatingStatus,
    /// On which side of it.
    pub side: StageSide,
    /// The first approval nobody has given.
    pub approval: Option<&'a StageTaskStatus>,
    /// When the timed wait is over.
    pub until: Option<Timestamp>,
}

/// The gate the run waits at.
pub fn waits_at(status: &UpdateRunStatus) -> Option<ClosedGate<'_>> {
    let stage = status.stages_status.iter().find(|stage| {
        let progressing = stage.conditions.of_type(update_run::PROGRESSING);
        progressing.is_some_and(|found| found.reason == reason::update_run::stage::WAITING)
    })?;
    let (side, tasks) = match stage.start_time {
        None => (StageSide::Before, &stage.before_stage_task_status),
        Some(_) => (StageSide::After, &stage.after_stage_task_status),
    };
    let open = |kind| move |task: &&StageTaskStatus| task.r#type == kind && !is_passed(task);
    let until = tasks.iter().find(open(StageTaskType::TimedWait)).and_then(|_| {
        let tasks = &configured(status, &stage.stage_name)?.after_stage_tasks;
        wait_ends(stage, tasks.iter().find_map(|task| task.wait_time.as_deref())?)
    });
    Some(ClosedGate {
        stage,
        side,
        approval: tasks.iter().find(open(StageTaskType::Approval)),
        until,
    })
}

/// Whether a task of a stage is done.
pub fn is_passed(task: &StageTaskStatus) -> bool {
    let done = match task.r#type {
        StageTaskType::Approval => stage_task::APPROVAL_REQUEST_APPROVED,
        StageTaskType::TimedWait => stage_task::WAIT_TIME_ELAPSED,
    };
    says(&task.conditions, done) == Some(ConditionStatus::True)
}

/// A stage as the run's copy of the strategy has it.
pub fn configured<'a>(status: &'a UpdateRunStatus, stage: &str) -> Option<&'a StageConfig> {
    let strategy = status.staged_update_strategy_snapshot.as_ref()?;
    strategy.stages.iter().find(|configured| configured.name == stage)
}

/// How many clusters of a stage of that size are updated at once; nothing if the strategy
/// does not say so in a way that can be read.
pub fn at_once(status: &UpdateRunStatus, stage: &str, clusters: usize) -> Option<usize> {
    concurrency(configured(status, stage)?, clusters).ok()
}

/// When the last cluster of a stage was done. Never earlier than what the stage itself
/// shows, so that nobody sees a wait cut short.
pub fn clusters_done_at(stage: &StageUpdatingStatus) -> Option<Timestamp> {
    done_dates(stage).max()
}

/// The dates of which the latest is when the last cluster of a stage was done.
pub(super) fn done_dates(stage: &StageUpdatingStatus) -> impl Iterator<Item = Timestamp> {
    let stopped = stage.conditions.of_type(update_run::PROGRESSING);
    let clusters = stage.clusters.iter();
    let done = clusters.filter_map(|c| c.conditions.of_type(updating_cluster::SUCCEEDED));
    done.chain(stopped).map(|condition| condition.last_transition_time.0)
}

/// When a wait of this length after the stage is over; nothing if the length cannot be read.
pub fn wait_ends(stage: &StageUpdatingStatus, wait: &str) -> Option<Timestamp> {
    Some(wait_over(clusters_done_at(stage)?, wait.parse().ok()?))
}

/// When a wait is over that began at this recorded moment. Conditions have whole seconds, so it
/// began up to a second later than they say; no wait is shorter than it was asked to be.
pub fn wait_over(since: Timestamp, wait: GoDuration) -> Timestamp {
    let wait = wait.as_signed_duration();
    let lost = if wait.is_positive() { SignedDuration::from_secs(1) } else { SignedDuration::ZERO };
    since.saturating_add(wait.saturating_add(lost)).unwrap_or(Timestamp::MAX)
}

/// Whether the run will ask for an approval, of this stage if one is named.
pub fn will_ask(status: &UpdateRunStatus, stage: Option<&str>) -> bool {
    if has_ended(status) {
        return false;
    }
    let stages = &status.stages_status;
    let mut tasks =
        stages.iter().filter(|found| stage.is_none_or(|stage| found.stage_name == stage)).flat_map(
            |found| found.before_stage_task_status.iter().chain(&found.after_stage_task_status),
        );
    // Without stages nobody knows yet what it asks for.
    stages.is_empty()
        || tasks.any(|task| task.r#type == StageTaskType::Approval && !is_passed(task))
}

/// What somebody's approval of a request is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Nobody has approved.
    Missing,
    /// Approved for another generation of the request, which does not count.
    Stale,
    /// Approved.
    Given,
}

/// Whether a request of this generation is approved.
pub fn approval(conditions: &[Condition], generation: Generation) -> Approval {
    if conditions.is_true_at(approval_request::APPROVED, generation) {
        return Approval::Given;
    }
    match says(conditions, approval_request::APPROVED) {
        Some(ConditionStatus::True) => Approval::Stale,
        _ => Approval::Missing,
    }
}

/// Clusters by the versions that runs have brought to them.
pub fn succeeded_with(runs: impl Iterator<Item = Run>) -> ByVersion {
    let mut found = ByVersion::new();
    for run in runs {
        let clusters = run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
        let done = clusters.filter(|cluster| is_finished(cluster)).map(|c| c.cluster_name.clone());
        found.entry(version(&run.status).to_owned()).or_default().extend(done);
    }
    found.remove("");
    found
}

/// The version that a run has brought everywhere.
pub fn proven(status: &UpdateRunStatus) -> Option<&str> {
    let succeeded = ending(status) == Some(Ending::Succeeded);
    succeeded.then_some(status.resource_snapshot_index_used.as_str())
}

/// The version a rollback goes to: the last proven one that differs from what the placement
/// has now. `past` are the placement's runs, oldest first; `observed` is what a placement
/// without runs says it has.
pub fn version_before<'a>(past: &[&'a UpdateRunStatus], observed: &str) -> Option<&'a str> {
    let newest = past.last().map(|run| run.resource_snapshot_index_used.as_str());
    let now = newest.unwrap_or(observed);
    past.iter().rev().filter_map(|run| proven(run)).find(|version| *version != now)
}
