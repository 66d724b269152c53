//! P1: a spent budget starts nothing. P2: what a freeze or a closed window holds does not
//! begin. P4: a rollback touches what its run touched. P5: what is quarantined does not begin.
//! P8: a run that was overtaken takes nothing back, where a policy says so. P9: nothing is done
//! before its checks. P10: nothing is done while the policies of a run are not as they were.

use std::collections::BTreeSet;

use flagship_api::condition::ConditionStatus;
use flagship_api::condition_type::update_run::{INITIALIZED, SUCCEEDED};
use flagship_api::names::DELETION_STAGE;
use flagship_api::rollout_policy::Then;
use flagship_api::rollout_record::What;
use flagship_api::staged_update_status::{StageUpdatingStatus, UpdateRunStatus};

use super::super::checked::{failure, have_passed};
use super::super::delivery::rival;
use super::super::held::{calendar, held, says_closed, says_frozen};
use super::super::lifecycle::{is_finished, is_started, says};
use super::super::observed::Observed;
use super::super::policed::spent;
use super::super::reconcile::{Action, Plan};
use super::{Told, broken};
use crate::policy::before::version;
use crate::policy::checks::jobs::JobState;
use crate::policy::quarantine::brought;
use crate::work::Work;

/// P2, for a plan: whoever has seen the freeze, or reads the clock, begins nothing.
pub fn nothing_held_is_planned(read: &Observed, plan: &Plan) -> Told {
    let statuses = plan.actions.iter().filter_map(|action| match action {
        Action::Status(status) => Some(&**status),
        _ => None,
    });
    statuses.flat_map(|status| begun_although_held(read, status)).collect()
}

/// P2, for a write: once the run says that it is frozen, or that no window is open, nothing of
/// it begins before the freeze is lifted or the window opens, whatever the writer has seen.
pub fn nothing_frozen_begins(before: &Observed, action: &Action) -> Told {
    match action {
        Action::Status(status)
            if says_frozen(&before.run.status) || says_closed(&before.run.status) =>
        {
            begun_although_held(before, status)
        }
        _ => Vec::new(),
    }
}

/// P1: once more clusters have failed than may, no other is recorded as started.
pub fn a_spent_budget_starts_nothing(before: &Observed, action: &Action) -> Told {
    let Action::Status(after) = action else { return Vec::new() };
    let old = &before.run.status;
    let Some(adopted) = &before.run.adopted else { return Vec::new() };
    let over = spent(Some(adopted), old.stages_status.iter());
    let Some(over) = over.filter(|spent| spent.then != Then::Continue) else { return Vec::new() };
    if begun(after) > begun(old) {
        return vec![broken("P1", format!("a cluster begins although {}", over.text))];
    }
    Vec::new()
}

/// P9: neither a stage nor a cluster is done before its checks have passed; a stage goes on
/// without them only if it says so and a policy lets it.
pub fn nothing_ends_unchecked(
    read: &Observed,
    old: &StageUpdatingStatus,
    new: &StageUpdatingStatus,
) -> Told {
    let mut told = Vec::new();
    let name = &new.stage_name;
    let is_done = |stage: &StageUpdatingStatus| {
        says(&stage.conditions, SUCCEEDED) == Some(ConditionStatus::True)
    };
    if is_done(new) && !is_done(old) {
        let may = read.run.adopted.as_ref().is_some_and(|all| all.then(name) == Then::Continue);
        let goes_on = failure(new).is_some() && may;
        if !goes_on && !have_passed(read, old, None) {
            told.push(broken("P9", format!("stage {name} is done before its checks")));
        }
    }
    for (at, cluster) in new.clusters.iter().enumerate().filter(|(_, c)| is_finished(c)) {
        let known = old.clusters.get(at).is_some_and(is_finished);
        let cluster = &cluster.cluster_name;
        if !known && !have_passed(read, old, Some(cluster)) {
            told.push(broken("P9", format!("{cluster} is done before its checks")));
        }
    }
    told
}

/// P9, of checks by Jobs: none is recorded as passed while one of its Jobs is anything but
/// complete. `works` may hold other Works, too.
pub fn passed_jobs_are_complete(seen: &Observed, action: &Action, works: &[Work]) -> Told {
    let Action::Record(recording) = action else { return Vec::new() };
    let mut told = Vec::new();
    for draft in recording.drafts.iter().filter(|draft| draft.what == What::CheckPassed) {
        let part = |of: &Option<String>| of.clone().unwrap_or_default();
        let key = (part(&draft.gate), part(&draft.stage), part(&draft.cluster));
        let jobs = works.iter().filter_map(|work| work.check.as_deref());
        let jobs = jobs.filter(|job| job.run_uid == seen.run.uid && job.key == key);
        for job in jobs.filter(|job| !matches!(job.state, JobState::Complete(_))) {
            let what = format!("{} has passed while Job {} is not complete", key.0, job.job);
            told.push(broken("P9", what));
        }
    }
    told
}

/// P8: under `overtaken: Fail` no binding goes from the version of a newer run to ours.
pub fn nothing_is_taken_back(before: &Observed, action: &Action) -> Told {
    let Action::UpdateBinding(deliver) = action else { return Vec::new() };
    let strict = before.run.adopted.as_ref().and_then(|adopted| adopted.fails_when_overtaken());
    let found = before.bindings.iter().find(|binding| binding.name == deliver.binding);
    let fence = found.and_then(|binding| binding.fence.as_ref());
    let owner = fence.and_then(|fence| rival(before, &fence.run));
    let newer = owner.filter(|owner| {
        owner.created > before.run.created
            && owner.version != before.run.status.resource_snapshot_index_used
    });
    match (strict, newer) {
        (Some(_), Some(newer)) => {
            vec![broken("P8", format!("{} is taken back from {}", deliver.cluster, newer.name))]
        }
        _ => Vec::new(),
    }
}

/// P5: whoever has seen the quarantine of what a run brings begins nothing.
pub fn nothing_quarantined_is_planned(read: &Observed, plan: &Plan) -> Told {
    let held = read.policy.brought.as_ref().and_then(|brought| brought.quarantine.as_ref());
    let Some(held) = held else { return Vec::new() };
    let mut statuses = plan.actions.iter().filter_map(|action| match action {
        Action::Status(status) => Some(&**status),
        _ => None,
    });
    if statuses.any(|status| begun(status) > begun(&read.run.status)) {
        return vec![broken("P5", format!("a cluster begins although {} is held", held.index))];
    }
    Vec::new()
}

/// P10: a run whose policies somebody has changed does nothing but say so.
pub fn changed_policies_stop_a_run(read: &Observed, plan: &Plan) -> Told {
    let told = read.run.changed_policies().filter(|_| !read.run.deleting);
    let Some(why) = told else { return Vec::new() };
    let mut more = plan.actions.iter().filter(|action| match action {
        Action::Status(status) => begun(status) > begun(&read.run.status),
        Action::Record(_) | Action::AddFinalizer => false,
        _ => true,
    });
    more.next()
        .map(|action| broken("P10", format!("{action:?} although {why}")))
        .into_iter()
        .collect()
}

/// How many clusters of a run have begun.
fn begun(status: &UpdateRunStatus) -> usize {
    let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    clusters.filter(|cluster| is_started(cluster)).count()
}

/// P5: no run is planned whose content is quarantined.
pub fn nothing_quarantined_is_initialized(read: &Observed, plan: &Plan) -> Told {
    let planned = plan.actions.iter().filter_map(|action| match action {
        Action::Status(status) if !read.run.is_initialized() => Some(&**status),
        _ => None,
    });
    let held = planned.filter(|status| {
        let index = &status.resource_snapshot_index_used;
        let all = read.resource_snapshots.iter().map(|snapshot| &**snapshot);
        let found = brought(all, index).and_then(|brought| brought.quarantine);
        says(&status.conditions, INITIALIZED) == Some(ConditionStatus::True) && found.is_some()
    });
    let told = |status: &UpdateRunStatus| {
        broken("P5", format!("{} is planned and held", status.resource_snapshot_index_used))
    };
    held.map(told).collect()
}

/// P4: what a cluster has is noted before it is moved by a run that may be rolled back, and a
/// rollback moves only clusters that its run has moved and nobody else since.
pub fn only_what_was_touched_is_undone(before: &Observed, action: &Action) -> Told {
    let Action::UpdateBinding(deliver) = action else { return Vec::new() };
    let found = before.bindings.iter().find(|binding| binding.name == deliver.binding);
    let (Some(adopted), Some(found)) = (&before.run.adopted, found) else { return Vec::new() };
    let cluster = &deliver.cluster;
    if adopted.may_roll_back() && adopted.before.held(cluster) != Some(version(found).as_str()) {
        return vec![broken("P4", format!("nobody has noted what {cluster} has"))];
    }
    let Some(undoes) = &adopted.undoes else { return Vec::new() };
    let touched = rival(before, &undoes.uid)
        .is_none_or(|source| source.started.contains_key(cluster.as_str()));
    let fence = found.fence.as_ref().map(|fence| fence.run.as_str());
    if !touched || fence != Some(undoes.uid.as_str()) {
        return vec![broken("P4", format!("{cluster} is taken back from somebody else"))];
    }
    Vec::new()
}

/// P4: a rollback is planned to the version that the clusters of its run had.
pub fn what_they_had_comes_back(before: &Observed, action: &Action) -> Told {
    let (Action::Status(after), Some(source)) = (action, &before.policy.source) else {
        return Vec::new();
    };
    let Some(known) = &source.adopted else { return Vec::new() };
    // A plan that was refused has no version.
    if after.resource_snapshot_index_used.is_empty() {
        return Vec::new();
    }
    let clusters = after.stages_status.iter().flat_map(|stage| &stage.clusters);
    let names: BTreeSet<&str> = clusters.map(|c| c.cluster_name.as_str()).collect();
    let held: BTreeSet<_> = names.iter().map(|name| known.before.held(name)).collect();
    let version = Some(after.resource_snapshot_index_used.as_str());
    // Clusters that had different ones go to one that all of them had succeeded with.
    if before.run.rollback_of.is_some() && held.len() == 1 && !held.contains(&version) {
        return vec![broken("P4", format!("{names:?} go to {version:?} and had {held:?}"))];
    }
    Vec::new()
}

fn begun_although_held(seen: &Observed, after: &UpdateRunStatus) -> Told {
    let old: Vec<&StageUpdatingStatus> = stages(&seen.run.status).collect();
    let mut told = Vec::new();
    for (at, stage) in stages(after).enumerate() {
        let deletes = at >= after.stages_status.len();
        let name = if deletes { DELETION_STAGE } else { &stage.stage_name };
        let freeze = held(seen, name);
        let mut open = calendar(seen, name);
        if freeze.is_none() && open.is_none() {
            continue;
        }
        for cluster in stage.clusters.iter().filter(|cluster| is_started(cluster)) {
            let known = old.get(at).is_some_and(|old| {
                let mut same = old.clusters.iter();
                same.any(|c| c.cluster_name == cluster.cluster_name && is_started(c))
            });
            // A binding that is gone is recorded as deleted, whoever deleted it.
            let gone =
                deletes && !seen.bindings.iter().any(|b| b.cluster() == cluster.cluster_name);
            if known || gone {
                continue;
            }
            let name = &cluster.cluster_name;
            if let Some(freeze) = freeze {
                told.push(broken("P2", format!("{name} begins under freeze {}", freeze.name)));
            }
            if open.as_mut().is_some_and(|open| !open.is_open(name, &seen.clusters)) {
                told.push(broken("P2", format!("{name} begins while its window is closed")));
            }
        }
    }
    told
}

fn stages(status: &UpdateRunStatus) -> impl Iterator<Item = &StageUpdatingStatus> {
    status.stages_status.iter().chain(&status.deletion_stage_status)
}
