//! What is said of a single manifest.

use flagship_api::condition::{self, Condition, ConditionDraft, Conditions, Generation, draft};
use flagship_api::condition_type::work as kind;
use flagship_api::reason::work::manifest as reason;
use jiff::Timestamp;

use super::super::apply_options::ApplyOptions;
use super::super::outcome::{Outcome, Verdict};
use crate::availability::Availability;

/// Sets the conditions of one manifest, and removes those that do not apply.
pub(super) fn set(
    conditions: &mut Vec<Condition>,
    outcome: &Outcome,
    terms: &ApplyOptions,
    now: Timestamp,
) {
    let generation = Generation(outcome.generation());
    // They speak of the object, which may have been made anew and count from 1 again.
    for condition in conditions.iter_mut() {
        let seen = Generation::seen_by(condition).min(generation);
        condition.observed_generation = Some(seen.0);
    }
    let (applied, reported) = match terms.only_compares() {
        true => (None, Some(diff_reported(outcome))),
        false => (Some(applied(outcome)), None),
    };
    let drafts = [
        (kind::APPLIED, applied),
        (kind::AVAILABLE, available(&outcome.availability)),
        (kind::DIFF_REPORTED, reported),
    ];
    for (of_type, draft) in drafts {
        match draft {
            Some(draft) => draft.set(conditions, generation, now),
            None => condition::remove(conditions, of_type),
        }
    }
}

/// Whether conditions already say what became of the manifest, word for word.
pub(super) fn say_so(conditions: &[Condition], outcome: &Outcome, terms: &ApplyOptions) -> bool {
    let draft = if terms.only_compares() { diff_reported(outcome) } else { applied(outcome) };
    let wanted = draft.into_condition(Generation::default(), Timestamp::UNIX_EPOCH);
    conditions.of_type(&wanted.type_).is_some_and(|old| {
        (&old.status, &old.reason, &old.message)
            == (&wanted.status, &wanted.reason, &wanted.message)
    })
}

fn applied(outcome: &Outcome) -> ConditionDraft {
    let error = outcome.error.as_deref().unwrap_or("<nil>");
    let subject = draft(kind::APPLIED);
    match outcome.verdict {
        Verdict::Applied => {
            subject.is_true(reason::APPLIED).because("Manifest has been applied successfully")
        }
        Verdict::AppliedWithFailedDriftDetection => subject
            .is_true(reason::APPLIED_WITH_FAILED_DRIFT_DETECTION)
            .because("AppliedWithFailedDriftDetection"),
        Verdict::DecodingErred
        | Verdict::FoundGenerateName
        | Verdict::Duplicated
        | Verdict::FailedToFind
        | Verdict::FailedToTakeOver
        | Verdict::NotTakenOver
        | Verdict::FailedToRunDriftDetection
        | Verdict::FoundDrifts
        | Verdict::FoundDriftsInDegradedMode
        | Verdict::ApplyFailed => subject
            .is_false(outcome.verdict.reason())
            .because(format!("Failed to apply the manifest (error: {error})")),
        Verdict::NoDiffFound
        | Verdict::FoundDiff
        | Verdict::FoundDiffInDegradedMode
        | Verdict::FailedToReportDiff => subject.is_false(reason::APPLY_FAILED).because(format!(
            "An unexpected apply result is yielded ({}, error: {error})",
            outcome.verdict.reason()
        )),
    }
}

fn available(availability: &Availability) -> Option<ConditionDraft> {
    let subject = draft(kind::AVAILABLE);
    Some(match availability {
        Availability::Skipped => return None,
        Availability::Available => {
            subject.is_true(reason::AVAILABLE).because("Manifest is available")
        }
        Availability::NotYet => subject
            .is_false(reason::NOT_AVAILABLE_YET)
            .because("Manifest is not yet available; Fleet will check again later"),
        Availability::NotTrackable => subject.is_true(reason::NOT_TRACKABLE).because(
            "Manifest's availability is not trackable; Fleet assumes that the applied manifest is \
             available",
        ),
        Availability::Failed(error) => subject.is_false(reason::FAILED).because(format!(
            "Failed to track the availability of the applied manifest (error = {error})"
        )),
    })
}

fn diff_reported(outcome: &Outcome) -> ConditionDraft {
    let error = outcome.error.as_deref().unwrap_or("<nil>");
    let subject = draft(kind::DIFF_REPORTED);
    match outcome.verdict {
        Verdict::NoDiffFound => subject
            .is_true(reason::NO_DIFF_FOUND)
            .because("No diff has been found between the hub cluster and the member cluster"),
        Verdict::FoundDiff => subject
            .is_true(reason::FOUND_DIFF)
            .because("Diff has been found between the hub cluster and the member cluster"),
        Verdict::FoundDiffInDegradedMode => {
            subject.is_true(reason::FOUND_DIFF_IN_DEGRADED_MODE).because(
                "Diff has been found in degraded mode: cannot perform partial comparison as the \
                 member cluster API server rejected the manifest object (object is invalid)",
            )
        }
        Verdict::FailedToReportDiff => {
            subject.is_false(reason::FAILED_TO_REPORT_DIFF).because(format!(
                "Failed to report the diff between the hub cluster and the member cluster (error = {error})"
            ))
        }
        other => subject.is_false(reason::FAILED_TO_REPORT_DIFF).because(format!(
            "An error blocks the diff reporting process ({}, error: {error})",
            other.reason()
        )),
    }
}
