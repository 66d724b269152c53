//! The last events of one resource: what watches replay and old lists are rebuilt from.
//!
//! `floor` is the promise: every event after it is here. An event shares its objects
//! with the table and with its neighbours, so a ring costs only what was overwritten.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Limits, ObjectKey, Scope, Stored};

/// One committed change.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// The object as written; for a deletion, as it was last, with the deletion's revision.
    pub(super) now: Arc<Stored>,
    /// What it replaced or removed.
    pub(super) before: Option<Arc<Stored>>,
    /// Whether it is a deletion.
    pub(super) gone: bool,
}

impl Event {
    pub(super) fn revision(&self) -> u64 {
        self.now.revision
    }
}

/// A bounded run of events in the order of their revisions.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Event>,
    /// Sum of the JSON lengths of `events`.
    bytes: usize,
    floor: u64,
}

impl History {
    pub(super) fn push(&mut self, event: Event, limits: &Limits) {
        self.bytes += event.now.json.len();
        self.events.push_back(event);
        while self.events.len() > limits.history
            || (self.bytes > limits.history_bytes && self.events.len() > 1)
        {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(oldest) = self.events.pop_front() {
            self.bytes -= oldest.now.json.len();
            self.floor = self.floor.max(oldest.revision());
        }
    }

    /// Forgets events below a revision.
    pub(super) fn compact(&mut self, below: u64) {
        while self.events.front().is_some_and(|event| event.revision() < below) {
            self.pop();
        }
        self.floor = self.floor.max(below.saturating_sub(1));
        self.events.shrink_to_fit();
    }

    /// Everything after this revision is known.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The events after a revision, not below the floor, oldest first.
    pub(super) fn after(&self, revision: u64) -> impl Iterator<Item = &Event> {
        let start = self.events.partition_point(|event| event.revision() <= revision);
        self.events.range(start..)
    }

    /// What stood at each place that changed after a revision, as it stood then.
    pub(super) fn undone(
        &self,
        within: Scope<'_>,
        revision: u64,
    ) -> BTreeMap<&ObjectKey, Option<&Arc<Stored>>> {
        let mut then = BTreeMap::new();
        for event in self.after(revision).filter(|event| within.covers(&event.now.key)) {
            // The oldest event of a place knows what was there before all of them.
            then.entry(&event.now.key).or_insert(event.before.as_ref());
        }
        then
    }
}
