//! Tells people of objects that cannot be read, as an event on the very object.
//!
//! Once for each version of it: a mirror that lists again says nothing new. Every mirror
//! of the hub is heard, so a kind needs no code of its own here. Conditions on unreadable
//! placements are `placement`'s business.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use flagship_api::names::ObjectKey;
use flagship_api::reason::event as reason;
use flagship_runtime::client::{Malformed, ResourceType};
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::reflector::Change;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::task::JoinSet;

use crate::hub::Context;

/// Events are recorded under this name.
const COMPONENT: &str = "hub-agent";

/// Who tells of unreadable objects. Clones share what was told.
#[derive(Clone)]
pub(crate) struct MalformedEvents {
    recorder: Recorder,
    /// The version that was told of. Some kinds are mirrored twice.
    told: Arc<Mutex<BTreeMap<(ResourceType, ObjectKey), String>>>,
}

impl MalformedEvents {
    /// Starts writing what will be told.
    pub fn new(cx: &Context, tasks: &mut JoinSet<()>) -> Self {
        let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
        let writing = recorder.clone();
        tasks.spawn(async move { writing.run().await });
        Self { recorder, told: Arc::default() }
    }

    /// Hears of a change of any object.
    pub fn hear<V>(&self, of: &ResourceType, change: &Change<V>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(problem) = &change.malformed else {
            if !told.is_empty() {
                told.remove(&(of.clone(), (*change.key).clone()));
            }
            return;
        };
        let version = problem.resource_version.clone();
        let before = told.insert((of.clone(), (*change.key).clone()), version);
        if before.is_some_and(|before| before == problem.resource_version) {
            return;
        }
        let about = ObjectReference {
            api_version: Some(of.api_version()),
            kind: Some(of.kind.clone()),
            name: Some(problem.name.clone()),
            namespace: problem.namespace.clone(),
            uid: Some(problem.uid.clone()).filter(|uid| !uid.is_empty()),
            resource_version: Some(problem.resource_version.clone()).filter(|v| !v.is_empty()),
            ..ObjectReference::default()
        };
        let message = complaint(problem, change.new.is_some());
        self.recorder.note_about(about, EventType::Warning, reason::MALFORMED_OBJECT, &message);
    }
}

/// What is wrong with the field. Where a field is named, the place in a text that nobody
/// sees is left out.
pub(crate) fn cause(problem: &Malformed) -> &str {
    let why = problem.why.as_str();
    let said = why.rsplit_once(" at line ").map_or(why, |(said, _)| said);
    if problem.field.is_empty() { why } else { said }
}

/// What is wrong, where, what to do about it, and what counts until then.
fn complaint(problem: &Malformed, known: bool) -> String {
    let (field, why) = (&problem.field, cause(problem));
    let meanwhile = if known { "its last readable version counts" } else { "it is left out" };
    if field.is_empty() {
        format!("This object cannot be read: {why}. Correct it; until then {meanwhile}")
    } else {
        format!("Field {field} cannot be read: {why}. Correct it; until then {meanwhile}")
    }
}
