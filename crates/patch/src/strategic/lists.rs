//! Merging of lists: by merge key where elements are maps, by value where they are not.
//!
//! The order of the result is the part people notice. Elements that the patch names
//! stand in the order of the patch (or of `$setElementOrder`); the others keep the
//! order they had; where both are old, the old order decides who comes first. A new
//! element therefore comes before those that the patch does not mention.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::directives::{Whole, fields_without, whole, without};
use super::merge_map;
use crate::printed::short as printed;
use crate::refused::PatchError;
use crate::shape::Shape;

/// What a patch says of one list.
pub(super) struct ListChange<'a> {
    /// The elements to merge; `None` if the patch only carries directives.
    pub(super) patch: Option<&'a [Value]>,
    /// `$setElementOrder`.
    pub(super) order: Option<&'a [Value]>,
    /// `$deleteFromPrimitiveList`.
    pub(super) deletions: &'a [Value],
}

impl ListChange<'_> {
    /// Merges into `current`, which `schema` describes.
    pub(super) fn merge<S: Shape>(
        self,
        mut current: Vec<Value>,
        schema: Option<S>,
    ) -> Result<Value, PatchError> {
        if !schema.is_some_and(Shape::merges) {
            return match self.patch {
                Some(list) => replaced(list),
                None => Ok(Value::Array(current)),
            };
        }
        let patch = self.patch.unwrap_or_default();
        let kind = element_kind(current.iter().chain(patch))?;
        let Some(kind) = kind else { return Ok(Value::Array(current)) };
        let key = match (kind, schema.as_ref().and_then(Shape::merge_key)) {
            (Kind::Map, None) => {
                let says = "cannot merge lists without merge key for type struct";
                return Err(PatchError::Unmergeable(says.to_owned()));
            }
            (Kind::Map, Some(key)) => Some(key),
            (Kind::Scalar, _) => None,
        };
        if !self.deletions.is_empty() {
            let gone: BTreeSet<String> = self.deletions.iter().map(Value::to_string).collect();
            current.retain(|item| !gone.contains(&item.to_string()));
        }
        if let Some(order) = self.order {
            agrees(patch, order, key)?;
        }
        let old_order = positions(&current, key)?;
        let (merged, named) = match key {
            Some(key) => merge_maps(current, patch, key, schema.and_then(Shape::items))?,
            None => merge_scalars(current, patch),
        };
        let named = match self.order {
            Some(order) => positions(order, key)?,
            None => named,
        };
        let items = merged.into_iter().map(|item| identity(&item, key).map(|id| (id, item)));
        Ok(ordered(items.collect::<Result<_, _>>()?, &named, &old_order).into())
    }
}

fn replaced(list: &[Value]) -> Result<Value, PatchError> {
    let whole = Value::Array(list.to_vec());
    Ok(without(&whole)?.unwrap_or(Value::Array(Vec::new())))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Map,
    Scalar,
}

/// All elements must be of one type, and that not a list.
pub(crate) fn element_kind<'a>(
    items: impl Iterator<Item = &'a Value>,
) -> Result<Option<Kind>, PatchError> {
    let mut first: Option<&Value> = None;
    for item in items {
        if item.is_array() {
            return Err(PatchError::Unmergeable("lists of lists are not supported".to_owned()));
        }
        match first {
            None => first = Some(item),
            Some(seen) if std::mem::discriminant(seen) == std::mem::discriminant(item) => {}
            Some(seen) => {
                let both = printed(&Value::Array(vec![seen.clone(), item.clone()]));
                let says = format!("list element types are not identical: {both}");
                return Err(PatchError::Unmergeable(says));
            }
        }
    }
    Ok(first.map(|item| if item.is_object() { Kind::Map } else { Kind::Scalar }))
}

/// What tells an element from the others: its merge key, or itself.
pub(crate) fn identity(item: &Value, key: Option<&str>) -> Result<String, PatchError> {
    let Some(key) = key else { return Ok(item.to_string()) };
    match item.get(key) {
        Some(value) => Ok(value.to_string()),
        None => Err(no_merge_key(item, key)),
    }
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    let map = printed(item);
    PatchError::Unmergeable(format!("map: {map} does not contain declared merge key: {key}"))
}

/// The first position of each element.
fn positions(list: &[Value], key: Option<&str>) -> Result<BTreeMap<String, usize>, PatchError> {
    let mut found = BTreeMap::new();
    for (at, item) in list.iter().enumerate() {
        found.entry(identity(item, key)?).or_insert(at);
    }
    Ok(found)
}

/// `$setElementOrder` must name all that the patch sets, in the same order.
fn agrees(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch {
        if item.get("$patch").is_some() {
            continue;
        }
        let id = identity(item, key)?;
        let mut found = false;
        for candidate in rest.by_ref() {
            if identity(candidate, key)? == id {
                found = true;
                break;
            }
        }
        if !found {
            let patch = printed(&Value::Array(patch.to_vec()));
            let order = printed(&Value::Array(order.to_vec()));
            return Err(PatchError::Unmergeable(format!(
                "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

type Merged = (Vec<Value>, BTreeMap<String, usize>);

fn merge_scalars(current: Vec<Value>, patch: &[Value]) -> Merged {
    let mut seen = BTreeSet::new();
    let mut named = BTreeMap::new();
    for (at, item) in patch.iter().enumerate() {
        named.entry(item.to_string()).or_insert(at);
    }
    let mut merged = current;
    merged.extend_from_slice(patch);
    merged.retain(|item| seen.insert(item.to_string()));
    (merged, named)
}

/// Merges maps by key; also says which keys the patch names, and in what order.
fn merge_maps<S: Shape>(
    mut current: Vec<Value>,
    patch: &[Value],
    key: &str,
    schema: Option<S>,
) -> Result<Merged, PatchError> {
    let mut changes: Vec<&Map<String, Value>> = Vec::with_capacity(patch.len());
    let mut gone = BTreeSet::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(map) = item else { continue };
        match whole(map)? {
            Some(Whole::Replace) => replace = true,
            Some(Whole::Delete) => {
                gone.insert(identity(item, Some(key))?);
            }
            Some(Whole::Merge) | None => changes.push(map),
        }
    }
    if replace {
        // The rest of the patch is the list, duplicates included.
        let list = changes.into_iter().map(|map| fields_without(map).map(Value::Object));
        return Ok((list.collect::<Result<_, _>>()?, BTreeMap::new()));
    }
    if !gone.is_empty() {
        current.retain(|item| !item.get(key).is_some_and(|id| gone.contains(&id.to_string())));
    }
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    for (at, item) in current.iter().enumerate() {
        if let Some(id) = item.get(key) {
            index.entry(id.to_string()).or_insert(at);
        }
    }
    let mut named = BTreeMap::new();
    for change in changes {
        let Some(id) = change.get(key) else {
            return Err(no_merge_key(&Value::Object(change.clone()), key));
        };
        let id = id.to_string();
        let next = named.len();
        named.entry(id.clone()).or_insert(next);
        match index.get(&id) {
            Some(at) => {
                if let Value::Object(old) = std::mem::take(&mut current[*at]) {
                    // Merging is what a list element does anyway.
                    let merged = merge_map(old, change, schema)?;
                    current[*at] = Value::Object(merged);
                }
            }
            None => {
                index.insert(id, current.len());
                current.push(Value::Object(fields_without(change)?));
            }
        }
    }
    Ok((current, named))
}

/// Interleaves the elements that `named` orders with those that only `old` knows.
fn ordered(
    items: Vec<(String, Value)>,
    named: &BTreeMap<String, usize>,
    old: &BTreeMap<String, usize>,
) -> Vec<Value> {
    let (mut ours, theirs): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|(id, _)| named.contains_key(id));
    ours.sort_by_key(|(id, _)| named.get(id).copied());
    let mut result = Vec::with_capacity(ours.len() + theirs.len());
    let mut ours = ours.into_iter().peekable();
    for (their_id, their) in theirs {
        let their_place = old.get(&their_id);
        while let Some((id, _)) = ours.peek() {
            let comes_first = match (their_place, old.get(id)) {
                (Some(theirs), Some(ours)) => theirs < ours,
                _ => false,
            };
            if comes_first {
                break;
            }
            result.extend(ours.next().map(|(_, item)| item));
        }
        result.push(their);
    }
    result.extend(ours.map(|(_, item)| item));
    result
}
