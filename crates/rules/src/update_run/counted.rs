//! Gates under a rollout policy: what people said is counted, and the hub answers the request.
//!
//! A gate is open once the record says so or enough words count; what the status of a request or
//! of the run says by itself opens nothing (law P3). Who counts is `policy::approvals`.

use flagship_api::approval_decision::{ApprovalSpec, Decision, Person};
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};
use flagship_api::condition_type::stage_task;
use flagship_api::names::StageSide;
use flagship_api::reason::update_run::approval::{ACCEPTED, STAMPED};
use flagship_api::rollout_record::{RecordEntry, What};
use flagship_api::staged_update::StageTaskType;
use flagship_api::staged_update_status::{StageTaskStatus, UpdateRunStatus};

use super::gates::AcceptApproval;
use super::lifecycle::is_passed;
use super::messages::Failure;
use super::metrics::Measured;
use super::observed::{Approval, Observed};
use super::plan_builder::PlanBuilder;
use super::reconcile::{Action, Waiting};
use super::recorded::gate_name;
use crate::event::Event;
use crate::policy::approvals::{Asking, Given, Tally, Terms, Word};

/// Event: how many approvals are missing, and what does not count.
pub const COUNTED: &str = "ApprovalsCounted";
/// Event: somebody said no.
pub const REJECTED: &str = "ApprovalRejected";
/// Cause of an approval in the record that went by the rules for emergencies.
pub const BREAK_GLASS: &str = "BreakGlass";

/// How a request whose status admission has stamped names who approved.
const BY: &str = "approved by ";
/// What comes between a name and the group that permits it.
const AS: &str = " as ";
/// What comes between two groups.
const AND: &str = " and ";

/// What approvals of a stage need; `None` where no policy says.
pub fn terms<'a>(seen: &'a Observed, stage: &'a str) -> Option<Terms<'a>> {
    seen.run.adopted.as_ref()?.approvals(stage)
}

/// Whether the hub has taken note of an approval, for good.
pub fn is_accepted(request: &Approval) -> bool {
    request.conditions.is_true_at(APPROVAL_ACCEPTED, Generation(request.generation))
}

/// What admission writes into the status of a request that somebody approves there.
pub fn stamp(person: &Person, groups: &[String]) -> String {
    match groups {
        [] => format!("{BY}{}", person.user),
        groups => format!("{BY}{}{AS}{}", person.user, groups.join(AND)),
    }
}

/// How a request under a policy stands; `None` where no policy says.
pub fn tally(seen: &Observed, stage: &str, request: &Approval) -> Option<Tally> {
    let terms = terms(seen, stage)?;
    let plan = seen.run.adopted.as_ref().map_or("", |adopted| &adopted.plan);
    let asking = Asking {
        request: &request.name,
        uid: &request.uid,
        plan,
        authors: &seen.run.authors,
        verified: seen.options.approvers_are_verified,
        now: seen.now,
    };
    let stamped = stamped(&terms, request, plan);
    let words = seen.policy.words.iter().map(|word| &**word).chain(stamped.as_ref());
    Some(terms.count(words, &asking))
}

/// How a request stands that is about to be made; `None` where no policy says.
pub fn nobody_yet(seen: &Observed, stage: &str) -> Option<String> {
    let asking = Asking {
        request: "",
        uid: "",
        plan: "",
        authors: &seen.run.authors,
        verified: seen.options.approvers_are_verified,
        now: seen.now,
    };
    Some(terms(seen, stage)?.count([], &asking).told())
}

/// The word that admission has stamped into the status of a request, where one is enough.
fn stamped(terms: &Terms<'_>, request: &Approval, plan: &str) -> Option<Word> {
    let at = Generation(request.generation);
    let said = request.conditions.of_type(APPROVED).filter(|said| said.reason == STAMPED)?;
    let given = terms.one_word_is_enough() && request.conditions.is_true_at(APPROVED, at);
    let named = said.message.strip_prefix(BY).filter(|_| given)?;
    let (user, groups) = match named.rsplit_once(AS) {
        Some((user, groups)) => (user, groups.split(AND).map(str::to_owned).collect()),
        None => (named, Vec::new()),
    };
    let person = Person { user: user.to_owned(), uid: String::new(), groups };
    let spec = ApprovalSpec {
        request: request.name.clone(),
        request_uid: request.uid.clone(),
        plan_hash: plan.to_owned(),
        decision: Decision::Approve,
        reason: String::new(),
        break_glass: false,
        by: Some(person),
    };
    let at = said.last_transition_time.0;
    Some(Word { name: "the status of the request".to_owned(), at, deleting: false, spec })
}

/// Whether a gate of a stage is open, by what people said to its request.
pub fn settle(
    pass: &mut PlanBuilder<'_>,
    tally: &Tally,
    request: &Approval,
    side: StageSide,
    task: &mut StageTaskStatus,
) -> Result<bool, Failure> {
    let (name, stage) = (request.name.clone(), request.stage.clone());
    let gate = gate_name(word(side), StageTaskType::Approval);
    // Where no record is kept, what the hub has answered is all there is of what it counted.
    let vouched = match &pass.seen.record {
        Some(entries) => has_entry(entries, &stage, &gate),
        None => is_accepted(request),
    };
    if !vouched && !tally.passes() {
        if let Some(why) = &tally.stops {
            return Err(Failure::abort_user(why.clone()));
        }
        if let Some(expires) = tally.expires {
            pass.wake_in(expires.duration_since(pass.seen.now));
        }
        let told = tally.told();
        pass.writer.request_counted(task, &told);
        let about = if tally.rejected.is_some() { REJECTED } else { COUNTED };
        pass.tell_on_request(&name, Event::normal(about, told.clone()));
        pass.wait(Waiting::approval(&stage, &name, side, Some(told)));
        return Ok(false);
    }
    pass.writer.request_created(task);
    let at = Generation(request.generation);
    if !is_accepted(request) || !request.conditions.is_true_at(APPROVED, at) {
        let said = tally.approved();
        pass.tell_on_request(&name, Event::normal(ACCEPTED, said.clone()));
        pass.first(Action::AcceptApproval(AcceptApproval {
            request: name,
            uid: request.uid.clone(),
            resource_version: request.resource_version.clone(),
            generation: request.generation,
            said: tally.passes().then_some(said),
        }));
    }
    pass.writer.request_approved(task);
    if let Some(asked) = task.conditions.of_type(stage_task::APPROVAL_REQUEST_CREATED) {
        let seconds = pass.seen.now.duration_since(asked.last_transition_time.0).as_secs_f64();
        pass.measure(Measured::Approval { task_type: side.label().to_owned(), seconds });
    }
    Ok(true)
}

/// Takes out of the record of a run what says that a gate under a policy is open, where the
/// rollout record does not bear it out: whoever may write the status of runs is not who may
/// approve. Where no rollout record is kept there is nothing to hold it against.
pub fn distrust(seen: &Observed, status: &mut UpdateRunStatus) {
    let Some(entries) = &seen.record else { return };
    for stage in &mut status.stages_status {
        if terms(seen, &stage.stage_name).is_none() {
            continue;
        }
        let before = stage.before_stage_task_status.iter_mut().map(|task| ("before", task));
        let after = stage.after_stage_task_status.iter_mut().map(|task| ("after", task));
        for (side, task) in before.chain(after) {
            let gate = gate_name(side, task.r#type);
            let claims = task.r#type == StageTaskType::Approval && is_passed(task);
            if claims && !has_entry(entries, &stage.stage_name, &gate) {
                task.conditions.retain(|told| told.type_ != stage_task::APPROVAL_REQUEST_APPROVED);
            }
        }
    }
}

/// Who lets a stage of the run pass whatever freezes it.
pub fn glass(seen: &Observed, stage: &str) -> Vec<Given> {
    if terms(seen, stage).is_none_or(|terms| terms.glass().is_none()) {
        return Vec::new();
    }
    let requests = seen.approvals.iter().filter(|request| {
        request.stage == stage && request.run_uid.as_ref() == Some(&seen.run.uid)
    });
    let tallies = requests.filter_map(|request| tally(seen, stage, request));
    tallies.map(|tally| tally.glass).find(|glass| !glass.is_empty()).unwrap_or_default()
}

fn has_entry(entries: &[RecordEntry], stage: &str, gate: &str) -> bool {
    entries.iter().any(|entry| {
        entry.what == What::Approved
            && entry.stage.as_deref() == Some(stage)
            && entry.gate.as_deref() == Some(gate)
    })
}

fn word(side: StageSide) -> &'static str {
    match side {
        StageSide::Before => "before",
        StageSide::After => "after",
    }
}
