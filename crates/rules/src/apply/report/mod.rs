//! The status of a Work after a pass, and of its AppliedWork.
//!
//! Entries are rebuilt in the order of the manifests, but each starts from what was said of
//! the same object before: a time of transition moves only when a status does, and a Work that
//! stays as it is is not written again.
//!
//! Words of single manifests are in `conditions`, the limit of size is in `size`.

mod carry;
mod conditions;
mod size;

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::apply_strategy::ReportBackStrategyType;
use flagship_api::condition::{self, Condition, Conditions, Generation, draft, wire_time};
use flagship_api::condition_type::work as kind;
use flagship_api::raw_json::RawJson;
use flagship_api::reason::work as reason;
use flagship_api::work::{
    AppliedResourceMeta, AppliedWorkStatus, BackReportedStatus, DiffDetails, DriftDetails,
    ManifestCondition, Work, WorkStatus,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::apply_options::ApplyOptions;
use super::manifest::{Key, key};
use super::outcome::{Findings, Outcome, Verdict, generation};
use crate::availability::Availability;
use carry::Carried;

/// What may be set by whoever runs the member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether a comparison of all fields in place of some counts as one. KubeFleet says no,
    /// and a Work with one such manifest is never done.
    pub count_degraded: bool,
}

/// The end of a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What to write, in order; nothing if all is said already.
    pub writes: Vec<StatusWrite>,
    /// The status of the Work, written or not.
    pub status: WorkStatus,
    /// Whether all there is to do is done: available, or compared.
    pub settled: bool,
}

/// One write of a status.
#[derive(Debug, Clone, PartialEq)]
pub enum StatusWrite {
    /// The status of the Work, on the hub.
    Work(WorkStatus),
    /// The status of the AppliedWork, on the member.
    AppliedWork(AppliedWorkStatus),
}

/// What to say after a pass with these outcomes, one for each manifest in order.
pub fn report(
    work: &Work,
    applied: &AppliedWorkStatus,
    terms: &ApplyOptions,
    outcomes: &[Outcome],
    options: Options,
    now: Timestamp,
) -> Report {
    let old = work.status.clone().unwrap_or_default();
    let mirrors = work
        .spec
        .report_back_strategy
        .as_ref()
        .is_some_and(|strategy| strategy.r#type == ReportBackStrategyType::Mirror);
    let mut carried = Carried::new(&old.manifest_conditions);
    let mut status = WorkStatus {
        conditions: old.conditions.clone(),
        manifest_conditions: outcomes
            .iter()
            .map(|outcome| {
                manifest_condition(carried.take(outcome, terms), outcome, terms, mirrors, now)
            })
            .collect(),
    };
    recall_resources(&mut status.manifest_conditions, &old.manifest_conditions, applied);
    let generation = Generation::of(&work.metadata);
    summarise(&mut status.conditions, outcomes, terms, options, generation, now);
    size::keep_within_limit(work, &mut status, generation, now);
    let mut writes = Vec::new();
    if work.status.as_ref() != Some(&status) {
        writes.push(StatusWrite::Work(status.clone()));
    }
    let wanted = applied_work(&old, applied, terms, outcomes);
    if *applied != wanted {
        // What the Work is about to forget must be remembered here first.
        let first = if terms.only_compares() { 0 } else { writes.len() };
        writes.insert(first, StatusWrite::AppliedWork(wanted));
    }
    let holds = |of_type| status.conditions.is_true_at(of_type, generation);
    let settled = holds(kind::AVAILABLE) || holds(kind::DIFF_REPORTED);
    Report { writes, status, settled }
}

fn manifest_condition(
    old: ManifestCondition,
    outcome: &Outcome,
    terms: &ApplyOptions,
    mirrors: bool,
    now: Timestamp,
) -> ManifestCondition {
    let mut entry = ManifestCondition {
        identifier: outcome.identifier.clone(),
        conditions: old.conditions,
        ..ManifestCondition::default()
    };
    conditions::set(&mut entry.conditions, outcome, terms, now);
    let time = wire_time(now);
    match &outcome.findings {
        Findings::Nothing => {}
        Findings::Drifts(drifts) => {
            let first = old.drift_details.map(|old| old.first_drifted_observed_time);
            entry.drift_details = Some(DriftDetails {
                observation_time: time.clone(),
                observed_in_member_cluster_generation: outcome.generation(),
                first_drifted_observed_time: first.unwrap_or_else(|| time.clone()),
                observed_drifts: drifts.clone(),
            });
        }
        Findings::Diffs(diffs) => {
            let first = old.diff_details.map(|old| old.first_diffed_observed_time);
            entry.diff_details = Some(DiffDetails {
                observation_time: time.clone(),
                observed_in_member_cluster_generation: outcome.live.as_ref().map(generation),
                first_diffed_observed_time: first.unwrap_or_else(|| time.clone()),
                observed_diffs: diffs.clone(),
            });
        }
    }
    if mirrors && outcome.verdict.is_applied() {
        entry.back_reported_status = outcome.live.as_ref().and_then(mirrored).map(|observed| {
            BackReportedStatus { observed_status: Some(observed), observation_time: time }
        });
    }
    entry
}

/// Fills in the plural names of kinds that nobody can look up now but that were known before:
/// without one, what was applied could not be found again.
fn recall_resources(
    entries: &mut [ManifestCondition],
    old: &[ManifestCondition],
    applied: &AppliedWorkStatus,
) {
    let recorded = old.iter().map(|entry| &entry.identifier);
    let remembered = applied.applied_resources.iter().map(|resource| &resource.identifier);
    let all = recorded.chain(remembered).filter(|of| !of.resource.is_empty());
    let known: BTreeMap<Key, &String> =
        all.filter_map(|of| Some((key(of)?, &of.resource))).collect();
    for of in entries.iter_mut().map(|entry| &mut entry.identifier) {
        if of.resource.is_empty()
            && let Some(resource) = key(of).and_then(|key| known.get(&key).copied())
        {
            of.resource.clone_from(resource);
        }
    }
}

/// The status of an object and what the object is; none if it has no status.
fn mirrored(object: &Value) -> Option<RawJson> {
    let (status, word) = (object.get("status")?, |field: &str| object.get(field));
    let (api_version, kind) = (word("apiVersion"), word("kind"));
    RawJson::of(&json!({"apiVersion": api_version, "kind": kind, "status": status})).ok()
}

fn summarise(
    conditions: &mut Vec<Condition>,
    outcomes: &[Outcome],
    terms: &ApplyOptions,
    options: Options,
    generation: Generation,
    now: Timestamp,
) {
    let n = outcomes.len();
    let count = |is: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|one| is(one)).count();
    if terms.only_compares() {
        condition::remove(conditions, kind::APPLIED);
        condition::remove(conditions, kind::AVAILABLE);
        let d = count(&|one| match one.verdict {
            Verdict::FoundDiff | Verdict::NoDiffFound => true,
            Verdict::FoundDiffInDegradedMode => options.count_degraded,
            _ => false,
        });
        let reported = draft(kind::DIFF_REPORTED);
        let reported = if d == n {
            reported
                .is_true(reason::ALL_MANIFESTS_DIFF_REPORTED)
                .because("All the specified manifests have reported diff")
        } else {
            reported.is_false(reason::SOME_MANIFESTS_NOT_DIFF_REPORTED).because(format!(
                "Failed to report diff on all manifests ({d} of {n} manifests have reported diff)"
            ))
        };
        reported.set(conditions, generation, now);
        return;
    }
    condition::remove(conditions, kind::DIFF_REPORTED);
    let a = count(&|one| one.verdict.is_applied());
    let applied = draft(kind::APPLIED);
    let applied = if a == n {
        applied
            .is_true(reason::ALL_MANIFESTS_APPLIED)
            .because("All the specified manifests have been applied")
    } else {
        applied
            .is_false(reason::SOME_MANIFESTS_NOT_APPLIED)
            .because(format!("Failed to apply all manifests ({a} of {n} manifests are applied)"))
    };
    applied.set(conditions, generation, now);
    if a < n {
        condition::remove(conditions, kind::AVAILABLE);
        return;
    }
    let v = count(&|one| one.availability.counts());
    let untracked = count(&|one| one.availability == Availability::NotTrackable);
    let available = draft(kind::AVAILABLE);
    let available = if v < n {
        available.is_false(reason::SOME_MANIFESTS_NOT_AVAILABLE).because(format!(
            "Some manifests are not available ({v} of {n} manifests are available)"
        ))
    } else if untracked > 0 {
        available
            .is_true(reason::WORK_NOT_TRACKABLE)
            .because("Some of the applied manifests cannot be tracked for availability")
    } else {
        available
            .is_true(reason::ALL_MANIFESTS_AVAILABLE)
            .because("All of the applied manifests are available")
    };
    available.set(conditions, generation, now);
}

/// What is applied now. A comparison applies nothing, but what it drops from the Work's record
/// stays remembered until something is applied again, which is when left-overs are removed.
fn applied_work(
    old: &WorkStatus,
    applied: &AppliedWorkStatus,
    terms: &ApplyOptions,
    outcomes: &[Outcome],
) -> AppliedWorkStatus {
    let resource = |outcome: &Outcome| {
        let live = outcome.live.as_ref()?;
        let uid = live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        Some(AppliedResourceMeta { identifier: outcome.identifier.clone(), uid: uid.to_owned() })
    };
    if !terms.only_compares() {
        let applied = outcomes.iter().filter(|outcome| outcome.verdict.is_applied());
        return AppliedWorkStatus { applied_resources: applied.filter_map(resource).collect() };
    }
    let mut asked: BTreeSet<Key> =
        outcomes.iter().filter_map(|outcome| key(&outcome.identifier)).collect();
    let recorded = old.manifest_conditions.iter().map(|entry| AppliedResourceMeta {
        identifier: entry.identifier.clone(),
        uid: String::new(),
    });
    let all = applied.applied_resources.iter().cloned().chain(recorded);
    let forgotten = all.filter(|one| !one.identifier.resource.is_empty());
    let forgotten =
        forgotten.filter(|one| key(&one.identifier).is_some_and(|key| asked.insert(key)));
    AppliedWorkStatus { applied_resources: forgotten.collect() }
}
