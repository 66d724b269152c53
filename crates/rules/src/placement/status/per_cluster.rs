//! How one chosen cluster is doing, read off its binding.

use flagship_api::condition::{ConditionStatus, Conditions, Generation, draft, remove};
use flagship_api::condition_type::Placement as Step;
use flagship_api::placement_status::PerClusterPlacementStatus;
use flagship_api::reason::placement as reason;
use flagship_api::snapshot::ClusterDecision;
use jiff::Timestamp;

use super::messages;
use crate::model::Binding;

/// What all clusters of a placement have in common in one pass.
#[derive(Debug, Clone, Copy)]
pub struct StatusInputs<'a> {
    /// Steps expected of a cluster, in order.
    pub expected: &'a [Step],
    /// Generation of the placement.
    pub generation: Generation,
    /// The present moment.
    pub now: Timestamp,
}

/// Whether a cluster is on the version it is supposed to be on.
#[derive(Debug, Clone, Copy)]
pub enum Delivery<'a> {
    /// Nothing is bound to it.
    None,
    /// Its binding still names another version.
    Older(&'a Binding),
    /// Its binding names the right version, or update runs decide which is right.
    Right(&'a Binding),
}

impl StatusInputs<'_> {
    /// The entry of a chosen cluster. What it said before is carried over, so that a
    /// transition keeps its time.
    pub fn chosen(
        &self,
        decision: &ClusterDecision,
        before: Option<&PerClusterPlacementStatus>,
        delivery: Delivery<'_>,
        index: &str,
    ) -> PerClusterPlacementStatus {
        let mut entry = PerClusterPlacementStatus {
            cluster_name: decision.cluster_name.clone(),
            conditions: before.map(|before| before.conditions.clone()).unwrap_or_default(),
            ..PerClusterPlacementStatus::default()
        };
        draft(Step::Scheduled.per_cluster())
            .is_true(reason::SCHEDULED)
            .because(&decision.reason)
            .set(&mut entry.conditions, self.generation, self.now);
        let said = match delivery {
            Delivery::None => {
                self.unknown(&mut entry, Step::RolloutStarted);
                1
            }
            Delivery::Older(binding) => {
                entry.observed_resource_index = index.to_owned();
                self.held_back(&mut entry, binding);
                1
            }
            Delivery::Right(binding) => {
                entry.observed_resource_index = index.to_owned();
                self.walk(&mut entry, binding)
            }
        };
        let said = self.expected.get(..said).unwrap_or(self.expected);
        for step in Step::ROLLOUT.into_iter().filter(|step| !said.contains(step)) {
            remove(&mut entry.conditions, step.per_cluster());
        }
        entry
    }

    /// The entry of a cluster that is wanted but was not found; it has no name.
    pub fn lacking(
        &self,
        decision: &ClusterDecision,
        before: Option<&PerClusterPlacementStatus>,
    ) -> PerClusterPlacementStatus {
        let scheduled = Step::Scheduled.per_cluster();
        let before = before.and_then(|before| before.conditions.of_type(scheduled));
        let mut conditions: Vec<_> = before.cloned().into_iter().collect();
        draft(scheduled).is_false(reason::SCHEDULE_FAILED).because(&decision.reason).set(
            &mut conditions,
            self.generation,
            self.now,
        );
        PerClusterPlacementStatus { conditions, ..PerClusterPlacementStatus::default() }
    }

    fn unknown(&self, entry: &mut PerClusterPlacementStatus, step: Step) {
        messages::unknown_in_cluster(step).set(&mut entry.conditions, self.generation, self.now);
    }

    fn held_back(&self, entry: &mut PerClusterPlacementStatus, binding: &Binding) {
        let step = Step::RolloutStarted.per_cluster();
        let own = Generation(binding.generation);
        if binding.status.conditions.is_false_at(step, own) {
            draft(step).is_false(reason::ROLLOUT_NOT_STARTED_YET).because(messages::BLOCKED).set(
                &mut entry.conditions,
                self.generation,
                self.now,
            );
        } else {
            self.unknown(entry, Step::RolloutStarted);
        }
    }

    /// Copies step after step until one is not True; returns how many were said.
    fn walk(&self, entry: &mut PerClusterPlacementStatus, binding: &Binding) -> usize {
        let own = Generation(binding.generation);
        for (at, step) in self.expected.iter().enumerate() {
            let current = binding.status.conditions.current(step.per_cluster(), own);
            let told = current.map(|told| (told, ConditionStatus::of(told)));
            let Some((told, truth)) = told.filter(|(_, truth)| *truth != ConditionStatus::Unknown)
            else {
                self.unknown(entry, *step);
                return at + 1;
            };
            draft(step.per_cluster()).is_as(told).set(
                &mut entry.conditions,
                self.generation,
                self.now,
            );
            copy_details(entry, binding, *step, truth);
            if truth == ConditionStatus::False {
                return at + 1;
            }
        }
        self.expected.len()
    }
}

fn copy_details(
    entry: &mut PerClusterPlacementStatus,
    binding: &Binding,
    step: Step,
    truth: ConditionStatus,
) {
    match (step, truth) {
        (Step::RolloutStarted, ConditionStatus::True) => {
            entry
                .applicable_resource_overrides
                .clone_from(&binding.spec.resource_override_snapshots);
            entry
                .applicable_cluster_resource_overrides
                .clone_from(&binding.spec.cluster_resource_override_snapshots);
        }
        (Step::Applied | Step::Available, truth) => {
            entry.drifted_placements.clone_from(&binding.status.drifted_placements);
            if truth == ConditionStatus::False {
                entry.failed_placements.clone_from(&binding.status.failed_placements);
                entry.diffed_placements.clone_from(&binding.status.diffed_placements);
            }
        }
        (Step::DiffReported, ConditionStatus::True) => {
            entry.diffed_placements.clone_from(&binding.status.diffed_placements);
        }
        _ => {}
    }
}
