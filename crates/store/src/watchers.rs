//! The open watches of a resource, found by the place of the object that changed.
//!
//! Ten thousand agents, each watching its own namespace, cost a write one look-up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::ObjectKey;
use super::history::Event;
use super::waiting::{Waiting, WaitingLimits};
use super::watch::{Filter, Judge, OwnedScope, WatchEnd, WatchEvent};

/// The open watches of one resource, indexed by scope.
#[derive(Default)]
pub(super) struct Watchers {
    all: Buffers,
    by_namespace: BTreeMap<Arc<str>, Buffers>,
    by_object: BTreeMap<ObjectKey, Buffers>,
}

/// Buffers in the order in which they were opened, which is the order of their ids.
type Buffers = Vec<Arc<WatchBuffer>>;

/// The queue of one watch: written by commits, read by its subscription.
pub(super) struct WatchBuffer {
    pub(super) id: u64,
    pub(super) filter: Filter,
    /// Events up to this revision are not wanted.
    after: u64,
    waiting: Waiting<WatchEvent>,
}

impl Watchers {
    pub(super) fn add(&mut self, buffer: Arc<WatchBuffer>) {
        match &buffer.filter.scope {
            OwnedScope::All => self.all.push(buffer),
            OwnedScope::Namespace(name) => {
                self.by_namespace.entry(name.clone()).or_default().push(buffer);
            }
            OwnedScope::Object(key) => {
                self.by_object.entry(key.clone()).or_default().push(buffer);
            }
        }
    }

    pub(super) fn remove(&mut self, buffer: &WatchBuffer) {
        match &buffer.filter.scope {
            OwnedScope::All => remove_by_id(&mut self.all, buffer.id),
            OwnedScope::Namespace(name) => {
                if let Some(row) = self.by_namespace.get_mut(name) {
                    remove_by_id(row, buffer.id);
                    if row.is_empty() {
                        self.by_namespace.remove(name);
                    }
                }
            }
            OwnedScope::Object(key) => {
                if let Some(row) = self.by_object.get_mut(key) {
                    remove_by_id(row, buffer.id);
                    if row.is_empty() {
                        self.by_object.remove(key);
                    }
                }
            }
        }
    }

    /// Hands an event to everyone it concerns. The wakers are to be called once the
    /// store's lock is released.
    pub(super) fn deliver(&mut self, event: &Event) -> Vec<Waker> {
        let key = &event.now.key;
        let mut judge = Judge::new(event);
        let mut wakers = Vec::new();
        let mut lagging = Vec::new();
        let namespace = self.by_namespace.get(&key.namespace).into_iter().flatten();
        let object = self.by_object.get(key).into_iter().flatten();
        for buffer in self.all.iter().chain(namespace).chain(object) {
            if event.revision() <= buffer.after {
                continue;
            }
            if let Some(seen) = judge.seen_through(&buffer.filter)
                && !buffer.waiting.push(seen, &mut wakers)
            {
                lagging.push(buffer.clone());
            }
        }
        for buffer in lagging {
            self.remove(&buffer);
        }
        wakers
    }

    /// Ends every watch.
    pub(super) fn close(&mut self, why: WatchEnd) -> Vec<Waker> {
        let Self { all, by_namespace, by_object } = std::mem::take(self);
        let rows = by_namespace.into_values().chain(by_object.into_values());
        let buffers = all.into_iter().chain(rows.flatten());
        buffers.filter_map(|buffer| buffer.close(why)).collect()
    }

    pub(super) fn len(&self) -> usize {
        let rows = self.by_namespace.values().chain(self.by_object.values());
        self.all.len() + rows.map(Vec::len).sum::<usize>()
    }
}

fn remove_by_id(row: &mut Buffers, id: u64) {
    if let Ok(at) = row.binary_search_by_key(&id, |buffer| buffer.id) {
        row.remove(at);
    }
}

impl WatchBuffer {
    pub(super) fn new(id: u64, filter: Filter, after: u64, limits: WaitingLimits) -> Self {
        Self { id, filter, after, waiting: Waiting::new(limits) }
    }

    pub(super) fn close(&self, why: WatchEnd) -> Option<Waker> {
        self.waiting.close(why)
    }

    /// Closes and loses what has not been read.
    pub(super) fn cut(&self) -> Option<Waker> {
        self.waiting.clear();
        self.close(WatchEnd::Dropped)
    }

    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Option<WatchEvent>> {
        self.waiting.poll(context)
    }

    pub(super) fn closed(&self) -> Option<WatchEnd> {
        self.waiting.closed()
    }

    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }

    /// How far a reader that has read everything up to `read` is, when the cluster has
    /// published everything up to `published`.
    pub(super) fn progress(&self, read: u64, published: u64) -> u64 {
        self.waiting.look(|next, is_closed| match next {
            Some(next) => read.max(next.revision().saturating_sub(1)),
            None if is_closed => read,
            None => read.max(published),
        })
    }
}
