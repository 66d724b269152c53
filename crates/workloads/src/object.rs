//! What controllers ask of an object, whatever its kind.
//!
//! Objects stay JSON: a controller touches a few fields and must hand all others
//! back untouched. Absent and malformed fields read as empty, never as errors,
//! because the server has already validated what it stored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;

/// Short ways to read a Kubernetes object. Paths are JSON pointers.
pub trait Fields {
    /// The value at a pointer; `null` where there is none.
    fn at(&self, pointer: &str) -> &Value;
    /// The string at a pointer, or an empty one.
    fn text(&self, pointer: &str) -> &str;
    /// The whole number at a pointer, held to the 32 bits that counts and seconds have,
    /// so that sums of a few cannot overflow.
    fn int(&self, pointer: &str) -> Option<i64>;
    /// The list at a pointer, or an empty one.
    fn list(&self, pointer: &str) -> &[Value];
    /// Whether the pointer leads to `true`.
    fn is_true(&self, pointer: &str) -> bool;
    /// The moment at a pointer.
    fn time(&self, pointer: &str) -> Option<Timestamp>;
    /// The string map at a pointer.
    fn strings(&self, pointer: &str) -> Labels;

    /// `metadata.name`.
    fn name(&self) -> &str {
        self.text("/metadata/name")
    }
    /// `metadata.namespace`.
    fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }
    /// `metadata.uid`.
    fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }
    /// `metadata.generation`.
    fn generation(&self) -> i64 {
        self.int("/metadata/generation").unwrap_or(0)
    }
    /// `metadata.labels`.
    fn labels(&self) -> Labels {
        self.strings("/metadata/labels")
    }
    /// One annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.at("/metadata/annotations").get(key).and_then(Value::as_str)
    }
    /// Whether deletion has been asked for.
    fn is_deleting(&self) -> bool {
        self.at("/metadata/deletionTimestamp").is_string()
    }
    /// `metadata.creationTimestamp`.
    fn created(&self) -> Option<Timestamp> {
        self.time("/metadata/creationTimestamp")
    }
    /// UID of the owner marked as controller.
    fn controller_uid(&self) -> Option<&str> {
        let owners = self.list("/metadata/ownerReferences");
        owners.iter().find(|o| o.is_true("/controller")).map(|o| o.text("/uid"))
    }
    /// Whether a finalizer is present.
    fn has_finalizer(&self, name: &str) -> bool {
        self.list("/metadata/finalizers").iter().any(|f| f == name)
    }
}

impl Fields for Value {
    fn at(&self, pointer: &str) -> &Value {
        // `Value::pointer` copies every step, in case there are escapes in it.
        if pointer.contains('~') {
            return self.pointer(pointer).unwrap_or(&Value::Null);
        }
        let found = pointer.split('/').skip(1).try_fold(self, |value, step| match value {
            Value::Array(list) => list.get(step.parse::<usize>().ok()?),
            other => other.get(step),
        });
        found.unwrap_or(&Value::Null)
    }
    fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or("")
    }
    fn int(&self, pointer: &str) -> Option<i64> {
        let number = self.at(pointer).as_i64()?;
        Some(number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)))
    }
    fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }
    fn is_true(&self, pointer: &str) -> bool {
        self.at(pointer) == &Value::Bool(true)
    }
    fn time(&self, pointer: &str) -> Option<Timestamp> {
        self.at(pointer).as_str()?.parse().ok()
    }
    fn strings(&self, pointer: &str) -> Labels {
        let Some(map) = self.at(pointer).as_object() else { return Labels::new() };
        map.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
    }
}

/// The status of an object, ready to be written to; empty where there is none.
pub fn status_of(object: &Value) -> Value {
    match object.at("/status") {
        Value::Object(status) => Value::Object(status.clone()),
        _ => Value::Object(Map::new()),
    }
}

/// A moment as Kubernetes writes it: whole seconds, UTC.
pub fn stamp(moment: Timestamp) -> String {
    whole(moment).to_string()
}

/// The moment without its fraction of a second, as it reads back from an object.
pub fn whole(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

/// Sets a field, making the objects on the way. Does nothing through a non-object.
pub fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut here = object;
    for key in parents {
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
        let Some(map) = here.as_object_mut() else { return };
        here = map.entry(*key).or_insert(Value::Null);
    }
    if here.is_null() {
        *here = Value::Object(Map::new());
    }
    if let Some(map) = here.as_object_mut() {
        map.insert((*last).to_owned(), value);
    }
}

/// Removes a field if it is there.
pub fn unset(object: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut here = object;
    for key in parents {
        let Some(next) = here.get_mut(*key) else { return };
        here = next;
    }
    if let Some(map) = here.as_object_mut() {
        map.remove(*last);
    }
}

/// Removes one finalizer and leaves the others in order.
pub fn drop_finalizer(object: &mut Value, name: &str) {
    if let Some(list) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        list.retain(|f| f != name);
        if list.is_empty() {
            unset(object, &["metadata", "finalizers"]);
        }
    }
}

/// An owner reference that marks its object as the controller.
pub fn controller_ref(owner: &Value) -> Value {
    json!({
        "apiVersion": owner.text("/apiVersion"), "kind": owner.text("/kind"),
        "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Equal up to fields that say nothing: `null`, empty objects and empty lists.
pub fn means_the_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            let same = |from: &Map<String, Value>, other: &Map<String, Value>| {
                from.iter().all(|(key, value)| {
                    means_the_same(value, other.get(key).unwrap_or(&Value::Null))
                })
            };
            same(left, right)
                && right.keys().all(|k| left.contains_key(k) || says_nothing(&right[k]))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| means_the_same(l, r))
        }
        _ => a == b || (says_nothing(a) && says_nothing(b)),
    }
}

/// Whether a field of this value could as well be absent.
pub fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(says_nothing),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_read_as_empty() {
        let object = json!({"metadata": {"name": "web"}});
        assert_eq!(object.name(), "web");
        assert_eq!(object.text("/spec/x"), "");
        assert!(object.list("/spec/y").is_empty());
        assert!(!object.is_deleting());
    }

    #[test]
    fn set_makes_the_way_and_unset_leaves_it() {
        let mut object = json!({});
        set(&mut object, &["metadata", "labels", "app"], json!("web"));
        assert_eq!(object, json!({"metadata": {"labels": {"app": "web"}}}));
        unset(&mut object, &["metadata", "labels", "app"]);
        assert_eq!(object, json!({"metadata": {"labels": {}}}));
    }

    #[test]
    fn empty_and_absent_mean_the_same() {
        for (a, b, same) in [
            (json!({"a": 1}), json!({"a": 1, "b": null}), true),
            (json!({"a": 1, "b": {}}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": [1]}), json!({"a": [2]}), false),
            (json!({"a": {"x": {}}}), json!({"a": {}}), true),
        ] {
            assert_eq!(means_the_same(&a, &b), same, "{a} {b}");
        }
    }
}
