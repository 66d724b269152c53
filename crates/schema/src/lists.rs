//! Lists whose elements have an identity: sets and maps.

use std::collections::BTreeMap;

use flagship_base::machinery::status::FieldError;
use serde_json::{Map, Value};

use super::node::{ListType, NodeRef};
use super::path::{Findings, Path};
use super::walk::visit;

/// The element of the old list that `value` is a new state of, in lists keyed by fields.
pub(super) fn counterpart<'v>(
    value: &Value,
    old: Option<&'v Value>,
    list: NodeRef<'_>,
) -> Option<&'v Value> {
    let Some(ListType::Map(keys)) = &list.node().list_type else { return None };
    // With a single key, an element without it is nobody.
    if let [key] = keys.as_slice()
        && !value.get(&**key).is_some_and(is_scalar)
    {
        return None;
    }
    let same = |other: &&Value| keys.iter().all(|k| other.get(&**k) == value.get(&**k));
    old?.as_array()?.iter().find(same)
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_))
}

/// Whether nothing changed here, as far as the schema can tell: fields it does not know have
/// no old state, so what contains them counts as changed.
pub(super) fn is_unchanged(new: &Value, old: &Value, node: NodeRef<'_>) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| match (old.get(key), node.field(key)) {
                    (Some(old), Some(field)) => is_unchanged(value, old, field),
                    _ => false,
                })
        }
        (Value::Array(list), Value::Array(before)) => {
            match (&node.node().list_type, node.items()) {
                (Some(ListType::Map(_)), Some(items)) => {
                    list.len() == before.len()
                        && list.iter().all(|value| {
                            counterpart(value, Some(old), node)
                                .is_some_and(|old| is_unchanged(value, old, items))
                        })
                }
                _ => new == old,
            }
        }
        _ => new == old,
    }
}

/// Elements that stand twice in a set, or twice under one key in a map.
pub(super) fn duplicates(value: &Value, node: NodeRef<'_>) -> Vec<FieldError> {
    let mut found = Vec::new();
    visit(value, node, &mut |value, node, path| {
        let Value::Array(list) = value else { return };
        match &node.node().list_type {
            Some(ListType::Set) => repeated(list.iter(), |at, value| {
                let path = Path::Index(path, at).to_string();
                found.add(FieldError::duplicate(path, value.clone()));
            }),
            Some(ListType::Map(keys)) => search_map(list, keys, path, &mut found),
            _ => {}
        }
    });
    found
}

fn search_map(list: &[Value], keys: &[Box<str>], path: &Path<'_>, found: &mut Vec<FieldError>) {
    if let Some((at, odd)) = list.iter().enumerate().find(|(_, v)| !v.is_object() && !v.is_null()) {
        let detail = "must be an object for an array of list-type map";
        found.add(FieldError::invalid(Path::Index(path, at).to_string(), odd.clone(), detail));
        return;
    }
    if list.len() < 2 {
        return;
    }
    let identities: Vec<Value> = list
        .iter()
        .map(|element| {
            let field = |k: &str| Some((k.to_owned(), element.get(k)?.clone()));
            Value::Object(keys.iter().filter_map(|k| field(k)).collect::<Map<_, _>>())
        })
        .collect();
    repeated(identities.iter(), |at, identity| {
        found.add(FieldError::duplicate(Path::Index(path, at).to_string(), identity.clone()));
    });
}

/// Calls with the second occurrence of each value that occurs more than once.
fn repeated<'v>(
    values: impl ExactSizeIterator<Item = &'v Value>,
    mut again: impl FnMut(usize, &'v Value),
) {
    if values.len() < 2 {
        return;
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (at, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            again(at, value);
        }
    }
}
