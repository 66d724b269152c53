//! What a run owes its record: everything that the status about to be written tells and the
//! record does not.
//!
//! Nothing here looks at what a pass did. A hub that died between an entry and what it tells
//! finds the entry there and does not write it again; one that finds entries missing, because
//! records were turned on in the middle of the run, writes them then.

use std::collections::BTreeSet;

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::{stage_task, update_run, updating_cluster};
use flagship_api::names::DELETION_STAGE;
use flagship_api::reason::update_run as reason;
use flagship_api::rollout_record::{
    Known, RecordEntry, RecordedPlan, RecordedPolicy, RecordedStage, What, Who,
};
use flagship_api::staged_update::{StageTask, StageTaskType, UpdateRunState};
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageTaskStatus, StageUpdatingStatus, UpdateRunStatus,
};

use super::held::{says_closed, says_frozen, says_policies_changed};
use super::lifecycle::{
    Ending, configured, ending, has_ended, is_finished, is_passed, is_skipped, is_started, outcome,
    says,
};
use super::observed::Observed;
use super::plan_hash;
use super::policed::budget_spent;
use super::reconcile::{Action, Plan};
use super::{checked, counted};
use crate::policy::Adopted;
use crate::policy::approvals::Tally;
use crate::policy::freeze::Freeze;
use crate::record::{Asked, EntryDraft, Head, Recording, Subject, last_of, subject};

/// What is to be recorded before a plan that writes this status; nothing if all is told, or no
/// record is kept.
pub fn recording(seen: &Observed, status: &UpdateRunStatus, plan: &Plan) -> Option<Recording> {
    let adopts = plan.actions.iter().find_map(|action| match action {
        Action::Adopt(adopted) => Some(adopted),
        _ => None,
    });
    let adopted = adopts.or(seen.run.adopted.as_ref()).filter(|adopted| !adopted.is_empty());
    let entries = seen.record.as_ref()?;
    if !seen.options.records.keeps(adopted.is_some()) {
        return None;
    }
    let drafts = owed(seen, entries, status, adopted);
    let head = entries.is_empty().then(|| head(seen, status, adopted));
    (!drafts.is_empty()).then_some(Recording { head, drafts })
}

/// What a status tells that the entries do not, in the order in which it happens.
pub fn owed(
    seen: &Observed,
    entries: &[RecordEntry],
    status: &UpdateRunStatus,
    adopted: Option<&Adopted>,
) -> Vec<EntryDraft> {
    let mut told = implied(seen, status, adopted);
    let known: BTreeSet<Subject<'_>> = entries.iter().map(subject).collect();
    told.retain(|draft| !known.contains(&draft.subject()));
    told.extend(turns(seen, entries, status, &told));
    told.extend(checked::owed(seen, entries));
    let subjects = told.clone();
    let subjects: BTreeSet<Subject<'_>> = subjects.iter().map(EntryDraft::subject).collect();
    told.sort_by_key(|draft| rank(draft, &subjects));
    told
}

/// Entries that nothing in the status bears out: written before something that did not happen
/// yet, or was prevented.
pub fn without_effect<'a>(
    entries: &'a [RecordEntry],
    status: &UpdateRunStatus,
) -> Vec<&'a RecordEntry> {
    let facts = facts(status);
    let facts: BTreeSet<Subject<'_>> = facts.iter().map(EntryDraft::subject).collect();
    let lasting = entries.iter().filter(|entry| {
        let stays = [
            What::Frozen,
            What::Unfrozen,
            What::WindowClosed,
            What::WindowOpened,
            What::Stopped,
            What::Resumed,
            What::Stuck,
            What::BudgetSpent,
            What::Rejected,
            What::GlassBroken,
            What::CheckMeasured,
            What::CheckPassed,
            What::CheckFailed,
        ];
        !stays.contains(&entry.what)
    });
    lasting.filter(|entry| !facts.contains(&subject(entry))).collect()
}

/// What comes first where several things are told at once: a pass finishes before it begins.
const ORDER: [What; 25] = [
    What::Planned,
    What::Started,
    What::Resumed,
    What::Unfrozen,
    What::WindowOpened,
    What::CheckMeasured,
    What::CheckPassed,
    What::CheckFailed,
    What::ClusterDone,
    What::ClusterFailed,
    What::ClusterSkipped,
    What::Stuck,
    What::BudgetSpent,
    What::Approved,
    What::WaitOver,
    What::StageDone,
    What::GateWaits,
    What::Rejected,
    What::GlassBroken,
    What::StageBegan,
    What::ClusterBegan,
    What::WindowClosed,
    What::Frozen,
    What::Stopped,
    What::Ended,
];

/// The place of a draft among those that are told at once. What is begun and over in one go,
/// as a stage without clusters is, begins before it ends.
fn rank(draft: &EntryDraft, told: &BTreeSet<Subject<'_>>) -> usize {
    let (_, stage, cluster, gate) = draft.subject();
    let is_over =
        |ends: &[What]| ends.iter().any(|end| told.contains(&(*end, stage, cluster, gate)));
    let before = match draft.what {
        What::StageBegan if is_over(&[What::StageDone]) => What::ClusterDone,
        What::ClusterBegan
            if is_over(&[What::ClusterDone, What::ClusterFailed, What::ClusterSkipped]) =>
        {
            What::ClusterDone
        }
        What::GateWaits if is_over(&[What::Approved, What::WaitOver]) => What::Approved,
        what => what,
    };
    let place = ORDER.iter().position(|what| *what == before).unwrap_or(ORDER.len());
    2 * place + usize::from(before == draft.what)
}

/// What happens once, with who is behind it.
fn implied(
    seen: &Observed,
    status: &UpdateRunStatus,
    adopted: Option<&Adopted>,
) -> Vec<EntryDraft> {
    let mut told = facts(status);
    for draft in &mut told {
        match draft.what {
            What::Planned => draft.who = Asked::Creator,
            What::Started => draft.who = Asked::State,
            What::ClusterSkipped => {
                let cluster = draft.cluster.as_deref().unwrap_or_default();
                if let Some(skip) = seen.run.skips.get(cluster) {
                    let known = if skip.by.is_empty() { Known::Unknown } else { Known::Said };
                    draft.who = Asked::Known(Who { name: skip.by.clone(), known });
                }
            }
            What::Approved => {
                let Asked::Approval(request) = &draft.who else { continue };
                let found = seen.approvals.iter().find(|found| found.name == *request);
                let tally = found.and_then(|found| counted::tally(seen, &found.stage, found));
                if let Some(tally) = tally {
                    let who = counted_by(&tally);
                    *draft = draft.clone().by(who).text(&tally.approved());
                    if !tally.glass.is_empty() {
                        *draft = draft.clone().cause(counted::BREAK_GLASS);
                    }
                    continue;
                }
                let said = found.and_then(|found| {
                    found
                        .conditions
                        .of_type(flagship_api::condition_type::approval_request::APPROVED)
                });
                *draft = draft.clone().text(said.map_or("", |said| &said.message));
            }
            _ => {}
        }
    }
    let adopted = adopted.filter(|_| seen.run.changed_policies().is_none());
    let over = budget_spent(adopted, status.stages_status.iter());
    told.extend(over.map(|spent| EntryDraft::of(What::BudgetSpent).text(&spent.text)));
    told
}

/// What happens once in a run, as a status tells it.
fn facts(status: &UpdateRunStatus) -> Vec<EntryDraft> {
    let mut told = Vec::new();
    if says(&status.conditions, update_run::INITIALIZED) == Some(ConditionStatus::True) {
        told.push(EntryDraft::of(What::Planned));
    }
    if status.conditions.of_type(update_run::PROGRESSING).is_some() {
        told.push(EntryDraft::of(What::Started));
    }
    for stage in &status.stages_status {
        of_stage(stage, &stage.stage_name, &mut told);
    }
    if let Some(stage) = status.deletion_stage_status.iter().find(|s| !s.clusters.is_empty()) {
        of_stage(stage, DELETION_STAGE, &mut told);
    }
    let (cause, text) = match ending(status) {
        None => return told,
        Some(Ending::Succeeded) => (reason::SUCCEEDED, message(status, update_run::SUCCEEDED)),
        Some(Ending::Failed(text)) => (reason::FAILED, text),
        Some(Ending::NotInitialized(text)) => (reason::INITIALIZATION_FAILED, text),
    };
    told.push(EntryDraft::of(What::Ended).cause(cause).text(text));
    told
}

fn message<'a>(status: &'a UpdateRunStatus, kind: &str) -> &'a str {
    status.conditions.of_type(kind).map_or("", |told| &told.message)
}

fn of_stage(stage: &StageUpdatingStatus, name: &str, told: &mut Vec<EntryDraft>) {
    let of = |what| EntryDraft::of(what).stage(name);
    let before = stage.before_stage_task_status.iter().map(|task| ("before", task));
    let after = stage.after_stage_task_status.iter().map(|task| ("after", task));
    for (side, task) in before.chain(after) {
        let gate = gate_name(side, task.r#type);
        if waits(stage, task) {
            told.push(of(What::GateWaits).gate(gate.clone()));
        }
        if is_passed(task) {
            told.push(match task.r#type {
                StageTaskType::Approval => of(What::Approved)
                    .gate(gate)
                    .by(Asked::Approval(task.approval_request_name.clone())),
                StageTaskType::TimedWait => of(What::WaitOver).gate(gate),
            });
        }
    }
    if stage.start_time.is_some() {
        told.push(of(What::StageBegan));
    }
    for cluster in &stage.clusters {
        let of = |what| of(what).cluster(&cluster.cluster_name);
        if is_started(cluster) {
            told.push(of(What::ClusterBegan));
        }
        if is_finished(cluster) {
            told.push(of(What::ClusterDone));
        } else if outcome(cluster).is_some() {
            let (cause, text) = why(cluster);
            let what = match is_skipped(cluster) {
                true => What::ClusterSkipped,
                false => What::ClusterFailed,
            };
            told.push(of(what).cause(&cause).text(&text));
        }
    }
    if says(&stage.conditions, update_run::SUCCEEDED) == Some(ConditionStatus::True) {
        told.push(of(What::StageDone));
    }
}

/// `after-TimedWait`.
pub fn gate_name(side: &str, kind: StageTaskType) -> String {
    format!("{side}-{kind:?}")
}

/// Whether a gate has been closed in front of the run.
fn waits(stage: &StageUpdatingStatus, task: &StageTaskStatus) -> bool {
    match task.r#type {
        StageTaskType::Approval => {
            says(&task.conditions, stage_task::APPROVAL_REQUEST_CREATED).is_some()
        }
        StageTaskType::TimedWait => {
            let told = stage.conditions.of_type(update_run::PROGRESSING);
            let waits = told.is_some_and(|told| told.reason == reason::stage::WAITING);
            is_passed(task) || (waits && stage.start_time.is_some())
        }
    }
}

/// The code in a message about a cluster, or the reason of the condition; and the message.
fn why(cluster: &ClusterUpdatingStatus) -> (String, String) {
    let Some(told) = cluster.conditions.of_type(updating_cluster::SUCCEEDED) else {
        return Default::default();
    };
    let is_code = |word: &&str| {
        word.contains('_') && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    };
    let mut words = told.message.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    (words.find(is_code).unwrap_or(&told.reason).to_owned(), told.message.clone())
}

/// What may happen again and again: stops, freezes and closed windows, told when they turn.
fn turns(
    seen: &Observed,
    entries: &[RecordEntry],
    status: &UpdateRunStatus,
    told: &[EntryDraft],
) -> Vec<EntryDraft> {
    let started = told.iter().any(|draft| draft.what == What::Started)
        || entries.iter().any(|entry| entry.what == What::Started);
    if !started || has_ended(status) {
        return Vec::new();
    }
    let mut turns = Vec::new();
    let was = last_of(entries, &[What::Started, What::Stopped, What::Resumed]).map(|e| e.what);
    match seen.run.state() {
        UpdateRunState::Stop if was != Some(What::Stopped) => {
            turns.push(EntryDraft::of(What::Stopped).by(Asked::State));
        }
        UpdateRunState::Run if was == Some(What::Stopped) => {
            turns.push(EntryDraft::of(What::Resumed).by(Asked::State));
        }
        _ => {}
    }
    let progressing = status.conditions.of_type(update_run::PROGRESSING);
    if let Some(stuck) = progressing.filter(|told| told.reason == reason::STUCK)
        && last_of(entries, &MOVES).is_none_or(|last| last.what != What::Stuck)
        && !told.iter().any(|draft| MOVES.contains(&draft.what))
    {
        turns.push(EntryDraft::of(What::Stuck).text(&stuck.message));
    }
    if says_policies_changed(status) {
        // It tells neither of freezes nor of windows.
        return turns;
    }
    turns.extend(said(seen, entries, status));
    let frozen = last_of(entries, &[What::Frozen, What::Unfrozen]);
    let frozen = frozen.filter(|entry| entry.what == What::Frozen);
    if says_frozen(status) {
        let text = message(status, update_run::PROGRESSING);
        if frozen.and_then(|entry| entry.text.as_deref()) != Some(text) {
            turns.push(EntryDraft::of(What::Frozen).text(text).by(frozen_by(seen, text)));
        }
    } else if frozen.is_some() && seen.run.state() == UpdateRunState::Run {
        // Whoever deletes a freeze leaves nothing behind that names them.
        turns.push(EntryDraft::of(What::Unfrozen).by(Asked::Known(crate::record::who::unknown())));
    }
    let closed = last_of(entries, &[What::WindowClosed, What::WindowOpened]);
    let closed = closed.is_some_and(|entry| entry.what == What::WindowClosed);
    // Told once for each closing, however often what opens first changes meanwhile. A freeze
    // or a stop says nothing of windows.
    if says_closed(status) && !closed {
        let text = message(status, update_run::PROGRESSING);
        turns.push(EntryDraft::of(What::WindowClosed).text(text));
    } else if closed && goes_on(seen, status) {
        turns.push(EntryDraft::of(What::WindowOpened));
    }
    turns
}

/// Whether neither a stop nor a freeze nor a window holds the run.
fn goes_on(seen: &Observed, status: &UpdateRunStatus) -> bool {
    seen.run.state() == UpdateRunState::Run && !says_frozen(status) && !says_closed(status)
}

/// Whether a stored status tells of a stop, a freeze or a closed window that these entries do
/// not. Entries about these are written first, so whoever remembers these has not read what
/// another hub added since.
pub fn are_behind(entries: &[RecordEntry], status: &UpdateRunStatus) -> bool {
    let Some(told) = status.conditions.of_type(update_run::PROGRESSING) else { return false };
    let (what, turns): (What, &[What]) = match told.reason.as_str() {
        reason::STOPPING | reason::STOPPED => {
            (What::Stopped, &[What::Started, What::Stopped, What::Resumed])
        }
        reason::FROZEN => (What::Frozen, &[What::Frozen, What::Unfrozen]),
        reason::WINDOW_CLOSED => (What::WindowClosed, &[What::WindowClosed, What::WindowOpened]),
        _ => return false,
    };
    last_of(entries, turns).is_none_or(|last| last.what != what)
}

/// What people said to the gates under a policy beyond yes: no, and that it cannot wait.
fn said(seen: &Observed, entries: &[RecordEntry], status: &UpdateRunStatus) -> Vec<EntryDraft> {
    let mut told = Vec::new();
    for stage in &status.stages_status {
        let name = &stage.stage_name;
        let known = |what: What, text: &str| {
            let last = entries
                .iter()
                .rev()
                .find(|entry| entry.what == what && entry.stage.as_deref() == Some(name));
            last.and_then(|entry| entry.text.as_deref()) == Some(text)
        };
        let before = stage.before_stage_task_status.iter().map(|task| ("before", task));
        let after = stage.after_stage_task_status.iter().map(|task| ("after", task));
        for (side, task) in before.chain(after).filter(|(_, task)| !is_passed(task)) {
            let request = &task.approval_request_name;
            let found = seen.approvals.iter().find(|found| found.name == *request);
            let tally = found.and_then(|found| counted::tally(seen, name, found));
            let Some(tally) = tally else { continue };
            if let Some(rejected) = tally.rejected.as_ref().filter(|_| !tally.passes())
                && !known(What::Rejected, &tally.told())
            {
                let who = Who { name: rejected.user.clone(), known: Known::Admission };
                let gate = gate_name(side, task.r#type);
                let draft = EntryDraft::of(What::Rejected).stage(name).gate(gate);
                told.push(draft.by(Asked::Known(who)).text(&tally.told()));
            }
        }
        let glass = counted::glass(seen, name);
        let names: Vec<&str> = glass.iter().map(|given| given.user.as_str()).collect();
        let text: Vec<String> = glass.iter().map(ToString::to_string).collect();
        let text = text.join(", ");
        if !glass.is_empty() && !known(What::GlassBroken, &text) {
            let who = Who { name: shortened(&names.join(", ")), known: Known::Admission };
            told.push(
                EntryDraft::of(What::GlassBroken).stage(name).by(Asked::Known(who)).text(&text),
            );
        }
    }
    told
}

/// Those whose words opened a gate.
fn counted_by(tally: &Tally) -> Asked {
    let name = shortened(&tally.names().join(", "));
    Asked::Known(Who { name, known: Known::Admission })
}

/// As much of a list of names as an entry holds.
fn shortened(names: &str) -> String {
    match names.char_indices().nth(250) {
        None => names.to_owned(),
        Some((at, _)) => format!("{} ...", &names[..at]),
    }
}

/// What tells that a run has got on since it was stuck, and that it was.
const MOVES: [What; 6] = [
    What::Stuck,
    What::ClusterBegan,
    What::ClusterDone,
    What::ClusterFailed,
    What::ClusterSkipped,
    What::Resumed,
];

fn frozen_by(seen: &Observed, told: &str) -> Asked {
    let freeze = seen.policy.freezes.iter().find(|freeze| Freeze::told(freeze) == told);
    let by = freeze.and_then(|freeze| freeze.by.clone());
    Asked::Known(match by {
        None => crate::record::who::unknown(),
        Some(name) => {
            let known =
                if seen.options.senders_are_stamped { Known::Admission } else { Known::Said };
            Who { name, known }
        }
    })
}

/// The hash of the plan that a pass makes.
pub fn hash(seen: &Observed, status: &UpdateRunStatus, adopted: &Adopted) -> String {
    head(seen, status, Some(adopted)).plan.hash
}

/// How a record begins.
fn head(seen: &Observed, status: &UpdateRunStatus, adopted: Option<&Adopted>) -> Head {
    let clusters = |stage: &StageUpdatingStatus| -> Vec<String> {
        stage.clusters.iter().map(|cluster| cluster.cluster_name.clone()).collect()
    };
    let stages: Vec<RecordedStage> = status
        .stages_status
        .iter()
        .map(|stage| RecordedStage {
            name: stage.stage_name.clone(),
            clusters: clusters(stage),
            gates: gates(status, &stage.stage_name),
        })
        .collect();
    let removes = status.deletion_stage_status.as_ref().map(clusters).unwrap_or_default();
    let told = adopted.map(Adopted::told).unwrap_or_default();
    let hash = plan_hash::planned(seen, status, &stages, &removes, &told);
    let policies = adopted.iter().flat_map(|adopted| &adopted.policies);
    let policies = policies.map(|policy| RecordedPolicy {
        name: policy.name.clone(),
        spec: serde_json::to_value(&policy.spec).unwrap_or_default(),
    });
    let plan = RecordedPlan {
        placement: seen.run.spec.placement_name.clone(),
        strategy: seen.run.spec.staged_rollout_strategy_name.clone(),
        snapshot: status.resource_snapshot_index_used.clone(),
        hash: hash.map(|hash| hash.to_string()).unwrap_or_default(),
        stages,
        removes,
    };
    Head { plan, policies: policies.collect() }
}

fn gates(status: &UpdateRunStatus, stage: &str) -> Vec<String> {
    let Some(stage) = configured(status, stage) else { return Vec::new() };
    let name = |side: &'static str| {
        move |task: &StageTask| {
            let gate = gate_name(side, task.r#type);
            match task.wait_time.as_deref().filter(|_| task.r#type == StageTaskType::TimedWait) {
                Some(wait) => format!("{gate} {wait}"),
                None => gate,
            }
        }
    };
    let before = stage.before_stage_tasks.iter().map(name("before"));
    before.chain(stage.after_stage_tasks.iter().map(name("after"))).collect()
}
