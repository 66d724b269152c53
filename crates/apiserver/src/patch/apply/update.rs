//! Bookkeeping for creates, updates and patches: who changed what is found by comparing.

use std::borrow::Cow;

use flagship_patch::{MAX_DEPTH, fits};
use flagship_schema::NodeRef;
use serde_json::Value;

use super::compare::compare;
use super::fresh::fresh;
use super::managers::{self, Entry, Manager, Operation};
use super::place::Place;

/// Records in `new.metadata.managedFields` what `manager` changed from `old`.
///
/// `old` is `None` on create. `new` is the object about to be stored, after defaulting
/// and after the fields that this endpoint may not write were put back. It may carry
/// `managedFields` of its own: an empty list (or one empty entry) ends the tracking of
/// this object until somebody applies to it, valid entries are taken over, and
/// anything else is ignored in favour of the old ones, so that clients which know
/// nothing of managed fields cannot lose them. Subresources never take them from `new`.
pub fn record_update(
    old: Option<&Value>,
    new: &mut Value,
    manager: &Manager<'_>,
    schema: Option<NodeRef<'_>>,
) {
    let sent = take_managed(new);
    let kept = old.map_or(&Value::Null, managed);
    let entries = match entries(sent, kept, !manager.subresource.is_empty()) {
        // Nothing tracked so far, and nothing to begin with but a creation.
        Tracked::Nothing if old.is_some() => return,
        Tracked::Nothing => Vec::new(),
        Tracked::Entries(entries) => entries,
    };
    if !fits(new, MAX_DEPTH) || old.is_some_and(|old| !fits(old, MAX_DEPTH)) {
        put_managed(new, (!kept.is_null()).then(|| kept.clone()));
        return;
    }
    let before = old.map_or_else(|| Cow::Owned(fresh(new)), Cow::Borrowed);
    let entries = recorded(&before, new, entries, manager, schema);
    put_managed(new, managers::write(entries));
}

/// The entries after `manager` turned `old` into `new`.
pub(super) fn recorded<'v>(
    old: &Value,
    new: &Value,
    mut entries: Vec<Entry<'v>>,
    manager: &Manager<'_>,
    schema: Option<NodeRef<'_>>,
) -> Vec<Entry<'v>> {
    let (touched, removed) = compare(old, new, Place::Root(schema)).into_touched();
    for entry in &mut entries {
        entry.lose(&touched);
        entry.lose(&removed);
    }
    if !touched.is_empty() {
        match entries.iter_mut().find(|e| e.is(manager, Operation::Update)) {
            Some(own) => {
                own.gain(touched);
                own.time = Some(manager.stamp());
            }
            None => entries.push(Entry::new(manager, Operation::Update, touched.to_map())),
        }
    }
    entries.retain(|entry| !entry.is_empty());
    managers::cap(&mut entries);
    entries
}

enum Tracked<'v> {
    Nothing,
    Entries(Vec<Entry<'v>>),
}

fn entries(sent: Value, kept: &Value, ignore_sent: bool) -> Tracked<'_> {
    let kept_entries = || match managers::read(Cow::Borrowed(kept), true) {
        Ok(entries) if !entries.is_empty() => Tracked::Entries(entries),
        _ => Tracked::Nothing,
    };
    if ignore_sent {
        return kept_entries();
    }
    if is_reset(&sent) {
        return Tracked::Nothing;
    }
    let trusted = sent == *kept;
    match managers::read(Cow::Owned(sent), trusted) {
        Ok(entries) if !entries.is_empty() => Tracked::Entries(entries),
        _ => kept_entries(),
    }
}

fn is_reset(sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(|v| match v {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        }),
        _ => false,
    }
}

/// `metadata.managedFields`, or null.
pub(super) fn managed(object: &Value) -> &Value {
    &object["metadata"]["managedFields"]
}

/// A copy of an object without its `metadata.managedFields`, often half of it.
pub(super) fn without_managed(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copy = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::Object(metadata) if name == "metadata" => metadata
                .iter()
                .filter(|(name, _)| *name != "managedFields")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            other => other.clone(),
        };
        (name.clone(), value)
    };
    fields.iter().map(copy).collect()
}

/// Takes `metadata.managedFields` out of an object; null if there are none.
pub(super) fn take_managed(object: &mut Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.and_then(|m| m.remove("managedFields")).unwrap_or(Value::Null)
}

/// Puts `metadata.managedFields` into an object that has metadata.
pub(super) fn put_managed(object: &mut Value, managed: Option<Value>) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let (Some(metadata), Some(managed)) = (metadata, managed) {
        metadata.insert("managedFields".to_owned(), managed);
    }
}
