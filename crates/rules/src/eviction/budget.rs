//! Whether a disruption budget leaves room for one cluster less.
//!
//! Shares are shares of the clusters wanted, rounded up. Where all clusters are wanted
//! nobody knows how many that is, so only a plain number that must stay can be kept to.

use flagship_api::condition::Conditions;
use flagship_api::condition_type::binding::AVAILABLE;
use flagship_api::eviction::PlacementDisruptionBudgetSpec;
use flagship_api::int_or_string::of_target;
use flagship_api::policy::PlacementType;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::model::Binding;

/// What a budget says of one more eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BudgetVerdict {
    /// It cannot be kept to with a placement on all clusters.
    Misconfigured,
    /// It was counted.
    Counted {
        /// Whether one may go.
        allowed: bool,
        /// What was counted, in the words of the verdict.
        counts: String,
    },
}

impl BudgetVerdict {
    /// Counts all bindings of the placement, those that go included.
    pub fn of(
        budget: &PlacementDisruptionBudgetSpec,
        picks: PlacementType,
        wanted: i32,
        bindings: &[Binding],
    ) -> Self {
        let (most, least) = (&budget.max_unavailable, &budget.min_available);
        let all = picks == PlacementType::PickAll;
        if all && (most.is_some() || matches!(least, Some(IntOrString::String(_)))) {
            return Self::Misconfigured;
        }
        let wanted = if all { 0 } else { u32::try_from(wanted).unwrap_or(0) };
        let total = bindings.len() as i64;
        let available = bindings.iter().filter(|binding| is_available(binding)).count() as i64;
        // Neither is set, or it says nothing that can be counted: then nothing may go.
        let share = |amount: &Option<IntOrString>| {
            amount.as_ref().and_then(|amount| of_target(amount, wanted).ok()).map(i64::from)
        };
        let room = match (share(most), share(least)) {
            (Some(most), _) => most - (total - available),
            (None, Some(least)) => available - least,
            (None, None) => 0,
        };
        let counts = format!("availablePlacements: {available}, totalPlacements: {total}");
        Self::Counted { allowed: room > 0, counts }
    }
}

fn is_available(binding: &Binding) -> bool {
    binding.status.conditions.is_true_at(AVAILABLE, binding.generation())
}
