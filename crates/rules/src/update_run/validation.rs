//! Whether a run may go on as planned, and which stage is its turn.
//!
//! Checked on every pass and in every state. What was recorded is never changed here; a
//! placement that no longer fits it ends the run.

use std::collections::BTreeSet;

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::update_run::{PROGRESSING, SUCCEEDED};
use flagship_api::go_json;
use flagship_api::staged_update::StageConfig;
use flagship_api::staged_update_status::{StageUpdatingStatus, UpdateRunStatus};

use super::inputs::{self, EVERY_CLUSTER, Sorted};
use super::lifecycle::{in_flight, is_settled, says};
use super::max_concurrency::concurrency;
use super::messages::Failure;
use super::observed::Observed;
use super::stages::{self, NAMED_AT_MOST};
use crate::policy::Adopted;

/// A run that may go on.
#[derive(Debug)]
pub struct Checked<'a> {
    /// The stage whose turn it is, the number of stages for the deletion stage; `None`
    /// when everything is done.
    pub current: Option<usize>,
    /// The bindings as they are now.
    pub sorted: Sorted<'a>,
}

/// Holds the record against placement, policy and bindings.
pub fn check<'a>(seen: &'a Observed, status: &UpdateRunStatus) -> Result<Checked<'a>, Failure> {
    let (_, apply) = inputs::placement(seen)?;
    if status.applied_strategy.as_ref() != Some(&apply) {
        let json = |value: Option<&_>| go_json::to_string(&value).unwrap_or_default();
        return Err(Failure::abort_user(format!(
            "the applyStrategy in the updateRun is outdated, latest: {}, recorded: {}",
            json(Some(&apply)),
            json(status.applied_strategy.as_ref()),
        )));
    }
    still_there(seen, status)?;
    if seen.run.keeps_its_clusters() {
        return kept(seen, status);
    }
    let (latest, index) = inputs::policy(seen)?;
    let wanted = inputs::wanted(seen, latest)?;
    inputs::scheduled(latest)?;
    if index != status.policy_snapshot_index_used {
        return Err(Failure::abort(format!(
            "the policy snapshot index used in the updateRun is outdated, latest: {index}, recorded: {}",
            status.policy_snapshot_index_used
        )));
    }
    if wanted != EVERY_CLUSTER && wanted != status.policy_observed_cluster_count {
        return Err(Failure::abort(format!(
            "the cluster count initialized in the updateRun is outdated, latest: {wanted}, recorded: {}",
            status.policy_observed_cluster_count
        )));
    }
    let sorted = inputs::bindings(seen, latest)?;
    // A run that only deletes has nothing left once it has done so. (KubeFleet fails then.)
    if status.stages_status.iter().any(|stage| !stage.clusters.is_empty()) {
        inputs::any(seen, latest, &sorted)?;
    }
    inputs::counts(wanted, &sorted)?;

    let strategy = status
        .staged_update_strategy_snapshot
        .as_ref()
        .ok_or_else(|| Failure::abort_unexpected("the updateRun has nil updateStrategySnapshot"))?;
    let mut computed = stages::compute(seen, strategy, &sorted)?;
    if !seen.run.adopted.as_ref().is_some_and(Adopted::skips_unmatched) {
        computed.all_placed()?;
    }
    // In whatever order a policy has put them.
    if seen.run.adopted.is_some() {
        computed.in_order_of(&status.stages_status);
    }
    if status.stages_status.is_empty() && !strategy.stages.is_empty() {
        return Err(Failure::abort_unexpected("the updateRun has nil stagesStatus"));
    }
    let turn = compared(&strategy.stages, &computed.stages, &status.stages_status)?;
    let current = deletion_turn(status, &sorted, turn)?;
    Ok(Checked { current, sorted })
}

/// What the run still has to bring must be there. It goes with its placement, and a later one
/// of that name knows nothing of it; bindings that name it would wait for good. (KubeFleet goes
/// on and leaves them so.)
fn still_there(seen: &Observed, status: &UpdateRunStatus) -> Result<(), Failure> {
    let mut clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    if !seen.snapshot_gone || clusters.all(is_settled) {
        return Ok(());
    }
    Err(Failure::abort_user(format!(
        "the resource snapshot with index `{}` that the updateRun rolls out is gone: it, or its placement, was deleted meanwhile; create another updateRun",
        status.resource_snapshot_index_used
    )))
}

/// The same for a run that keeps its clusters: whoever joins waits for the next run, whoever
/// leaves is skipped when it is their turn, and neither ends this one.
fn kept<'a>(seen: &'a Observed, status: &UpdateRunStatus) -> Result<Checked<'a>, Failure> {
    let strategy = status
        .staged_update_strategy_snapshot
        .as_ref()
        .ok_or_else(|| Failure::abort_unexpected("the updateRun has nil updateStrategySnapshot"))?;
    let mut turn = StageProgress::default();
    for (i, (config, stage)) in strategy.stages.iter().zip(&status.stages_status).enumerate() {
        turn.visit(i, config, stage)?;
    }
    let listed = status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters);
    let listed: BTreeSet<&str> = listed.map(|cluster| cluster.cluster_name.as_str()).collect();
    let sorted = inputs::as_planned(seen, &listed);
    let current = deletion_turn(status, &sorted, turn)?;
    Ok(Checked { current, sorted })
}

/// Clusters that joined or left since the run was initialized, for people to read.
pub fn moved(seen: &Observed, status: &UpdateRunStatus) -> Option<String> {
    let now: BTreeSet<&str> = seen
        .bindings
        .iter()
        .filter(|binding| !binding.is_unscheduled())
        .map(|binding| binding.cluster())
        .collect();
    let stages = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let then: BTreeSet<&str> = stages.map(|cluster| cluster.cluster_name.as_str()).collect();
    let named = |what: &str, clusters: BTreeSet<&str>| {
        let names: Vec<&str> = clusters.into_iter().take(NAMED_AT_MOST).collect();
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    };
    let joined = named("joined", &now - &then);
    let left = named("left", &then - &now);
    let told: Vec<String> = joined.into_iter().chain(left).collect();
    (!told.is_empty()).then(|| format!("clusters of the placement changed, {}", told.join("; ")))
}

/// Stage by stage: it must be the one that was recorded, and stand where it may stand.
fn compared(
    strategy: &[StageConfig],
    new: &[StageUpdatingStatus],
    existing: &[StageUpdatingStatus],
) -> Result<StageProgress, Failure> {
    if new.len() != existing.len() {
        return Err(Failure::abort(format!(
            "the number of stages in the updateRun has changed, new: {}, existing: {}",
            new.len(),
            existing.len()
        )));
    }
    let mut turn = StageProgress::default();
    let recorded = strategy.iter().zip(existing);
    for (i, ((config, existing), new)) in recorded.zip(new).enumerate() {
        same_stage(i, new, existing)?;
        turn.visit(i, config, existing)?;
    }
    Ok(turn)
}

fn same_stage(
    i: usize,
    new: &StageUpdatingStatus,
    existing: &StageUpdatingStatus,
) -> Result<(), Failure> {
    if new.stage_name != existing.stage_name {
        return Err(Failure::abort(format!(
            "index `{i}` stage name in the updateRun has changed, new: {}, existing: {}",
            new.stage_name, existing.stage_name
        )));
    }
    if new.clusters.len() != existing.clusters.len() {
        return Err(Failure::abort(format!(
            "the number of clusters in index `{i}` stage has changed, new: {}, existing: {}",
            new.clusters.len(),
            existing.clusters.len()
        )));
    }
    let pairs = new.clusters.iter().zip(&existing.clusters).enumerate();
    for (j, (new, existing)) in pairs {
        if new.cluster_name != existing.cluster_name {
            return Err(Failure::abort(format!(
                "the `{j}` cluster in the `{i}` stage has changed, new: {}, existing: {}",
                new.cluster_name, existing.cluster_name
            )));
        }
    }
    Ok(())
}

/// Where a run stands among its stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageProgress {
    /// The stage that has begun and is not done.
    pub updating: Option<usize>,
    /// The last stage that is done.
    pub finished: Option<usize>,
}

impl StageProgress {
    fn next(self) -> usize {
        self.finished.map_or(0, |finished| finished + 1)
    }

    /// Takes the next stage in: they must be finished ones, at most one begun, untouched ones.
    pub fn visit(
        &mut self,
        i: usize,
        config: &StageConfig,
        stage: &StageUpdatingStatus,
    ) -> Result<(), Failure> {
        let name = &stage.stage_name;
        let most = concurrency(config, stage.clusters.len())?;
        match says(&stage.conditions, SUCCEEDED) {
            Some(ConditionStatus::True) => {
                if let Some(updating) = self.updating {
                    return Err(Failure::abort_unexpected(format!(
                        "the finished stage `{i}` is after the updating stage `{updating}`"
                    )));
                }
                if let Some(open) = stage.clusters.iter().find(|cluster| !is_settled(cluster)) {
                    return Err(Failure::abort_unexpected(format!(
                        "cluster `{}` in the finished stage `{name}` has not succeeded",
                        open.cluster_name
                    )));
                }
                if i != self.next() {
                    return Err(Failure::abort_unexpected(format!(
                        "the finished stage `{name}` is not right after the last finished stage with index `{}`",
                        printed(self.finished)
                    )));
                }
                self.finished = Some(i);
            }
            Some(ConditionStatus::False) => {
                let told = stage.conditions.of_type(SUCCEEDED).map_or("", |c| c.message.as_str());
                return Err(Failure::abort(format!("the stage `{name}` has failed, err: {told}")));
            }
            _ if stage.conditions.of_type(PROGRESSING).is_some() => {
                if let Some(updating) = self.updating {
                    return Err(Failure::abort_unexpected(format!(
                        "the stage `{name}` is updating, but there is already a stage with index `{updating}` updating"
                    )));
                }
                if i != self.next() {
                    return Err(Failure::abort_unexpected(format!(
                        "the updating stage `{name}` is not right after the last finished stage with index `{}`",
                        printed(self.finished)
                    )));
                }
                let busy = stage.clusters.iter().filter(|cluster| in_flight(cluster)).count();
                if busy > most {
                    return Err(Failure::abort_unexpected(format!(
                        "the number of updating clusters `{busy}` in the updating stage `{name}` exceeds maxConcurrency `{most}`"
                    )));
                }
                self.updating = Some(i);
            }
            _ => {}
        }
        Ok(())
    }
}

fn printed(index: Option<usize>) -> String {
    index.map_or_else(|| "-1".to_owned(), |index| index.to_string())
}

fn deletion_turn(
    status: &UpdateRunStatus,
    sorted: &Sorted<'_>,
    turn: StageProgress,
) -> Result<Option<usize>, Failure> {
    let Some(stage) = &status.deletion_stage_status else {
        return Err(Failure::abort_unexpected("the updateRun has nil deletionStageStatus"));
    };
    for cluster in sorted.dropped_clusters() {
        if !stage.clusters.iter().any(|listed| listed.cluster_name == cluster) {
            return Err(Failure::abort_unexpected(format!(
                "the cluster `{cluster}` to be deleted is not in the delete stage"
            )));
        }
    }
    let succeeded = says(&stage.conditions, SUCCEEDED);
    if turn.updating.is_some() || turn.next() < status.stages_status.len() {
        let decided = succeeded.is_some_and(|truth| truth != ConditionStatus::Unknown);
        if decided || says(&stage.conditions, PROGRESSING) == Some(ConditionStatus::True) {
            return Err(Failure::abort_unexpected(format!(
                "the delete stage is active, but there are still stages updating, updatingStageIndex: {}, lastFinishedStageIndex: {}",
                printed(turn.updating),
                printed(turn.finished)
            )));
        }
        return Ok(Some(turn.updating.unwrap_or_else(|| turn.next())));
    }
    match succeeded {
        Some(ConditionStatus::True) => Ok(None),
        Some(ConditionStatus::False) => {
            let told = stage.conditions.of_type(SUCCEEDED).map_or("", |c| c.message.as_str());
            Err(Failure::abort(format!("the delete stage has failed, err: {told}")))
        }
        _ => Ok(Some(status.stages_status.len())),
    }
}
