//! What the scheduler says of each cluster, and of the whole policy.
//!
//! A decision is API: it stands in the snapshot's status and in the binding, and its
//! reason is printed to people as it is.

use std::collections::BTreeSet;

use flagship_api::condition::{ConditionStatus, Generation, draft};
use flagship_api::condition_type::policy_snapshot::SCHEDULED;
use flagship_api::snapshot::{ClusterDecision, SchedulingPolicySnapshotStatus};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::PolicySnapshot;

/// Most entries `status.targetClusters` may hold.
pub const MOST_DECISIONS: usize = 1000;
/// Most unselected clusters that are explained.
pub const MOST_UNSELECTED: usize = 20;

/// The word on one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The cluster.
    pub cluster: String,
    /// Whether it was picked.
    pub selected: bool,
    /// Its score; absent for PickFixed and for filtered clusters.
    pub score: Option<Score>,
    /// Why, in words for people.
    pub reason: String,
}

/// How well a cluster suits a policy. Greater is better, spread before affinity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Score {
    /// From topology spread constraints; `priorityScore` on the wire.
    pub spread: i32,
    /// From preferred affinity terms.
    pub affinity: i32,
}

/// The condition `Scheduled` of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether as many clusters were found as the policy asks for.
    pub fulfilled: bool,
    /// How many were found.
    pub found: usize,
}

/// A status to write on the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The placement generation that this answers.
    pub placement_generation: i64,
    /// `status.targetClusters`.
    pub decisions: Vec<Decision>,
    /// The condition `Scheduled`.
    pub verdict: Verdict,
}

impl Score {
    /// Both parts, as they stand in reasons.
    fn words(self) -> String {
        format!("(affinity score: {}, topology spread score: {})", self.affinity, self.spread)
    }
}

impl Decision {
    /// Picked; `score` is absent for PickFixed.
    pub fn picked(cluster: &str, score: Option<Score>) -> Self {
        let scored = score.map(|s| format!(" {}", s.words())).unwrap_or_default();
        let reason = format!(
            "Successfully scheduled resources for placement in \"{cluster}\"{scored}: picked by scheduling policy"
        );
        Self { cluster: cluster.to_owned(), selected: true, score, reason }
    }

    /// Passed every filter, but others were better.
    pub fn outscored(cluster: &str, score: Score) -> Self {
        let reason = format!("Cluster \"{cluster}\" does not score high enough {}", score.words());
        Self { cluster: cluster.to_owned(), selected: false, score: Some(score), reason }
    }

    /// Rejected by a filter.
    pub fn filtered(cluster: &str, why: &str) -> Self {
        let reason = format!("ClusterUnschedulable, {why}");
        Self::refused(cluster, reason)
    }

    /// Named by PickFixed, but not eligible.
    pub fn ineligible(cluster: &str, why: &str) -> Self {
        let reason =
            format!("Cluster \"{cluster}\" is not eligible for resource placement yet: {why}");
        Self::refused(cluster, reason)
    }

    /// Named by PickFixed, but not there.
    pub fn unknown(cluster: &str) -> Self {
        Self::refused(cluster, format!("Specified cluster \"{cluster}\" is not found"))
    }

    fn refused(cluster: &str, reason: String) -> Self {
        Self { cluster: cluster.to_owned(), selected: false, score: None, reason }
    }
}

impl Verdict {
    /// Reason of the condition.
    pub fn reason(self) -> &'static str {
        if self.fulfilled { "SchedulingPolicyFulfilled" } else { "SchedulingPolicyUnfulfilled" }
    }

    /// Message of the condition.
    pub fn message(self) -> String {
        let n = self.found;
        if self.fulfilled {
            format!(
                "found all cluster needed as specified by the scheduling policy, found {n} cluster(s)"
            )
        } else {
            format!(
                "could not find all clusters needed as specified by the scheduling policy, found {n} cluster(s) instead"
            )
        }
    }
}

impl Report {
    /// The status of the snapshot with this report in it.
    pub fn status(&self, of: &PolicySnapshot, now: Timestamp) -> SchedulingPolicySnapshotStatus {
        let verdict = self.verdict;
        let truth = if verdict.fulfilled { ConditionStatus::True } else { ConditionStatus::False };
        let mut conditions = of.status.conditions.clone();
        let said = draft(SCHEDULED).is(truth, verdict.reason()).because(verdict.message());
        said.set(&mut conditions, Generation(of.generation), now);
        SchedulingPolicySnapshotStatus {
            observed_crp_generation: self.placement_generation,
            conditions,
            target_clusters: self.decisions.iter().map(|d| d.on_the_wire().into()).collect(),
        }
    }
}

/// Lists decisions within the limits: selected ones first, then at most
/// [`MOST_UNSELECTED`] others, the outscored before the filtered.
pub fn list(
    selected: Vec<Decision>,
    outscored: Vec<Decision>,
    filtered: Vec<Decision>,
) -> Vec<Decision> {
    let mut listed: Vec<Decision> = selected;
    listed.truncate(MOST_DECISIONS);
    let window = MOST_UNSELECTED.min(MOST_DECISIONS - listed.len());
    listed.extend(outscored.into_iter().take(window));
    let left = window.saturating_sub(listed.iter().filter(|d| !d.selected).count());
    let already: BTreeSet<String> = listed.iter().map(|d| d.cluster.clone()).collect();
    // A cluster that is listed already uses up its place in the window all the same.
    listed.extend(filtered.into_iter().take(left).filter(|d| !already.contains(&d.cluster)));
    listed
}

/// The report, unless the snapshot says the same already.
pub fn report(
    snapshot: &PolicySnapshot,
    decisions: Vec<Decision>,
    verdict: Verdict,
) -> Option<Report> {
    unless_recorded(snapshot, decisions, verdict, |_| true)
}

/// The same for a pass that looked at nothing but the selected clusters: what is recorded
/// of others is neither confirmed nor taken back.
pub fn report_of_selected(
    snapshot: &PolicySnapshot,
    decisions: Vec<Decision>,
    verdict: Verdict,
) -> Option<Report> {
    unless_recorded(snapshot, decisions, verdict, |recorded| recorded.selected)
}

fn unless_recorded(
    snapshot: &PolicySnapshot,
    decisions: Vec<Decision>,
    verdict: Verdict,
    counts: impl Fn(&ClusterDecision) -> bool,
) -> Option<Report> {
    // A pass that does not know it has failed before it came here.
    let placement_generation = snapshot.answers()?;
    let recorded = &snapshot.status;
    let written = recorded.target_clusters.iter().map(|decision| &**decision);
    let known = recorded.observed_crp_generation == placement_generation
        && snapshot.verdict() == Some(verdict)
        && are_written(&decisions, written.filter(|d| counts(d)).collect());
    (!known).then_some(Report { placement_generation, decisions, verdict })
}

/// Whether these decisions were written. They are a set; their order says nothing.
fn are_written(decisions: &[Decision], mut written: Vec<&ClusterDecision>) -> bool {
    let mut decisions: Vec<&Decision> = decisions.iter().collect();
    decisions.sort_by(|a, b| (&a.cluster, &a.reason).cmp(&(&b.cluster, &b.reason)));
    written.sort_by(|a, b| (&a.cluster_name, &a.reason).cmp(&(&b.cluster_name, &b.reason)));
    decisions.len() == written.len()
        && decisions.into_iter().zip(written).all(|(decision, written)| decision.is(written))
}
