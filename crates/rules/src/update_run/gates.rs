//! What must happen before and after a stage: somebody approves, time passes.
//!
//! An approval counts when it is about the request's own generation and the request was
//! made for this very run, which only its UID on the request tells: whoever may create
//! requests can have any name and any second. Once accepted it cannot be taken back.

use std::collections::BTreeMap;

use flagship_api::approval::ApprovalRequestSpec;
use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation, draft};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};
use flagship_api::condition_type::stage_task;
use flagship_api::keys::{label, own};
use flagship_api::names::StageSide;
use flagship_api::reason::update_run::approval::{ACCEPTED, COUNTED};
use flagship_api::staged_update::{StageConfig, StageTaskType};
use flagship_api::staged_update_status::{StageTaskStatus, StageUpdatingStatus};
use flagship_base::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::counted;
use super::lifecycle::{done_dates, is_passed, wait_over};
use super::messages::Failure;
use super::metrics::Measured;
use super::observed::{Approval, Run};
use super::plan_builder::PlanBuilder;
use super::reconcile::{Action, Waiting};
use crate::event::Event;

/// How often the clock is looked at while a wait runs.
pub const CLOCK_POLL: SignedDuration = SignedDuration::from_secs(30);

/// An open approval is looked at this often without a cause.
pub const STAGE_POLL: SignedDuration = SignedDuration::from_secs(60);
/// A request that an earlier run left behind is looked for again after this.
pub const DISMISSED_POLL: SignedDuration = SignedDuration::from_secs(5);

/// Event: an approval that is not about the request's generation.
pub const WRONG_GENERATION: &str = "ApprovalOfAnotherGeneration";
/// Event: a request of the right name that was not made for this run.
pub const FOREIGN_REQUEST: &str = "ApprovalRequestOfAnotherRun";
/// Event: somebody takes back an approval that the run has acted on.
pub const WITHDRAWN_TOO_LATE: &str = "ApprovalWithdrawnTooLate";

/// An approval request to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateApprovalRequest {
    /// Its name.
    pub name: String,
    /// The stage it gates.
    pub stage: String,
    /// Label `taskType`.
    pub task_type: String,
}

impl CreateApprovalRequest {
    /// Metadata of the object to create.
    pub fn metadata(&self, run: &Run) -> ObjectMeta {
        let labels = [
            (label::TARGET_UPDATING_STAGE, self.stage.as_str()),
            (label::TARGET_UPDATE_RUN, &run.name),
            (label::TASK_TYPE, &self.task_type),
            (label::IS_LATEST_APPROVAL, "true"),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let made_for = (own::UPDATE_RUN_UID.to_owned(), run.uid.clone());
        let policed = run.adopted.as_ref().filter(|one| one.approvals(&self.stage).is_some());
        let plan = policed.map(|adopted| (own::PLAN_HASH.to_owned(), adopted.plan.clone()));
        ObjectMeta {
            name: Some(self.name.clone()),
            namespace: run.namespace.clone(),
            labels: Some(BTreeMap::from(labels)),
            annotations: Some([made_for].into_iter().chain(plan).collect()),
            ..ObjectMeta::default()
        }
    }

    /// Spec of the object to create.
    pub fn spec(&self, run: &Run) -> ApprovalRequestSpec {
        ApprovalRequestSpec {
            parent_stage_rollout: run.name.clone(),
            target_stage: self.stage.clone(),
        }
    }
}

/// An approval to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptApproval {
    /// The request.
    pub request: String,
    /// It must still be this object.
    pub uid: String,
    /// It must still be this version.
    pub resource_version: String,
    /// Its generation.
    pub generation: i64,
    /// Who approved, where the hub has counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

impl AcceptApproval {
    /// Sets the condition.
    pub fn answer(&self, conditions: &mut Vec<Condition>, now: Timestamp) {
        if let Some(said) = &self.said {
            let counted = draft(APPROVED).is_true(COUNTED).because(said.as_str());
            counted.set_afresh(conditions, Generation(self.generation), now);
        }
        let draft = draft(APPROVAL_ACCEPTED).is_true(ACCEPTED);
        let draft = draft.because("The approval request has been approved and cannot be reverted");
        draft.set(conditions, Generation(self.generation), now);
    }
}

/// An approval request to delete, if it is still this very version of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteForeignRequest {
    /// The request.
    pub request: String,
    /// Precondition.
    pub uid: String,
    /// Precondition.
    pub resource_version: String,
}

/// Whether the stage may begin.
pub fn before(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
) -> Result<bool, Failure> {
    let name = stage.stage_name.clone();
    let mut open = true;
    for task in &mut stage.before_stage_task_status {
        if task.r#type != StageTaskType::Approval {
            return Err(Failure::abort_unexpected(format!(
                "found unsupported task type in before stage tasks: {:?}",
                task.r#type
            )));
        }
        open &= approved(pass, &name, StageSide::Before, task)?;
    }
    Ok(open)
}

/// Whether the stage, whose clusters are all updated, may end.
pub fn after(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
    config: &StageConfig,
) -> Result<bool, Failure> {
    let name = stage.stage_name.clone();
    let (ahead, now) = (&pass.seen.dates_ahead, pass.seen.now);
    let since = done_dates(stage).map(|date| ahead.counted_from(date, now)).max().unwrap_or(now);
    let mut open = true;
    for (at, task) in stage.after_stage_task_status.iter_mut().enumerate() {
        open &= match task.r#type {
            StageTaskType::Approval => approved(pass, &name, StageSide::After, task)?,
            StageTaskType::TimedWait => {
                let wait = config.after_stage_tasks.get(at).and_then(|t| t.wait_time.as_deref());
                elapsed(pass, &name, task, since, wait.unwrap_or_default())?
            }
        };
    }
    Ok(open)
}

fn elapsed(
    pass: &mut PlanBuilder<'_>,
    stage: &str,
    task: &mut StageTaskStatus,
    since: Timestamp,
    wait: &str,
) -> Result<bool, Failure> {
    if is_passed(task) {
        return Ok(true);
    }
    let wait: GoDuration =
        wait.parse().map_err(|error| Failure::abort_unexpected(format!("{error}")))?;
    let until = wait_over(since, wait);
    if pass.seen.now >= until {
        pass.writer.wait_elapsed(task);
        return Ok(true);
    }
    pass.wait(Waiting::Timer { stage: stage.to_owned(), until });
    // Timers do not notice when the clock is set; the next look does.
    pass.wake_in(until.duration_since(pass.seen.now).min(CLOCK_POLL));
    Ok(false)
}

fn approved(
    pass: &mut PlanBuilder<'_>,
    stage: &str,
    side: StageSide,
    task: &mut StageTaskStatus,
) -> Result<bool, Failure> {
    if is_passed(task) {
        return Ok(true);
    }
    let name = task.approval_request_name.clone();
    let Some(request) = pass.seen.approvals.iter().find(|request| request.name == name) else {
        let (stage, task_type) = (stage.to_owned(), side.label().to_owned());
        pass.wait(Waiting::approval(&stage, &name, side, None));
        match counted::nobody_yet(pass.seen, &stage) {
            Some(told) => pass.writer.request_counted(task, &told),
            None => pass.writer.request_created(task),
        }
        pass.first(Action::CreateApprovalRequest(CreateApprovalRequest { name, stage, task_type }));
        return Ok(false);
    };
    is_about(&pass.seen.run, stage, request)?;
    if let Some(why) = foreign(&pass.seen.run, request) {
        pass.first(Action::DeleteForeignRequest(DeleteForeignRequest {
            request: name.clone(),
            uid: request.uid.clone(),
            resource_version: request.resource_version.clone(),
        }));
        // An end that was accepted wakes nobody, and a finalizer may put it off.
        pass.wake_in(DISMISSED_POLL);
        pass.tell_on_request(&name, Event::warning(FOREIGN_REQUEST, why.clone()));
        pass.wait(Waiting::approval(stage, &name, side, Some(why)));
        return Ok(false);
    }
    if let Some(tally) = counted::tally(pass.seen, stage, request) {
        return counted::settle(pass, &tally, request, side, task);
    }
    pass.writer.request_created(task);
    if request.plan.is_some() {
        // It was made under a policy that the run no longer says it follows.
        let why = format!(
            "approval request {name} was made under a rollout policy, which somebody has taken from the annotations of the update run; create the run again"
        );
        pass.wait(Waiting::approval(stage, &name, side, Some(why)));
        return Ok(false);
    }
    let at = Generation(request.generation);
    let accepted = request.conditions.is_true_at(APPROVAL_ACCEPTED, at);
    if !accepted && !request.conditions.is_true_at(APPROVED, at) {
        let refused = misdirected(request);
        if let Some(why) = &refused {
            pass.tell_on_request(&name, Event::warning(WRONG_GENERATION, why.clone()));
        }
        pass.wait(Waiting::approval(stage, &name, side, refused));
        return Ok(false);
    }
    if !accepted {
        let follows = if side == StageSide::Before { "begins" } else { "may end" };
        let message =
            format!("approval request {name} is accepted for good, stage {stage} {follows}");
        pass.tell_on_request(&name, Event::normal(ACCEPTED, message));
        pass.first(Action::AcceptApproval(AcceptApproval {
            request: name,
            uid: request.uid.clone(),
            resource_version: request.resource_version.clone(),
            generation: request.generation,
            said: None,
        }));
    }
    pass.writer.request_approved(task);
    if let Some(asked) = task.conditions.of_type(stage_task::APPROVAL_REQUEST_CREATED) {
        let seconds = pass.seen.now.duration_since(asked.last_transition_time.0).as_secs_f64();
        pass.measure(Measured::Approval { task_type: side.label().to_owned(), seconds });
    }
    Ok(true)
}

/// Tells whoever takes an approval back that it was acted on. Nothing else follows.
pub fn notice_withdrawn(pass: &mut PlanBuilder<'_>) {
    let stages = pass.status.stages_status.iter();
    let tasks = stages.flat_map(|stage| {
        let tasks = stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status);
        tasks.map(move |task| (stage, task))
    });
    let acted_on =
        tasks.filter(|(_, task)| task.r#type == StageTaskType::Approval && is_passed(task));
    let told = acted_on.filter_map(|(stage, task)| {
        let name = &task.approval_request_name;
        let request = pass.seen.approvals.iter().find(|request| request.name == *name)?;
        let at = Generation(request.generation);
        let withdrawn = request.conditions.is_true_at(APPROVAL_ACCEPTED, at)
            && !request.conditions.is_true_at(APPROVED, at);
        let stage = &stage.stage_name;
        let why = format!(
            "the approval of {name} was accepted for stage {stage} and cannot be taken back; set spec.state to Stop to hold the update run"
        );
        (withdrawn && foreign(&pass.seen.run, request).is_none()).then(|| (name.clone(), why))
    });
    for (name, why) in told.collect::<Vec<_>>() {
        pass.tell_on_request(&name, Event::warning(WITHDRAWN_TOO_LATE, why));
    }
}

fn is_about(run: &Run, stage: &str, request: &Approval) -> Result<(), Failure> {
    if request.run == run.name && request.stage == stage {
        return Ok(());
    }
    let key = |name: &str| run.beside(name).slashed();
    // The back-tick that is missing here is missing in KubeFleet.
    Err(Failure::abort_unexpected(format!(
        "the approval request task `{}` is targeting update run `{}` and stage `{}`, want target update run `{} and stage `{stage}`",
        key(&request.name),
        key(&request.run),
        request.stage,
        key(&run.name),
    )))
}

/// Why a request was not made for this run, although it bears the right name and says it is.
fn foreign(run: &Run, request: &Approval) -> Option<String> {
    let name = &request.name;
    is_foreign(run, request).then(|| match &request.run_uid {
        Some(uid) => format!(
            "approval request {name} was made for an earlier update run of this name (UID {uid}) and does not count; it is deleted and a new one is made"
        ),
        None => format!(
            "approval request {name} was not made by the hub for this update run and does not count; it is deleted and a new one is made"
        ),
    })
}

/// Whether a request names this run and was not made for it. There is one run of a name at a
/// time, so a run that the request names and that is not this one cannot live, provided this
/// one was alive after the request was read: whoever deletes it makes sure.
pub(super) fn is_foreign(run: &Run, request: &Approval) -> bool {
    request.run == run.name && request.run_uid.as_ref() != Some(&run.uid)
}

/// Why somebody's approval is none.
fn misdirected(request: &Approval) -> Option<String> {
    let given = request
        .conditions
        .of_type(APPROVED)
        .filter(|c| ConditionStatus::of(c) == ConditionStatus::True)?;
    Some(format!(
        "approval request {} is approved for generation {} and has generation {}; approve it with observedGeneration {}",
        request.name,
        given.observed_generation.unwrap_or(0),
        request.generation,
        request.generation
    ))
}
