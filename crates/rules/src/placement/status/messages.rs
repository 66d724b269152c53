//! What a placement says about each step, word for word.
//!
//! Reasons and messages are API: dashboards match on them. Per cluster only the Unknown
//! sentences are ours; True and False are copied from the binding.

use flagship_api::condition::{ConditionDraft, ConditionStatus, draft};
use flagship_api::condition_type::Placement as Step;
use flagship_api::names::Scope;
use flagship_api::reason::placement as reason;

/// Said by a cluster whose binding is still on an older version.
pub const BLOCKED: &str = "The rollout is being blocked by the rollout strategy";

/// The condition of a whole placement: `n` clusters are like this.
pub fn of_placement(step: Step, scope: Scope, truth: ConditionStatus, n: usize) -> ConditionDraft {
    let (reason, message) = match (step, truth) {
        (Step::RolloutStarted, ConditionStatus::Unknown) => (
            reason::ROLLOUT_STARTED_UNKNOWN,
            format!(
                "There are still {n} cluster(s) in the process of deciding whether to roll out the latest resources or not"
            ),
        ),
        (Step::RolloutStarted, ConditionStatus::False) => (
            reason::ROLLOUT_NOT_STARTED_YET,
            format!("The rollout is being blocked by the rollout strategy in {n} cluster(s)"),
        ),
        (Step::RolloutStarted, ConditionStatus::True) => (
            reason::ROLLOUT_STARTED,
            format!("All {n} cluster(s) start rolling out the latest resource"),
        ),
        (Step::Overridden, ConditionStatus::Unknown) => (
            reason::OVERRIDDEN_PENDING,
            format!(
                "There are still {n} cluster(s) in the process of overriding the selected resources if there is any override defined"
            ),
        ),
        (Step::Overridden, ConditionStatus::False) => {
            (reason::OVERRIDDEN_FAILED, format!("Failed to override resources in {n} cluster(s)"))
        }
        (Step::Overridden, ConditionStatus::True) => (
            reason::OVERRIDDEN_SUCCEEDED,
            format!("The selected resources are successfully overridden in {n} cluster(s)"),
        ),
        (Step::WorkSynchronized, ConditionStatus::Unknown) => (
            reason::WORK_SYNCHRONIZED_UNKNOWN,
            format!(
                "There are still {n} cluster(s) in the process of creating or updating the work object(s) in the hub cluster"
            ),
        ),
        (Step::WorkSynchronized, ConditionStatus::False) => (
            reason::WORK_NOT_SYNCHRONIZED_YET,
            format!(
                "There are {n} cluster(s) which have not finished creating or updating work(s) yet"
            ),
        ),
        (Step::WorkSynchronized, ConditionStatus::True) => (
            reason::WORK_SYNCHRONIZED,
            format!(
                "Work(s) are successfully created or updated in {n} target cluster(s)' namespaces"
            ),
        ),
        (Step::Applied, ConditionStatus::Unknown) => (
            reason::APPLY_PENDING,
            format!(
                "There are still {n} cluster(s) in the process of applying the resources on the member cluster"
            ),
        ),
        (Step::Applied, ConditionStatus::False) => (
            reason::APPLY_FAILED,
            format!(
                "Failed to apply resources to {n} cluster(s), please check the `failedPlacements` status"
            ),
        ),
        (Step::Applied, ConditionStatus::True) => (
            reason::APPLY_SUCCEEDED,
            format!("The selected resources are successfully applied to {n} cluster(s)"),
        ),
        (Step::Available, ConditionStatus::Unknown) => (
            reason::AVAILABLE_UNKNOWN,
            format!(
                "There are still {n} cluster(s) in the process of checking the availability of the selected resources"
            ),
        ),
        (Step::Available, ConditionStatus::False) => (
            reason::NOT_AVAILABLE_YET,
            format!("The selected resources in {n} cluster(s) are still not available yet"),
        ),
        (Step::Available, ConditionStatus::True) => (
            reason::AVAILABLE,
            format!("The selected resources in {n} cluster(s) are available now"),
        ),
        (Step::DiffReported, ConditionStatus::Unknown) => (
            reason::DIFF_REPORTING_PENDING,
            format!(
                "There are still {n} cluster(s) in the process of checking for configuration differences"
            ),
        ),
        (Step::DiffReported, ConditionStatus::False) => (
            reason::DIFF_REPORTING_INCOMPLETE_OR_FAILED,
            format!("Diff reporting in {n} clusters is still in progress or has failed"),
        ),
        (Step::DiffReported, ConditionStatus::True) => (
            reason::DIFF_REPORTING_COMPLETED,
            format!("Diff reporting in {n} cluster(s) has been completed"),
        ),
        // These two are not rolled up from clusters; see `scheduled` and `mirror`.
        (Step::Scheduled | Step::StatusSynced, _) => (reason::SCHEDULE_PENDING, String::new()),
    };
    draft(step.on(scope)).is(truth, reason).because(message)
}

/// Overridden, when there was nothing to override anywhere.
pub fn nothing_overridden(scope: Scope) -> ConditionDraft {
    draft(Step::Overridden.on(scope))
        .is_true(reason::NO_OVERRIDE_SPECIFIED)
        .because("No override rules are configured for the selected resources")
}

/// The condition of one cluster about which its binding says nothing yet.
pub fn unknown_in_cluster(step: Step) -> ConditionDraft {
    let (reason, message) = match step {
        Step::RolloutStarted => (
            reason::ROLLOUT_STARTED_UNKNOWN,
            "In the process of deciding whether to roll out some version of the resources or not",
        ),
        Step::Overridden => (
            reason::OVERRIDDEN_PENDING,
            "In the process of overriding the selected resources if there is any override defined",
        ),
        Step::WorkSynchronized => (
            reason::WORK_SYNCHRONIZED_UNKNOWN,
            "In the process of creating or updating the work object(s) in the hub cluster",
        ),
        Step::Applied => (
            reason::APPLY_PENDING,
            "In the process of applying the resources on the member cluster",
        ),
        Step::Available => (
            reason::AVAILABLE_UNKNOWN,
            // The space at the end is part of it.
            "The availability of the selected resources is unknown yet ",
        ),
        Step::DiffReported => (
            reason::DIFF_REPORTING_PENDING,
            "Diff reporting has just started; its status is not yet to be known",
        ),
        Step::Scheduled | Step::StatusSynced => (reason::SCHEDULE_PENDING, ""),
    };
    draft(step.per_cluster()).is_unknown(reason).because(message)
}

/// Scheduled, before the scheduler has spoken about this generation.
pub fn schedule_pending(scope: Scope) -> ConditionDraft {
    draft(Step::Scheduled.on(scope))
        .is_unknown(reason::SCHEDULE_PENDING)
        .because("Scheduling has not completed")
}

/// Scheduled, when the user must change the selectors.
pub fn invalid_selectors(scope: Scope, message: String) -> ConditionDraft {
    draft(Step::Scheduled.on(scope)).is_false(reason::INVALID_RESOURCE_SELECTORS).because(message)
}

/// Scheduled, if the placement as a whole cannot be worked with.
pub fn invalid_placement(scope: Scope, why: &str) -> ConditionDraft {
    let message = format!("The placement is invalid: {why}");
    draft(Step::Scheduled.on(scope)).is_false(reason::INVALID_PLACEMENT).because(message)
}

/// Scheduled, if the placement cannot even be read: which field, and what is wrong there.
pub fn unreadable(scope: Scope, field: &str, why: &str) -> ConditionDraft {
    let why = match field {
        "" => format!("it cannot be read: {why}"),
        field => format!("field {field} cannot be read: {why}"),
    };
    invalid_placement(scope, &why)
}

/// RolloutStarted, while update runs decide and there is nothing to roll up yet.
pub fn left_to_runs(scope: Scope, why: &str) -> ConditionDraft {
    draft(Step::RolloutStarted.on(scope))
        .is_unknown(reason::ROLLOUT_CONTROLLED_EXTERNALLY)
        .because(format!("Rollout is controlled by an external controller and {why}"))
}
