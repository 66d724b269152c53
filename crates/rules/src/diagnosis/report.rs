//! What an agent reports of the objects that fail: an annotation on the Work, one cause and
//! one sentence an object.
//!
//! The annotation is bounded, and whoever reads it takes what can be read: it may come from
//! another version of the agent.

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::work::AVAILABLE;
use flagship_api::work::{WorkResourceIdentifier, WorkStatus};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::apply::Outcome;
use crate::availability::Availability;
use crate::policy::checks::CHECK_FAILED;

/// Objects that are reported; the others fail for the same reasons as a rule.
pub const MOST_OBJECTS: usize = 8;
/// Characters of a sentence.
pub const LONGEST: usize = 256;
/// Characters of a sentence with the last lines that a check has written.
pub const LONGEST_OF_CHECK: usize = 1024;

/// How long an object may take before it is looked into: most come up within that.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(4);

/// Objects that have not been available for a while and may say why, as the outcomes of a
/// pass and the status after it show them.
pub fn worth_a_look<'a>(
    outcomes: &'a [Outcome],
    status: &WorkStatus,
    now: Timestamp,
) -> Vec<&'a Outcome> {
    let waits = |outcome: &&Outcome| {
        let conditions = status.manifest_conditions.iter();
        let mut ours =
            conditions.filter(|one| one.identifier.ordinal == outcome.identifier.ordinal);
        let said = ours.next().and_then(|one| one.conditions.of_type(AVAILABLE));
        said.is_some_and(|said| {
            let since = now.duration_since(said.last_transition_time.0);
            ConditionStatus::of(said) == ConditionStatus::False
                && (since >= PATIENCE || has_failed(outcome.live.as_ref()))
        })
    };
    outcomes
        .iter()
        .filter(|outcome| outcome.availability == Availability::NotYet && outcome.live.is_some())
        .filter(|outcome| super::plural_of(&outcome.identifier.kind).is_some())
        .filter(waits)
        .take(MOST_OBJECTS)
        .collect()
}

/// Whether it is a Job that has failed for good: there is nothing to wait for.
fn has_failed(live: Option<&Value>) -> bool {
    let conditions = live.and_then(|live| live["status"]["conditions"].as_array());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|told| told["type"] == "Failed" && told["status"] == "True")
}

/// What to make of the annotation: nothing if it says so already, null to remove it.
pub fn change(current: Option<&str>, reported: &[Reported]) -> Option<Value> {
    let wanted = write(reported);
    (wanted.as_deref() != current).then(|| wanted.map_or(Value::Null, Value::String))
}

/// Why one object is not available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// Its API group; left out for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; left out for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The code of the cause.
    pub cause: String,
    /// The container concerned, for commands that name one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// One sentence.
    pub says: String,
}

impl Reported {
    /// What was found inside an object, cut to the bounds.
    pub fn of(object: &WorkResourceIdentifier, found: &super::Diagnosis) -> Self {
        Self {
            group: object.group.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            cause: found.code.to_owned(),
            container: found.container.clone(),
            says: bounded(&found.words, longest(found.code)),
        }
    }

    /// Whether it is about this object.
    pub fn is_about(&self, group: &str, kind: &str, namespace: &str, name: &str) -> bool {
        self.group == group && self.kind == kind && self.namespace == namespace && self.name == name
    }
}

fn longest(cause: &str) -> usize {
    if cause == CHECK_FAILED { LONGEST_OF_CHECK } else { LONGEST }
}

fn bounded(words: &str, longest: usize) -> String {
    let apart = |letter: char| letter.is_whitespace() || letter.is_control();
    let words = words.split(apart).filter(|word| !word.is_empty());
    let one_line = words.collect::<Vec<_>>().join(" ");
    if one_line.chars().count() <= longest {
        return one_line;
    }
    let front: String = one_line.chars().take(longest - 1).collect();
    format!("{front}…")
}

/// The annotation for these objects; nothing if there are none.
pub fn write(reported: &[Reported]) -> Option<String> {
    let some = &reported[..reported.len().min(MOST_OBJECTS)];
    if some.is_empty() {
        return None;
    }
    serde_json::to_string(some).ok()
}

/// What an annotation says; nothing of what cannot be read.
pub fn read(annotation: &str) -> Vec<Reported> {
    let entries: Vec<serde_json::Value> = serde_json::from_str(annotation).unwrap_or_default();
    let read = entries.into_iter().take(MOST_OBJECTS);
    let mut read: Vec<Reported> =
        read.filter_map(|entry| serde_json::from_value(entry).ok()).collect();
    // A member may write anything there; it is shown to people.
    read.iter_mut().for_each(|entry| entry.says = bounded(&entry.says, longest(&entry.cause)));
    read
}
