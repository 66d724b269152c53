//! Checks of a run: which are asked at a moment, and what follows from where they stand.
//!
//! A cluster under check has got what the run brings and keeps its slot; a stage under check
//! has no cluster left to update, and its tasks after it are not asked yet. A verdict in the
//! record stands. What was measured without one is kept by the hub that asks and by nobody
//! else: a new leader asks anew from the beginning.
//!
//! A stage that fails says so first and ends in the next pass, so that nothing which follows
//! rests on what only one hub has in its memory.

use flagship_api::condition::Conditions;
use flagship_api::condition_type::update_run::{PROGRESSING, SUCCEEDED};
use flagship_api::reason::update_run as reason;
use flagship_api::rollout_policy::After;
use flagship_api::rollout_record::{RecordEntry, What};
use flagship_api::staged_update_status::{StageUpdatingStatus, UpdateRunStatus};

use super::gates::STAGE_POLL;
use super::lifecycle::{is_finished, is_settled, is_started};
use super::observed::Observed;
use super::plan_builder::PlanBuilder;
use super::policed::{FAILED_UNDER, Spent, Verdict};
use super::reconcile::Waiting;
use super::status::ConditionValue;
use crate::policy::Adopted;
use crate::policy::checks::{self, Ask, CHECK_FAILED, Key, Standing, id, others};
use crate::record::EntryDraft;

/// Begins what a stage says whose checks have failed.
pub const CHECKS_FAILED: &str = "Checks failed under policy ";

/// What the checks of a stage, or of a cluster, come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// There are none, or all have passed.
    Passed,
    /// Some are not decided.
    Open,
    /// One has failed: whose it is, and in which words.
    Failed(String, String),
}

/// Whether clusters of a stage are checked one by one.
pub fn checks_clusters(seen: &Observed, stage: &str) -> bool {
    let adopted = seen.run.adopted.as_ref();
    adopted.is_some_and(|adopted| adopted.checks(stage, After::Cluster).next().is_some())
}

/// Clusters of a run that have not begun, while one of its stages is taken out.
pub fn not_begun(status: &UpdateRunStatus, stage: &StageUpdatingStatus) -> Vec<String> {
    let stages = status.stages_status.iter().chain([stage]);
    let clusters = stages.flat_map(|stage| &stage.clusters);
    let waiting = clusters.filter(|cluster| !is_started(cluster) && !is_settled(cluster));
    waiting.map(|cluster| cluster.cluster_name.clone()).collect()
}

/// What becomes of a cluster that has got what the run brings and works.
pub fn of_cluster(
    pass: &mut PlanBuilder<'_>,
    stage: &str,
    cluster: &str,
    rest: &[String],
) -> Option<Verdict> {
    let updated = [cluster.to_owned()];
    match of(pass, stage, Some(cluster), &updated, rest) {
        Checked::Passed => None,
        Checked::Open => Some(Verdict::Wait),
        Checked::Failed(policy, why) => {
            Some(Verdict::Fail(format!("{FAILED_UNDER}{policy}: {CHECK_FAILED}, {why}")))
        }
    }
}

/// What becomes of a stage whose clusters are all updated; nothing if it may go on.
pub fn of_stage(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
) -> Option<ConditionValue> {
    if failure(stage).is_some() || waits_after(stage) {
        return None;
    }
    let name = stage.stage_name.clone();
    let updated = stage.clusters.iter().filter(|cluster| is_finished(cluster));
    let updated: Vec<String> = updated.map(|cluster| cluster.cluster_name.clone()).collect();
    let rest = not_begun(&pass.status, stage);
    match of(pass, &name, None, &updated, &rest) {
        Checked::Passed => None,
        Checked::Open => {
            pass.wake_in(STAGE_POLL);
            Some(wait(pass, &name))
        }
        Checked::Failed(policy, why) => {
            let text = format!("{CHECKS_FAILED}{policy}: {CHECK_FAILED}, {why}");
            pass.writer.stage_checks_failed(stage, &text);
            pass.wake_in(jiff::SignedDuration::ZERO);
            Some(ConditionValue::Progressing)
        }
    }
}

/// Whether a stage has come to its tasks after it, which are asked when its checks have passed.
fn waits_after(stage: &StageUpdatingStatus) -> bool {
    let told = stage.conditions.of_type(PROGRESSING);
    stage.start_time.is_some() && told.is_some_and(|told| told.reason == reason::stage::WAITING)
}

/// Whether the checks of a stage, or of a cluster in it, have passed, or nothing is asked.
pub fn have_passed(seen: &Observed, stage: &StageUpdatingStatus, cluster: Option<&str>) -> bool {
    let Some(adopted) = &seen.run.adopted else { return true };
    let after = if cluster.is_some() { After::Cluster } else { After::Stage };
    let nothing_updated = cluster.is_none() && !stage.clusters.iter().any(is_finished);
    let mut all = adopted.checks(&stage.stage_name, after);
    all.all(|(policy, check)| {
        let of = cluster.unwrap_or_default().to_owned();
        let key = (id(policy, check), stage.stage_name.clone(), of);
        let verdict = verdict(seen, &key).map(|(verdict, _)| verdict);
        verdict == Some(checks::Verdict::Passed) || (nothing_updated && check.is_per_cluster())
    }) || (cluster.is_none() && (waits_after(stage) || failure(stage).is_some()))
}

/// Says that a stage waits for checks, and for which.
pub fn wait(pass: &mut PlanBuilder<'_>, stage: &str) -> ConditionValue {
    let open = pass.asks().iter().filter(|ask| verdict(pass.seen, &ask.key()).is_none());
    let told: Vec<String> = open.map(|ask| told(pass.seen, ask)).collect();
    pass.wait(Waiting::Checking { stage: stage.to_owned(), checks: told.clone() });
    let first = told.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    let more = match told.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    ConditionValue::Checking(format!("checks of stage {stage} are not done: {first}{more}"))
}

/// Checks that a run names where many are open.
const NAMED: usize = 3;

/// `errors of m1 (policy production): 0.004 is below 0.01 since ...`.
fn told(seen: &Observed, ask: &Ask) -> String {
    let of = ask.cluster.as_ref().map_or_else(String::new, |cluster| format!(" of {cluster}"));
    let standing = standing(seen, &ask.key()).map_or("not asked yet", |found| &found.told);
    format!("{}{of} (policy {}): {standing}", ask.check.name, ask.policy)
}

fn standing<'a>(seen: &'a Observed, key: &Key) -> Option<&'a Standing> {
    seen.policy.checks.iter().find(|found| found.key == *key)
}

fn of(
    pass: &mut PlanBuilder<'_>,
    stage: &str,
    cluster: Option<&str>,
    updated: &[String],
    rest: &[String],
) -> Checked {
    let seen = pass.seen;
    let Some(adopted) = &seen.run.adopted else { return Checked::Passed };
    let after = if cluster.is_some() { After::Cluster } else { After::Stage };
    let (mut open, mut asks) = (false, Vec::new());
    for (policy, check) in adopted.checks(stage, after) {
        if check.is_per_cluster() && updated.is_empty() {
            // Nothing was updated that could be asked about.
            continue;
        }
        let ask = Ask {
            policy: policy.to_owned(),
            check: check.clone(),
            run: seen.run.name.clone(),
            stage: stage.to_owned(),
            cluster: cluster.map(str::to_owned),
            updated: updated.to_vec(),
            rest: if check.compares() { others(rest.to_vec()) } else { Vec::new() },
        };
        match verdict(seen, &ask.key()) {
            None => open = true,
            // What the hub knows is kept until the others are done, too.
            Some((checks::Verdict::Passed, _)) => {}
            Some((checks::Verdict::Failed, why)) => {
                return Checked::Failed(policy.to_owned(), format!("check {}: {why}", check.name));
            }
        }
        asks.push(ask);
    }
    if !open {
        return Checked::Passed;
    }
    asks.into_iter().for_each(|ask| pass.ask(ask));
    Checked::Open
}

/// How a check has ended: as the record says, or as it was just measured.
fn verdict(seen: &Observed, key: &Key) -> Option<(checks::Verdict, String)> {
    let entries = seen.record.iter().flat_map(|entries| entries.iter());
    let mut own = entries.filter(|entry| is_about(entry, key));
    let recorded = own.find_map(|entry| match entry.what {
        What::CheckPassed => Some((checks::Verdict::Passed, entry.text.clone())),
        What::CheckFailed => Some((checks::Verdict::Failed, entry.text.clone())),
        _ => None,
    });
    let recorded = recorded.map(|(verdict, text)| (verdict, text.unwrap_or_default()));
    recorded.or_else(|| {
        let found = standing(seen, key)?;
        Some((found.verdict?, found.told.clone()))
    })
}

fn is_about(entry: &RecordEntry, (id, stage, cluster): &Key) -> bool {
    entry.gate.as_ref() == Some(id)
        && entry.stage.as_ref() == Some(stage)
        && entry.cluster.as_deref().unwrap_or_default() == cluster
}

/// What a stage says whose checks have failed.
pub fn failure(stage: &StageUpdatingStatus) -> Option<&str> {
    let told = [SUCCEEDED, PROGRESSING].iter().filter_map(|kind| stage.conditions.of_type(kind));
    let mut marked =
        told.filter_map(|told| Some(&told.message[told.message.find(CHECKS_FAILED)?..]));
    marked.next()
}

/// Which stage has failed its checks, if one has.
pub fn failed<'a>(
    adopted: &Adopted,
    mut stages: impl Iterator<Item = &'a StageUpdatingStatus>,
) -> Option<Spent> {
    stages.find_map(|stage| {
        let why = failure(stage)?;
        let name = &stage.stage_name;
        let text = format!("stage `{name}` has not proved itself: {why}");
        Some(Spent { then: adopted.then(name), text })
    })
}

/// A stage that goes on although its checks have failed says so until its end, since the run
/// must not forget it.
pub fn goes_on(stage: &mut StageUpdatingStatus, failure: Option<&str>) {
    let Some(failure) = failure else { return };
    for told in &mut stage.conditions {
        if [SUCCEEDED, PROGRESSING].contains(&told.type_.as_str())
            && !told.message.contains(failure)
        {
            told.message = format!("{}. {failure}", told.message);
        }
    }
}

/// Measurements of a check that a record holds at most.
const MOST_KEPT: usize = 20;

/// What the record does not say of the checks of a run: verdicts, and what was measured of
/// stages from time to time.
pub fn owed(seen: &Observed, entries: &[RecordEntry]) -> Vec<EntryDraft> {
    let Some(adopted) = &seen.run.adopted else { return Vec::new() };
    let mut told = Vec::new();
    for standing in &seen.policy.checks {
        let (name, stage, cluster) = &standing.key;
        let after = if cluster.is_empty() { After::Stage } else { After::Cluster };
        let mut checks = adopted.checks(stage, after);
        let Some((_, check)) = checks.find(|(policy, check)| id(policy, check) == *name) else {
            continue;
        };
        let own = || entries.iter().filter(|entry| is_about(entry, &standing.key));
        let measured = standing.last.as_ref().map(|(_, measured)| measured.clone());
        let draft = |what| {
            let draft =
                EntryDraft::of(what).stage(stage).gate(name.clone()).measured(measured.clone());
            if cluster.is_empty() { draft } else { draft.cluster(cluster) }
        };
        let is_over = own().any(|e| matches!(e.what, What::CheckPassed | What::CheckFailed));
        if is_over {
            continue;
        }
        match standing.verdict {
            Some(checks::Verdict::Passed) => {
                told.push(draft(What::CheckPassed).text(&standing.told));
                continue;
            }
            Some(checks::Verdict::Failed) => {
                let draft = draft(What::CheckFailed).cause(CHECK_FAILED);
                told.push(draft.text(&standing.told));
                continue;
            }
            None => {}
        }
        let Some((at, _)) = &standing.last else { continue };
        let earlier = own().filter(|entry| entry.what == What::CheckMeasured);
        let apart = checks::every(check).max(checks::holds_for(check) / 10);
        let last = earlier.clone().map(|entry| entry.time.0).max();
        let due = last.is_none_or(|last| at.duration_since(last) >= apart);
        if cluster.is_empty() && due && earlier.count() < MOST_KEPT {
            told.push(draft(What::CheckMeasured));
        }
    }
    told
}
