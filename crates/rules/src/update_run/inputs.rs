//! What must be stored for a run to go on: placement, policy, bindings.
//!
//! Checked when a run is initialized and again on every later pass, in this order and
//! with these words. What was found so far is recorded as it is found, so that a failed
//! initialization shows how far it came.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flagship_api::apply_strategy::ApplyStrategy;
use flagship_api::binding::BindingState;
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::policy_snapshot::SCHEDULED;
use flagship_api::defaults::effective_apply_strategy;
use flagship_api::error_class::ErrorClass;
use flagship_api::keys::annotation::NUMBER_OF_CLUSTERS;
use flagship_api::placement::RolloutStrategyType;
use flagship_api::policy::PlacementType;
use flagship_base::go_number::atoi;

use super::messages::{Failure, VALID};
use super::observed::Observed;
use crate::model::{Binding, PolicySnapshot};
use crate::placement::Placement;

/// Count of a placement that takes every cluster, until the bindings are counted.
pub const EVERY_CLUSTER: i64 = -1;

/// A placement that runs may roll out, and its apply strategy in force.
pub fn placement(seen: &Observed) -> Result<(&Placement, ApplyStrategy), Failure> {
    // One that is being deleted is as good as gone: its bindings are going.
    let found = seen.placement.as_ref().filter(|placement| !placement.deleting);
    let placement = found.ok_or_else(|| Failure::valid_user("parent placement not found"))?;
    let strategy = placement.spec.strategy.as_ref();
    let kind = strategy.and_then(|strategy| strategy.r#type).unwrap_or_default();
    if kind != RolloutStrategyType::External {
        return Err(Failure::valid_user(format!(
            "parent placement does not have an external rollout strategy, current strategy: {kind:?}"
        )));
    }
    let applied = strategy.and_then(|strategy| strategy.apply_strategy.as_ref());
    Ok((placement, effective_apply_strategy(applied)))
}

/// The policy snapshot in force, and its index.
pub fn policy(seen: &Observed) -> Result<(&PolicySnapshot, String), Failure> {
    let placement = seen.run.placement_key().slashed();
    let latest = match seen.policy_snapshots.as_slice() {
        [] => {
            let detail = format!("no latest policy snapshot found for placement {placement}");
            return Err(Failure::Early(format!("{VALID}: {detail}")));
        }
        [latest] => latest,
        several => {
            return Err(Failure::valid_unexpected(format!(
                "multiple active policy snapshots found for placement {placement}: got {}, want 1",
                several.len()
            )));
        }
    };
    match latest.index.clone().filter(|index| !index.is_empty()) {
        Some(index) => Ok((latest, index)),
        None => Err(Failure::valid_unexpected(format!(
            "policy snapshot `{}` does not have a policy index label",
            seen.run.beside(&latest.name).slashed()
        ))),
    }
}

/// How many clusters the policy wants, [`EVERY_CLUSTER`] if it does not say.
pub fn wanted(seen: &Observed, latest: &PolicySnapshot) -> Result<i64, Failure> {
    let Some(policy) = &latest.policy else { return Ok(EVERY_CLUSTER) };
    match policy.placement_type.unwrap_or_default() {
        PlacementType::PickAll => Ok(EVERY_CLUSTER),
        PlacementType::PickFixed => {
            Ok(i64::try_from(policy.cluster_names.len()).unwrap_or(i64::MAX))
        }
        PlacementType::PickN => counted(latest).map_err(|cause| {
            let snapshot = seen.run.beside(&latest.name).slashed();
            // A comma where every other text has a colon, as in KubeFleet.
            let detail = format!(
                "{cause}: the policy snapshot `{snapshot}` doesn't have valid cluster count annotation"
            );
            Failure::Final(format!("{VALID}, {}", ErrorClass::Unexpected.message(detail)))
        }),
    }
}

fn counted(latest: &PolicySnapshot) -> Result<i64, String> {
    let text = latest.number_of_clusters.as_deref();
    let text = text.ok_or_else(|| format!("cannot find annotation {NUMBER_OF_CLUSTERS}"))?;
    let bad = |why: String| {
        format!("invalid annotation {NUMBER_OF_CLUSTERS}: {text} is not a valid count: {why}")
    };
    match atoi(text) {
        Ok(count) if count >= 0 => Ok(count),
        Ok(_) => Err(bad("must not be negative".to_owned())),
        Err(error) => Err(bad(error.to_string())),
    }
}

/// Whether the scheduler has found every cluster the policy wants.
pub fn scheduled(latest: &PolicySnapshot) -> Result<(), Failure> {
    if latest.status.conditions.is_true_at(SCHEDULED, Generation(latest.generation)) {
        return Ok(());
    }
    let detail = format!("policy snapshot `{}` not fully scheduled yet", latest.name);
    Err(Failure::Early(format!("{VALID}: {detail}")))
}

/// Bindings of one placement by what becomes of them, each by name.
#[derive(Debug, Clone, Default)]
pub struct Sorted<'a> {
    /// To be updated.
    pub selected: Vec<&'a Binding>,
    /// To be deleted.
    pub dropped: Vec<&'a Binding>,
    /// The first of each cluster that is to be updated.
    by_cluster: BTreeMap<&'a str, &'a Binding>,
}

impl<'a> Sorted<'a> {
    /// The binding of a cluster that is to be updated.
    pub fn of(&self, cluster: &str) -> Option<&'a Binding> {
        self.by_cluster.get(cluster).copied()
    }

    /// Only these clusters, and nothing to be deleted.
    pub fn only(&mut self, clusters: &BTreeSet<String>) {
        self.selected.retain(|binding| clusters.contains(binding.cluster()));
        self.by_cluster.retain(|cluster, _| clusters.contains(*cluster));
        self.dropped.clear();
    }

    /// Clusters that lose their resources, by name.
    pub fn dropped_clusters(&self) -> Vec<&'a str> {
        let mut clusters: Vec<&str> = self.dropped.iter().map(|b| b.cluster()).collect();
        clusters.sort_unstable();
        clusters.dedup();
        clusters
    }
}

/// Sorts the bindings; one of an older policy that is still live is a moment to wait out.
pub fn bindings<'a>(seen: &'a Observed, latest: &PolicySnapshot) -> Result<Sorted<'a>, Failure> {
    let mut all: Vec<&Binding> = seen.bindings.iter().map(Arc::as_ref).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut sorted = Sorted::default();
    for binding in all {
        let current = binding.spec.scheduling_policy_snapshot_name == latest.name;
        match &binding.spec.state {
            BindingState::Unscheduled => sorted.dropped.push(binding),
            BindingState::Scheduled | BindingState::Bound if current => {
                sorted.selected.push(binding);
                sorted.by_cluster.entry(binding.cluster()).or_insert(binding);
            }
            // Neither of the known states: nobody acts on it, and neither do we.
            BindingState::Other(_) if current => {}
            state => {
                let old = &binding.spec.scheduling_policy_snapshot_name;
                return Err(Failure::passing(format!(
                    "binding `{}` with old policy snapshot `{}` has state {}, we might observe a transient state, need retry",
                    seen.run.beside(&binding.name).slashed(),
                    seen.run.beside(old).slashed(),
                    printed(state),
                )));
            }
        }
    }
    Ok(sorted)
}

/// The bindings as a run sees them that keeps its clusters: by their state alone, and to be
/// deleted only what it has `listed` for that.
pub fn as_planned<'a>(seen: &'a Observed, listed: &BTreeSet<&str>) -> Sorted<'a> {
    let mut all: Vec<&Binding> = seen.bindings.iter().map(Arc::as_ref).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut sorted = Sorted::default();
    for binding in all {
        match &binding.spec.state {
            BindingState::Unscheduled if listed.contains(binding.cluster()) => {
                sorted.dropped.push(binding);
            }
            BindingState::Scheduled | BindingState::Bound if !binding.deleting => {
                sorted.selected.push(binding);
                sorted.by_cluster.entry(binding.cluster()).or_insert(binding);
            }
            _ => {}
        }
    }
    sorted
}

/// Whether there is anything to do at all.
pub fn any(seen: &Observed, latest: &PolicySnapshot, sorted: &Sorted<'_>) -> Result<(), Failure> {
    if !sorted.selected.is_empty() || !sorted.dropped.is_empty() {
        return Ok(());
    }
    Err(Failure::valid(format!(
        "no scheduled or to-be-deleted bindings found for the latest policy snapshot {}",
        seen.run.beside(&latest.name).slashed()
    )))
}

fn printed(state: &BindingState) -> &str {
    match state {
        BindingState::Scheduled => "Scheduled",
        BindingState::Bound => "Bound",
        BindingState::Unscheduled => "Unscheduled",
        BindingState::Other(other) => other,
    }
}

/// Whether there are as many bindings as the policy wants; returns how many that is.
pub fn counts(wanted: i64, sorted: &Sorted<'_>) -> Result<i64, Failure> {
    let selected = i64::try_from(sorted.selected.len()).unwrap_or(i64::MAX);
    if wanted == EVERY_CLUSTER || wanted == selected {
        return Ok(selected);
    }
    Err(Failure::valid_unexpected(format!(
        "the number of selected bindings {selected} is not equal to the observed cluster count {wanted}"
    )))
}
