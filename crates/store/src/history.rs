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

/// What an event costs beside its JSON.
const BESIDE_JSON: usize = 512;

/// A bounded run of events in the order of their revisions.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Event>,
    /// Sum of the JSON lengths of `events`.
    bytes: usize,
    floor: u64,
}

impl History {
    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.now.json.len();
        self.events.push_back(event);
    }

    /// Forgets what is beyond the limits of one resource. What nobody has been served yet
    /// stays: reads are made of it.
    pub(super) fn trim(&mut self, limits: &Limits, served: u64) {
        while self.events.len() > limits.history
            || (self.bytes > limits.history_bytes && self.events.len() > 1)
        {
            if !self.forgets_oldest(served) {
                break;
            }
        }
    }

    /// Forgets events until it costs so much less. Whether it could forget any.
    pub(super) fn shrink(&mut self, cost: usize, served: u64) -> bool {
        let before = self.cost();
        while before - self.cost() < cost && self.forgets_oldest(served) {}
        self.cost() < before
    }

    fn forgets_oldest(&mut self, served: u64) -> bool {
        let may = self.events.front().is_some_and(|event| event.revision() <= served);
        if may {
            self.pop();
        }
        may
    }

    /// Bytes of memory, roughly: what is kept here is rarely shared with current objects.
    pub(super) fn cost(&self) -> usize {
        self.bytes + self.events.len() * BESIDE_JSON
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

    /// What stood at one place at a revision, if it changed since.
    pub(super) fn undone_at(&self, key: &ObjectKey, revision: u64) -> Option<Option<&Arc<Stored>>> {
        let first = self.after(revision).find(|event| event.now.key == *key)?;
        Some(first.before.as_ref())
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
