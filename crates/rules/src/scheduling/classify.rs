//! What each binding is to this pass. The first test that holds decides.

use std::collections::BTreeMap;

use super::observed::{Observed, State};
use crate::model::Binding;

/// Bindings sorted by what they are; each list by name.
#[derive(Debug, Default)]
pub struct Classes<'a> {
    /// Being deleted.
    pub deleting: Vec<&'a Binding>,
    /// No longer chosen.
    pub unscheduled: Vec<&'a Binding>,
    /// Their cluster is gone or leaving.
    pub dangling: Vec<&'a Binding>,
    /// A second live binding for one cluster; only one may stay.
    pub surplus: Vec<&'a Binding>,
    /// Made for an earlier policy snapshot.
    pub obsolete: Vec<&'a Binding>,
    /// Of this snapshot, waiting for resources.
    pub scheduled: Vec<&'a Binding>,
    /// Of this snapshot, with resources.
    pub bound: Vec<&'a Binding>,
}

impl<'a> Classes<'a> {
    /// Sorts the bindings of a placement.
    pub fn of(seen: &'a Observed) -> Self {
        let mut classes = Self::default();
        let mut live: BTreeMap<&str, Vec<&Binding>> = BTreeMap::new();
        for binding in &seen.bindings {
            if binding.deleting {
                classes.deleting.push(binding);
            } else if binding.state() == State::Unscheduled {
                classes.unscheduled.push(binding);
            } else if binding.state() == State::Foreign {
                // Nobody knows what it means; leave it alone.
            } else if seen.cluster(binding.cluster()).is_none_or(|c| c.leaving) {
                classes.dangling.push(binding);
            } else {
                live.entry(binding.cluster()).or_default().push(binding);
            }
        }
        let mut kept = Vec::new();
        for mut rivals in live.into_values() {
            rivals.sort_by_key(|b| (b.state() != State::Bound, b.created, b.name.as_str()));
            let mut rivals = rivals.into_iter();
            kept.extend(rivals.next());
            classes.surplus.extend(rivals);
        }
        kept.sort_by_key(|b| b.name.as_str());
        classes.surplus.sort_by_key(|b| b.name.as_str());
        for binding in kept {
            if binding.spec.scheduling_policy_snapshot_name != seen.snapshot.name {
                classes.obsolete.push(binding);
            } else if binding.state() == State::Scheduled {
                classes.scheduled.push(binding);
            } else {
                classes.bound.push(binding);
            }
        }
        classes
    }

    /// How many bindings of this snapshot are in force.
    pub fn present(&self) -> usize {
        self.scheduled.len() + self.bound.len()
    }

    /// The bindings of this snapshot that are in force.
    pub fn present_bindings(&self) -> impl Iterator<Item = &'a Binding> + '_ {
        self.scheduled.iter().chain(&self.bound).copied()
    }
}
