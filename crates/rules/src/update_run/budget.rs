//! How many clusters of a run may fail, how many have, and which.

use flagship_api::staged_update_status::StageUpdatingStatus;
use serde::Serialize;

use super::lifecycle::failed_under_policy;
use super::stages::NAMED_AT_MOST;
use crate::policy::adopted::Adopted;

/// The budget of a stage, or of the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The stage; nothing for the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// How many clusters may fail.
    pub allowed: usize,
    /// Those that have failed.
    pub failed: Vec<String>,
    /// The same in words.
    pub says: String,
}

impl Budget {
    fn of(stage: Option<&str>, allowed: usize, failed: Vec<String>) -> Self {
        let whose = stage.map_or_else(|| "the run".to_owned(), |stage| format!("stage {stage}"));
        let says = match (failed.len(), allowed) {
            (0, 0) => format!("{whose}: none may fail"),
            (0, allowed) => format!("{whose}: {allowed} may fail, none has"),
            (count, allowed) if count > allowed => {
                format!("{whose}: spent, {count} failed and {allowed} may: {}", named(&failed))
            }
            (count, allowed) => {
                format!("{whose}: {count} of {allowed} spent by {}", named(&failed))
            }
        };
        Self { stage: stage.map(str::to_owned), allowed, failed, says }
    }

    /// Whether more clusters have failed than may.
    pub fn is_spent(&self) -> bool {
        self.failed.len() > self.allowed
    }
}

/// The budgets of these stages in their order, and last the one of the whole run.
pub fn budgets<'a>(
    adopted: &Adopted,
    stages: impl Iterator<Item = &'a StageUpdatingStatus> + Clone,
) -> Vec<Budget> {
    let all: usize = stages.clone().map(|stage| stage.clusters.len()).sum();
    let of_run = adopted.run_budget(all);
    let mut found = Vec::new();
    for stage in stages.clone() {
        let name = stage.stage_name.as_str();
        let allowed = adopted.stage_budget(name, stage.clusters.len());
        // Where nobody says how many may fail, none may.
        let allowed = allowed.or_else(|| of_run.is_none().then_some(0));
        found.extend(allowed.map(|allowed| Budget::of(Some(name), allowed, failed(stage))));
    }
    found
        .extend(of_run.map(|allowed| Budget::of(None, allowed, stages.flat_map(failed).collect())));
    found
}

/// Clusters of a stage that a policy calls failed.
pub fn failed(stage: &StageUpdatingStatus) -> Vec<String> {
    let failed = stage.clusters.iter().filter(|cluster| failed_under_policy(cluster));
    failed.map(|cluster| cluster.cluster_name.clone()).collect()
}

/// The first of these names, and how many more there are.
pub fn named(clusters: &[String]) -> String {
    let first = clusters.iter().take(NAMED_AT_MOST).cloned().collect::<Vec<_>>().join(", ");
    match clusters.len().saturating_sub(NAMED_AT_MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_says_how_many_may_fail_and_who_has_spent_it() {
        let said = |stage: Option<&str>, allowed: usize, failed: &[&str]| {
            let failed = failed.iter().map(|name| (*name).to_owned()).collect();
            Budget::of(stage, allowed, failed).says
        };
        for (stage, allowed, failed, says) in [
            (None, 0, &[][..], "the run: none may fail"),
            (None, 2, &[], "the run: 2 may fail, none has"),
            (Some("prod"), 2, &["a"], "stage prod: 1 of 2 spent by a"),
            (Some("prod"), 2, &["a", "b"], "stage prod: 2 of 2 spent by a, b"),
            (None, 1, &["a", "b"], "the run: spent, 2 failed and 1 may: a, b"),
            (Some("prod"), 0, &["a"], "stage prod: spent, 1 failed and 0 may: a"),
        ] {
            assert_eq!(said(stage, allowed, failed), says);
        }
    }
}
