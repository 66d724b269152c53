//! One pass over a placement: what to write now, what waits, and when to look again.

use std::collections::BTreeSet;

use flagship_api::apply_strategy::ApplyStrategy;
use flagship_api::binding::BindingState;
use flagship_api::condition::{ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::binding::ROLLOUT_STARTED;
use flagship_api::defaults::{complete_placement, effective_apply_strategy};
use flagship_api::placement::RolloutStrategyType;
use flagship_api::reason::binding as reason;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::budget::{Picked, budget, pick, unavailable_period};
use super::observed::Observed;
use super::sorting::{Sorted, sort};
use super::surplus_bindings;
use super::wanted::{Wanted, wanted};
use crate::model::Binding;
use crate::overrides::belonging::Chosen;
use crate::placement::PassError;

/// What to do about a placement's rollout.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Writes: one step after the other, those of a step side by side.
    pub steps: Vec<Vec<Action>>,
    /// Why nothing more is done.
    pub waiting: Vec<Waiting>,
    /// The pause KubeFleet would make before its next look: none when all is rolled out.
    pub pause: Option<SignedDuration>,
    /// When time alone makes the next move possible. Everything else is a change of a
    /// binding, and comes as one.
    pub wake: Option<SignedDuration>,
    /// Whether to look again as soon as the writes are done.
    pub again: bool,
    /// What stopped the pass.
    pub trouble: Option<PassError>,
}

/// One write to a binding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Give it the placement's apply strategy, and nothing else.
    PushStrategy {
        /// The binding.
        binding: String,
        /// The strategy.
        strategy: Box<ApplyStrategy>,
    },
    /// Say that it has to wait.
    HoldBack {
        /// The binding.
        binding: String,
    },
    /// Say that it names the latest resources: it does, but nobody said so.
    Confirm {
        /// The binding.
        binding: String,
    },
    /// Let it name the latest resources, and say so.
    Deliver {
        /// The binding.
        binding: String,
        /// First object of the resources.
        snapshot: String,
        /// Overrides to apply on the way.
        overrides: Chosen,
        /// The placement's apply strategy, for one that has none yet.
        strategy: Option<Box<ApplyStrategy>>,
    },
    /// Delete it, which takes the resources off its cluster.
    Remove {
        /// The binding.
        binding: String,
    },
}

/// Why something is not done yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// Nothing was selected yet.
    ForResources,
    /// A binding that is being deleted still stands for the cluster.
    ForDeletion {
        /// The cluster.
        cluster: String,
    },
    /// The limits of the strategy are used up.
    ForBudget {
        /// Bindings that are not up to date.
        held_back: usize,
        /// Bindings that are no longer wanted.
        kept: usize,
        /// How many ready ones could go; negative if too few are ready.
        removable: i64,
        /// How many could begin; negative if too many hold resources.
        addable: i64,
    },
}

/// Decides one pass.
pub fn plan(seen: &Observed) -> Plan {
    decide(seen).unwrap_or_else(|trouble| Plan { trouble: Some(trouble), ..Plan::default() })
}

fn decide(seen: &Observed) -> Result<Plan, PassError> {
    let mut spec = seen.placement.spec.clone();
    complete_placement(&mut spec);
    let strategy = spec.strategy.clone().unwrap_or_default();
    let rolls = strategy.r#type == Some(RolloutStrategyType::RollingUpdate);
    if seen.placement.deleting || !rolls {
        return Ok(Plan::default());
    }
    let mut bindings: Vec<&Binding> = seen.bindings.iter().collect();
    bindings.sort_by(|a, b| a.name.cmp(&b.name));

    let strategy = effective_apply_strategy(strategy.apply_strategy.as_ref());
    let (fresh, others): (Vec<&Binding>, Vec<&Binding>) =
        bindings.iter().copied().partition(|binding| is_fresh(binding));
    let pushes = push_strategy(&others, &strategy);
    if !pushes.is_empty() {
        return Ok(Plan { steps: vec![pushes], again: true, ..Plan::default() });
    }
    let terminating = surplus_bindings::waiting(&seen.placement.key(), &bindings)?;
    let mut waiting: Vec<Waiting> = terminating
        .iter()
        .map(|cluster| Waiting::ForDeletion { cluster: (*cluster).to_owned() })
        .collect();
    let Some(wanted) = wanted(seen)? else {
        waiting.push(Waiting::ForResources);
        return Ok(Plan { waiting, ..Plan::default() });
    };
    let period = unavailable_period(&spec);
    let sorted = sort(&bindings, &wanted, &terminating, period, seen.now)?;
    let confirmations: Vec<Action> =
        sorted.current.iter().filter(|b| !says_started(b)).map(|b| confirm(b)).collect();
    if sorted.is_settled() {
        let steps = some(vec![confirmations]);
        return Ok(Plan { steps, waiting, ..Plan::default() });
    }
    let budget = budget(&spec, &sorted)?;
    let pause = pause(&sorted, period);
    let soonest = sorted.soonest;
    let picked = pick(sorted, budget);
    let blocked = !picked.held_back.is_empty() || picked.kept > 0;
    if blocked {
        waiting.push(Waiting::ForBudget {
            held_back: picked.held_back.len(),
            kept: picked.kept,
            removable: budget.removable,
            addable: budget.addable,
        });
    }
    // What is delivered now gets the strategy by the same write. What is fresh and has to wait
    // gets it first, and is told so by the next pass: about another generation.
    let delivered: BTreeSet<&str> =
        picked.deliver.iter().map(|candidate| candidate.binding.name.as_str()).collect();
    let mut waits = fresh;
    waits.retain(|binding| !delivered.contains(&*binding.name));
    let pushes = push_strategy(&waits, &strategy);
    let again = !pushes.is_empty();
    let holds = picked.held_back.iter().filter(|b| !is_fresh(b) && !says_held_back(b));
    let holds = holds.map(|b| hold_back(b)).collect();
    let steps = some(vec![pushes, holds, confirmations, moves(&picked, &wanted, &strategy)]);
    // Ready means past the moment, not at it.
    let wake = soonest.filter(|_| blocked).map(|left| left + SignedDuration::from_millis(1));
    Ok(Plan { steps, waiting, pause: Some(pause), wake, again, trouble: None })
}

fn some(steps: Vec<Vec<Action>>) -> Vec<Vec<Action>> {
    steps.into_iter().filter(|step| !step.is_empty()).collect()
}

/// A binding as the scheduler makes it: nothing was delivered to its cluster, nothing said.
fn is_fresh(binding: &Binding) -> bool {
    binding.is(BindingState::Scheduled) && binding.spec.apply_strategy.is_none()
}

/// Every binding that stays gets the apply strategy at once, whatever the budget: it says
/// how to deliver, not what.
fn push_strategy(bindings: &[&Binding], wanted: &ApplyStrategy) -> Vec<Action> {
    let differs = |binding: &&&Binding| {
        let there = binding.spec.apply_strategy.as_ref();
        there.map(|there| effective_apply_strategy(Some(there))).as_ref() != Some(wanted)
    };
    let stay = bindings.iter().filter(|binding| !binding.deleting);
    stay.filter(differs)
        .map(|binding| Action::PushStrategy {
            binding: binding.name.clone(),
            strategy: Box::new(wanted.clone()),
        })
        .collect()
}

fn pause(sorted: &Sorted<'_>, period: SignedDuration) -> SignedDuration {
    match sorted.soonest {
        _ if !sorted.any_unready => SignedDuration::ZERO,
        Some(soonest) => soonest.min(period),
        None => period,
    }
}

fn moves(picked: &Picked<'_>, wanted: &Wanted<'_>, strategy: &ApplyStrategy) -> Vec<Action> {
    let removals = picked.remove.iter().map(|b| Action::Remove { binding: b.name.clone() });
    let deliveries = picked.deliver.iter().map(|candidate| Action::Deliver {
        binding: candidate.binding.name.clone(),
        snapshot: wanted.master.to_owned(),
        overrides: candidate.overrides.clone(),
        strategy: is_fresh(candidate.binding).then(|| Box::new(strategy.clone())),
    });
    removals.chain(deliveries).collect()
}

fn confirm(binding: &Binding) -> Action {
    Action::Confirm { binding: binding.name.clone() }
}

fn hold_back(binding: &Binding) -> Action {
    Action::HoldBack { binding: binding.name.clone() }
}

fn says_started(binding: &Binding) -> bool {
    binding.status.conditions.is_true_at(ROLLOUT_STARTED, Generation(binding.generation))
}

fn says_held_back(binding: &Binding) -> bool {
    let said = binding.status.conditions.current(ROLLOUT_STARTED, Generation(binding.generation));
    said.is_some_and(|said| {
        ConditionStatus::of(said) == ConditionStatus::False
            && said.reason == reason::ROLLOUT_NOT_STARTED_YET
    })
}
