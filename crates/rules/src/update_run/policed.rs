//! What policies and people do to clusters of a run: some are skipped, some have failed, and
//! a budget may be spent.
//!
//! A cluster that is skipped or has failed gives its slot back and is never touched again by
//! this run. Which policies a run follows was fixed when it was initialized
//! (`policy::adopted`); without any, nothing here finds anything.

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::binding::{APPLIED, AVAILABLE};
use flagship_api::condition_type::updating_cluster;
use flagship_api::rollout_policy::{Then, Unreachable};
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageUpdatingStatus, UpdateRunStatus,
};
use flagship_base::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};

use super::budget::{Budget, budgets, failed, named};
use super::checked;
use super::delivery::was_signalled;
use super::lifecycle::{failed_under_policy, in_flight, is_skipped, outcome, started_at};
use super::messages::abort;
use super::observed::{Observed, OtherRun};
use super::plan_builder::PlanBuilder;
use super::status::ConditionValue;
use crate::diagnosis::code;
use crate::model::Binding;
use crate::policy::adopted::{Adopted, FINAL_AFTER};

/// What becomes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is left out, for this reason.
    Skip(String),
    /// It has failed, in these words.
    Fail(String),
    /// Nothing yet: it is under check.
    Wait,
}

/// Begins the message of every cluster that a policy calls failed.
pub use super::lifecycle::FAILED_UNDER;

/// A cluster that is not there any more.
pub fn left(cluster: &str) -> Verdict {
    Verdict::Skip(format!("Skipped: {cluster} left the placement while the run was under way"))
}

/// A cluster that somebody wants to be left out.
pub fn asked_to_skip(seen: &Observed, cluster: &str) -> Option<Verdict> {
    let skip = seen.run.skips.get(cluster)?;
    let by = match skip.by.as_str() {
        "" => String::new(),
        by => format!(" by {by}"),
    };
    Some(Verdict::Skip(format!("Skipped{by}: {}", skip.reason)))
}

/// A cluster that has been silent for longer than a policy allows.
pub fn silent(seen: &Observed, stage: &str, cluster: &str) -> Option<Verdict> {
    let (what, after, who) = seen.run.adopted.as_ref()?.unreachable(stage)?;
    let found = seen.clusters.iter().find(|found| found.name == cluster)?;
    let heard = found.agent.as_ref()?.heartbeat;
    if seen.now.duration_since(heard) <= after {
        return None;
    }
    let told = format!("HEARTBEAT_STALE, {cluster} has not been heard of since {heard:.0}");
    Some(match what {
        Unreachable::Fail => Verdict::Fail(format!("{FAILED_UNDER}{who}: {told}")),
        _ => Verdict::Skip(format!("Skipped under policy {who}: {told}")),
    })
}

/// A cluster of a rollback that another run has moved since: what that one brought stays.
pub fn moved_on(seen: &Observed, binding: &Binding) -> Option<Verdict> {
    let undoes = seen.run.adopted.as_ref()?.undoes.as_ref()?;
    let fence = binding.fence.as_ref();
    let is_ours = |run: &str| run == undoes.uid || run == seen.run.uid;
    if fence.is_some_and(|fence| is_ours(&fence.run)) {
        return None;
    }
    let cluster = binding.cluster();
    Some(Verdict::Skip(format!("Skipped: another update run has moved {cluster} since")))
}

/// What becomes of a cluster that has got what the run brings, and does not work yet.
pub fn judge(
    pass: &mut PlanBuilder<'_>,
    stage: &str,
    entry: &ClusterUpdatingStatus,
    binding: &Binding,
) -> Option<Verdict> {
    let asked = asked_to_skip(pass.seen, &entry.cluster_name);
    let found = asked.or_else(|| silent(pass.seen, stage, &entry.cluster_name));
    found.or_else(|| late(pass, stage, entry, binding))
}

/// A cluster under way that has had its time, or cannot be healed by time; looks again when it
/// would have.
fn late(
    pass: &mut PlanBuilder<'_>,
    stage: &str,
    entry: &ClusterUpdatingStatus,
    binding: &Binding,
) -> Option<Verdict> {
    let (seen, cluster) = (pass.seen, entry.cluster_name.as_str());
    let limits = seen.run.adopted.as_ref()?.limits(stage);
    let signalled = was_signalled(binding).map(|told| told.last_transition_time.0);
    let started = begun(entry, signalled)?;
    let cause = cause_of(seen, cluster, binding);
    let mut over = |since: Timestamp, each: SignedDuration| {
        let left = limits.stretched(each) - seen.now.duration_since(since);
        if left > SignedDuration::ZERO {
            pass.wake_in(left);
        }
        left <= SignedDuration::ZERO
    };
    if let (Some(who), Some((code, says))) = (limits.final_causes, &cause)
        && FINAL.contains(&code.as_str())
    {
        let since = unavailable_since(binding).map_or(started, |since| since.max(started));
        if over(since, FINAL_AFTER) {
            return Some(Verdict::Fail(format!("{FAILED_UNDER}{who}: {code}, {says}")));
        }
    }
    let (deadline, who) = limits.deadline?;
    if !over(started, deadline) {
        return None;
    }
    let within = GoDuration::from_secs(deadline.as_secs());
    let why = cause.map_or_else(String::new, |(code, says)| format!("; {code}, {says}"));
    Some(Verdict::Fail(format!("{FAILED_UNDER}{who}: not available within {within}{why}")))
}

/// When the time of a cluster begins: when it is delivered, however long the hub was away before.
fn begun(entry: &ClusterUpdatingStatus, signalled: Option<Timestamp>) -> Option<Timestamp> {
    Some(started_at(entry)?.max(signalled.unwrap_or(Timestamp::MIN)))
}

/// By when a cluster under way must be available, if a policy says so. `signalled` is when its
/// binding was told to begin.
pub fn available_by(
    adopted: &Adopted,
    stage: &str,
    entry: &ClusterUpdatingStatus,
    signalled: Option<Timestamp>,
) -> Option<Timestamp> {
    if !in_flight(entry) {
        return None;
    }
    let limits = adopted.limits(stage);
    let (each, _) = limits.deadline?;
    begun(entry, signalled)?.checked_add(limits.stretched(each)).ok()
}

/// Why a cluster was left out: `Skipped by bob: is broken`.
pub fn why_skipped(entry: &ClusterUpdatingStatus) -> Option<&str> {
    let told = entry.conditions.of_type(updating_cluster::SUCCEEDED)?;
    is_skipped(entry).then_some(told.message.as_str())
}

/// Causes that time does not heal.
const FINAL: [&str; 4] =
    [code::IMAGE_NAME_INVALID, code::IMAGE_NOT_FOUND, code::WEBHOOK_DENIED, FIELD_IMMUTABLE];
const FIELD_IMMUTABLE: &str = "FIELD_IMMUTABLE";

/// Why a cluster does not get on, as its agent reports it or as the refusal of an object tells.
fn cause_of(seen: &Observed, cluster: &str, binding: &Binding) -> Option<(String, String)> {
    let reported = seen.policy.reports.get(cluster).into_iter().flatten();
    let reported = reported.map(|found| (found.cause.clone(), found.says.clone())).next();
    reported.or_else(|| {
        binding.status.failed_placements.iter().find_map(|failed| {
            let says = &failed.condition.message;
            let code = if says.contains("field is immutable") {
                FIELD_IMMUTABLE
            } else if says.contains("admission webhook") && says.contains("denied the request") {
                code::WEBHOOK_DENIED
            } else {
                return None;
            };
            Some((code.to_owned(), says.clone()))
        })
    })
}

fn unavailable_since(binding: &Binding) -> Option<Timestamp> {
    let said = [APPLIED, AVAILABLE].iter().filter_map(|kind| {
        let told = binding.status.conditions.of_type(kind)?;
        (ConditionStatus::of(told) == ConditionStatus::False).then_some(told.last_transition_time.0)
    });
    said.max()
}

/// More clusters have failed than may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// What follows.
    pub then: Then,
    /// Whose budget it was, and who has spent it.
    pub text: String,
}

/// Whether the budget of the run, or of one of these stages, is spent, or a stage has failed
/// its checks.
pub fn spent<'a>(
    adopted: Option<&Adopted>,
    stages: impl Iterator<Item = &'a StageUpdatingStatus> + Clone,
) -> Option<Spent> {
    let found = budget_spent(adopted, stages.clone());
    found.or_else(|| checked::failed(adopted?, stages))
}

/// Whether the budget of the run, or of one of these stages, is spent.
pub fn budget_spent<'a>(
    adopted: Option<&Adopted>,
    stages: impl Iterator<Item = &'a StageUpdatingStatus> + Clone,
) -> Option<Spent> {
    let adopted = adopted?;
    let last = stages.clone().filter(|stage| !failed(stage).is_empty()).last()?;
    let over = budgets(adopted, stages).into_iter().find(Budget::is_spent)?;
    let whose =
        over.stage.as_ref().map_or("the run".to_owned(), |stage| format!("stage `{stage}`"));
    let text = format!(
        "the failure budget of {whose} is spent, {} cluster(s) have failed and {} may: {} (policy {})",
        over.failed.len(),
        over.allowed,
        named(&over.failed),
        adopted.names()
    );
    let stage = over.stage.as_ref().unwrap_or(&last.stage_name);
    Some(Spent { then: adopted.then(stage), text })
}

/// The same for a pass that works on one stage.
pub fn spent_with(pass: &PlanBuilder<'_>, stage: &StageUpdatingStatus) -> Option<Spent> {
    let others = pass.status.stages_status.iter().filter(|other| !other.stage_name.is_empty());
    spent(pass.seen.run.adopted.as_ref(), others.chain([stage]))
        .filter(|spent| spent.then != Then::Continue)
}

/// What a run says at its end: that it is done, and without whom.
pub fn ended(seen: &Observed, status: &UpdateRunStatus) -> ConditionValue {
    let names = |is: fn(&ClusterUpdatingStatus) -> bool| -> Vec<String> {
        let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
        clusters.filter(|cluster| is(cluster)).map(|c| c.cluster_name.clone()).collect()
    };
    let (failed, skipped) = (names(failed_under_policy), names(is_skipped));
    if let Some(spent) = spent(seen.run.adopted.as_ref(), status.stages_status.iter()) {
        return ConditionValue::FailedAtTheEnd(abort(&spent.text));
    }
    let mut without = Vec::new();
    if !failed.is_empty() {
        without.push(format!("failed within the budget: {}", named(&failed)));
    }
    if !skipped.is_empty() {
        without.push(format!("skipped: {}", named(&skipped)));
    }
    match without.is_empty() {
        true => ConditionValue::Succeeded,
        false => ConditionValue::SucceededWithout(format!(
            "All stages are completed; {}",
            without.join("; ")
        )),
    }
}

/// Why nothing of a run begins any more, if what it brings must not be rolled out.
pub fn quarantined(seen: &Observed, status: &UpdateRunStatus) -> Option<String> {
    let found = seen.policy.brought.as_ref()?.quarantine.as_ref()?;
    Some(found.told(&seen.run.placement_key(), &status.resource_snapshot_index_used))
}

/// Whether the stored record says that the budget is spent, and nothing is under way.
pub fn is_spent_for_good(seen: &Observed) -> bool {
    let stages = seen.run.status.stages_status.iter();
    let flying = stages.clone().flat_map(|stage| &stage.clusters).any(in_flight);
    !flying && spent(seen.run.adopted.as_ref(), stages).is_some()
}

/// Why a run fails that a newer one has overtaken, if a policy says so. It does not matter
/// whose promise is the later: two that were made at once would count for none.
pub fn overtaken(seen: &Observed, status: &UpdateRunStatus) -> Option<String> {
    let who = seen.run.adopted.as_ref()?.fails_when_overtaken()?;
    let version = &status.resource_snapshot_index_used;
    let newer = seen
        .rivals
        .iter()
        .filter(|rival| rival.created > seen.run.created && rival.version != *version);
    let taken = |rival: &OtherRun| {
        let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
        clusters.filter(|cluster| rival.started.contains_key(&cluster.cluster_name)).count()
    };
    let newer = newer.map(|rival| (rival, taken(rival))).filter(|(_, clusters)| *clusters > 0);
    let (last, clusters) = newer.max_by_key(|(rival, _)| (rival.created, &rival.name))?;
    Some(abort(&format!(
        "the run was overtaken by update run `{}`, which has taken {clusters} cluster(s) to snapshot {}, and takes nothing back (policy {who})",
        last.name, last.version
    )))
}

/// Marks clusters of a stage that somebody wants to be left out, and that have not begun.
pub fn leave_out(pass: &mut PlanBuilder<'_>, stage: &mut StageUpdatingStatus) {
    let waiting =
        |entry: &&mut ClusterUpdatingStatus| outcome(entry).is_none() && !in_flight(entry);
    for entry in stage.clusters.iter_mut().filter(waiting) {
        if let Some(verdict) = asked_to_skip(pass.seen, &entry.cluster_name) {
            settle(pass, entry, &verdict);
        }
    }
}

/// Writes a verdict down. A cluster that has failed counts as begun; one that is skipped before
/// it began does not.
pub fn settle(pass: &mut PlanBuilder<'_>, entry: &mut ClusterUpdatingStatus, verdict: &Verdict) {
    match verdict {
        Verdict::Wait => {}
        Verdict::Skip(text) => pass.writer.cluster_skipped(entry, text),
        Verdict::Fail(text) => {
            if !in_flight(entry) {
                pass.writer.cluster_started(entry);
            }
            pass.writer.cluster_failed(entry, text);
        }
    }
}
