//! The directives of a strategic merge patch: found, checked, and kept out of the result.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::ListChange;
use crate::printed::short as printed;
use crate::refused::PatchError;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";

/// What `$patch` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// Take the patch as it stands.
    Replace,
    /// Remove what is there.
    Delete,
    /// Merge, which is the default everywhere.
    Merge,
}

/// All directives of one map of a patch.
#[derive(Default)]
pub(super) struct Directives<'a> {
    pub(super) whole: Option<Whole>,
    pub(super) retain: Option<BTreeSet<&'a str>>,
    orders: BTreeMap<&'a str, &'a [Value]>,
    deletions: BTreeMap<&'a str, &'a [Value]>,
}

impl<'a> Directives<'a> {
    pub(super) fn of(patch: &'a Map<String, Value>) -> Result<Self, PatchError> {
        let mut found = Self { whole: whole(patch)?, ..Self::default() };
        for (key, value) in patch.iter().filter(|(key, _)| key.starts_with('$')) {
            if key.starts_with(ORDER) {
                let wrong = "invalid patch format of setElementOrder list";
                let (name, list) = named_list(key, ORDER, value, wrong)?;
                found.orders.insert(name, list);
            } else if key.starts_with(DELETE_FROM) {
                let wrong = "invalid patch format of primitive list";
                let (name, list) = named_list(key, DELETE_FROM, value, wrong)?;
                found.deletions.insert(name, list);
            } else if key == RETAIN_KEYS {
                found.retain = Some(retained(patch, value)?);
            }
        }
        Ok(found)
    }

    /// The lists that a directive names.
    pub(super) fn lists(&self) -> impl Iterator<Item = &'a str> {
        let named: BTreeSet<_> = self.orders.keys().chain(self.deletions.keys()).copied().collect();
        named.into_iter()
    }

    pub(super) fn speaks_of(&self, name: &str) -> bool {
        self.orders.contains_key(name) || self.deletions.contains_key(name)
    }

    /// Everything the patch says of one list.
    pub(super) fn list(&self, name: &str, patch: Option<&'a [Value]>) -> ListChange<'a> {
        ListChange {
            patch,
            order: self.orders.get(name).copied(),
            deletions: self.deletions.get(name).copied().unwrap_or_default(),
        }
    }
}

/// What `$patch` says in this map.
pub(super) fn whole(patch: &Map<String, Value>) -> Result<Option<Whole>, PatchError> {
    match patch.get(PATCH) {
        None => Ok(None),
        Some(Value::String(s)) if s == "replace" => Ok(Some(Whole::Replace)),
        Some(Value::String(s)) if s == "delete" => Ok(Some(Whole::Delete)),
        Some(Value::String(s)) if s == "merge" => Ok(Some(Whole::Merge)),
        Some(other) => {
            let map = printed(&Value::Object(patch.clone()));
            let what = printed(other);
            Err(PatchError::Unknown(format!("unknown patch type: {what} in map: {map}")))
        }
    }
}

fn named_list<'a>(
    key: &'a str,
    directive: &str,
    value: &'a Value,
    wrong: &str,
) -> Result<(&'a str, &'a [Value]), PatchError> {
    let name = key.strip_prefix(directive).and_then(|rest| rest.strip_prefix('/'));
    match (name, value) {
        (Some(name), Value::Array(list)) if !name.is_empty() => Ok((name, list)),
        _ => Err(PatchError::Malformed(wrong.to_owned())),
    }
}

/// The names to keep. Everything the patch sets must be among them.
fn retained<'a>(
    patch: &Map<String, Value>,
    names: &'a Value,
) -> Result<BTreeSet<&'a str>, PatchError> {
    let wrong = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let names = names.as_array().ok_or_else(wrong)?;
    let keep: Option<BTreeSet<&str>> = names.iter().map(Value::as_str).collect();
    let keep = keep.ok_or_else(wrong)?;
    let set = patch.iter().filter(|(name, value)| !value.is_null() && !is_directive(name));
    for (name, _) in set {
        if !keep.contains(name.as_str()) {
            return Err(wrong());
        }
    }
    Ok(keep)
}

/// Whether a key of a patch is a directive rather than a field.
pub(super) fn is_directive(name: &str) -> bool {
    name.starts_with('$')
        && (name == PATCH
            || name == RETAIN_KEYS
            || name.starts_with(ORDER)
            || name.starts_with(DELETE_FROM))
}

/// A value that the patch brings as new: without directives, and without the nulls
/// that would have removed something. `None` if it asks for its own deletion.
pub(super) fn without(value: &Value) -> Result<Option<Value>, PatchError> {
    match value {
        Value::Object(map) => match whole(map)? {
            Some(Whole::Delete) => Ok(None),
            _ => Ok(Some(Value::Object(fields_without(map)?))),
        },
        Value::Array(list) => {
            let mut kept = Vec::with_capacity(list.len());
            for item in list {
                match item {
                    // In a list these two are instructions about it, not elements of it.
                    Value::Object(map)
                        if matches!(whole(map)?, Some(Whole::Delete | Whole::Replace)) => {}
                    Value::Object(map) => kept.push(Value::Object(fields_without(map)?)),
                    other => kept.extend(without(other)?),
                }
            }
            Ok(Some(Value::Array(kept)))
        }
        scalar => Ok(Some(scalar.clone())),
    }
}

/// The fields of a new map, without directives and nulls.
pub(super) fn fields_without(map: &Map<String, Value>) -> Result<Map<String, Value>, PatchError> {
    let mut fields = Map::new();
    for (name, value) in map {
        if is_directive(name) || value.is_null() {
            continue;
        }
        if let Some(value) = without(value)? {
            fields.insert(name.clone(), value);
        }
    }
    Ok(fields)
}
