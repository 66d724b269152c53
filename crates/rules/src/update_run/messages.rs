//! What a run says when clusters fail it, and how every failure is put together.
//!
//! A text that starts with `cannot continue the updateRun` is final; everything else is
//! tried again. Slips of KubeFleet are kept: clients match on them. What a check refuses is
//! said where it is checked: `inputs`, `stages` and `snapshot` before the run begins,
//! `validation` on every pass. Conditions without a failure are worded in `status`.

use std::fmt::Display;

use flagship_api::error_class::ErrorClass;
use flagship_api::names::ObjectKey;

use crate::placement::PassError;

/// Begins every final failure.
pub const ABORT: &str = "cannot continue the updateRun";
/// Begins every failure of a check.
pub const VALID: &str = "cannot continue the updateRun: failed to validate the updateRun";

/// Why a pass could not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The run can never succeed. The text goes into its conditions.
    Final(String),
    /// The scheduler may not have got there yet: final once the grace is over.
    Early(String),
    /// Goes away by itself. Nothing is written.
    Passing(PassError),
}

impl Failure {
    /// A check failed.
    pub fn valid(detail: impl AsRef<str>) -> Self {
        Self::Final(format!("{VALID}: {}", detail.as_ref()))
    }

    /// A check failed, and the user can repair it.
    pub fn valid_user(detail: impl AsRef<str>) -> Self {
        Self::valid(ErrorClass::User.message(detail.as_ref()))
    }

    /// A check failed that never should.
    pub fn valid_unexpected(detail: impl AsRef<str>) -> Self {
        Self::valid(ErrorClass::Unexpected.message(detail.as_ref()))
    }

    /// The run no longer fits its placement and bindings.
    pub fn abort(detail: impl AsRef<str>) -> Self {
        Self::Final(abort(detail.as_ref()))
    }

    /// The run no longer fits its placement and bindings because of something a user did.
    pub fn abort_user(detail: impl AsRef<str>) -> Self {
        Self::abort(ErrorClass::User.message(detail.as_ref()))
    }

    /// The run contradicts itself.
    pub fn abort_unexpected(detail: impl AsRef<str>) -> Self {
        Self::abort(ErrorClass::Unexpected.message(detail.as_ref()))
    }

    /// Tried again with backoff.
    pub fn passing(detail: impl Into<String>) -> Self {
        Self::Passing(PassError::Expected(detail.into()))
    }
}

/// A final failure as text.
pub fn abort(detail: &str) -> String {
    format!("{ABORT}: {detail}")
}

/// Somebody else wrote the binding of a cluster that was being updated.
pub fn taken(cluster: &str, stage: &str, binding: &ObjectKey) -> String {
    ErrorClass::User.message(format!(
        "the binding of the updating cluster `{cluster}` in the stage `{stage}` is not up-to-date with the desired status, please check the status of binding `{binding}` and see if there is a concurrent updateRun referencing the same placement and updating the same cluster"
    ))
}

/// The binding of a cluster is gone.
pub fn missing(cluster: &str, stage: &str, when: &str) -> String {
    abort(&ErrorClass::Unexpected.message(format!(
        "the binding for cluster `{cluster}` in stage `{stage}` is not found in the toBeUpdatedBindings map{when}"
    )))
}

/// A cluster was recorded as failed before.
pub fn cluster_failed(cluster: &str, stage: &str) -> String {
    abort(&format!("the cluster `{cluster}` in the stage {stage} has failed"))
}

/// The recorded version is not the number of a snapshot.
pub fn bad_index(index: &str, error: impl Display) -> Failure {
    Failure::abort_unexpected(format!(
        "the updateRun has a bad resourceSnapshotIndexUsed `{index}`: {error}"
    ))
}

/// A deletion stage without a cluster whose binding is to go.
pub fn not_listed(cluster: &str, when: &str) -> Failure {
    Failure::abort_unexpected(format!(
        "the to be deleted cluster `{cluster}` is not in the deleting stage during {when}"
    ))
}

/// A deletion stage that says a cluster is cleaned although its binding is there.
pub fn still_bound(cluster: &str) -> Failure {
    Failure::abort_unexpected(format!(
        "the deleted cluster `{cluster}` in the deleting stage still has a binding"
    ))
}

/// A state that no run has. The usual beginning is missing, as in KubeFleet.
pub fn unsupported_state(state: &str) -> String {
    let detail = format!("found unsupported updateRun state: {state}");
    ErrorClass::Unexpected.message(&detail)
}

/// Several final failures as one: itself, or `[a, b]` without repetitions.
pub fn together(failures: Vec<String>) -> Option<String> {
    let mut distinct: Vec<String> = Vec::new();
    for failure in failures {
        if !distinct.contains(&failure) {
            distinct.push(failure);
        }
    }
    match distinct.len() {
        0 => None,
        1 => distinct.pop(),
        _ => Some(format!("[{}]", distinct.join(", "))),
    }
}

/// Names of stuck clusters: three at most, then dots.
pub fn stuck_names(clusters: &[String]) -> String {
    match clusters.get(..3) {
        Some(first) if clusters.len() > 3 => format!("{}...", first.join(", ")),
        _ => clusters.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_names_0_1_2_3_5() {
        let names =
            |count: usize| -> Vec<String> { (1..=count).map(|i| format!("c{i}")).collect() };
        for (count, text) in [
            (0, ""),
            (1, "c1"),
            (2, "c1, c2"),
            (3, "c1, c2, c3"),
            (4, "c1, c2, c3..."),
            (5, "c1, c2, c3..."),
        ] {
            assert_eq!(stuck_names(&names(count)), text);
        }
    }

    #[test]
    fn several_failures_are_listed_once_each() {
        let told = |texts: &[&str]| together(texts.iter().map(|t| (*t).to_owned()).collect());
        assert_eq!(told(&[]), None);
        assert_eq!(told(&["a", "a"]).as_deref(), Some("a"));
        assert_eq!(told(&["a", "b", "a"]).as_deref(), Some("[a, b]"));
    }
}
