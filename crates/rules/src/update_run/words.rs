//! Every sentence a run says about a failure, and how causes are put together.
//!
//! A text that starts with `cannot continue the updateRun` is final; everything else is
//! tried again. Slips of the original are kept: clients match on them.

use flagship_api::error_class::ErrorClass;

use crate::placement::Trouble;

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
    Passing(Trouble),
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

    /// The run no longer fits the world.
    pub fn abort(detail: impl AsRef<str>) -> Self {
        Self::Final(abort(detail.as_ref()))
    }

    /// The run no longer fits the world because of something a user did.
    pub fn abort_user(detail: impl AsRef<str>) -> Self {
        Self::abort(ErrorClass::User.message(detail.as_ref()))
    }

    /// The run contradicts itself.
    pub fn abort_unexpected(detail: impl AsRef<str>) -> Self {
        Self::abort(ErrorClass::Unexpected.message(detail.as_ref()))
    }

    /// Tried again with backoff.
    pub fn passing(detail: impl Into<String>) -> Self {
        Self::Passing(Trouble::Expected(detail.into()))
    }
}

/// A final failure as text.
pub fn abort(detail: &str) -> String {
    format!("{ABORT}: {detail}")
}

/// A state that no run has. The usual beginning is missing, as in the original.
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
