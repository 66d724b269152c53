//! One pass over a binding.
//!
//! The finalizer comes before the first Work, the Works before the status that speaks of
//! them. A crash in between loses nothing: the next pass compares and goes on.

use flagship_api::binding::{BindingState, ResourceBindingStatus};
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::binding::{self as kind, ROLLOUT_STARTED};
use flagship_api::condition_type::work;
use flagship_api::keys::finalizer;
use flagship_api::reason::binding as reason;
use jiff::SignedDuration;

use super::deletion;
use super::observed::{Observed, Reads, Work};
use super::pass_error::{PARTIAL_GROUP_RETRY, PassError};
use super::status::{WorksState, rebuilt};
use super::sync::{End, Sync, Write, sync};
use crate::event::Event;

/// How soon to look again while a Work that is no longer wanted is still going.
pub const DROPPED_RETRY: SignedDuration = SignedDuration::from_secs(15);

/// How long a member has to answer before the status says that it is at it. A member that is
/// well answers sooner, and one write of the status tells all; a person does not notice.
pub const ANSWER_WINDOW: SignedDuration = SignedDuration::from_millis(750);

/// What to do about a binding.
#[derive(Debug, Default)]
pub struct Plan {
    /// What to write, in order. Writes to Works may go side by side.
    pub actions: Vec<Action>,
    /// What to read before anything can be planned; then there are no actions.
    pub reads: Option<Reads>,
    /// What to tell people, once all is written.
    pub events: Vec<Event>,
    /// Why nothing more is done.
    pub waiting: Option<Waiting>,
    /// How long the status is kept back, so that it can tell of the member's answer at once.
    pub answer_due: Option<SignedDuration>,
    /// When to look again at the latest.
    pub wake: Option<SignedDuration>,
    /// What stands in the way; the status says so, too.
    pub trouble: Option<PassError>,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Put our finalizer on the binding.
    AddFinalizer,
    /// Write a Work.
    Work(Write),
    /// Write the status of the binding.
    Status(Box<ResourceBindingStatus>),
    /// Take our finalizer off the binding.
    RemoveFinalizer,
}

/// Why nothing more is done for a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// It is chosen only; a rollout has to bind it.
    ToBeBound,
    /// There is no such cluster.
    ForCluster,
    /// Nobody has said that the rollout of this very generation started, or did not.
    ForRollout,
    /// Its snapshot has not been seen yet.
    ForSnapshot,
    /// It is being deleted, and so many Works are still there.
    WorksToGo(usize),
}

/// Decides what to do about a binding.
pub fn plan(seen: &Observed) -> Plan {
    let binding = &seen.binding;
    if binding.deleting {
        return deletion::plan(seen);
    }
    // A start signal that nothing else would bring into the status.
    let signal = binding.signal_unwritten.then(|| Action::Status(Box::new(binding.status.clone())));
    let waits = |waiting| Plan {
        actions: signal.clone().into_iter().collect(),
        waiting: Some(waiting),
        ..Plan::default()
    };
    if !matches!(binding.spec.state, BindingState::Bound | BindingState::Unscheduled) {
        return waits(Waiting::ToBeBound);
    }
    let Some(cluster) = &seen.cluster else { return waits(Waiting::ForCluster) };
    let mut actions = if binding.has_finalizer(finalizer::WORK) {
        Vec::new()
    } else {
        vec![Action::AddFinalizer]
    };
    let started = &binding.status.conditions;
    if binding.spec.state == BindingState::Bound
        && !started.is_decided_at(ROLLOUT_STARTED, binding.generation())
    {
        return Plan { actions, ..waits(Waiting::ForRollout) };
    }
    let Sync { writes, events, end } = sync(seen, cluster);
    let changed = writes.iter().any(Write::concerns_member);
    actions.extend(writes.into_iter().map(Action::Work));
    let (state, trouble) = match end {
        End::Asks(reads) => return Plan { reads: Some(reads), ..Plan::default() },
        End::Lags => {
            let wake = Some(PARTIAL_GROUP_RETRY);
            actions.extend(signal.clone());
            return Plan { actions, wake, ..waits(Waiting::ForSnapshot) };
        }
        End::Failed(trouble) => (WorksState::Failed(trouble.clone()), Some(trouble)),
        // As long as nobody answers, what was said stays said: also after a restart.
        End::Known
            if changed || (is_silent(seen) && (seen.answer_due.is_some() || says_at_it(seen))) =>
        {
            (WorksState::Changed, None)
        }
        End::Known => (WorksState::Settled, None),
    };
    let going = seen.works.iter().any(|work| work.deleting);
    let wake = going.then_some(DROPPED_RETRY);
    let left = if changed { Some(ANSWER_WINDOW) } else { seen.answer_due };
    let answer_due = left.filter(|left| {
        // Success that was said of other content must not stand a moment longer.
        state == WorksState::Changed && left.is_positive() && !claims_success(seen)
    });
    if answer_due.is_some() {
        let wake = wake.into_iter().chain(answer_due).min();
        return Plan { actions, events, wake, answer_due, ..Plan::default() };
    }
    let status = rebuilt(seen, &state);
    if status != binding.status || binding.signal_unwritten {
        actions.push(Action::Status(Box::new(status)));
    }
    Plan { actions, events, wake, trouble, ..Plan::default() }
}

/// Whether no Work has been answered as it is now.
fn is_silent(seen: &Observed) -> bool {
    let said = |work: &Work| {
        let mut kinds = [work::APPLIED, work::DIFF_REPORTED].into_iter();
        kinds.any(|kind| work.conditions.current(kind, Generation(work.generation)).is_some())
    };
    !seen.live_works().any(said)
}

/// Whether the status says of the present generation that the member is at it.
fn says_at_it(seen: &Observed) -> bool {
    let (conditions, at) = (&seen.binding.status.conditions, seen.binding.generation());
    let says = |kind: &str, reason: &str| {
        conditions.current(kind, at).is_some_and(|said| said.reason == reason)
    };
    says(kind::APPLIED, reason::APPLY_IN_PROGRESS)
        || says(kind::DIFF_REPORTED, reason::DIFF_REPORT_IN_PROGRESS)
}

/// Whether the status says of the present generation that something works.
fn claims_success(seen: &Observed) -> bool {
    let kinds = [kind::APPLIED, kind::AVAILABLE, kind::DIFF_REPORTED];
    let (conditions, at) = (&seen.binding.status.conditions, seen.binding.generation());
    kinds.iter().any(|kind| conditions.is_true_at(kind, at))
}

/// The status after a write was refused; `None` if it says so already.
pub fn after_failure(seen: &Observed, trouble: &PassError) -> Option<ResourceBindingStatus> {
    let status = rebuilt(seen, &WorksState::Failed(trouble.clone()));
    (status != seen.binding.status).then_some(status)
}
