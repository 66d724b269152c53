//! What a person is told as events: each good news once, and selectors that find nothing.

use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::Placement as Step;
use flagship_api::reason::event as reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

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
pub fn news(placement: &Placement, now: &[Condition]) -> Vec<Event> {
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

/// Selectors that found nothing, told once per generation.
pub fn remarks(placement: &Placement, found: &[Remark]) -> Vec<Event> {
    let (scope, generation) = (placement.scope(), Generation(placement.generation));
    let told = placement.status.conditions.current(Step::Scheduled.on(scope), generation);
    if told.is_some() {
        return Vec::new();
    }
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
    found.iter().map(event).collect()
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
