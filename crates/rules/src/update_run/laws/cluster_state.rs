//! What people on the clusters notice, whatever the record says: S1, S4 and S12.

use std::sync::Arc;

use flagship_api::binding::BindingState;
use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::binding::{AVAILABLE, DIFF_REPORTED};
use flagship_api::condition_type::work;
use flagship_api::reason::update_run as reason;
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageUpdatingStatus, UpdateRunStatus,
};

use super::super::delivery::Target;
use super::super::lifecycle::{in_flight, is_finished, is_settled, is_started};
use super::super::max_concurrency::concurrency;
use super::super::observed::Observed;
use super::{Told, broken, reason_of};
use crate::model::Binding;
use crate::work::Work;

/// S1, for the record: as many started as may be, and nothing moved that is not.
pub fn concurrency_holds(seen: &Observed) -> Told {
    let mut told = Vec::new();
    let status = &seen.run.status;
    let Some(strategy) = &status.staged_update_strategy_snapshot else { return told };
    let target = Target::of(seen, status).ok();
    for (config, stage) in strategy.stages.iter().zip(&status.stages_status) {
        let busy = stage.clusters.iter().filter(|cluster| in_flight(cluster)).count();
        let most = concurrency(config, stage.clusters.len()).unwrap_or(usize::MAX);
        if busy > most {
            told.push(broken("S1", format!("{busy} of at most {most} in {}", stage.stage_name)));
        }
        for cluster in stage.clusters.iter().filter(|cluster| !is_started(cluster)) {
            if let Some(binding) = moved_by_us(seen, target.as_ref(), &cluster.cluster_name) {
                told.push(broken("S1", format!("{} is disturbed and not recorded", binding.name)));
            }
        }
    }
    told
}

/// Bindings of a cluster that are there to stay.
pub fn of_cluster<'a>(seen: &'a Observed, cluster: &'a str) -> impl Iterator<Item = &'a Binding> {
    let bindings = seen.bindings.iter().map(Arc::as_ref);
    bindings.filter(move |b| b.cluster() == cluster && !b.is_unscheduled())
}

/// The binding of a cluster that this very run has moved to its target.
fn moved_by_us<'a>(
    seen: &'a Observed,
    target: Option<&Target>,
    cluster: &'a str,
) -> Option<&'a Binding> {
    let target = target?;
    of_cluster(seen, cluster).find(|binding| {
        let fence = binding.fence.as_ref();
        fence.is_some_and(|fence| fence.run == seen.run.uid)
            && target.snapshot == binding.spec.resource_snapshot_name
    })
}

/// Clusters of a stage that this run has moved, that do not work yet, and that it does not
/// call finished, skipped, or failed under a policy.
fn down(seen: &Observed, stage: &StageUpdatingStatus) -> Vec<String> {
    let target = Target::of(seen, &seen.run.status).ok();
    let open = stage.clusters.iter().filter(|cluster| !is_settled(cluster));
    let down = open.filter(|cluster| {
        let moved = moved_by_us(seen, target.as_ref(), &cluster.cluster_name);
        moved.is_some_and(|binding| !works(binding))
    });
    down.map(|cluster| cluster.cluster_name.clone()).collect()
}

/// Whether a cluster says at this very generation that it works.
pub fn works(binding: &Binding) -> bool {
    let at = Generation(binding.generation);
    [AVAILABLE, DIFF_REPORTED].iter().any(|kind| binding.status.conditions.is_true_at(kind, at))
}

/// S1 as people see it: never more clusters down at once than the stage allows.
pub fn few_are_down(seen: &Observed) -> Told {
    let status = &seen.run.status;
    let strategy = status.staged_update_strategy_snapshot.iter().flat_map(|s| &s.stages);
    let crowded = strategy.zip(&status.stages_status).filter_map(|(config, stage)| {
        let (down, most) = (down(seen, stage), concurrency(config, stage.clusters.len()).ok()?);
        let what =
            format!("{} of at most {most} are down in {}", down.join(", "), stage.stage_name);
        (down.len() > most).then(|| broken("S1", what))
    });
    crowded.collect()
}

/// S4: neither the record nor a binding knows of anything that is still moving.
pub fn stop_is_true(seen: &Observed) -> Told {
    let status = &seen.run.status;
    if reason_of(status) != Some(reason::STOPPED) {
        return Vec::new();
    }
    let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
    let flying = stages.flat_map(|stage| &stage.clusters).filter(|cluster| in_flight(cluster));
    let mut names: Vec<String> = flying.map(|cluster| cluster.cluster_name.clone()).collect();
    names.extend(status.stages_status.iter().flat_map(|stage| down(seen, stage)));
    names.sort_unstable();
    names.dedup();
    names.iter().map(|name| broken("S4", format!("stopped with {name} in flight"))).collect()
}

/// S6 and S12, for a cluster that is declared done just now: its binding holds exactly the
/// target and says so itself.
pub fn really_there(
    read: &Observed,
    status: &UpdateRunStatus,
    was: Option<&ClusterUpdatingStatus>,
    cluster: &ClusterUpdatingStatus,
) -> Told {
    if !is_finished(cluster) || was.is_some_and(is_finished) {
        return Vec::new();
    }
    let name = &cluster.cluster_name;
    let Ok(target) = Target::of(read, status) else { return Vec::new() };
    let mut bindings = of_cluster(read, name);
    let Some(found) = bindings.find(|binding| target.is_on(binding, cluster)) else {
        return vec![broken("S6", format!("{name} succeeded on a binding it lost"))];
    };
    if works(found) && found.spec.state == BindingState::Bound {
        return Vec::new();
    }
    vec![broken("S12", format!("{name} succeeded before it works"))]
}

/// S12, for the Works of a member's namespace at the moment `after` declares clusters done:
/// each of a cluster's Works was made from the run's snapshot, and worked when the binding
/// said so. What becomes of it afterwards is what becomes of a finished one. `works` may
/// hold Works of other bindings and members too.
pub fn one_snapshot(before: &UpdateRunStatus, after: &Observed, works: &[Work]) -> Told {
    let mut told = Vec::new();
    let status = &after.run.status;
    let index = &status.resource_snapshot_index_used;
    let known: Vec<&str> = finished(before);
    for cluster in finished(status).into_iter().filter(|cluster| !known.contains(cluster)) {
        let bindings: Vec<&Binding> = of_cluster(after, cluster).collect();
        let keys: Vec<_> = bindings.iter().map(|b| after.run.beside(&b.name)).collect();
        let said = bindings.iter().filter_map(|binding| word(&binding.status.conditions));
        let said = said.map(|word| word.last_transition_time.0).min();
        let ours = works.iter().filter(|work| !work.deleting);
        for work in ours.filter(|work| work.owner().is_some_and(|owner| keys.contains(&owner))) {
            let at = Generation(work.generation);
            let own = word(&work.conditions).filter(|word| Generation::seen_by(word) == at);
            if work.stamp.index.as_ref() != Some(index) {
                let found = work.stamp.index.as_deref().unwrap_or("none");
                let what = format!("{cluster} is done at {index} with {} of {found}", work.name);
                told.push(broken("S12", what));
            } else if own.is_some_and(|word| {
                let earlier = said.is_none_or(|said| word.last_transition_time.0 < said);
                ConditionStatus::of(word) != ConditionStatus::True && earlier
            }) {
                told.push(broken("S12", format!("{cluster} is done while {} is not", work.name)));
            }
        }
    }
    told
}

/// What is said about the end of a delivery.
fn word(conditions: &[Condition]) -> Option<&Condition> {
    [work::AVAILABLE, work::DIFF_REPORTED].iter().find_map(|kind| conditions.of_type(kind))
}

fn finished(status: &UpdateRunStatus) -> Vec<&str> {
    let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    clusters.filter(|c| is_finished(c)).map(|c| c.cluster_name.as_str()).collect()
}
