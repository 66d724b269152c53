//! The rules of `metadata`: its shape, what the server owns, what may change.
//!
//! Pure functions over one or two objects; the pipeline in `write` calls them.

use flagship_base::machinery::status::{ApiError, FieldError};
use flagship_kinds as kinds;
use serde_json::{Map, Value, json};

use crate::registry::Kind;

/// Finalizers that the server itself sets and acts upon.
pub const ORPHAN: &str = "orphan";
/// Keeps an owner until its dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";

/// What clients may not decide. Removed before a create.
const SERVER_OWNED: [&str; 5] =
    ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"];

/// `metadata` of an object that has passed [`check_shape`].
pub fn of(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}

/// `metadata` to change; made when missing.
pub fn of_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("made an object two lines above")
}

/// A string of `metadata`; empty when absent.
pub fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    of(object).get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The finalizers.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    of(object)["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether deletion has begun.
pub fn terminating(object: &Value) -> bool {
    of(object)["deletionTimestamp"].is_string()
}

/// Refuses metadata whose fields have the wrong JSON type, as a typed decoder would.
/// `null` counts as absent and is dropped.
pub fn check_shape(object: &mut Value) -> Result<(), ApiError> {
    let wrong = |field: &str, value: &Value, wanted: &str| {
        let got = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        ApiError::bad_request(format!(
            "json: cannot unmarshal {got} into Go struct field ObjectMeta.{field} of type {wanted}"
        ))
    };
    let Some(object) = object.as_object_mut() else {
        return Err(ApiError::bad_request("the object provided is unrecognized"));
    };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let Some(map) = metadata.as_object_mut() else {
        return Err(wrong("metadata", metadata, "v1.ObjectMeta"));
    };
    map.retain(|_, value| !value.is_null());
    for (key, value) in map.iter() {
        let fits = match key.as_str() {
            "name" | "generateName" | "namespace" | "selfLink" | "uid" | "resourceVersion"
            | "creationTimestamp" | "deletionTimestamp" => value.is_string(),
            "generation" | "deletionGracePeriodSeconds" => value.is_i64(),
            "labels" | "annotations" => {
                value.as_object().is_some_and(|map| map.values().all(Value::is_string))
            }
            "finalizers" => value.as_array().is_some_and(|l| l.iter().all(Value::is_string)),
            "ownerReferences" | "managedFields" => {
                value.as_array().is_some_and(|list| list.iter().all(Value::is_object))
            }
            _ => true,
        };
        if !fits {
            let wanted = match key.as_str() {
                "generation" | "deletionGracePeriodSeconds" => "int64",
                "labels" | "annotations" => "map[string]string",
                "finalizers" => "[]string",
                "ownerReferences" => "[]v1.OwnerReference",
                "managedFields" => "[]v1.ManagedFieldsEntry",
                _ => "string",
            };
            return Err(wrong(&format!("metadata.{key}"), value, wanted));
        }
    }
    // Empty lists and maps mean the same as none, and typed decoders drop them.
    map.retain(|key, value| match value {
        // An empty list of managers has a meaning: stop counting.
        Value::Array(list) => !list.is_empty() || key == "managedFields",
        Value::Object(fields) => {
            !fields.is_empty() || !matches!(key.as_str(), "labels" | "annotations")
        }
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
    Ok(())
}

/// Takes off what clients may not decide, before a create.
pub fn strip_server_owned(object: &mut Value) {
    let metadata = of_mut(object);
    for key in SERVER_OWNED {
        metadata.remove(key);
    }
}

/// Carries what the server owns over from the stored object to its update.
/// A client may leave these fields out; what it may not do is change them, which
/// [`validate_update`] finds on the object as it was sent.
pub fn carry_over(new: &mut Value, old: &Value) {
    let old = of(old);
    let metadata = of_mut(new);
    for key in SERVER_OWNED.into_iter().chain(["generation", "name", "namespace"]) {
        match old.get(key) {
            Some(value) => metadata.insert(key.to_owned(), value.clone()),
            None => metadata.remove(key),
        };
    }
    if !metadata.contains_key("generateName")
        && let Some(value) = old.get("generateName")
    {
        metadata.insert("generateName".to_owned(), value.clone());
    }
}

/// Checks the metadata of a custom resource that is about to be stored. Built-in kinds
/// check theirs along with the rest, in `flagship_kinds`.
pub fn validate(kind: &Kind, object: &Value) -> Vec<FieldError> {
    match kind.row() {
        Some(_) => Vec::new(),
        None => kinds::validate_metadata(object),
    }
}

/// Checks that an update changes nothing it may not. `sent` is the object before
/// [`carry_over`].
pub fn validate_update(kind: &Kind, sent: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["creationTimestamp", "uid"] {
        let (new, stored) = (text(sent, key), text(old, key));
        if !new.is_empty() && new != stored {
            let path = format!("metadata.{key}");
            errors.push(FieldError::invalid(path, json!(new), "field is immutable"));
        }
    }
    let sent_deletion = of(sent).get("deletionTimestamp");
    if sent_deletion.is_some() && sent_deletion != of(old).get("deletionTimestamp") {
        let value = sent_deletion.cloned().unwrap_or_default();
        errors.push(FieldError::invalid("metadata.deletionTimestamp", value, "field is immutable"));
    }
    if kind.row().is_none() {
        errors.extend(kinds::late_finalizers(sent, old));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_types_are_refused_and_empty_things_dropped() {
        let mut good =
            json!({"metadata": {"name": "a", "labels": {}, "finalizers": [], "uid": null}});
        check_shape(&mut good).unwrap();
        assert_eq!(good, json!({"metadata": {"name": "a"}}));
        let mut none = json!({"kind": "X"});
        check_shape(&mut none).unwrap();
        assert_eq!(none, json!({"kind": "X", "metadata": {}}));
        for metadata in [
            json!(5),
            json!({"labels": 5}),
            json!({"labels": {"a": 1}}),
            json!({"name": 1}),
            json!({"finalizers": "x"}),
            json!({"ownerReferences": ["x"]}),
            json!({"generation": "1"}),
        ] {
            let error = check_shape(&mut json!({"metadata": metadata})).unwrap_err();
            assert_eq!(error.code, 400, "{metadata}");
        }
        assert_eq!(check_shape(&mut json!([])).unwrap_err().code, 400);
    }

    #[test]
    fn finalizers_cannot_be_added_while_terminating() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b"]}});
        let sent = json!({"metadata": {"finalizers": ["a/b", "c/d"]}});
        let error = kinds::late_finalizers(&sent, &old).unwrap();
        assert_eq!(
            error.to_string(),
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}"
        );
        assert_eq!(kinds::late_finalizers(&json!({"metadata": {}}), &old), None);
    }
}
