//! Which events are written: repeated ones are counted, similar ones combined, too many dropped.
//!
//! Three limits, as Kubernetes' own components have them: the same words raise a
//! count; more than ten different words about one reason within ten minutes become
//! one combined event; an object gets 25 events at once and one every five minutes
//! afterwards. Bounded: the least recently used is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::names::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use super::{EventType, Note, capped};

/// Most things remembered of each sort.
const CAPACITY: usize = 4096;
/// Different words about one reason before they are combined.
const VARIETY: usize = 10;
/// How long words are remembered.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Events an object may have at once.
const BURST: f64 = 25.0;
/// How long an object waits for one more.
const REFILL: SignedDuration = SignedDuration::from_mins(5);

/// Which object: kind, namespace, name and uid.
type Subject = (String, String, String, String);
/// Which object, how bad, and why.
type Topic = (Subject, EventType, String);
/// A topic in particular words; without words, the combined one.
type Words = (Topic, Option<String>);

/// What to do about a note.
pub(super) enum Correlation {
    /// Nothing; the object has too many events.
    Drop,
    /// Write a new event.
    Create { note: Note, message: String },
    /// Raise the count of the event that is there.
    Increment { key: ObjectKey, count: i32, message: String },
}

#[derive(Default)]
pub(super) struct EventCorrelator {
    budgets: Bounded<Subject, Budget>,
    topics: Bounded<Topic, Variety>,
    events: Bounded<Words, Written>,
}

struct Budget {
    left: f64,
    at: Timestamp,
}

struct Variety {
    words: BTreeSet<String>,
    since: Timestamp,
}

struct Written {
    key: ObjectKey,
    count: i32,
    at: Timestamp,
}

impl EventCorrelator {
    /// Decides what to do about a note.
    pub(super) fn say(&mut self, note: Note, now: Timestamp) -> Correlation {
        let topic = topic(&note);
        let words = self.words(&topic, &note.message, now);
        if !self.affords(&topic.0, now) {
            return Correlation::Drop;
        }
        let message = match &words {
            Some(_) => note.message.clone(),
            None => capped(&format!("(combined from similar events): {}", note.message)),
        };
        match self.events.get(&(topic, words)) {
            Some(written) if now.duration_since(written.at) <= WINDOW => {
                written.count = written.count.saturating_add(1);
                written.at = now;
                Correlation::Increment { key: written.key.clone(), count: written.count, message }
            }
            _ => Correlation::Create { note, message },
        }
    }

    /// A new event was written.
    pub(super) fn written(&mut self, note: &Note, key: ObjectKey, now: Timestamp) {
        let topic = topic(note);
        let words = self.words(&topic, &note.message, now);
        self.events.put((topic, words), Written { key, count: 1, at: now });
    }

    /// The event is no longer there.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.events.retain(|written| written.key != *key);
    }

    /// The note's own words, or none once there were too many different ones.
    fn words(&mut self, topic: &Topic, message: &str, now: Timestamp) -> Option<String> {
        let fresh = || Variety { words: BTreeSet::new(), since: now };
        let variety = self.topics.get_or(topic.clone(), fresh);
        if now.duration_since(variety.since) > WINDOW {
            *variety = fresh();
        }
        if variety.words.len() < VARIETY {
            variety.words.insert(message.to_owned());
        }
        variety.words.contains(message).then(|| message.to_owned())
    }

    fn affords(&mut self, subject: &Subject, now: Timestamp) -> bool {
        let budget = self.budgets.get_or(subject.clone(), || Budget { left: BURST, at: now });
        let passed = now.duration_since(budget.at).as_secs_f64().max(0.0);
        budget.left = (budget.left + passed / REFILL.as_secs_f64()).min(BURST);
        budget.at = now;
        let affords = budget.left >= 1.0;
        if affords {
            budget.left -= 1.0;
        }
        affords
    }
}

fn topic(note: &Note) -> Topic {
    let about = &note.about;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let subject = (text(&about.kind), text(&about.namespace), text(&about.name), text(&about.uid));
    (subject, note.sort, note.reason.clone())
}

/// A map that forgets what was not used for longest.
struct Bounded<K, V> {
    entries: BTreeMap<K, (u64, V)>,
    used: BTreeMap<u64, K>,
    clock: u64,
}

impl<K, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), used: BTreeMap::new(), clock: 0 }
    }
}

impl<K: Ord + Clone, V> Bounded<K, V> {
    fn get(&mut self, key: &K) -> Option<&mut V> {
        self.clock += 1;
        let (used, value) = self.entries.get_mut(key)?;
        self.used.remove(used);
        *used = self.clock;
        self.used.insert(self.clock, key.clone());
        Some(value)
    }

    fn put(&mut self, key: K, value: V) {
        self.clock += 1;
        if let Some((used, _)) = self.entries.insert(key.clone(), (self.clock, value)) {
            self.used.remove(&used);
        }
        self.used.insert(self.clock, key);
        if self.entries.len() > CAPACITY
            && let Some((_, oldest)) = self.used.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    fn get_or(&mut self, key: K, fresh: impl FnOnce() -> V) -> &mut V {
        if self.get(&key).is_none() {
            self.put(key.clone(), fresh());
        }
        let (_, value) = self.entries.get_mut(&key).expect("it was there or was just put there");
        value
    }

    fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        let used = &mut self.used;
        self.entries.retain(|_, (at, value)| {
            let kept = keep(value);
            if !kept {
                used.remove(at);
            }
            kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let mut bounded = Bounded::default();
        for n in 0..CAPACITY {
            bounded.put(n, ());
        }
        bounded.get(&0);
        bounded.put(CAPACITY, ());
        assert!(bounded.get(&0).is_some());
        assert!(bounded.get(&1).is_none());
        assert_eq!(bounded.entries.len(), CAPACITY);
        assert_eq!(bounded.used.len(), CAPACITY);
    }
}
