//! Removes resources from clusters that are no longer chosen, after every other stage.
//!
//! All at once, without gates. Here too the promise comes first: a cluster that is
//! recorded as started and whose binding still stands is deleted now, whoever crashed.
//! (KubeFleet takes that for a contradiction and fails; it deletes first.)

use flagship_api::names::DELETION_STAGE;
use flagship_api::staged_update_status::StageUpdatingStatus;

use super::execution::CLUSTER_POLL;
use super::held::calendar;
use super::lifecycle::{in_flight, is_finished, is_started};
use super::messages::{self, Failure};
use super::plan_builder::PlanBuilder;
use super::reconcile::{Action, DeleteBinding, Waiting};
use super::status::ConditionValue;
use crate::model::Binding;
use crate::policy::windows::Calendar;

/// Carries the deletion stage out (state Run).
pub fn execute(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
) -> Result<ConditionValue, Failure> {
    let may = pass.may_begin(DELETION_STAGE);
    sweep(pass, stage, may, "execution")?;
    if pass.sorted.dropped.is_empty() {
        // Not started and done in one breath: a stopped stage would seem to have moved.
        pass.writer.stage_begins(stage);
        pass.writer.stage_succeeded(stage);
        return Ok(ConditionValue::Succeeded);
    }
    let closed = may.then(|| pass.when_open(stage, DELETION_STAGE)).flatten();
    if let Some(closed) = closed {
        return Ok(closed);
    }
    if may || stage.clusters.iter().any(in_flight) {
        pass.writer.stage_started(stage);
        wait_for(pass, stage);
    }
    Ok(ConditionValue::Progressing)
}

/// Lets what was begun end (state Stop).
pub fn stop(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
) -> Result<ConditionValue, Failure> {
    sweep(pass, stage, false, "stopping")?;
    let moving = stage.clusters.iter().any(in_flight);
    pass.writer.stage_stops(stage, moving);
    if moving {
        wait_for(pass, stage);
        return Ok(ConditionValue::Stopping);
    }
    pass.wait(Waiting::Resume);
    Ok(ConditionValue::Stopped)
}

fn wait_for(pass: &mut PlanBuilder<'_>, stage: &StageUpdatingStatus) {
    let going = stage.clusters.iter().filter(|cluster| in_flight(cluster));
    let clusters = going.map(|cluster| cluster.cluster_name.clone()).collect();
    pass.wait(Waiting::Deleting { clusters });
    pass.wake_in(CLUSTER_POLL);
}

/// Deletes the bindings of started clusters, starting all of them if it `may`, and ticks
/// off the clusters whose binding is gone.
fn sweep(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
    may: bool,
    when: &str,
) -> Result<(), Failure> {
    let dropped: Vec<&Binding> = pass.sorted.dropped.clone();
    let mut calendar = calendar(pass.seen, DELETION_STAGE);
    for binding in &dropped {
        let cluster = binding.cluster();
        let listed = stage.clusters.iter_mut().find(|entry| entry.cluster_name == cluster);
        let Some(entry) = listed else {
            return Err(messages::not_listed(cluster, when));
        };
        if is_finished(entry) {
            return Err(messages::still_bound(cluster));
        }
        let clusters = &pass.seen.clusters;
        let is_open = |open: &mut Calendar<'_>| open.is_open(cluster, clusters);
        if may && calendar.as_mut().is_none_or(is_open) {
            pass.writer.cluster_started(entry);
        }
        if is_started(entry) && !binding.deleting {
            pass.then(Action::DeleteBinding(DeleteBinding {
                binding: binding.name.clone(),
                uid: binding.uid.clone(),
                resource_version: binding.resource_version.clone(),
            }));
        }
    }
    for entry in &mut stage.clusters {
        let gone = !dropped.iter().any(|binding| binding.cluster() == entry.cluster_name);
        if gone && !is_finished(entry) {
            pass.writer.cluster_started(entry);
            pass.writer.cluster_succeeded(entry);
        }
    }
    Ok(())
}
