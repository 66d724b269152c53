//! What picking a set of clusters means for the bindings there are.
//!
//! A binding of an earlier policy is taken over where its cluster is picked again,
//! and let go where it is not. One that was let go before is brought back.

use std::collections::BTreeSet;

use super::classify::Classes;
use super::decision::{Decision, Score};
use super::filter::by_cluster;
use super::observed::State;
use super::{Action, Failure};
use crate::model::Binding;

/// The binding changes of one pass.
#[derive(Debug, Default)]
pub struct Changes<'a> {
    /// New bindings, in pick order.
    pub created: Vec<Decision>,
    /// Bindings taken over: obsolete ones by name, then unscheduled ones by name.
    pub patched: Vec<(&'a Binding, State, Decision)>,
    /// Obsolete bindings of clusters that were not picked.
    pub released: Vec<&'a Binding>,
}

impl<'a> Changes<'a> {
    /// Compares the picked clusters with obsolete and unscheduled bindings.
    pub fn between(
        picked: &[(&'a str, Option<Score>)],
        classes: &Classes<'a>,
    ) -> Result<Self, Failure> {
        let mut changes = Self::default();
        let scores = picked.iter().copied().collect::<std::collections::BTreeMap<_, _>>();
        let mut served = BTreeSet::new();
        for binding in &classes.obsolete {
            match scores.get(binding.cluster()) {
                Some(score) => {
                    served.insert(binding.cluster());
                    let decision = Decision::picked(binding.cluster(), *score);
                    changes.patched.push((binding, binding.state(), decision));
                }
                None => changes.released.push(binding),
            }
        }
        let mut revivable: Vec<&Binding> = by_cluster(&classes.unscheduled).into_values().collect();
        revivable.sort_by_key(|b| b.name.as_str());
        for binding in revivable {
            let cluster = binding.cluster();
            let Some(score) = scores.get(cluster) else { continue };
            if !served.insert(cluster) {
                continue;
            }
            let Some(state) = binding.previous_state() else {
                return Err(Failure(format!(
                    "failed to find the previous state of an unscheduled binding: {} has no usable annotation {}",
                    binding.name,
                    flagship_api::keys::annotation::PREVIOUS_BINDING_STATE,
                )));
            };
            changes.patched.push((binding, state, Decision::picked(cluster, *score)));
        }
        for (cluster, score) in picked {
            if !served.contains(cluster) {
                changes.created.push(Decision::picked(cluster, *score));
            }
        }
        Ok(changes)
    }

    /// How many clusters gained the placement.
    pub fn gained(&self) -> usize {
        self.created.len() + self.patched.len()
    }

    /// Every decision in favour: created, patched, then what was there.
    pub fn selected(&self, classes: &Classes<'a>) -> Vec<Decision> {
        let there = classes.present_bindings().map(Binding::decision);
        let patched = self.patched.iter().map(|(_, _, decision)| decision.clone());
        self.created.iter().cloned().chain(patched).chain(there).collect()
    }

    /// The writes: all creations, then all patches, then all releases, so that a crash
    /// in between leaves too much in place and never a gap.
    pub fn actions(self, release: bool) -> impl Iterator<Item = Action> {
        let create = self.created.into_iter().map(|decision| Action::Create { decision });
        let patch = self.patched.into_iter().map(|(binding, state, decision)| Action::Take {
            binding: binding.name.clone(),
            state,
            decision,
        });
        let released = if release { self.released } else { Vec::new() };
        create.chain(patch).chain(released.into_iter().map(Action::release))
    }
}
