//! From clusters to the placement: step by step, as far as all of them have come.

use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation, remove};
use flagship_api::condition_type::Placement as Step;
use flagship_api::names::Scope;
use flagship_api::placement_status::PerClusterPlacementStatus;
use jiff::Timestamp;

use super::messages;

/// Sets the conditions of the placement from the entries of its chosen clusters and
/// removes those that can no longer be said. Unknown beats False: nobody can tell yet.
pub fn roll_up(
    conditions: &mut Vec<Condition>,
    entries: &[PerClusterPlacementStatus],
    expected: &[Step],
    scope: Scope,
    generation: Generation,
    now: Timestamp,
) {
    let mut said: Vec<Step> = Vec::new();
    for step in expected {
        let [unknown, not, so] = count(entries, *step);
        let (truth, n) = match (unknown, not) {
            (0, 0) => (ConditionStatus::True, so),
            (0, not) => (ConditionStatus::False, not),
            (unknown, _) => (ConditionStatus::Unknown, unknown),
        };
        let overridden = |entry: &PerClusterPlacementStatus| {
            !entry.applicable_resource_overrides.is_empty()
                || !entry.applicable_cluster_resource_overrides.is_empty()
        };
        let nothing_to_override = *step == Step::Overridden
            && truth == ConditionStatus::True
            && !entries.iter().any(overridden);
        let draft = if nothing_to_override {
            messages::nothing_overridden(scope)
        } else {
            messages::of_placement(*step, scope, truth, n)
        };
        draft.set(conditions, generation, now);
        said.push(*step);
        if truth != ConditionStatus::True {
            break;
        }
    }
    keep_only(conditions, &said, scope);
}

/// Removes every rollout condition but these.
pub fn keep_only(conditions: &mut Vec<Condition>, said: &[Step], scope: Scope) {
    for step in Step::ROLLOUT.into_iter().filter(|step| !said.contains(step)) {
        remove(conditions, step.on(scope));
    }
}

/// How many clusters say Unknown, False and True about a step.
fn count(entries: &[PerClusterPlacementStatus], step: Step) -> [usize; 3] {
    let mut counts = [0; 3];
    for told in entries.iter().filter_map(|e| e.conditions.of_type(step.per_cluster())) {
        match ConditionStatus::of(told) {
            ConditionStatus::Unknown => counts[0] += 1,
            ConditionStatus::False => counts[1] += 1,
            ConditionStatus::True => counts[2] += 1,
        }
    }
    counts
}
