//! Which entry of the old status speaks about the same manifest.

use std::collections::{BTreeMap, VecDeque};

use flagship_api::work::ManifestCondition;

use super::super::apply_options::ApplyOptions;
use super::super::manifest::{Key, key};
use super::super::outcome::Outcome;
use super::conditions;

/// The entries of the old status, to be taken one by one.
pub(super) struct Carried<'a> {
    /// Entries about readable manifests, in order: of duplicates the first goes to the first.
    by_key: BTreeMap<Key, VecDeque<&'a ManifestCondition>>,
    /// Entries about manifests of which nothing but the place was known.
    by_place: BTreeMap<i64, &'a ManifestCondition>,
}

impl<'a> Carried<'a> {
    pub(super) fn new(entries: &'a [ManifestCondition]) -> Self {
        let mut carried = Self { by_key: BTreeMap::new(), by_place: BTreeMap::new() };
        for entry in entries {
            match key(&entry.identifier) {
                Some(key) => carried.by_key.entry(key).or_default().push_back(entry),
                None => {
                    carried.by_place.insert(entry.identifier.ordinal, entry);
                }
            }
        }
        carried
    }

    /// What was said before about the manifest of this outcome; nothing if it is new.
    pub(super) fn take(&mut self, outcome: &Outcome, terms: &ApplyOptions) -> ManifestCondition {
        let found = match key(&outcome.identifier) {
            Some(key) => self.by_key.get_mut(&key).and_then(VecDeque::pop_front),
            // The place alone proves nothing; the same trouble in the same place does.
            None => {
                let old = self.by_place.remove(&outcome.identifier.ordinal);
                old.filter(|old| conditions::say_so(&old.conditions, outcome, terms))
            }
        };
        found.cloned().unwrap_or_default()
    }
}
