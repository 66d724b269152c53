//! When readers and watchers see a commit: at once in memory, and with a backend when it is
//! durable.
//!
//! Tables hold the last commit. What a reader sees is made of the table and of the events
//! that are not served yet, undone; there are seldom more than the disk takes at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::backend::{Past, Restored};
use super::history::Event;
use super::watch::WatchEnd;
use super::{Limits, ObjectKey, Resource, Shared, State, Stored};

/// Events that are served under one hold of the lock, so that readers get a turn.
const AT_A_TIME: usize = 256;

/// Something that watchers are not told of yet.
pub(super) enum Unserved {
    /// A change.
    Event(Resource, Event),
    /// A resource was dropped when the cluster stood at this revision.
    Forget(Resource, u64),
}

impl Unserved {
    fn revision(&self) -> u64 {
        match self {
            Self::Event(_, event) => event.revision(),
            Self::Forget(_, revision) => *revision,
        }
    }
}

impl Shared {
    /// Lets readers and watchers see everything up to a revision.
    pub(super) fn serve(&self, up_to: u64) {
        loop {
            let mut state = self.write();
            let last = state.unserved.get(AT_A_TIME - 1).map_or(up_to, Unserved::revision);
            let wakers = state.serve(last.min(up_to), &self.limits);
            self.published.store(state.served, Ordering::Release);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            if last >= up_to {
                return;
            }
        }
    }
}

impl State {
    /// Lets readers and watchers see everything up to a revision. The wakers are to be called
    /// once the lock is released.
    pub(super) fn serve(&mut self, up_to: u64, limits: &Limits) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while self.unserved.front().is_some_and(|next| next.revision() <= up_to) {
            match self.unserved.pop_front() {
                Some(Unserved::Event(resource, event)) => {
                    wakers.extend(self.serve_event(&resource, &event, limits));
                }
                Some(Unserved::Forget(resource, revision)) => {
                    wakers.extend(self.followers.forget(&resource, revision));
                    if let Some(table) = self.tables.get_mut(&resource) {
                        wakers.extend(table.watchers.close(WatchEnd::Forgotten));
                    }
                }
                None => {}
            }
        }
        wakers
    }

    /// Lets readers and watchers see one event, the next.
    pub(super) fn serve_event(
        &mut self,
        resource: &Resource,
        event: &Event,
        limits: &Limits,
    ) -> Vec<Waker> {
        self.served = self.served.max(event.revision());
        let mut wakers = self.followers.deliver(resource, event);
        let Some(table) = self.tables.get_mut(resource) else { return wakers };
        wakers.extend(table.watchers.deliver(event));
        let before = table.history.cost();
        table.history.trim(limits, self.served);
        self.history_cost -= before - table.history.cost();
        self.fit(limits);
        wakers
    }

    /// Forgets events until all resources together are within their limit: those of whoever
    /// has most, so that a busy resource does not cost quiet ones their past.
    fn fit(&mut self, limits: &Limits) {
        if self.history_cost <= limits.history_total {
            return;
        }
        // More than must be, so that the largest is not looked for with every event.
        let enough = limits.history_total - limits.history_total / 16;
        while self.history_cost > enough {
            let tables = self.tables.values_mut();
            let Some(table) = tables.max_by_key(|table| table.history.cost()) else { return };
            let before = table.history.cost();
            let excess = self.history_cost - enough;
            if !table.history.shrink(excess.min(before / 2 + 1), self.served) {
                return;
            }
            self.history_cost -= before - table.history.cost();
        }
    }

    /// Counts anew what the histories of all tables cost.
    pub(super) fn count_history(&mut self) {
        self.history_cost = self.tables.values().map(|table| table.history.cost()).sum();
    }

    /// Takes up the events that a backend kept, after the objects.
    pub(super) fn remember(&mut self, past: Past, limits: &Limits) {
        self.floor = past.floor;
        for (resource, floor) in past.floors {
            self.table(&resource).history.compact(floor + 1);
        }
        // What stood at each place after the event that is looked at, from the last to the
        // first: an event carries what it replaced, and not what it wrote.
        let mut after: BTreeMap<(Resource, ObjectKey), Option<Arc<Stored>>> = BTreeMap::new();
        let mut events: BTreeMap<Resource, Vec<Event>> = BTreeMap::new();
        for past in past.events.into_iter().rev() {
            let resource = self.resource(&past.resource);
            let table = self.table(&resource);
            if past.revision <= table.history.floor() {
                continue;
            }
            let whole = |restored: Restored| {
                let Restored { key, revision, head, json, .. } = restored;
                Arc::new(Stored::new(key, revision, head, &json))
            };
            let place = (resource.clone(), past.key);
            let stands = after.get(&place).cloned().unwrap_or_else(|| table.get(&place.1).cloned());
            let gone = past.removed.is_some();
            let now = past.removed.map(whole).or(stands);
            let Some(now) = now.filter(|now| now.revision == past.revision) else {
                // Written by somebody who kept no events: nothing before it can be told.
                table.history.compact(past.revision + 1);
                continue;
            };
            let before = past.before.map(whole);
            after.insert(place, before.clone());
            events.entry(resource).or_default().push(Event { now, before, gone });
        }
        let served = self.served;
        for (resource, events) in events {
            let table = self.table(&resource);
            table.changed = table.changed.max(events.first().map_or(0, Event::revision));
            let known = events.into_iter().rev().filter(|e| e.revision() > table.history.floor());
            let known: Vec<Event> = known.collect();
            known.into_iter().for_each(|event| table.history.push(event));
            table.history.trim(limits, served);
        }
        self.count_history();
        self.fit(limits);
    }
}
