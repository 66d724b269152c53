//! How many bindings may move in one pass.
//!
//! Shares of the clusters wanted are rounded up. What fails is always updated; removing
//! and updating what works share one budget, beginning anew has another.

use flagship_api::int_or_string::of_target;
use flagship_api::placement::{PlacementSpec, RollingUpdateConfig};
use flagship_api::policy::PlacementType;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::sorting::{Candidate, Sorted};
use crate::model::Binding;
use crate::placement::PassError;

/// The limits of a placement's strategy, resolved against the clusters it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How many ready bindings may be taken out of service now.
    pub removable: i64,
    /// How many bindings may begin now.
    pub addable: i64,
}

/// What a pass may touch, and what has to wait.
#[derive(Debug, Clone, Default)]
pub struct Picked<'a> {
    /// To be deleted.
    pub remove: Vec<&'a Binding>,
    /// To get what is wanted, in order.
    pub deliver: Vec<Candidate<'a>>,
    /// Out of date or not begun, and not picked.
    pub held_back: Vec<&'a Binding>,
    /// Number of those that are no longer wanted, and not picked.
    pub kept: usize,
}

/// Counts what may move. The spec must be complete.
pub fn budget(spec: &PlacementSpec, sorted: &Sorted<'_>) -> Result<Budget, PassError> {
    let rolling = rolling_update(spec);
    let target = target(spec, sorted.targeted);
    let unavailable = share("maxUnavailable", rolling.max_unavailable.as_ref(), target)?;
    let surge = share("maxSurge", rolling.max_surge.as_ref(), target)?;
    let in_service = i64::from(sorted.ready) - i64::from(sorted.can_be_unavailable);
    Ok(Budget {
        removable: in_service - (i64::from(target) - i64::from(unavailable)),
        addable: i64::from(target) + i64::from(surge) - i64::from(sorted.can_be_ready),
    })
}

/// How long resources whose readiness cannot be told count as not ready.
pub fn unavailable_period(spec: &PlacementSpec) -> SignedDuration {
    let seconds = rolling_update(spec).unavailable_period_seconds;
    SignedDuration::from_secs(
        seconds.unwrap_or(flagship_api::defaults::UNAVAILABLE_PERIOD_SECONDS).max(0),
    )
}

/// Spends the budget.
pub fn pick<'a>(mut sorted: Sorted<'a>, budget: Budget) -> Picked<'a> {
    let removable = usize::try_from(budget.removable).unwrap_or(0);
    let addable = usize::try_from(budget.addable).unwrap_or(0);
    let kept = sorted.remove.split_off(removable.min(sorted.remove.len()));
    let left = removable - sorted.remove.len();
    let waiting = sorted.update.split_off(left.min(sorted.update.len()));
    let unbound = sorted.bind.split_off(addable.min(sorted.bind.len()));
    let mut deliver = sorted.repair;
    deliver.append(&mut sorted.update);
    deliver.append(&mut sorted.bind);
    let held_back = waiting.iter().chain(&unbound).map(|candidate| candidate.binding).collect();
    Picked { remove: sorted.remove, deliver, held_back, kept: kept.len() }
}

fn rolling_update(spec: &PlacementSpec) -> RollingUpdateConfig {
    let strategy = spec.strategy.as_ref();
    strategy.and_then(|strategy| strategy.rolling_update.clone()).unwrap_or_default()
}

/// How many clusters are wanted. With PickN that many, even if there are fewer clusters.
fn target(spec: &PlacementSpec, targeted: u32) -> u32 {
    let Some(policy) = &spec.policy else { return targeted };
    match policy.placement_type.unwrap_or_default() {
        PlacementType::PickAll => targeted,
        PlacementType::PickFixed => u32::try_from(policy.cluster_names.len()).unwrap_or(u32::MAX),
        PlacementType::PickN => {
            u32::try_from(policy.number_of_clusters.unwrap_or_default()).unwrap_or(0)
        }
    }
}

fn share(field: &str, value: Option<&IntOrString>, target: u32) -> Result<u32, PassError> {
    let Some(value) = value else { return Ok(0) };
    of_target(value, target).map_err(|error| PassError::User(format!("bad {field}: {error}")))
}
