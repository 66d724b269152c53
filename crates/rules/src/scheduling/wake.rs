//! Which change of a cluster or a binding makes which placements worth another pass.
//!
//! A pass too many costs little, a pass too few leaves a placement unfulfilled.

use std::sync::Arc;

use flagship_api::policy::{PlacementPolicy, PlacementType};
use flagship_base::quantity::Quantity;
use jiff::Timestamp;

use super::eligibility::ineligible;
use super::observed::State;
use crate::model::{Binding, Cluster, PackedMap};

/// How a cluster changed, as far as scheduling cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterChange {
    /// Nothing that could make it newly pickable.
    Nothing,
    /// Only numbers: properties or resource usage.
    Numbers,
    /// Labels, taints, namespaces or eligibility.
    Nature,
}

/// Compares two versions of one cluster.
pub fn cluster_change(old: &Cluster, new: &Cluster, now: Timestamp) -> ClusterChange {
    if new.leaving {
        return ClusterChange::Nothing;
    }
    let lost_a_taint = old.taints.iter().any(|taint| !new.taints.contains(taint));
    let recovered = ineligible(old, now).is_some() && ineligible(new, now).is_none();
    if old.labels != new.labels || old.namespaces != new.namespaces || lost_a_taint || recovered {
        return ClusterChange::Nature;
    }
    let same = old.properties == new.properties
        && same_amounts(&old.capacity, &new.capacity)
        && same_amounts(&old.allocatable, &new.allocatable)
        && same_amounts(&old.available, &new.available);
    if same { ClusterChange::Nothing } else { ClusterChange::Numbers }
}

/// `1000m` and `1` are the same amount, however they are written.
fn same_amounts(old: &PackedMap, new: &PackedMap) -> bool {
    let amount = |text: &str| text.parse::<Quantity>().ok();
    old.iter().count() == new.iter().count()
        && old.iter().zip(new.iter()).all(|((name, was), (other, is))| {
            name == other && (was == is || (amount(was).is_some() && amount(was) == amount(is)))
        })
}

/// Whether a placement should look again after such a change. One that is fully
/// scheduled under PickN or PickFixed has nothing to gain.
pub fn concerns(
    change: ClusterChange,
    policy: Option<&PlacementPolicy>,
    fully_scheduled: bool,
) -> bool {
    let kind = policy.and_then(|p| p.placement_type).unwrap_or_default();
    let open = kind == PlacementType::PickAll || !fully_scheduled;
    match change {
        ClusterChange::Nothing => false,
        ClusterChange::Numbers => open && policy.is_some_and(reads_properties),
        ClusterChange::Nature => open,
    }
}

/// Whether a binding came into force beside another one of its placement for its cluster, as when
/// two hubs that lead have chosen it one after the other. `there` tells all of them.
pub fn becomes_surplus(
    old: Option<&Binding>,
    new: &Binding,
    there: impl FnOnce() -> Vec<Arc<Binding>>,
) -> bool {
    let in_force =
        |one: &Binding| !one.deleting && matches!(one.state(), State::Scheduled | State::Bound);
    let came = in_force(new) && !old.is_some_and(in_force);
    came && there().iter().any(|one| one.name != new.name && in_force(one))
}

fn reads_properties(policy: &PlacementPolicy) -> bool {
    let Some(affinity) = policy.affinity.as_ref().and_then(|a| a.cluster_affinity.as_ref()) else {
        return false;
    };
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    let terms = required.map_or(&[][..], |r| &r.cluster_selector_terms);
    let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
    terms.iter().any(|t| t.property_selector.is_some())
        || preferred.iter().any(|p| p.preference.property_sorter.is_some())
}
