//! One pass over one run: what to write, in which order, and when to look again.
//!
//! Everything follows from what is stored, never from why we woke: restart, failover and
//! an ordinary event are one path. The order of writes is the promise of `laws`: requests
//! and their acceptance, then the run's own record, then bindings. What an earlier record
//! promised is announced before it is done, see `announced`. Entries of the rollout record
//! come before bindings, too, and where nothing is lost go side by side with the status.

use flagship_api::condition::{ConditionStatus, Generation};
use flagship_api::condition_type::update_run::{INITIALIZED, PROGRESSING};
use flagship_api::names::StageSide;
use flagship_api::reason::event;
use flagship_api::staged_update::UpdateRunState;
use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::announced::Announced;
use super::delivery::{SignalStart, UpdateBinding};
use super::events::events;
use super::execution::CLUSTER_POLL;
use super::gates::{AcceptApproval, CreateApprovalRequest, DeleteForeignRequest};
use super::lifecycle::{has_ended, says};
use super::messages::Failure;
use super::metrics::{Measured, Series, series};
use super::observed::Observed;
use super::plan_builder::PlanBuilder;
use super::status::{ConditionValue, ConditionWriter, readable_again, refresh};
use super::trusted::vouch;
use super::undoing::CreateRollback;
use super::{
    counted, execution, gates, initialization, messages, policed, recorded, stop, validation,
};
use crate::event::Event;
use crate::placement::PassError;
use crate::placement::resource_snapshots::ResourceAction;
use crate::policy::Adopted;
use crate::policy::checks::Ask;
use crate::policy::quarantine::Quarantine;
use crate::record::Recording;

/// Event: a run failed, and the placement has other clusters than when it began.
pub const CLUSTERS_CHANGED: &str = "ClustersChanged";

/// Event: a run that has begun is no longer asked to do anything.
pub const STATE_LOST: &str = "UpdateRunStateLost";

/// What one pass decided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Writes, in order. Whoever carries them out stops at the first that is refused and
    /// starts over with what is stored then.
    pub actions: Vec<Action>,
    /// Why nothing more is done.
    pub waiting: Vec<Waiting>,
    /// When to look again even if nothing happens.
    pub wake: Option<SignedDuration>,
    /// What to tell people about the run once the writes are done. Some of it is true for
    /// a while and said on every pass; the recorder drops repetitions.
    pub events: Vec<Event>,
    /// The same about approval requests, by name.
    pub on_requests: Vec<(String, Event)>,
    /// What stopped the pass before anything was decided. Retry with backoff.
    pub trouble: Option<PassError>,
    /// What the status metric says; `None` drops the run's series.
    pub series: Option<Series>,
    /// What the histograms are told once the writes are done.
    pub measured: Vec<Measured>,
    /// Checks to ask from now on, and no others.
    #[serde(default)]
    pub asks: Vec<Ask>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Put our finalizer on the run, and nothing else: the rest of the object is not ours.
    AddFinalizer,
    /// Something about resource snapshots.
    Resources(ResourceAction),
    /// Add entries to the run's record, over the version of it that was read.
    Record(Box<Recording>),
    /// Note with the run which policies it follows, over the version of it that was read.
    Adopt(Adopted),
    /// Note on the snapshot that the run brings that its content must not be rolled out.
    Quarantine(Quarantine),
    /// Create the run that takes this one back.
    CreateRollback(Box<CreateRollback>),
    /// Create an approval request.
    CreateApprovalRequest(CreateApprovalRequest),
    /// Answer an approval, for good.
    AcceptApproval(AcceptApproval),
    /// Delete an approval request that an earlier run of the same name has left behind.
    DeleteForeignRequest(DeleteForeignRequest),
    /// Say in the run's annotation which bindings are written again, over the version of
    /// the run that was read.
    AnnounceWrites(Announced),
    /// Write the run's status over the version that was read.
    Status(Box<UpdateRunStatus>),
    /// Write a binding's spec.
    UpdateBinding(Box<UpdateBinding>),
    /// Give the start signal in a binding's status.
    SignalStart(SignalStart),
    /// Delete a binding.
    DeleteBinding(DeleteBinding),
    /// Delete every approval request that is labelled with the run's name.
    DeleteApprovalRequests,
    /// Take our finalizer off the run.
    RemoveFinalizer,
}

impl Action {
    /// Whether it is done to a binding.
    pub fn is_on_binding(&self) -> bool {
        matches!(self, Self::UpdateBinding(_) | Self::SignalStart(_) | Self::DeleteBinding(_))
    }

    /// Whether it is written over the version of the run that was read.
    pub fn is_on_run(&self) -> bool {
        matches!(self, Self::Status(_) | Self::Adopt(_) | Self::AnnounceWrites(_))
    }
}

/// The place of entries that may be stored side by side with the write that follows them, if
/// there are such: a write to the run touches no cluster, and whatever dies between the two
/// leaves what the next pass makes good.
pub fn entries_beside(actions: &[Action]) -> Option<usize> {
    actions.windows(2).position(|pair| match pair {
        [Action::Record(recording), Action::Status(_)] => recording.follows_from_status(),
        [Action::Record(_), next] => next.is_on_run(),
        _ => false,
    })
}

/// The writes of a plan in rounds: those of a round go side by side, and a round begins when
/// everything of the one before is stored. What is done to bindings is one round, the last.
pub fn rounds(actions: Vec<Action>) -> Vec<Vec<Action>> {
    let beside = entries_beside(&actions);
    let mut rounds: Vec<Vec<Action>> = Vec::new();
    for (at, action) in actions.into_iter().enumerate() {
        let joins = match rounds.last().and_then(|round| round.last()) {
            Some(last) if action.is_on_binding() => last.is_on_binding(),
            Some(_) => beside.is_some_and(|beside| at == beside + 1),
            None => false,
        };
        match rounds.last_mut().filter(|_| joins) {
            Some(round) => round.push(action),
            None => rounds.push(vec![action]),
        }
    }
    rounds
}

/// A binding to delete, if it is still this very version of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteBinding {
    /// The binding.
    pub binding: String,
    /// Precondition.
    pub uid: String,
    /// Precondition.
    pub resource_version: String,
}

/// Why nothing more is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// The scheduler is not done.
    Scheduling {
        /// What is said if it stays so.
        why: String,
    },
    /// Somebody must correct what cannot be read.
    Readable {
        /// Which object, which field, and why.
        what: String,
    },
    /// Somebody must set the state to Run.
    Start,
    /// A person must approve.
    Approval {
        /// The stage.
        stage: String,
        /// Where to say it.
        request: String,
        /// Whether the stage has begun.
        before: bool,
        /// Why what is there does not count.
        refused: Option<String>,
    },
    /// Time must pass.
    Timer {
        /// The stage.
        stage: String,
        /// Until then.
        until: Timestamp,
    },
    /// Clusters are being updated.
    Updating {
        /// The stage.
        stage: String,
        /// The clusters.
        clusters: Vec<String>,
    },
    /// Clusters take too long.
    Stuck {
        /// The stage.
        stage: String,
        /// The clusters.
        clusters: Vec<String>,
    },
    /// Bindings are going.
    Deleting {
        /// Their clusters.
        clusters: Vec<String>,
    },
    /// Somebody must set the state to Run again.
    Resume,
    /// Somebody must put the policies back that it follows.
    Policies {
        /// What was changed.
        why: String,
    },
    /// A window must open.
    Closed {
        /// The stage.
        stage: String,
        /// When it does, if anybody knows.
        opens: Option<Timestamp>,
    },
    /// Checks must pass.
    Checking {
        /// The stage.
        stage: String,
        /// Where each stands, in words.
        checks: Vec<String>,
    },
    /// A freeze must be lifted or end.
    Frozen {
        /// The stage.
        stage: String,
        /// The freeze.
        freeze: String,
    },
}

impl Waiting {
    /// Whether a person must approve, and on which side of the stage.
    pub fn approval(stage: &str, request: &str, side: StageSide, refused: Option<String>) -> Self {
        let (stage, request) = (stage.to_owned(), request.to_owned());
        Self::Approval { stage, request, before: side == StageSide::Before, refused }
    }
}

/// Decides one pass.
pub fn plan(seen: &Observed) -> Plan {
    let run = &seen.run;
    if run.deleting {
        return clean_up(seen);
    }
    if !run.has_finalizer {
        let wake = Some(SignedDuration::ZERO);
        return Plan { actions: vec![Action::AddFinalizer], wake, ..Plan::default() };
    }
    if let Some(trouble) = outrun(seen) {
        let series = series(run, &run.status.conditions);
        return Plan { trouble: Some(trouble), series, ..Plan::default() };
    }
    let mut status = run.status.clone();
    refresh(&mut status, Generation(run.generation));
    readable_again(&mut status);
    if let Some(what) = &seen.unreadable {
        return wait_until_readable(seen, status, what);
    }
    match says(&status.conditions, INITIALIZED) {
        Some(ConditionStatus::True | ConditionStatus::False) if has_ended(&status) => {
            settled(seen, status)
        }
        Some(ConditionStatus::True) => go_on(seen, status),
        _ => initialize(seen),
    }
}

fn writer(seen: &Observed) -> ConditionWriter {
    ConditionWriter { generation: Generation(seen.run.generation), now: seen.now }
}

/// Requests first, then the finalizer: nothing of the run outlives it. Bindings stay as
/// they are.
fn clean_up(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    if seen.run.has_finalizer {
        plan.actions = vec![Action::DeleteApprovalRequests, Action::RemoveFinalizer];
    }
    plan
}

/// Whether a hub that has read a later generation of the run was here before.
fn outrun(seen: &Observed) -> Option<PassError> {
    let fence = seen.run.fence().to_api();
    let found = seen.bindings.iter().find(|binding| {
        binding.fence.as_ref().is_some_and(|found| fence.is_behind(&found.to_api()))
    })?;
    Some(PassError::Expected(format!(
        "binding {} was written for a later generation of the update run than the one read",
        found.name
    )))
}

/// What cannot be read is not absent: nothing is decided until it can be read, and the run
/// says what it waits for. A run that was initialized keeps its record.
fn wait_until_readable(seen: &Observed, mut status: UpdateRunStatus, what: &str) -> Plan {
    let text = format!("cannot be read: {what}; correct it, and the update run goes on by itself");
    let waiting = vec![Waiting::Readable { what: what.to_owned() }];
    let mut plan = Plan { waiting, wake: Some(CLUSTER_POLL), ..Plan::default() };
    if seen.run.is_initialized() {
        plan.events.push(Event::warning(event::MALFORMED_OBJECT, &text));
    } else {
        writer(seen).initialization_waits(&mut status, &text);
    }
    conclude(seen, status, plan)
}

fn initialize(seen: &Observed) -> Plan {
    let mut found = initialization::initialize(seen);
    let mut plan = Plan::default();
    let text = match found.failure {
        None => None,
        Some(Failure::Final(text)) => Some(text),
        Some(Failure::Early(text)) => {
            let end = seen.run.created.saturating_add(seen.options.scheduling_grace);
            let left = end.map_or(SignedDuration::ZERO, |end| end.duration_since(seen.now));
            if left > SignedDuration::ZERO {
                // A clock that is behind must not stretch the grace.
                plan.wake = Some(left.min(seen.options.scheduling_grace));
                plan.waiting.push(Waiting::Scheduling { why: text });
                plan.series = series(&seen.run, &seen.run.status.conditions);
                return plan;
            }
            Some(text)
        }
        Some(Failure::Passing(trouble)) => {
            plan.trouble = Some(trouble);
            plan.series = series(&seen.run, &seen.run.status.conditions);
            return plan;
        }
    };
    plan.actions.extend(found.actions.into_iter().map(Action::Resources));
    if text.is_none() && found.adopted.asks_for_approvals() {
        found.adopted.plan = recorded::hash(seen, &found.status, &found.adopted);
    }
    let followed = found.adopted.clone();
    // Whatever stands there was not written by a hub that initialized the run.
    if text.is_none() && seen.run.adopted.clone().unwrap_or_default() != found.adopted {
        plan.actions.push(Action::Adopt(found.adopted));
    }
    match text {
        None => {
            writer(seen).initialized(&mut found.status);
            vouch(&mut found.status, &followed, None, Generation(seen.run.generation), seen.now);
            plan.wake = Some(SignedDuration::ZERO);
        }
        Some(text) => writer(seen).not_initialized(&mut found.status, &text),
    }
    conclude(seen, found.status, plan)
}

/// A run that has ended only learns of new generations.
fn settled(seen: &Observed, status: UpdateRunStatus) -> Plan {
    conclude(seen, status, Plan::default())
}

/// A run whose policies somebody has changed does nothing, in whatever state people want it: what
/// may begin, who must approve and what has failed is no longer known. What was given to clusters
/// goes on there.
fn wait_for_policies(seen: &Observed, mut status: UpdateRunStatus, why: &str) -> Plan {
    if seen.run.state() != UpdateRunState::Initialize {
        let told = ConditionValue::PoliciesChanged(why.to_owned());
        writer(seen).progress(&mut status, &told);
    }
    let waiting = vec![Waiting::Policies { why: why.to_owned() }];
    conclude(seen, status, Plan { waiting, wake: Some(CLUSTER_POLL), ..Plan::default() })
}

fn go_on(seen: &Observed, mut status: UpdateRunStatus) -> Plan {
    if let Some(why) = seen.run.changed_policies() {
        return wait_for_policies(seen, status, &why);
    }
    let checked = match validation::check(seen, &status) {
        Ok(checked) => checked,
        Err(Failure::Passing(trouble)) => {
            let series = series(&seen.run, &status.conditions);
            return Plan { trouble: Some(trouble), series, ..Plan::default() };
        }
        Err(Failure::Final(text) | Failure::Early(text)) => {
            let moved = validation::moved(seen, &status);
            let events = moved.map(|moved| Event::warning(CLUSTERS_CHANGED, moved));
            writer(seen).failed(&mut status, &text);
            let plan = Plan { events: events.into_iter().collect(), ..Plan::default() };
            return conclude(seen, status, plan);
        }
    };
    let Some(current) = checked.current else {
        let ended = policed::ended(seen, &status);
        writer(seen).progress(&mut status, &ended);
        return settled(seen, status);
    };
    if let Some(text) = policed::overtaken(seen, &status) {
        writer(seen).failed(&mut status, &text);
        return conclude(seen, status, Plan::default());
    }
    counted::distrust(seen, &mut status);
    let mut pass = PlanBuilder::new(seen, writer(seen), status, checked.sorted);
    pass.notice_late_index();
    pass.notice_superseded();
    gates::notice_withdrawn(&mut pass);
    match seen.run.state() {
        UpdateRunState::Initialize => {
            // The API lets nobody go back, but a client of v1alpha1 does not know the state
            // and drops it when it writes a run back.
            if says(&pass.status.conditions, PROGRESSING).is_some() {
                let message = "the state of the update run was lost after it had begun, nothing more is started; set spec.state to Run to go on or to Stop to stop it";
                pass.tell(Event::warning(STATE_LOST, message));
            }
            pass.wait(Waiting::Start);
        }
        UpdateRunState::Run => execution::execute(&mut pass, current),
        UpdateRunState::Stop => stop::stop(&mut pass, current),
        UpdateRunState::Other(state) => pass.fail(&messages::unsupported_state(&state)),
    }
    let (status, plan) = pass.into_plan();
    conclude(seen, status, plan)
}

/// Adds the status if it changed, tells people what is new, and sets the metric.
pub(super) fn conclude(seen: &Observed, status: UpdateRunStatus, mut plan: Plan) -> Plan {
    plan.series = series(&seen.run, &status.conditions);
    plan.events.extend(events(&seen.run, &status, &plan.waiting));
    let recording = recorded::recording(seen, &status, &plan);
    if status != seen.run.status {
        // Whatever the plan does to requests and snapshots comes before the record of it,
        // whatever it does to bindings after.
        let at = plan.actions.iter().position(Action::is_on_binding);
        let at = at.unwrap_or(plan.actions.len());
        plan.actions.insert(at, Action::Status(Box::new(status)));
    }
    if let Some(recording) = recording {
        // Before everything that it tells; a snapshot alone tells nothing yet.
        let at = plan.actions.iter().position(|action| !matches!(action, Action::Resources(_)));
        let at = at.unwrap_or(plan.actions.len());
        plan.actions.insert(at, Action::Record(Box::new(recording)));
    }
    plan
}
