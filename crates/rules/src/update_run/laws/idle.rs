//! L1 to L4 for a run that has come to rest: it has ended, or what it says it waits for is
//! really what keeps it, and it looks again in time.
//!
//! A wait that outlives its cause is untrue in the next state, so most of L2 is the same
//! law then; what is left of it is the time until the next look.

use flagship_api::binding::BindingState;
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::binding::ROLLOUT_STARTED;
use flagship_api::condition_type::updating_cluster::STARTED;
use flagship_api::names::DELETION_STAGE;
use flagship_api::reason::update_run as reason;
use flagship_api::staged_update::UpdateRunState;
use flagship_api::staged_update_status::{ClusterUpdatingStatus, StageUpdatingStatus};
use flagship_base::duration::GoDuration;
use jiff::Timestamp;

use super::super::delivery::Target;
use super::super::execution::CLUSTER_POLL;
use super::super::gates::STAGE_POLL;
use super::super::held::{WINDOW_POLL, closed, held, says_closed, says_frozen};
use super::super::lifecycle::{has_ended, in_flight, is_settled, is_started, wait_over};
use super::super::observed::Observed;
use super::super::reconcile::{Plan, Waiting, plan};
use super::cluster_state::{of_cluster, works};
use super::record::is_given;
use super::{Told, broken, quiet, reason_of};
use crate::policy::Freeze;

/// Holds a run that has come to rest against the laws.
pub fn rest(seen: &Observed) -> Told {
    let plan = plan(seen);
    if !quiet(&plan) || plan.trouble.is_some() {
        return vec![broken("S16", format!("not at rest: {:?}", plan.actions))];
    }
    if seen.run.deleting {
        return nothing_left(seen);
    }
    if has_ended(&seen.run.status) {
        return Vec::new();
    }
    let stopping = seen.run.state() == UpdateRunState::Stop;
    let law = if stopping { "L3" } else { "L1" };
    let mut told = Vec::new();
    if plan.waiting.is_empty() {
        told.push(broken(law, "neither ended nor waiting for anything"));
    }
    for waiting in &plan.waiting {
        if !is_true(seen, waiting) || (stopping && !may_delay_a_stop(waiting)) {
            told.push(broken(law, format!("waits for what is not so: {waiting:?}")));
        }
        if !wakes_in_time(seen, &plan, waiting) {
            told.push(broken("L2", format!("looks too late: {:?} for {waiting:?}", plan.wake)));
        }
    }
    told.extend(on_their_way(seen));
    told
}

/// L4.
fn nothing_left(seen: &Observed) -> Told {
    let mut told = Vec::new();
    if seen.approvals.iter().any(|request| request.labelled.as_ref() == Some(&seen.run.name)) {
        told.push(broken("L4", "an approval request is left"));
    }
    if seen.run.has_finalizer {
        told.push(broken("L4", "the finalizer is left"));
    }
    told
}

/// S6 and L1: what is recorded as started is really on its way: it was delivered, and
/// nobody has taken it since.
fn on_their_way(seen: &Observed) -> Told {
    let status = &seen.run.status;
    let Ok(target) = Target::of(seen, status) else { return Vec::new() };
    let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let lost = clusters.filter(|cluster| in_flight(cluster)).filter(|cluster| {
        !of_cluster(seen, &cluster.cluster_name).any(|binding| {
            let at = Generation(binding.generation);
            target.is_on(binding, cluster)
                && binding.spec.state == BindingState::Bound
                && binding.status.conditions.is_true_at(ROLLOUT_STARTED, at)
        })
    });
    lost.map(|c| broken("S6", format!("{} is waited for and was lost", c.cluster_name))).collect()
}

/// Only what is in flight may keep a run from stopping.
fn may_delay_a_stop(waiting: &Waiting) -> bool {
    matches!(
        waiting,
        Waiting::Resume
            | Waiting::Updating { .. }
            | Waiting::Stuck { .. }
            | Waiting::Deleting { .. }
            | Waiting::Checking { .. }
            | Waiting::Scheduling { .. }
            | Waiting::Readable { .. }
            | Waiting::Policies { .. }
    )
}

/// L2: the next look is not later than what is waited for, nor than its poll.
fn wakes_in_time(seen: &Observed, plan: &Plan, waiting: &Waiting) -> bool {
    let within = match waiting {
        Waiting::Start | Waiting::Resume => return true,
        Waiting::Scheduling { .. } => seen.options.scheduling_grace,
        Waiting::Approval { .. } | Waiting::Checking { .. } => STAGE_POLL,
        Waiting::Timer { until, .. } => until.duration_since(seen.now),
        Waiting::Closed { opens, .. } => {
            let until = opens.map_or(WINDOW_POLL, |opens| opens.duration_since(seen.now));
            until.min(WINDOW_POLL)
        }
        Waiting::Frozen { stage, .. } => {
            let until = held(seen, stage).and_then(Freeze::until);
            until.map_or(STAGE_POLL, |until| STAGE_POLL.min(until.duration_since(seen.now)))
        }
        Waiting::Readable { .. }
        | Waiting::Policies { .. }
        | Waiting::Updating { .. }
        | Waiting::Stuck { .. }
        | Waiting::Deleting { .. } => CLUSTER_POLL,
    };
    plan.wake.is_some_and(|wake| wake <= within)
}

fn stage_of<'a>(seen: &'a Observed, name: &str) -> Option<&'a StageUpdatingStatus> {
    seen.run.status.stages_status.iter().find(|stage| stage.stage_name == name)
}

/// Whether a declared wait is so.
fn is_true(seen: &Observed, waiting: &Waiting) -> bool {
    let status = &seen.run.status;
    match waiting {
        Waiting::Scheduling { .. } => !seen.run.is_initialized(),
        Waiting::Readable { what } => seen.unreadable.as_ref() == Some(what),
        Waiting::Policies { why } => seen.run.changed_policies().as_ref() == Some(why),
        Waiting::Start => seen.run.state() == UpdateRunState::Initialize,
        Waiting::Frozen { stage, freeze } => {
            held(seen, stage).is_some_and(|found| found.name == *freeze) && says_frozen(status)
        }
        Waiting::Closed { stage, opens } => {
            let deletes = seen.run.status.deletion_stage_status.as_ref();
            let deletes = deletes.filter(|_| stage == DELETION_STAGE);
            let found = stage_of(seen, stage).or(deletes);
            let found = found.and_then(|found| closed(seen, found, stage));
            found.is_some_and(|found| found.open == 0 && found.opens == *opens)
                && (says_closed(status) || says_frozen(status))
        }
        Waiting::Checking { checks, .. } => !plan(seen).asks.is_empty() && !checks.is_empty(),
        Waiting::Resume => {
            seen.run.state() == UpdateRunState::Stop && reason_of(status) == Some(reason::STOPPED)
        }
        Waiting::Approval { stage, request, before, .. } => {
            // Before the first cluster of its stage, or after the last.
            let its_turn = stage_of(seen, stage).is_some_and(|stage| match before {
                true => !stage.clusters.iter().any(is_started),
                false => stage.clusters.iter().all(is_settled),
            });
            its_turn
                && seen.approvals.iter().any(|found| found.name == *request)
                && !is_given(seen, request, stage)
        }
        Waiting::Timer { stage, until } => {
            seen.now < *until && longest_wait(seen, stage).is_some_and(|end| *until <= end)
        }
        Waiting::Updating { stage, clusters } => {
            !clusters.is_empty()
                && clusters.iter().all(|name| is_moving(seen, stage, name).is_some())
        }
        Waiting::Stuck { stage, clusters } => {
            let late = |cluster: &ClusterUpdatingStatus| {
                let started = cluster.conditions.of_type(STARTED);
                started.is_some_and(|started| {
                    let since = seen.now.duration_since(started.last_transition_time.0);
                    since >= seen.options.stuck_after
                })
            };
            let stuck = |name: &String| is_moving(seen, stage, name).is_some_and(late);
            !clusters.is_empty()
                && clusters.iter().all(stuck)
                // One that is frozen says that first.
                && (reason_of(status) == Some(reason::STUCK) || says_frozen(status))
        }
        Waiting::Deleting { clusters } => {
            let going =
                |name: &String| seen.bindings.iter().any(|b| b.cluster() == name && b.deleting);
            clusters.iter().all(going)
        }
    }
}

/// A cluster of a stage that is in flight and does not work yet.
fn is_moving<'a>(seen: &'a Observed, stage: &str, name: &str) -> Option<&'a ClusterUpdatingStatus> {
    let mut clusters = stage_of(seen, stage)?.clusters.iter();
    let cluster = clusters.find(|cluster| cluster.cluster_name == name && in_flight(cluster))?;
    let target = Target::of(seen, &seen.run.status).ok()?;
    let done = of_cluster(seen, &cluster.cluster_name)
        .any(|binding| target.is_on(binding, cluster) && works(binding));
    (!done).then_some(cluster)
}

/// The latest moment a timed wait of a stage may end: counted from when the stage said that
/// its clusters are done, which a stop in between may have delayed.
fn longest_wait(seen: &Observed, stage: &str) -> Option<Timestamp> {
    let strategy = seen.run.status.staged_update_strategy_snapshot.as_ref()?;
    let config = strategy.stages.iter().find(|config| config.name == stage)?;
    let waits = config.after_stage_tasks.iter().filter_map(|task| task.wait_time.as_ref());
    let wait: GoDuration = waits.filter_map(|text| text.parse().ok()).max()?;
    let stage = stage_of(seen, stage)?;
    let told = stage.clusters.iter().flat_map(|cluster| &cluster.conditions);
    let told = told.chain(&stage.conditions).map(|c| c.last_transition_time.0).max();
    Some(wait_over(told?, wait))
}
