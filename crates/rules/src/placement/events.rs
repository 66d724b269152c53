//! What a person is told as events: each condition that turns True once, and selectors that find nothing.

use flagship_api::condition::{Condition, Conditions, Generation};
use flagship_api::condition_type::Placement as Step;
use flagship_api::placement::ResourceSelectorTerm;
use flagship_api::placement_status::{PlacementStatus, ResourceIdentifier};
use flagship_api::printed::Printed;
use flagship_api::reason::event as reason;
use flagship_api::reason::placement::INVALID_RESOURCE_SELECTORS;

use super::observed::Placement;
use super::selection::Remark;
use super::status::{expected, is_complete};
use crate::event::Event;

/// Said when the snapshots of a deleted placement are gone.
pub fn cleaned_up() -> Event {
    Event::normal(
        reason::PLACEMENT_CLEANUP_FINALIZER_REMOVED,
        "Deleted the snapshots and removed the placement cleanup finalizer",
    )
}

/// Conditions that turned True at this generation, and the end of the rollout.
pub fn of_conditions(placement: &Placement, now: &[Condition]) -> Vec<Event> {
    let (scope, generation) = (placement.scope(), Generation(placement.generation));
    let before = &placement.status.conditions;
    let turned = |step: &&Step| {
        let kind = step.on(scope);
        now.is_true_at(kind, generation) && !before.is_true_at(kind, generation)
    };
    let steps = expected(&placement.spec).iter().filter(turned);
    let mut events: Vec<Event> = steps.filter_map(|step| announcement(*step)).collect();
    if is_complete(placement, now) && !is_complete(placement, before) {
        events.push(Event::normal(
            reason::PLACEMENT_ROLLOUT_COMPLETED,
            "Placement has finished the rollout process and reached the desired status",
        ));
    }
    events
}

/// Selectors that find nothing, when that is first seen: in the first status of a
/// generation, and when a resource drops out of a later one.
pub fn remarks(placement: &Placement, found: &[Remark], now: &PlacementStatus) -> Vec<Event> {
    let (scope, generation) = (placement.scope(), Generation(placement.generation));
    let said = placement.status.conditions.current(Step::Scheduled.on(scope), generation);
    // Selectors that could not be followed have found nothing yet, and missed nothing.
    let said = said.filter(|said| said.reason != INVALID_RESOURCE_SELECTORS);
    let first = said.is_none();
    let lost = |selector: &str| {
        let mut terms = placement.spec.resource_selectors.iter();
        let term = terms.find(|term| Printed(*term).to_string() == selector);
        let names = |term: &ResourceSelectorTerm, id: &ResourceIdentifier| {
            (&term.group, &term.version, &term.kind, &term.name)
                == (&id.group, &id.version, &id.kind, &id.name)
        };
        let lists = |status: &PlacementStatus, term: &ResourceSelectorTerm| {
            status.selected_resources.iter().any(|id| names(term, id))
        };
        term.is_some_and(|term| lists(&placement.status, term) && !lists(now, term))
    };
    let is_first = |remark: &&Remark| match remark {
        Remark::Disabled { .. } => first,
        Remark::Missing { selector } => first || lost(selector),
    };
    let event = |remark: &Remark| match remark {
        Remark::Disabled { selector } => Event::warning(
            reason::SELECTED_TYPE_NOT_PROPAGATED,
            format!(
                "Resources of this type are not propagated, so nothing is selected by {selector}"
            ),
        ),
        Remark::Missing { selector } => Event::normal(
            reason::SELECTED_RESOURCE_NOT_FOUND,
            format!("There is no such resource, so nothing is selected by {selector}"),
        ),
    };
    found.iter().filter(is_first).map(event).collect()
}

fn announcement(step: Step) -> Option<Event> {
    let (reason, message) = match step {
        Step::RolloutStarted => {
            (reason::PLACEMENT_ROLLOUT_STARTED, "Started rolling out the latest resources")
        }
        Step::Overridden => {
            (reason::PLACEMENT_OVERRIDDEN, "Placement has been successfully overridden")
        }
        Step::WorkSynchronized => (
            reason::PLACEMENT_WORK_SYNCHRONIZED,
            "Work(s) have been created or updated successfully for the selected cluster(s)",
        ),
        Step::Applied => {
            (reason::PLACEMENT_APPLIED, "Resources have been applied to the selected cluster(s)")
        }
        Step::Available => {
            (reason::PLACEMENT_AVAILABLE, "Resources are available on the selected cluster(s)")
        }
        Step::DiffReported => (
            reason::PLACEMENT_DIFF_REPORTED,
            "Configuration differences have been reported on the selected cluster(s)",
        ),
        Step::Scheduled | Step::StatusSynced => return None,
    };
    Some(Event::normal(reason, message))
}
