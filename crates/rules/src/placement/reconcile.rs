//! One pass over one placement: what to write, in which order, and when to look again.

use flagship_api::condition::{Condition, Conditions, Generation};
use flagship_api::condition_type::Placement as Step;
use flagship_api::defaults::revision_history_limit;
use flagship_api::placement_status::{PlacementStatus, ResourceIdentifier};
use flagship_base::names::LONGEST_LABEL;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::events;
use super::mirror::{self, Mirror};
use super::observed::{Observed, Placement};
use super::pass_error::PassError;
use super::policy_snapshots::{self, PolicyAction};
use super::resource_snapshots::{self, ResourceAction, Snapshots};
use super::selection::Selection;
use super::status::{self, Facts, Version, messages};
use crate::event::Event;

/// A placement that is not where it should be is looked at this often without a cause.
pub const RESYNC: SignedDuration = SignedDuration::from_mins(30);

/// A kind that is about to be watched is waited for this long at a time.
pub const FRESH_KIND_RETRY: SignedDuration = SignedDuration::from_secs(5);

/// What one pass decided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Writes, in order. The status comes last, and only if it changed.
    pub actions: Vec<Action>,
    /// What to tell people once the writes are done.
    pub events: Vec<Event>,
    /// When to look again even if nothing happens.
    pub wake: Option<SignedDuration>,
    /// What stopped the pass; the writes before it stand. Retry with backoff.
    pub trouble: Option<PassError>,
    /// What the metric says; `None` drops the placement's series.
    pub series: Option<Series>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Put our finalizer on the placement.
    AddFinalizer,
    /// Something about policy snapshots.
    Policy(PolicyAction),
    /// Something about resource snapshots.
    Resources(ResourceAction),
    /// Copy the status into the placed namespace. Should it fail, the status to write is
    /// [`mirror::after_failure`], and the pass is retried.
    Mirror(Mirror),
    /// Write the status.
    Status(PlacementStatus),
    /// Delete every policy snapshot of the placement.
    DeletePolicySnapshots,
    /// Delete every resource snapshot of the placement.
    DeleteResourceSnapshots,
    /// Take our finalizer off the placement.
    RemoveFinalizer,
}

/// Where a placement stands, as the metric tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Label `conditionType`.
    pub condition: String,
    /// Label `status`.
    pub status: String,
    /// Label `reason`.
    pub reason: String,
}

/// Decides one pass.
pub fn plan(seen: &Observed) -> Plan {
    if seen.placement.deleting {
        return clean_up(&seen.placement);
    }
    if is_unnameable(&seen.placement) {
        return unnameable(seen);
    }
    let mut plan = Plan::default();
    if !seen.placement.has_finalizer {
        plan.actions.push(Action::AddFinalizer);
    }
    let settled = settle(seen, &mut plan);
    let conditions = match &settled {
        Some(status) => &status.conditions,
        None => &seen.placement.status.conditions,
    };
    plan.series = Some(series(&seen.placement, conditions));
    if let Some(status) = settled.filter(|status| *status != seen.placement.status) {
        plan.actions.push(Action::Status(status));
    }
    plan
}

/// Whether nothing can be labelled with the placement's name.
fn is_unnameable(placement: &Placement) -> bool {
    placement.name.len() > LONGEST_LABEL
}

/// A placement that cannot have anything derived from it, so that it needs no finalizer.
fn unnameable(seen: &Observed) -> Plan {
    let placement = &seen.placement;
    let mut status = placement.status.clone();
    let why = format!(
        "the name field cannot have length exceeding {LONGEST_LABEL}; create it under a shorter name"
    );
    messages::invalid_placement(placement.scope(), &why).set(
        &mut status.conditions,
        Generation(placement.generation),
        seen.now,
    );
    let series = Some(series(placement, &status.conditions));
    let write = (status != placement.status).then_some(Action::Status(status));
    Plan { actions: write.into_iter().collect(), series, ..Plan::default() }
}

/// Everything after the finalizer; returns the status to report, if the pass got so far.
fn settle(seen: &Observed, plan: &mut Plan) -> Option<PlacementStatus> {
    let placement = &seen.placement;
    if let Some(message) =
        placement.is_mirrored().then(|| mirror::inconsistency(placement)).flatten()
    {
        return Some(refused(seen, message));
    }
    let mut status = match &seen.selection {
        Err(PassError::User(_)) => invalid(seen),
        Err(PassError::Fresh(_)) => {
            plan.wake = Some(FRESH_KIND_RETRY);
            return None;
        }
        Err(trouble) => {
            plan.trouble = Some(trouble.clone());
            return None;
        }
        Ok(selection) => match advance(seen, selection, plan) {
            Ok(status) => {
                plan.events.extend(events::remarks(placement, &selection.remarks, &status));
                status
            }
            Err(trouble) => {
                plan.trouble = Some(trouble);
                return None;
            }
        },
    };
    if placement.is_mirrored() {
        let mirror = mirror::reflect(placement, &mut status, seen.mirror.as_ref(), seen.now);
        plan.actions.extend(mirror.map(Action::Mirror));
    }
    plan.events.extend(events::of_conditions(placement, &status.conditions));
    let complete = status::is_complete(placement, &status.conditions);
    plan.wake = plan.wake.or((!complete).then_some(RESYNC));
    Some(status)
}

/// Snapshots and status of a placement whose selection is known. A wait for more changes
/// becomes the plan's wake.
fn advance(
    seen: &Observed,
    selection: &Selection,
    plan: &mut Plan,
) -> Result<PlacementStatus, PassError> {
    let placement = &seen.placement;
    let limit = revision_history_limit(&placement.spec);
    let policy = policy_snapshots::plan(placement, &seen.policy_snapshots, limit)?;
    plan.actions.extend(policy.actions.into_iter().map(Action::Policy));
    let snapshots = Snapshots {
        placement: &placement.name,
        existing: &seen.resource_snapshots,
        limit,
        bindings: &seen.bindings,
        indexes_in_runs: &seen.indexes_in_runs,
        now: seen.now,
    };
    let facts = |version| Facts {
        placement,
        policy: &policy.latest,
        bindings: &seen.bindings,
        version,
        now: seen.now,
    };
    if placement.is_external() {
        let pruned = resource_snapshots::prune_only(&snapshots);
        plan.actions.extend(pruned.into_iter().map(Action::Resources));
        let selected: Vec<ResourceIdentifier> =
            selection.resources.iter().map(|selected| selected.id.clone()).collect();
        let snapshots = &seen.resource_snapshots;
        return status::report(&facts(Version::LeftToRuns { snapshots, selected: &selected }));
    }
    let resources = resource_snapshots::plan(&snapshots, selection, Some(seen.batching))?;
    plan.actions.extend(resources.actions.into_iter().map(Action::Resources));
    plan.wake = resources.wait;
    status::report(&facts(Version::Latest(&resources.latest)))
}

/// The last status, but with selectors that the user must change.
fn invalid(seen: &Observed) -> PlacementStatus {
    let error = seen.selection.as_ref().err().map(ToString::to_string).unwrap_or_default();
    refused(seen, format!("The resource selectors are invalid: {error}"))
}

fn refused(seen: &Observed, message: String) -> PlacementStatus {
    let placement = &seen.placement;
    let mut status = placement.status.clone();
    messages::invalid_selectors(placement.scope(), message).set(
        &mut status.conditions,
        Generation(placement.generation),
        seen.now,
    );
    status
}

/// Deletion: snapshots first, then the finalizer. The scheduler cleans up on its own.
fn clean_up(placement: &Placement) -> Plan {
    if !placement.has_finalizer {
        return Plan::default();
    }
    if is_unnameable(placement) {
        return Plan { actions: vec![Action::RemoveFinalizer], ..Plan::default() };
    }
    let actions = vec![
        Action::DeletePolicySnapshots,
        Action::DeleteResourceSnapshots,
        Action::RemoveFinalizer,
    ];
    Plan { actions, events: vec![events::cleaned_up()], ..Plan::default() }
}

/// The first thing that is not True yet, or that all is done.
pub fn series(placement: &Placement, conditions: &[Condition]) -> Series {
    let (scope, generation) = (placement.scope(), Generation(placement.generation));
    let steps = status::expected(&placement.spec).iter().copied();
    let mut steps = std::iter::once(Step::Scheduled).chain(steps).map(|step| step.on(scope));
    let Some(open) = steps.find(|kind| !conditions.is_true_at(kind, generation)) else {
        let done = || "Completed".to_owned();
        return Series { condition: done(), status: "True".to_owned(), reason: done() };
    };
    let told = conditions.current(open, generation);
    let word = |text: fn(&Condition) -> &String| told.map_or("nil".to_owned(), |c| text(c).clone());
    Series { condition: open.to_owned(), status: word(|c| &c.status), reason: word(|c| &c.reason) }
}
