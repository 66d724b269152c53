//! Whether a plan may be carried out as it is, or only after a second, fresh look.
//!
//! Caches lag, and not all by the same time: a run may be seen before the placement it
//! names, and a binding that another run has taken before the record of that run. Going
//! on from stale reads of anything but the run itself costs a conflict at worst. Giving up, taking a cluster from somebody,
//! or going on after a freeze that was not lifted, cannot be undone.

use std::collections::BTreeSet;
use std::sync::Arc;

use flagship_api::condition::ConditionStatus;
use flagship_api::condition_type::update_run::{INITIALIZED, SUCCEEDED};
use flagship_api::staged_update_status::UpdateRunStatus;

use super::delivery::{UpdateBinding, rival};
use super::held::says_held;
use super::lifecycle::{failed_under_policy, has_ended, is_finished, is_skipped, is_started, says};
use super::observed::Observed;
use super::reconcile::{Action, Plan};
use crate::model::Binding;

/// Whether the plan does something that must not be decided on a cache.
pub fn needs_fresh_reads(seen: &Observed, plan: &Plan) -> bool {
    plan.actions.iter().any(|action| match action {
        Action::Status(status) => {
            let bad = [INITIALIZED, SUCCEEDED].map(|kind| says(&status.conditions, kind));
            let ends = has_ended(status) && !has_ended(&seen.run.status);
            !seen.run.is_initialized()
                || (ends && bad.contains(&Some(ConditionStatus::False)))
                || finishes_what_others_wrote(seen, status)
                || gives_up_a_cluster(seen, status)
                || (says_held(&seen.run.status) && !says_held(status))
        }
        Action::UpdateBinding(deliver) => takes_from_somebody(seen, deliver),
        _ => false,
    })
}

/// Whether the plan needs the run as the server has it, not as a mirror shows it. No status is
/// written before these writes, which would tell an outdated record by a conflict.
pub fn needs_current_run(seen: &Observed, plan: &Plan) -> bool {
    plan.actions.iter().any(|action| match action {
        // One that is made for a run that is gone would stay for good.
        Action::CreateApprovalRequest(_) => true,
        Action::UpdateBinding(deliver) => gives_again(seen, deliver),
        _ => false,
    })
}

/// Whether a cluster is given again what the run's record says it was given, on a binding that
/// does not bear the run: the run may have ended, and the binding be a later one.
fn gives_again(seen: &Observed, deliver: &UpdateBinding) -> bool {
    let ours = |binding: &&Arc<Binding>| {
        let run = binding.fence.as_ref().map(|fence| &fence.run);
        binding.name == deliver.binding && run == Some(&seen.run.uid)
    };
    let stages = seen.run.status.stages_status.iter();
    let mut clusters = stages.flat_map(|stage| &stage.clusters);
    clusters.any(|cluster| cluster.cluster_name == deliver.cluster && is_started(cluster))
        && !seen.bindings.iter().any(|binding| ours(&binding))
}

/// Whether a cluster is called finished by a binding that another run wrote last: if it was
/// started over a later version of it, an old look would take the past for the end.
fn finishes_what_others_wrote(seen: &Observed, status: &UpdateRunStatus) -> bool {
    let finished = |status: &UpdateRunStatus| -> BTreeSet<String> {
        let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
        clusters.filter(|c| is_finished(c)).map(|c| c.cluster_name.clone()).collect()
    };
    let new = &finished(status) - &finished(&seen.run.status);
    let mut of_others = seen
        .bindings
        .iter()
        .filter(|binding| binding.fence.as_ref().is_some_and(|fence| fence.run != seen.run.uid));
    of_others.any(|binding| new.contains(binding.cluster()))
}

/// Whether a cluster is skipped, or called failed by a policy.
fn gives_up_a_cluster(seen: &Observed, status: &UpdateRunStatus) -> bool {
    let given_up = |status: &UpdateRunStatus| {
        let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
        clusters.filter(|c| is_skipped(c) || failed_under_policy(c)).count()
    };
    given_up(status) > given_up(&seen.run.status)
}

/// Whether another run wrote the binding last and has not certainly ended. One that is not
/// known at all is either gone or too young to be known.
fn takes_from_somebody(seen: &Observed, deliver: &UpdateBinding) -> bool {
    let found = seen.bindings.iter().find(|binding| binding.name == deliver.binding);
    let Some(fence) = found.and_then(|binding| binding.fence.as_ref()) else { return false };
    fence.run != seen.run.uid && rival(seen, &fence.run).is_none_or(|rival| !rival.ended)
}
