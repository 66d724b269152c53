//! Lets started clusters finish and starts nothing more (state Stop).
//!
//! What was promised is still carried out: a cluster recorded as started counts as in
//! flight whether or not its binding was reached, so "Stopped" is never said too early.

use flagship_api::staged_update_status::StageUpdatingStatus;

use super::deletion;
use super::delivery::Target;
use super::execution::{CLUSTER_POLL, in_stage, wait_for, watch};
use super::lifecycle::in_flight;
use super::messages::{Failure, missing, together};
use super::plan_builder::PlanBuilder;
use super::reconcile::Waiting;
use super::status::ConditionValue;

/// Stops the stage whose turn it is, begun or not.
pub fn stop(pass: &mut PlanBuilder<'_>, current: usize) {
    in_stage(pass, current, |pass, stage, config| match config {
        Some(_) => wind_down(pass, stage),
        None => deletion::stop(pass, stage),
    });
}

fn wind_down(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
) -> Result<ConditionValue, Failure> {
    let keeps = pass.seen.run.keeps_its_clusters();
    let flying = stage.clusters.iter().filter(|cluster| in_flight(cluster) && !keeps);
    let lost = flying.filter(|cluster| pass.sorted.of(&cluster.cluster_name).is_none());
    let lost = lost.map(|c| missing(&c.cluster_name, &stage.stage_name, " during stopping"));
    if let Some(text) = together(lost.collect()) {
        return Err(Failure::Final(text));
    }
    let stuck = if stage.clusters.iter().any(in_flight) {
        let target = Target::of(pass.seen, &pass.status)?;
        watch(pass, stage, &target)?
    } else {
        Vec::new()
    };
    let moving = stage.clusters.iter().any(in_flight);
    pass.writer.stage_stops(stage, moving);
    if !moving {
        pass.wait(Waiting::Resume);
        return Ok(ConditionValue::Stopped);
    }
    pass.wake_in(CLUSTER_POLL);
    wait_for(pass, stage, &stuck);
    if stuck.is_empty() {
        return Ok(ConditionValue::Stopping);
    }
    Ok(ConditionValue::Stuck(stuck, stage.stage_name.clone()))
}
