//! Events, counted instead of repeated.
//!
//! The same words about the same object raise the count of one Event, as users
//! know from `kubectl describe`. Many different words for one reason within ten
//! minutes become a single "combined" one, so that a broken loop cannot flood the
//! cluster.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::object::{Fields, stamp};
use crate::plan::Note;

/// Different messages allowed for one reason about one object within [`WINDOW`].
const VARIETY: usize = 10;
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// How long an Event is kept after it was last written.
const LIFE: SignedDuration = SignedDuration::from_hours(1);
/// Events remembered for counting; older ones start over.
const MEMORY: usize = 1_024;

/// Turns notes into Event objects. One for each cluster.
#[derive(Debug, Default)]
pub struct Recorder {
    known: BTreeMap<Key, Known>,
    order: VecDeque<Key>,
    variety: BTreeMap<Key, Variety>,
    serial: u64,
}

/// What makes two notes the same.
type Key = (String, &'static str, String, &'static str, bool);

#[derive(Debug, Clone)]
struct Known {
    namespace: String,
    name: String,
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

#[derive(Debug)]
struct Variety {
    messages: BTreeSet<String>,
    last: Timestamp,
}

/// How an Event reaches the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A new Event.
    Create(Value),
    /// The same again: name, namespace, and a merge patch.
    Count {
        /// Namespace of the Event.
        namespace: String,
        /// Name of the Event.
        name: String,
        /// What changes.
        patch: Value,
    },
}

impl Recorder {
    /// The write for one note.
    pub fn record(&mut self, note: &Note, now: Timestamp) -> Record {
        let message = self.combined(note, now);
        let key = key_of(note, &message);
        let namespace = place(note);
        if let Some(known) = self.known.get_mut(&key) {
            known.count += 1;
            known.last = now;
            return Record::Count {
                namespace,
                name: known.name.clone(),
                patch: json!({"count": known.count, "lastTimestamp": stamp(now)}),
            };
        }
        // Unlike a real cluster's, names also carry a serial: many can share a moment here.
        self.serial += 1;
        let nanos = now.as_nanosecond().unsigned_abs() as u64;
        let name = format!("{}.{:x}", note.about.text("/name"), nanos.wrapping_add(self.serial));
        let known = Known {
            namespace: namespace.clone(),
            name: name.clone(),
            count: 1,
            first: now,
            last: now,
        };
        self.remember(key, known);
        Record::Create(event(note, &message, &namespace, &name, 1, now, now))
    }

    /// The Event has been deleted meanwhile: write it anew with its count.
    pub fn recreate(&mut self, note: &Note, now: Timestamp) -> Option<Value> {
        let message = self.combined(note, now);
        let known = self.known.get(&key_of(note, &message))?;
        let namespace = place(note);
        Some(event(note, &message, &namespace, &known.name, known.count, known.first, now))
    }

    /// An Event that has been silent for an hour and can go: namespace and name. Asked
    /// for when another is written, so that a quiet cluster stays quiet.
    pub fn expired(&mut self, now: Timestamp) -> Option<(String, String)> {
        let oldest = self.order.front()?;
        let known = self.known.get(oldest)?;
        if now.duration_since(known.last) <= LIFE {
            // Spoken of again since: it waits behind the others.
            if now.duration_since(known.first) > LIFE {
                self.order.rotate_left(1);
            }
            return None;
        }
        let key = self.order.pop_front()?;
        let known = self.known.remove(&key)?;
        Some((known.namespace, known.name))
    }

    fn combined(&mut self, note: &Note, now: Timestamp) -> String {
        let key = key_of(note, "");
        let fresh = || Variety { messages: BTreeSet::new(), last: now };
        let variety = self.variety.entry(key).or_insert_with(fresh);
        if now.duration_since(variety.last) > WINDOW {
            variety.messages.clear();
        }
        variety.last = now;
        if variety.messages.len() >= VARIETY && !variety.messages.contains(&note.message) {
            return format!("(combined from similar events): {}", note.message);
        }
        variety.messages.insert(note.message.clone());
        note.message.clone()
    }

    fn remember(&mut self, key: Key, known: Known) {
        self.order.push_back(key.clone());
        self.known.insert(key, known);
        if self.order.len() > MEMORY
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
            self.variety.remove(&(oldest.0, oldest.1, String::new(), oldest.3, oldest.4));
        }
    }
}

/// Combined messages count as one whatever their tail.
fn key_of(note: &Note, message: &str) -> Key {
    let text = if message.starts_with("(combined") { "(combined)" } else { message };
    let field = note.about.text("/fieldPath");
    let about = format!("{}{field}{}", note.about.text("/uid"), note.about.text("/name"));
    (about, note.reason, text.to_owned(), note.source, note.warning)
}

/// Events about cluster-scoped objects live in `default`.
fn place(note: &Note) -> String {
    match note.about.text("/namespace") {
        "" => "default".into(),
        namespace => namespace.into(),
    }
}

fn event(
    note: &Note,
    message: &str,
    namespace: &str,
    name: &str,
    count: u64,
    first: Timestamp,
    last: Timestamp,
) -> Value {
    let mut source = json!({"component": note.source});
    if let Some(host) = &note.host {
        source["host"] = json!(host);
    }
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": note.about, "reason": note.reason, "message": message,
        "type": if note.warning { "Warning" } else { "Normal" },
        "count": count, "firstTimestamp": stamp(first), "lastTimestamp": stamp(last),
        "source": source, "reportingComponent": note.source,
        "reportingInstance": note.host.clone().unwrap_or_default(), "eventTime": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str) -> Note {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default", "uid": "u"}});
        Note::warning(&pod, "kubelet", "BackOff", message)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_same_words_are_counted() {
        let mut recorder = Recorder::default();
        let Record::Create(event) = recorder.record(&note("back-off"), at(10)) else {
            panic!("new")
        };
        assert_eq!((event["count"].as_u64(), event.text("/involvedObject/name")), (Some(1), "web"));
        let Record::Count { name, patch, .. } = recorder.record(&note("back-off"), at(20)) else {
            panic!("counted");
        };
        assert_eq!(name, event.name());
        assert_eq!(patch, json!({"count": 2, "lastTimestamp": "1970-01-01T00:00:20Z"}));
        let again = recorder.recreate(&note("back-off"), at(20)).unwrap();
        assert_eq!(again["firstTimestamp"], "1970-01-01T00:00:10Z");
    }

    #[test]
    fn a_flood_of_different_words_is_combined() {
        let mut recorder = Recorder::default();
        for n in 0..10 {
            assert!(matches!(recorder.record(&note(&format!("n{n}")), at(n)), Record::Create(_)));
        }
        let Record::Create(event) = recorder.record(&note("n10"), at(10)) else {
            panic!("combined")
        };
        assert_eq!(event["message"], "(combined from similar events): n10");
        assert!(matches!(recorder.record(&note("n11"), at(11)), Record::Count { .. }));
        assert!(matches!(recorder.record(&note("n12"), at(2_000)), Record::Create(_)), "forgotten");
    }

    #[test]
    fn an_event_goes_an_hour_after_its_last_word() {
        let mut recorder = Recorder::default();
        recorder.record(&note("old"), at(0));
        recorder.record(&note("spoken again"), at(1));
        recorder.record(&note("spoken again"), at(3_000));
        assert_eq!(recorder.expired(at(3_600)), None);
        let (namespace, name) = recorder.expired(at(3_700)).expect("an hour has passed");
        assert_eq!(namespace, "default");
        assert!(name.starts_with("web."), "{name}");
        assert_eq!(recorder.expired(at(3_700)), None);
        assert!(recorder.expired(at(6_700)).is_some());
    }

    #[test]
    fn old_events_are_forgotten() {
        let mut recorder = Recorder::default();
        for n in 0..3_000 {
            recorder.record(&note(&format!("n{n}")), at(n * 700));
        }
        assert!(recorder.known.len() <= MEMORY && recorder.order.len() <= MEMORY);
    }
}
