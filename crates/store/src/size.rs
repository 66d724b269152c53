//! What a store costs in memory, computed.
//!
//! Counts the heap blocks behind each object and rounds each up as a common allocator
//! does (8 bytes of bookkeeping, multiples of 16, 32 at least). The benchmark compares
//! the sum with what the process really grew by.

use std::mem::size_of;

use super::{Limits, Resource, Scope, Store, Stored, table::Table};

/// Sizes of one store. `history` counts only what the current objects do not share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Current objects.
    pub objects: usize,
    /// Bytes of their JSON.
    pub json: usize,
    /// Bytes beyond the JSON: heads, names, bookkeeping.
    pub overhead: usize,
    /// Events kept.
    pub events: usize,
    /// Bytes of JSON in those events, some of it shared with the current objects.
    pub event_json: usize,
    /// Open watches.
    pub watches: usize,
}

/// How much there is of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Which.
    pub resource: Resource,
    /// Current objects.
    pub objects: usize,
    /// Open watches.
    pub watches: usize,
}

impl Store {
    /// What it was told to keep within.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// How many objects there are of one resource.
    pub fn count(&self, resource: &str) -> usize {
        self.shared.read().tables.get(resource).map_or(0, Table::len)
    }

    /// How much there is of every resource that has objects or watches.
    pub fn census(&self) -> Vec<Count> {
        let state = self.shared.read();
        let counts = state.tables.iter().map(|(resource, table)| Count {
            resource: resource.clone(),
            objects: table.len(),
            watches: table.watchers.len(),
        });
        counts.filter(|count| count.objects + count.watches > 0).collect()
    }

    /// Walks everything; for diagnosis and benchmarks.
    pub fn footprint(&self) -> Footprint {
        let state = self.shared.read();
        let mut total = Footprint::default();
        for table in state.tables.values() {
            let mut namespace = None;
            for object in table.walk(Scope::All) {
                total.objects += 1;
                total.json += object.json.len();
                total.overhead += object.overhead();
                // The text of a namespace is shared by its objects.
                if namespace.replace(&object.key.namespace) != Some(&object.key.namespace) {
                    total.overhead += block(2 * size_of::<usize>() + object.key.namespace.len());
                }
            }
            total.events += table.history.len();
            total.event_json += table.history.bytes();
            total.watches += table.watchers.len();
        }
        total
    }
}

impl Stored {
    /// Bytes beyond its JSON that an object costs while it is current.
    pub fn overhead(&self) -> usize {
        let counts = 2 * size_of::<usize>();
        // A slot in the tree, whose nodes are about two thirds full.
        let slot = size_of::<usize>() * 3 / 2 + 2;
        let json = block(self.json.len()) - self.json.len();
        block(counts + size_of::<Self>())
            + block(counts + self.key.name.len())
            + block(self.head.uid.heap())
            + block(self.head.labels.heap())
            + block(self.head.fields.heap())
            + json
            + slot
    }
}

/// What an allocator sets aside for a block of this size.
fn block(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        some => (some + 8).next_multiple_of(16).max(32),
    }
}
