//! Objects by the value of a label, for lists that name one.
//!
//! A controller that lists "the bindings of this placement" must not pay for everybody
//! else's. Nobody declares an index: the first list that names a label in a large table
//! makes one, writes keep it, and the one not asked for the longest makes room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::table::Slot;
use super::{ObjectKey, Scope, Stored};

/// Below this many objects a walk is as quick.
pub(super) const WORTH_IT: usize = 256;

/// Labels of one table with an index at the same time: some 20 bytes an object for each.
const MOST: usize = 4;

/// The indexes of one table, the one asked for last at the end.
#[derive(Default)]
pub(super) struct Labelled(Vec<Index>);

struct Index {
    label: Box<str>,
    by_value: BTreeMap<Box<str>, BTreeSet<Slot>>,
}

impl Labelled {
    /// The objects of a scope whose label has the value, in the order of their keys.
    /// `all` walks the table; it is called when this label has no index yet.
    pub(super) fn list<'a, I: Iterator<Item = &'a Arc<Stored>>>(
        &mut self,
        (label, value): (&str, &str),
        within: Scope<'_>,
        all: impl FnOnce() -> I,
    ) -> Vec<Arc<Stored>> {
        let index = match self.0.iter().position(|index| *index.label == *label) {
            Some(at) => self.0.remove(at),
            None => Index::over(label, all()),
        };
        let found = index.by_value.get(value).map(|slots| slots.range(within.first()..));
        let found = found.into_iter().flatten().map(|slot| &slot.0);
        let found = found.take_while(|object| within.covers(&object.key)).cloned().collect();
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(index);
        found
    }

    /// Follows a write: what stood at a place and what stands there now.
    pub(super) fn moved(&mut self, before: Option<&Arc<Stored>>, now: Option<&Arc<Stored>>) {
        for index in &mut self.0 {
            if let Some(before) = before {
                index.remove(before);
            }
            if let Some(now) = now {
                index.insert(now);
            }
        }
    }
}

impl Index {
    fn over<'a>(label: &str, all: impl Iterator<Item = &'a Arc<Stored>>) -> Self {
        let mut index = Self { label: label.into(), by_value: BTreeMap::new() };
        all.for_each(|object| index.insert(object));
        index
    }

    fn insert(&mut self, object: &Arc<Stored>) {
        let Some(value) = object.head.labels.get(&self.label) else { return };
        if !self.by_value.contains_key(value) {
            self.by_value.insert(value.into(), BTreeSet::new());
        }
        let slots = self.by_value.get_mut(value).expect("it was there or has just been inserted");
        slots.insert(Slot(object.clone()));
    }

    fn remove(&mut self, object: &Arc<Stored>) {
        let Some(value) = object.head.labels.get(&self.label) else { return };
        let Some(slots) = self.by_value.get_mut(value) else { return };
        slots.remove::<ObjectKey>(&object.key);
        if slots.is_empty() {
            self.by_value.remove(value);
        }
    }
}
