//! Fixes the plan of a run: clusters, stages, snapshot, overrides. Happens once.
//!
//! Whatever was found before a check failed stays visible in the status. Nothing is
//! written while its inputs are merely not ready.

use flagship_api::condition::{ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::update_run::INITIALIZED;
use flagship_api::error_class::ErrorClass;
use flagship_api::names::DELETION_STAGE;
use flagship_api::staged_update_status::{StageUpdatingStatus, UpdateRunStatus};

use super::inputs::EVERY_CLUSTER;
use super::messages::{Failure, VALID};
use super::observed::Observed;
use super::status::ConditionWriter;
use super::{inputs, overrides, snapshot, stages, undoing};
use crate::placement::resource_snapshots::ResourceAction;
use crate::policy::Adopted;
use crate::policy::before::Before;

/// What initialization found.
pub struct Initialized {
    /// The status, as far as it came.
    pub status: UpdateRunStatus,
    /// Snapshots to write before the status.
    pub actions: Vec<ResourceAction>,
    /// The policies that the run follows from now on.
    pub adopted: Adopted,
    /// Why there is no plan.
    pub failure: Option<Failure>,
}

/// Works the plan out.
pub fn initialize(seen: &Observed) -> Initialized {
    let mut found = Initialized {
        status: UpdateRunStatus::default(),
        actions: Vec::new(),
        adopted: Adopted::default(),
        failure: None,
    };
    found.failure = work_out(seen, &mut found.status, &mut found.actions, &mut found.adopted).err();
    found
}

fn work_out(
    seen: &Observed,
    status: &mut UpdateRunStatus,
    actions: &mut Vec<ResourceAction>,
    adopted: &mut Adopted,
) -> Result<(), Failure> {
    if let Some(of) = &seen.run.rollback_of {
        return undoing::work_out(seen, of, status, actions, adopted);
    }
    let (placement, apply) = inputs::placement(seen)?;
    status.applied_strategy = Some(apply);

    let (latest, index) = inputs::policy(seen)?;
    status.policy_snapshot_index_used = index;
    let wanted = inputs::wanted(seen, latest)?;
    status.policy_observed_cluster_count = wanted;
    inputs::scheduled(latest)?;

    let mut sorted = inputs::bindings(seen, latest)?;
    let mut wanted = wanted;
    if let Some(only) = &seen.run.only {
        sorted.only(only);
        wanted = EVERY_CLUSTER;
    }
    inputs::any(seen, latest, &sorted)?;
    status.policy_observed_cluster_count = inputs::counts(wanted, &sorted)?;

    let strategy = seen.strategy.as_ref().ok_or_else(|| {
        let key = seen.run.strategy_key().slashed();
        Failure::valid_user(format!("referenced updateStrategy not found: `{key}`"))
    })?;
    let copy = status.staged_update_strategy_snapshot.insert(stages::copied(strategy));
    stages::distinct_names(seen, copy)?;
    let names: Vec<&str> = copy.stages.iter().map(|stage| stage.name.as_str()).collect();
    *adopted = Adopted::of(&seen.policy.policies, &seen.policy.labels, &names)
        .map_err(Failure::valid_user)?;
    stages::with_gates(copy, adopted);
    if adopted.may_roll_back() {
        adopted.before = Before::of(&sorted.selected, &seen.policy.proven);
    }
    let mut computed = stages::compute(seen, copy, &sorted)?;
    computed.ordered(seen, adopted);
    let placed = computed.all_placed();
    status.stages_status = computed.stages;
    adopted.could_pass(&status.stages_status).map_err(Failure::valid_user)?;
    if !adopted.skips_unmatched() {
        placed?;
    }
    status.deletion_stage_status = Some(StageUpdatingStatus {
        stage_name: DELETION_STAGE.to_owned(),
        clusters: sorted.dropped_clusters().into_iter().map(stages::untouched).collect(),
        ..StageUpdatingStatus::default()
    });

    let chosen = snapshot::choose(seen, placement)?;
    *actions = chosen.actions;
    status.resource_snapshot_index_used = chosen.index;
    overrides::record(seen, &chosen.resources, &mut status.stages_status)
}

/// What is recorded when the server takes nothing of what was found, because an input that
/// an older server let in is copied into it: the failure alone.
pub fn refused(seen: &Observed, planned: &UpdateRunStatus, why: &str) -> UpdateRunStatus {
    let told = planned.conditions.of_type(INITIALIZED);
    let text = match told.filter(|told| ConditionStatus::of(told) == ConditionStatus::False) {
        Some(told) => told.message.clone(),
        None => {
            let why = ErrorClass::User.message(format!("the plan cannot be recorded: {why}"));
            format!("{VALID}: {why}")
        }
    };
    let mut status = UpdateRunStatus::default();
    let writer = ConditionWriter { generation: Generation(seen.run.generation), now: seen.now };
    writer.not_initialized(&mut status, &text);
    status
}
