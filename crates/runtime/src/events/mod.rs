//! Events about objects, for people who read `kubectl describe`.
//!
//! Recording never fails and never waits: [`Recorder::note`] puts a note into a
//! bounded line, and [`Recorder::run`] writes it out. Repeats raise the count of
//! the event that is there; many different words about one thing become one
//! combined event; an object that talks without end is muted. What a busy server
//! does not take is tried again for a while; what is lost is counted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::names::ObjectKey;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use tokio::sync::mpsc;

use crate::client::{Client, ClientError, Objects};
use crate::effects::{Retry, drop_counted, is_transient, retry};
use crate::env::Env;
use crate::metrics::{Counter, Metrics};
use correlator::{Correlation, EventCorrelator};

mod correlator;
#[cfg(test)]
mod tests;

/// Longest message of an event, in bytes.
pub const LONGEST_MESSAGE: usize = 1024;
/// Notes that may wait to be written: some for each member of a large fleet that joins at once.
const LINE: usize = 20_000;
/// How an event is tried again that a busy server did not take: for a quarter of an hour. Others
/// wait behind it; a server that does not take one takes none.
const AGAIN: Retry =
    Retry { attempts: 12, base: Duration::from_millis(500), factor: 2, jitter: 0.1 };

/// Whether an event tells of something good or of something to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// Things go as they should.
    Normal,
    /// Somebody should look.
    Warning,
}

/// One thing to tell about one object.
#[derive(Clone, Debug)]
struct Note {
    about: ObjectReference,
    sort: EventType,
    reason: String,
    message: String,
}

/// Records events under one component's name. Clones share the line.
#[derive(Clone)]
pub struct Recorder {
    line: mpsc::Sender<Note>,
    muted: Counter,
    failed: Counter,
    writer: Arc<Mutex<Option<Writer>>>,
}

/// The end of the line.
struct Writer {
    notes: mpsc::Receiver<Note>,
    events: Objects<Event>,
    env: Env,
    component: String,
    memory: EventCorrelator,
    /// Microseconds in the name of the latest event.
    latest: i64,
    muted: Counter,
    failed: Counter,
}

impl Recorder {
    /// A recorder for a component such as `placement-controller`.
    pub fn new(client: &Client, env: &Env, metrics: &Metrics, component: &str) -> Self {
        let dropped = |reason| {
            let labels = [("component", component), ("reason", reason)];
            metrics.counter("flagship_events_dropped_total", "Events not written.", &labels)
        };
        let (line, notes) = mpsc::channel(LINE);
        let (muted, failed) = (dropped("muted"), dropped("failed"));
        let writer = Writer {
            notes,
            events: client.of::<Event>(),
            env: env.clone(),
            component: component.to_owned(),
            memory: EventCorrelator::default(),
            latest: 0,
            muted: muted.clone(),
            failed: failed.clone(),
        };
        Self { line, muted, failed, writer: Arc::new(Mutex::new(Some(writer))) }
    }

    /// Tells something about an object.
    pub fn note<K>(&self, about: &K, sort: EventType, reason: &str, message: &str)
    where
        K: kube::Resource<DynamicType = ()>,
    {
        self.note_about(about.object_ref(&()), sort, reason, message);
    }

    /// Tells something about an object that is not at hand.
    pub fn note_about(&self, about: ObjectReference, sort: EventType, reason: &str, message: &str) {
        let (reason, message) = (reason.to_owned(), capped(message));
        if self.line.try_send(Note { about, sort, reason, message }).is_err() {
            self.muted.inc();
        }
    }

    /// Events that were not written, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.muted.get() + self.failed.get()
    }

    /// Writes notes out until it is dropped. Only the first call does anything.
    pub async fn run(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut writer) = writer else { return };
        while let Some(note) = writer.notes.recv().await {
            // Boxed: a task is as large as the largest future it awaits, and this one mostly
            // sleeps.
            Box::pin(writer.write(note)).await;
        }
    }
}

impl Writer {
    async fn write(&mut self, note: Note) {
        let now = self.env.now();
        let said = self.memory.say(note, now);
        let result = match said {
            Correlation::Drop => {
                self.muted.inc();
                return;
            }
            Correlation::Increment { key, count, message } => {
                let patch = json!({"count": count, "lastTimestamp": Time(now), "message": message});
                let patched = || self.events.patch_anyway(&key, patch.clone());
                match retry(&self.env, AGAIN, is_worth_it, patched).await {
                    // It was swept away in the meantime; the next repeat makes a new one.
                    Err(ClientError::NotFound { .. }) => {
                        self.memory.forget(&key);
                        self.failed.inc();
                        return;
                    }
                    other => other,
                }
            }
            Correlation::Create { note, message } => {
                let event = self.event(&note, message);
                let key = ObjectKey::new(
                    event.metadata.namespace.as_deref(),
                    event.metadata.name.as_deref().unwrap_or_default(),
                );
                let created = retry(&self.env, AGAIN, is_worth_it, || self.events.create(&event));
                let created = match created.await {
                    // An earlier try has come through, and its answer was lost.
                    Err(ClientError::AlreadyExists { .. }) => Ok(event),
                    other => other,
                };
                if created.is_ok() {
                    self.memory.written(&note, key, now);
                }
                created
            }
        };
        drop_counted("event", result, &self.failed);
    }

    fn event(&mut self, note: &Note, message: String) -> Event {
        let now = Time(self.env.now());
        let name = note.about.name.as_deref().unwrap_or_default();
        let mut event = Event {
            involved_object: note.about.clone(),
            type_: Some(format!("{:?}", note.sort)),
            reason: Some(note.reason.clone()),
            message: Some(message),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            reporting_component: Some(self.component.clone()),
            source: Some(EventSource { component: Some(self.component.clone()), host: None }),
            ..Event::default()
        };
        // An event lives beside its object; those without a namespace go to the default one.
        let namespace = note.about.namespace.clone().filter(|namespace| !namespace.is_empty());
        event.metadata.namespace = Some(namespace.unwrap_or_else(|| "default".to_owned()));
        event.metadata.name = Some(format!("{name}.{}", self.suffix()));
        event
    }

    /// Names grow with time, so that events of one second are listed as they happened; the
    /// rest is chance, for other writers.
    fn suffix(&mut self) -> String {
        self.latest = self.env.now().as_microsecond().max(self.latest + 1);
        format!("{:013x}{}", self.latest, self.env.entropy.hex(3))
    }
}

/// Whether another try may help. A refusal stands: in a namespace that goes nothing is created.
fn is_worth_it(error: &ClientError) -> bool {
    !matches!(error, ClientError::Forbidden { .. }) && is_transient(error.action())
}

/// At most [`LONGEST_MESSAGE`] bytes, cut between characters.
fn capped(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    const MORE: &str = "...";
    let mut end = LONGEST_MESSAGE - MORE.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MORE}", &message[..end])
}
