//! The objects of one resource with their history and watchers.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::history::History;
use super::labelled::{Labelled, WORTH_IT};
use super::watchers::Watchers;
use super::{ObjectKey, Scope, Stored};

/// One resource of one cluster.
#[derive(Default)]
pub(super) struct Table {
    objects: BTreeSet<Slot>,
    /// Behind a lock of its own, for lists make indexes and hold the store only to read.
    labelled: Mutex<Labelled>,
    pub(super) history: History,
    pub(super) watchers: Watchers,
    /// The last revision that touched it.
    pub(super) changed: u64,
}

/// An object ordered by its place. A set of these needs no second copy of the key, which
/// saves some 50 bytes an object against a map.
pub(super) struct Slot(pub(super) Arc<Stored>);

impl Table {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<Stored>> {
        self.objects.get(key).map(|slot| &slot.0)
    }

    /// Puts an object at its place. What stood there is dropped.
    pub(super) fn put(&mut self, object: Arc<Stored>) {
        self.changed = self.changed.max(object.revision);
        let before = self.objects.replace(Slot(object.clone()));
        self.indexes().moved(before.as_ref().map(|slot| &slot.0), Some(&object));
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let before = self.objects.take(key);
        self.indexes().moved(before.as_ref().map(|slot| &slot.0), None);
    }

    fn indexes(&mut self) -> &mut Labelled {
        self.labelled.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same key, sharing the text of a namespace that is already here.
    pub(super) fn shared(&self, key: ObjectKey) -> ObjectKey {
        let first = self.walk(Scope::Namespace(&key.namespace)).next();
        match first.map(|object| object.key.namespace.clone()) {
            Some(namespace) => ObjectKey { namespace, ..key },
            None => key,
        }
    }

    /// The objects of a scope in the order of their keys.
    pub(super) fn walk<'a>(&'a self, within: Scope<'a>) -> impl Iterator<Item = &'a Arc<Stored>> {
        let slots = self.objects.range(within.first()..).map(|slot| &slot.0);
        slots.take_while(move |object| within.covers(&object.key))
    }

    /// The objects of a scope whose label has a value, and perhaps others.
    pub(super) fn walk_labelled(&self, within: Scope<'_>, label: (&str, &str)) -> Vec<Arc<Stored>> {
        if self.objects.len() < WORTH_IT {
            return self.walk(within).cloned().collect();
        }
        let mut labelled = self.labelled.lock().unwrap_or_else(PoisonError::into_inner);
        labelled.list(label, within, || self.walk(Scope::All))
    }

    /// One object as it stood at a revision that the history reaches.
    pub(super) fn get_at(&self, key: &ObjectKey, revision: u64) -> Option<&Arc<Stored>> {
        self.history.undone_at(key, revision).unwrap_or_else(|| self.get(key))
    }

    /// The objects of a scope as they stood at a revision that the history reaches.
    pub(super) fn walk_at(&self, within: Scope<'_>, revision: u64) -> Vec<Arc<Stored>> {
        self.undo(self.walk(within).cloned().collect(), within, revision)
    }

    /// The same of [`Table::walk_labelled`].
    pub(super) fn walk_labelled_at(
        &self,
        within: Scope<'_>,
        label: (&str, &str),
        revision: u64,
    ) -> Vec<Arc<Stored>> {
        self.undo(self.walk_labelled(within, label), within, revision)
    }

    /// Puts back what changed in a scope since a revision.
    fn undo(
        &self,
        mut items: Vec<Arc<Stored>>,
        within: Scope<'_>,
        revision: u64,
    ) -> Vec<Arc<Stored>> {
        let then = self.history.undone(within, revision);
        if !then.is_empty() {
            items.retain(|object| !then.contains_key(&object.key));
            items.extend(then.values().filter_map(|before| before.cloned()));
            // Two sorted runs: the stable sort merges them in one go.
            items.sort_by(|a, b| a.key.cmp(&b.key));
        }
        items
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}

impl Borrow<ObjectKey> for Slot {
    fn borrow(&self) -> &ObjectKey {
        &self.0.key
    }
}

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Slot {}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slot {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}
