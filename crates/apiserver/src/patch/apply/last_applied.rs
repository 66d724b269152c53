//! The way from client-side to server-side apply, as `kubectl` takes it.
//!
//! `kubectl apply` used to keep its configuration in an annotation. When the same user
//! turns to server-side apply, fields that still have the value of that annotation do
//! not conflict, and the annotation follows, so that one may turn back.

use flagship_base::machinery::bounds::MAX_ANNOTATIONS;
use serde_json::Value;

use super::compare::compare;
use super::extract::{Containers, fields};
use super::fieldset::FieldSet;
use super::place::Place;

/// Only this manager migrates; to opt out one takes another name.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn last_applied(live: &Value) -> Option<&str> {
    let text = live["metadata"]["annotations"][ANNOTATION].as_str()?;
    (!text.is_empty()).then_some(text)
}

/// The fields that are as client-side apply left them.
pub(super) fn still_as_applied(live: &Value, api_version: &str, root: Place<'_>) -> FieldSet {
    let Some(text) = last_applied(live) else { return FieldSet::new() };
    let Ok(applied) = serde_json::from_str::<Value>(text) else { return FieldSet::new() };
    if applied["apiVersion"] != api_version {
        return FieldSet::new();
    }
    let mut unchanged = fields(&applied, root, Containers::Named, 0);
    let delta = compare(&applied, live, root);
    for changed in [&delta.modified, &delta.added, &delta.removed] {
        unchanged.subtract(changed);
    }
    unchanged
}

/// Writes what was applied into the annotation, where there is one.
pub(super) fn follow(object: &mut Value, applied: &Value) {
    if last_applied(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(Value::Object(annotations)) = applied.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else {
        return;
    };
    annotations.remove(ANNOTATION);
    let others: usize =
        annotations.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    let text = format!("{applied}\n");
    if others + ANNOTATION.len() + text.len() <= MAX_ANNOTATIONS {
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    }
}
