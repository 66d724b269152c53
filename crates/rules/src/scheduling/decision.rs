//! What the scheduler says of each cluster, and of the whole policy.
//!
//! A decision is API: it stands in the snapshot's status and in the binding, and its
//! reason is printed to people as it is.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::observed::{Recorded, Snapshot};

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
pub fn report(snapshot: &Snapshot, decisions: Vec<Decision>, verdict: Verdict) -> Option<Report> {
    unless_recorded(snapshot, decisions, verdict, |_| true)
}

/// The same for a pass that looked at nothing but the selected clusters: what is recorded
/// of others is neither confirmed nor taken back.
pub fn report_of_selected(
    snapshot: &Snapshot,
    decisions: Vec<Decision>,
    verdict: Verdict,
) -> Option<Report> {
    unless_recorded(snapshot, decisions, verdict, |recorded| recorded.selected)
}

fn unless_recorded(
    snapshot: &Snapshot,
    decisions: Vec<Decision>,
    verdict: Verdict,
    counts: impl Fn(&Decision) -> bool,
) -> Option<Report> {
    // A pass that does not know it has failed before it came here.
    let placement_generation = snapshot.generation()?;
    let same = |recorded: &Recorded| {
        recorded.placement_generation == placement_generation
            && recorded.verdict == Some(verdict)
            && by_cluster(recorded.decisions.iter().filter(|d| counts(d)))
                == by_cluster(decisions.iter())
    };
    let known = snapshot.recorded.as_ref().is_some_and(same);
    (!known).then_some(Report { placement_generation, decisions, verdict })
}

/// Decisions are a set; the order they are written in says nothing.
fn by_cluster<'a>(decisions: impl Iterator<Item = &'a Decision>) -> Vec<&'a Decision> {
    let mut sorted: Vec<&Decision> = decisions.collect();
    sorted.sort_by(|a, b| match a.cluster.cmp(&b.cluster) {
        Ordering::Equal => a.reason.cmp(&b.reason),
        unequal => unequal,
    });
    sorted
}
