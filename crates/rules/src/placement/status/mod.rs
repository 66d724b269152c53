//! What a placement reports: what was selected, which clusters were chosen, and how far
//! each has come.
//!
//! A pure function of what is so and of what was said before; the latter only lends its
//! transition times. Where update runs decide the version, clusters may differ, and the
//! placement as a whole then has none.

pub mod messages;
mod per_cluster;
mod roll_up;
mod size;

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::apply_strategy::ApplyStrategyType;
use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation, draft};
use flagship_api::condition_type::{Placement as Step, policy_snapshot};
use flagship_api::names::Scope;
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::{
    PerClusterPlacementStatus, PlacementStatus, ResourceIdentifier,
};
use flagship_api::policy::PlacementType;
use flagship_api::snapshot::ClusterDecision;
use jiff::Timestamp;

use super::observed::{ByCluster, Placement};
use super::pass_error::PassError;
use super::policy_snapshots::LatestPolicy;
use super::resource_snapshots::{LatestResources, content};
use crate::model::{Binding, ResourceSnapshot};
pub use messages::unreadable;
pub use size::{MOST_BYTES, fit};

use per_cluster::{Delivery, StatusInputs};
use roll_up::{keep_only, roll_up};

/// What a status is made of.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The placement, with what it said last.
    pub placement: &'a Placement,
    /// The latest policy snapshot.
    pub policy: &'a LatestPolicy,
    /// The bindings, in any order.
    pub bindings: &'a [Arc<Binding>],
    /// Which version clusters should be on.
    pub version: Version<'a>,
    /// The present moment.
    pub now: Timestamp,
}

/// Which version of the resources clusters should be on.
#[derive(Debug, Clone, Copy)]
pub enum Version<'a> {
    /// The latest.
    Latest(&'a LatestResources),
    /// Whatever update runs have brought them.
    LeftToRuns {
        /// All resource snapshots, to look up what a binding names.
        snapshots: &'a [Arc<ResourceSnapshot>],
        /// What is selected today.
        selected: &'a [ResourceIdentifier],
    },
}

/// The steps expected of a placement with this spec, in order.
pub fn expected(spec: &PlacementSpec) -> &'static [Step] {
    let apply = spec.strategy.as_ref().and_then(|strategy| strategy.apply_strategy.as_ref());
    match apply.and_then(|apply| apply.r#type) {
        Some(ApplyStrategyType::ReportDiff) => &Step::WHEN_REPORTING_DIFF,
        _ => &Step::WHEN_APPLYING,
    }
}

/// Whether everything expected of the placement is True at this generation.
pub fn is_complete(placement: &Placement, conditions: &[Condition]) -> bool {
    let (scope, generation) = (placement.scope(), Generation(placement.generation));
    let steps = expected(&placement.spec).iter().copied();
    let mut steps = std::iter::once(Step::Scheduled).chain(steps);
    steps.all(|step| conditions.is_true_at(step.on(scope), generation))
}

/// The status of a placement whose selection and snapshots are in order.
pub fn report(facts: &Facts<'_>) -> Result<PlacementStatus, PassError> {
    let Facts { placement, now, .. } = *facts;
    let (scope, generation) = (placement.scope(), Generation(placement.generation));
    let mut conditions = placement.status.conditions.clone();
    let scheduled = scheduled(facts);
    let verdict = ConditionStatus::of(&scheduled);
    draft(Step::Scheduled.on(scope)).is_as(&scheduled).set(&mut conditions, generation, now);
    let (index, selected) = match facts.version {
        Version::Latest(latest) => (latest.index.as_str(), latest.resources.as_slice()),
        Version::LeftToRuns { selected, .. } => ("", selected),
    };
    let mut status = PlacementStatus {
        selected_resources: selected.to_vec(),
        observed_resource_index: index.to_owned(),
        placement_statuses: Vec::new(),
        conditions,
    };
    if verdict == ConditionStatus::Unknown {
        return Ok(status);
    }
    let decisions = &facts.policy.status.target_clusters;
    let (chosen, others): (Vec<&ClusterDecision>, Vec<_>) =
        decisions.iter().map(|decision| &**decision).partition(|decision| decision.selected);
    let inputs = StatusInputs { expected: expected(&placement.spec), generation, now };
    let mut entries = chosen_entries(facts, &inputs, &chosen);
    if chosen.is_empty() {
        status.conditions.retain(|condition| condition.type_ == Step::Scheduled.on(scope));
    } else {
        match facts.version {
            Version::Latest(_) => {
                roll_up(&mut status.conditions, &entries, inputs.expected, scope, generation, now);
            }
            Version::LeftToRuns { snapshots, .. } => {
                roll_up_runs(&mut status, &entries, snapshots, &inputs, scope);
            }
        }
    }
    entries.extend(lacking_entries(placement, &inputs, chosen.len(), &others)?);
    status.placement_statuses = entries;
    fit(&mut status, MOST_BYTES);
    Ok(status)
}

/// What the scheduler says, or that it has not spoken about this generation.
fn scheduled(facts: &Facts<'_>) -> Condition {
    let recorded = &facts.policy.status;
    let pending = || {
        messages::schedule_pending(facts.placement.scope())
            .into_condition(Generation(facts.placement.generation), facts.now)
    };
    if recorded.observed_crp_generation < facts.placement.generation {
        return pending();
    }
    let told = recorded.conditions.of_type(policy_snapshot::SCHEDULED);
    let current = told.filter(|told| {
        Generation::seen_by(told) >= Generation(facts.policy.generation)
            && ConditionStatus::of(told) != ConditionStatus::Unknown
    });
    current.cloned().unwrap_or_else(pending)
}

fn chosen_entries(
    facts: &Facts<'_>,
    inputs: &StatusInputs<'_>,
    chosen: &[&ClusterDecision],
) -> Vec<PerClusterPlacementStatus> {
    let before: BTreeMap<&str, &PerClusterPlacementStatus> = facts
        .placement
        .status
        .placement_statuses
        .iter()
        .map(|entry| (entry.cluster_name.as_str(), entry))
        .collect();
    let bindings = by_cluster(facts.bindings, &facts.policy.name);
    let indexes = match facts.version {
        Version::Latest(_) => BTreeMap::new(),
        Version::LeftToRuns { snapshots, .. } => indexes_by_name(snapshots),
    };
    let entry = |decision: &&ClusterDecision| {
        let cluster = decision.cluster_name.as_str();
        let binding = bindings.get(cluster).copied();
        let (delivery, index) = match (facts.version, binding) {
            (_, None) => (Delivery::None, ""),
            (Version::Latest(latest), Some(binding)) => {
                let right = binding.spec.resource_snapshot_name == latest.master;
                let delivery =
                    if right { Delivery::Right(binding) } else { Delivery::Older(binding) };
                (delivery, latest.index.as_str())
            }
            (Version::LeftToRuns { .. }, Some(binding)) => {
                let index = indexes.get(binding.spec.resource_snapshot_name.as_str()).copied();
                (Delivery::Right(binding), index.unwrap_or_default())
            }
        };
        inputs.chosen(decision, before.get(cluster).copied(), delivery, index)
    };
    chosen.iter().map(entry).collect()
}

/// Bindings of this policy snapshot by cluster; of two, the last by name counts.
fn by_cluster<'a>(bindings: &'a [Arc<Binding>], policy_snapshot: &str) -> ByCluster<'a> {
    let usable = |binding: &&Binding| {
        !binding.deleting
            && !binding.cluster().is_empty()
            && binding.spec.scheduling_policy_snapshot_name == policy_snapshot
    };
    let mut usable: Vec<&Binding> = bindings.iter().map(Arc::as_ref).filter(usable).collect();
    usable.sort_by(|a, b| a.name.cmp(&b.name));
    usable.into_iter().map(|binding| (binding.cluster(), binding)).collect()
}

fn indexes_by_name(snapshots: &[Arc<ResourceSnapshot>]) -> BTreeMap<&str, &str> {
    snapshots
        .iter()
        .filter_map(|snapshot| Some((snapshot.name.as_str(), snapshot.index.as_deref()?)))
        .collect()
}

/// Entries of clusters that are wanted but were not found, with the reasons of the first
/// clusters that were turned down.
fn lacking_entries(
    placement: &Placement,
    inputs: &StatusInputs<'_>,
    chosen: usize,
    others: &[&ClusterDecision],
) -> Result<Vec<PerClusterPlacementStatus>, PassError> {
    let policy = placement.spec.policy.as_ref();
    let wanted = match placement.picks() {
        PlacementType::PickAll => chosen,
        PlacementType::PickN => policy
            .and_then(|policy| policy.number_of_clusters)
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(0),
        PlacementType::PickFixed => policy.map_or(0, |policy| policy.cluster_names.len()),
    };
    let lacking = wanted.checked_sub(chosen).ok_or_else(|| {
        PassError::Unexpected(format!("{chosen} clusters are selected where {wanted} are wanted"))
    })?;
    let before = placement.status.placement_statuses.iter().filter(|e| e.cluster_name.is_empty());
    let mut before = before.fuse();
    Ok(others
        .iter()
        .take(lacking)
        .map(|decision| inputs.lacking(decision, before.next()))
        .collect())
}

/// The placement as a whole, where update runs decide what each cluster gets.
fn roll_up_runs(
    status: &mut PlacementStatus,
    entries: &[PerClusterPlacementStatus],
    snapshots: &[Arc<ResourceSnapshot>],
    inputs: &StatusInputs<'_>,
    scope: Scope,
) {
    let index = entries.first().map_or("", |entry| entry.observed_resource_index.as_str());
    let same = entries.iter().all(|entry| entry.observed_resource_index == index);
    let undecided = entries.iter().find(|entry| {
        let told = entry.conditions.of_type(Step::RolloutStarted.per_cluster());
        told.is_none_or(|told| ConditionStatus::of(told) == ConditionStatus::Unknown)
    });
    let why = if !same {
        Some("different resource snapshot versions are observed across clusters".to_owned())
    } else if index.is_empty() {
        Some("no resource snapshot name is observed across clusters, probably rollout has not started yet".to_owned())
    } else {
        undecided.map(|entry| {
            format!("cluster {} is in RolloutStarted Unknown state", entry.cluster_name)
        })
    };
    let common = if same { index } else { "" };
    status.observed_resource_index = common.to_owned();
    status.selected_resources =
        if common.is_empty() { Vec::new() } else { content(snapshots, common) };
    let StatusInputs { expected, generation, now } = *inputs;
    match why {
        Some(why) => {
            let conditions = &mut status.conditions;
            messages::left_to_runs(scope, &why).set(conditions, generation, now);
            keep_only(conditions, &[Step::RolloutStarted], scope);
        }
        None => roll_up(&mut status.conditions, entries, expected, scope, generation, now),
    }
}
