//! Names around update runs.

use super::StageName;
use crate::keys::task_type;

/// Name of the stage that removes resources from dropped clusters. No stage of a
/// strategy can be called so: stage names have no slash.
pub const DELETION_STAGE: &str = "kubernetes-fleet.io/deleteStage";

/// On which side of a stage a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StageSide {
    /// Before the first cluster starts.
    Before,
    /// After the last cluster finished.
    After,
}

impl StageSide {
    /// Value of the task-type label on approval requests.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Before => task_type::BEFORE_STAGE,
            Self::After => task_type::AFTER_STAGE,
        }
    }
}

/// Approval request of a task: `{run}-before-{stage}` or `{run}-after-{stage}`.
///
/// Run and stage have 63 characters at most, so this stays within a name's 253.
pub fn approval_request(run: &str, side: StageSide, stage: impl Into<StageName>) -> String {
    let stage = stage.into();
    match side {
        StageSide::Before => format!("{run}-before-{stage}"),
        StageSide::After => format!("{run}-after-{stage}"),
    }
}

/// What the name of a run ends with that takes another one back.
const ROLLBACK: &str = "-rollback";

/// The run that takes a run back: `{run}-rollback`; nothing if that is too long for a name.
pub fn rollback_run(run: &str) -> Option<String> {
    let name = format!("{run}{ROLLBACK}");
    (name.len() < 128).then_some(name)
}

/// The run that a run of this name takes back.
pub fn rolled_back_run(name: &str) -> Option<&str> {
    name.strip_suffix(ROLLBACK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagship_base::names as rule;

    #[test]
    fn an_approval_request_names_run_side_and_stage() {
        assert_eq!(
            approval_request("example-run", StageSide::After, "staging"),
            "example-run-after-staging"
        );
        assert_eq!(
            approval_request("web-app-rollout", StageSide::Before, "dev"),
            "web-app-rollout-before-dev"
        );
        assert_eq!(
            (StageSide::Before.label(), StageSide::After.label()),
            ("beforeStage", "afterStage")
        );
    }

    #[test]
    fn the_longest_request_is_still_a_name() {
        let stage = StageName::from("s".repeat(63));
        let name = approval_request(&"r".repeat(63), StageSide::Before, stage);
        assert!(rule::dns1123_subdomain(&name).is_empty());
    }
}
