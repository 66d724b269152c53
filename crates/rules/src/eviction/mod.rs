//! Takes a placement off one cluster, once, if its disruption budget lets it.
//!
//! The verdict is final, and so is the deletion, so neither may be made twice: the UID of
//! the binding is written on the eviction before the binding is deleted. A hub that comes
//! back after a crash then knows its own work, and does not evict the binding that the
//! scheduler has put in its place.
//!
//! Where the cluster goes next is the scheduler's business; draining a whole cluster is
//! the command line's. What may be asked for at all is in `admission::evictions`.

mod budget;
mod observed;

#[cfg(test)]
mod tests;

use flagship_api::binding::BindingState;
use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation, draft};
use flagship_api::condition_type::eviction as kind;
use flagship_api::policy::PlacementType;
use flagship_api::reason::eviction as reason;
use serde::{Deserialize, Serialize};

use crate::model::Binding;
use budget::BudgetVerdict;
pub use observed::{Eviction, Observed};

/// Words of verdicts, which others compare with.
pub mod words {
    /// Valid True.
    pub const VALID: &str = "Eviction is valid";
    /// Valid False: nobody knows the placement.
    pub const PLACEMENT_MISSING: &str =
        "Failed to find ClusterResourcePlacement targeted by eviction";
    /// Valid False: the placement is on its way out anyway.
    pub const PLACEMENT_DELETING: &str =
        "Found deleting ClusterResourcePlacement targeted by eviction";
    /// Valid False: the user names the clusters, so the user must take one away.
    pub const PLACEMENT_PICKS_FIXED: &str =
        "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction";
    /// Valid False: nobody can tell which is meant.
    pub const TWO_BINDINGS: &str =
        "Found more than one scheduler decision for placement in cluster targeted by eviction";
    /// Valid False: the placement is not on that cluster.
    pub const NO_BINDING: &str =
        "Failed to find scheduler decision for placement in cluster targeted by eviction";
    /// Executed True: it was on its way out already.
    pub const GOING: &str = "Eviction is allowed, resources propagated by placement is currently being removed from cluster targeted by eviction";
    /// Executed False: nothing is there that could be taken away.
    pub const NOTHING_PLACED: &str =
        "Eviction is blocked, placement has not propagated resources to target cluster yet";
    /// Executed True: what does not work is nobody's loss.
    pub const FAILED: &str = "Eviction is allowed, placement has failed";
    /// Executed True: nobody set limits.
    pub const NO_BUDGET: &str =
        "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified";
    /// Executed False: shares of clusters nobody counted.
    pub const BUDGET_MISCONFIGURED: &str = "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement";
    /// Executed True, followed by the counts.
    pub const BUDGET_ALLOWS: &str =
        "Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget";
    /// Executed False, followed by the counts.
    pub const BUDGET_FORBIDS: &str =
        "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget";
}

/// What one pass decided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Writes, in order.
    pub actions: Vec<Action>,
    /// Whether the eviction made sense; nothing if it is none of our business any more.
    pub valid: Option<bool>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Write on the eviction which binding is about to go.
    Intend {
        /// UID of the binding.
        uid: String,
    },
    /// Delete a binding, as it was seen.
    Delete {
        /// Its name.
        binding: String,
    },
    /// Write the verdict.
    Conclude(Vec<Condition>),
}

/// Decides one pass over one eviction.
pub fn plan(seen: &Observed) -> Plan {
    if is_settled(&seen.eviction) {
        return Plan::default();
    }
    match judge(seen) {
        Verdict::Invalid(why) => conclude(seen, Vec::new(), Err(why)),
        Verdict::Blocked(why) => conclude(seen, Vec::new(), Ok((ConditionStatus::False, why))),
        Verdict::Going(why) => conclude(seen, Vec::new(), Ok((ConditionStatus::True, why))),
        Verdict::Evict(bound, why) => {
            let intend = Action::Intend { uid: bound.uid.clone() };
            let delete = Action::Delete { binding: bound.name.clone() };
            let intended = seen.eviction.intended.as_ref() == Some(&bound.uid);
            let actions = if intended { vec![delete] } else { vec![intend, delete] };
            conclude(seen, actions, Ok((ConditionStatus::True, why)))
        }
    }
}

/// Whether everything has been said: the object is called invalid as it is, or anything
/// at all was said about its execution.
pub fn is_settled(eviction: &Eviction) -> bool {
    let said = &eviction.conditions;
    said.is_false_at(kind::VALID, Generation(eviction.generation))
        || said.of_type(kind::EXECUTED).is_some()
}

/// Whether the cluster was evicted.
pub fn is_executed(eviction: &Eviction) -> bool {
    let executed = eviction.conditions.of_type(kind::EXECUTED);
    executed.is_some_and(|executed| ConditionStatus::of(executed) == ConditionStatus::True)
}

/// Whether there was nothing to evict after all: placement or binding went by themselves.
/// KubeFleet means this too, but compares the wrong field.
pub fn found_nothing(eviction: &Eviction) -> bool {
    let nothing = [words::PLACEMENT_MISSING, words::PLACEMENT_DELETING, words::NO_BINDING];
    let valid = eviction.conditions.of_type(kind::VALID);
    valid.is_some_and(|valid| {
        ConditionStatus::of(valid) == ConditionStatus::False
            && nothing.contains(&valid.message.as_str())
    })
}

enum Verdict<'a> {
    Invalid(&'static str),
    Blocked(String),
    Going(String),
    Evict(&'a Binding, String),
}

fn judge(seen: &Observed) -> Verdict<'_> {
    let Observed { eviction, placement, bindings, budget, .. } = seen;
    // What we meant to delete is gone or going: the crash came between deed and word.
    if let Some(uid) = &eviction.intended {
        let ours = bindings.iter().find(|bound| bound.uid == *uid);
        if ours.is_none_or(|bound| bound.deleting) {
            return Verdict::Going(words::GOING.to_owned());
        }
    }
    let Some(placement) = placement else { return Verdict::Invalid(words::PLACEMENT_MISSING) };
    if placement.deleting {
        return Verdict::Invalid(words::PLACEMENT_DELETING);
    }
    let picks = placement.picks();
    if picks == PlacementType::PickFixed {
        return Verdict::Invalid(words::PLACEMENT_PICKS_FIXED);
    }
    let mut there = bindings.iter().filter(|bound| bound.cluster() == eviction.cluster);
    let bound = match (there.next(), there.next()) {
        (Some(_), Some(_)) => return Verdict::Invalid(words::TWO_BINDINGS),
        (None, _) => return Verdict::Invalid(words::NO_BINDING),
        (Some(only), None) => only,
    };
    if bound.deleting {
        return Verdict::Going(words::GOING.to_owned());
    }
    if !is_placed(bound) {
        return Verdict::Blocked(words::NOTHING_PLACED.to_owned());
    }
    let delivery_state = bound.delivery_state();
    if delivery_state.failed || delivery_state.reports_diff {
        return Verdict::Evict(bound, words::FAILED.to_owned());
    }
    let Some(budget) = budget else {
        return Verdict::Evict(bound, words::NO_BUDGET.to_owned());
    };
    let wanted = placement.spec.policy.as_ref().and_then(|policy| policy.number_of_clusters);
    let room = BudgetVerdict::of(budget, picks, wanted.unwrap_or_default(), bindings);
    match room {
        BudgetVerdict::Misconfigured => Verdict::Blocked(words::BUDGET_MISCONFIGURED.to_owned()),
        BudgetVerdict::Counted { allowed: true, counts } => {
            Verdict::Evict(bound, format!("{}, {counts}", words::BUDGET_ALLOWS))
        }
        BudgetVerdict::Counted { allowed: false, counts } => {
            Verdict::Blocked(format!("{}, {counts}", words::BUDGET_FORBIDS))
        }
    }
}

/// Whether the cluster got anything yet: one that is no longer wanted may have.
fn is_placed(binding: &Binding) -> bool {
    binding.is(BindingState::Bound)
        || (binding.is(BindingState::Unscheduled) && binding.previous.as_deref() == Some("Bound"))
}

/// Ends the plan with the verdict: why it is invalid, or what became of it.
fn conclude(
    seen: &Observed,
    mut actions: Vec<Action>,
    verdict: Result<(ConditionStatus, String), &'static str>,
) -> Plan {
    let generation = Generation(seen.eviction.generation);
    let mut conditions = seen.eviction.conditions.clone();
    let valid = verdict.is_ok();
    match verdict {
        Err(why) => {
            let said = draft(kind::VALID).is_false(reason::INVALID).because(why);
            said.set(&mut conditions, generation, seen.now);
        }
        Ok((truth, why)) => {
            let said = draft(kind::VALID).is_true(reason::VALID).because(words::VALID);
            said.set(&mut conditions, generation, seen.now);
            let executed = match truth {
                ConditionStatus::True => reason::EXECUTED,
                ConditionStatus::False | ConditionStatus::Unknown => reason::NOT_EXECUTED,
            };
            let said = draft(kind::EXECUTED).is(truth, executed).because(why);
            said.set(&mut conditions, generation, seen.now);
        }
    }
    actions.push(Action::Conclude(conditions));
    Plan { actions, valid: Some(valid) }
}
