//! Turns a policy and a fleet into bindings and a recorded decision.
//!
//! Decisions are sticky: a cluster that was chosen is let go only because the policy
//! changed, fewer are wanted, or the cluster leaves. Letting go means marking the
//! binding Unscheduled; the rollout side deletes it.
//!
//! Binding resources to clusters is the business of `rollout` and `update_run`; turning
//! the recorded decision into a placement's status that of `placement`.

mod affinity;
mod classify;
mod cross_reference;
mod decision;
mod downscale;
mod eligibility;
mod filter;
mod from_api;
mod namespaces;
mod observed;
mod pick_all;
mod pick_fixed;
mod pick_n;
mod properties;
mod spread;
mod taints;
mod wake;

#[cfg(test)]
mod tests;

use flagship_api::keys::finalizer;
use flagship_api::policy::PlacementType;
use serde::{Deserialize, Serialize};

pub use decision::{Decision, Report, Score, Verdict};
pub use eligibility::ineligible;
pub use observed::{Observed, Options, State};
pub use wake::{ClusterChange, becomes_surplus, cluster_change, concerns};

use crate::model::{Binding, PolicySnapshot};
use classify::Classes;

/// What one pass decided, in the order to carry it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Binding writes. Housekeeping comes first and stands even if the pass fails.
    pub actions: Vec<Action>,
    /// The snapshot status to write afterwards; `None` when it says so already.
    pub report: Option<Report>,
    /// Look again at once: the pass was limited to fewer picks than are wanted.
    pub again: bool,
    /// Things a person should hear of.
    pub remarks: Vec<Remark>,
    /// Why the pass could not decide; it waits for the policy or the fleet to change.
    pub failure: Option<Failure>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Take our finalizer off a binding that is being deleted.
    RemoveFinalizer {
        /// The binding.
        binding: String,
    },
    /// Mark a binding Unscheduled and remember its state.
    Release {
        /// The binding.
        binding: String,
        /// The state to remember.
        previous: State,
    },
    /// Create a binding for the decision's cluster, in state Scheduled.
    Create {
        /// Where and why.
        decision: Decision,
    },
    /// Move a binding to this snapshot, with a new decision.
    Take {
        /// The binding.
        binding: String,
        /// Its state from now on.
        state: State,
        /// Where and why.
        decision: Decision,
    },
}

/// Something a person should hear of, as an event on the placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remark {
    /// A named cluster keeps its placement although it would not be chosen today.
    Unwell {
        /// The cluster.
        cluster: String,
        /// Why it is not eligible.
        why: String,
    },
    /// More than one live binding stood for a cluster.
    Surplus {
        /// The cluster.
        cluster: String,
        /// The binding that is let go.
        binding: String,
    },
    /// A cluster reports something that is no quantity where the policy asks for one.
    BadProperty {
        /// The cluster.
        cluster: String,
        /// What it reports, and what is wrong with it.
        why: String,
    },
}

impl Remark {
    /// Whether it is about a write to a binding, and not about what was decided.
    pub fn goes_with_bindings(&self) -> bool {
        matches!(self, Self::Surplus { .. })
    }
}

/// Why a pass cannot decide. Not to be retried soon: somebody must change something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure(pub String);

/// What the cycle of one placement type decided.
struct Outcome {
    report: Option<Report>,
    actions: Vec<Action>,
    again: bool,
    remarks: Vec<Remark>,
}

impl Action {
    fn release(binding: &Binding) -> Self {
        Self::Release { binding: binding.name.clone(), previous: binding.state() }
    }
}

/// Decides one pass for one placement.
pub fn plan(seen: &Observed) -> Plan {
    let classes = Classes::of(seen);
    let held = classes.deleting.iter().filter(|b| b.has_finalizer(finalizer::SCHEDULER_BINDING));
    let mut actions: Vec<Action> =
        held.map(|b| Action::RemoveFinalizer { binding: b.name.clone() }).collect();
    actions.extend(classes.dangling.iter().copied().map(Action::release));
    actions.extend(classes.surplus.iter().copied().map(Action::release));
    let mut remarks: Vec<Remark> = classes
        .surplus
        .iter()
        .map(|b| Remark::Surplus { cluster: b.cluster().to_owned(), binding: b.name.clone() })
        .collect();
    let kind = seen.snapshot.policy.as_ref().and_then(|p| p.placement_type).unwrap_or_default();
    let cycle = answers_a_generation(seen).and_then(|()| match kind {
        PlacementType::PickAll => pick_all::plan(seen, &classes),
        PlacementType::PickN => pick_n::plan(seen, &classes),
        PlacementType::PickFixed => pick_fixed::plan(seen, &classes),
    });
    match cycle {
        Ok(outcome) => {
            actions.extend(outcome.actions);
            remarks.extend(outcome.remarks);
            Plan { actions, report: outcome.report, again: outcome.again, remarks, failure: None }
        }
        Err(failure) => {
            Plan { actions, report: None, again: false, remarks, failure: Some(failure) }
        }
    }
}

/// Refuses a snapshot that does not say what it is the answer to: readers would take the
/// decision for that of another generation.
fn answers_a_generation(seen: &Observed) -> Result<(), Failure> {
    let key = flagship_api::keys::annotation::PLACEMENT_GENERATION;
    let PolicySnapshot { name, placement_generation, .. } = &*seen.snapshot;
    match placement_generation {
        None => Err(Failure(format!("policy snapshot {name} has no annotation {key}"))),
        Some(text) if seen.snapshot.answers().is_none() => Err(Failure(format!(
            "annotation {key} of policy snapshot {name} is not a generation: {text:?}"
        ))),
        Some(_) => Ok(()),
    }
}
