//! What to say of a list that is merged element by element.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Fields, Style, compare_maps, retain_keys};
use crate::refused::PatchError;
use crate::shape::Shape;
use crate::strategic::lists::{Kind, element_kind, identity};

/// Adds to `patch` what leads the list `name` from `is` to `wish`.
pub(super) fn compare<S: Shape>(
    name: &str,
    was: &[Value],
    wish: &[Value],
    is: &[Value],
    shape: Option<S>,
    patch: &mut Fields,
) -> Result<(), PatchError> {
    if wish == is {
        return Ok(());
    }
    if is.is_empty() {
        patch.insert(name.to_owned(), Value::Array(wish.to_vec()));
        return Ok(());
    }
    let key = match element_kind(was.iter().chain(wish).chain(is))? {
        Some(Kind::Map) => match shape.as_ref().and_then(Shape::merge_key) {
            Some(key) => Some(key),
            None => {
                patch.insert(name.to_owned(), Value::Array(wish.to_vec()));
                return Ok(());
            }
        },
        _ => None,
    };
    let (was, wish, is) = (List::new(was, key)?, List::new(wish, key)?, List::new(is, key)?);
    if wish.repeats() || is.repeats() {
        // A key that stands there twice cannot be merged by; only the whole can be said.
        if wish.ids != is.ids || wish.items != is.items {
            replace(name, &wish, key, patch);
        }
        return Ok(());
    }
    let mut changes = Vec::new();
    for (id, item) in wish.each() {
        match (key, is.find(id)) {
            (_, None) => changes.push(item.clone()),
            (Some(key), Some(present)) => {
                let change = compare_elements(key, was.find(id), item, present, shape)?;
                changes.extend(change.map(Value::Object));
            }
            (None, Some(_)) => {}
        }
    }
    let gone = was.each().filter(|(id, _)| wish.find(id).is_none() && is.find(id).is_some());
    let mut deletions = Vec::new();
    for (_, item) in gone {
        match key {
            Some(key) => changes.push(json!({key: item[key], "$patch": "delete"})),
            None => deletions.push(item.clone()),
        }
    }
    let order = is.ids.iter().filter(|id| wish.find(id).is_some());
    let disordered = !order.eq(wish.ids.iter());
    if disordered || !changes.is_empty() || !deletions.is_empty() {
        let order: Vec<Value> = wish.each().map(|(_, item)| named(item, key)).collect();
        if !order.is_empty() {
            patch.insert(format!("$setElementOrder/{name}"), Value::Array(order));
        }
    }
    if !changes.is_empty() {
        patch.insert(name.to_owned(), Value::Array(changes));
    }
    if !deletions.is_empty() {
        patch.insert(format!("$deleteFromPrimitiveList/{name}"), Value::Array(deletions));
    }
    Ok(())
}

/// The patch of one element, with its key; `None` if it is as it should be.
fn compare_elements<S: Shape>(
    key: &str,
    was: Option<&Value>,
    wish: &Value,
    is: &Value,
    list: Option<S>,
) -> Result<Option<Fields>, PatchError> {
    let (Value::Object(wish), Value::Object(is)) = (wish, is) else { return Ok(None) };
    let nothing = Map::new();
    let was = was.and_then(Value::as_object).unwrap_or(&nothing);
    let items = list.and_then(Shape::items);
    let mut change = compare_maps(was, wish, is, Style::Strategic(items))?;
    // A list may ask for retained keys on behalf of its elements.
    if list.is_some_and(Shape::retains_keys) {
        retain_keys(&mut change, wish, is, true);
    }
    if change.is_empty() {
        return Ok(None);
    }
    change.insert(key.to_owned(), wish.get(key).cloned().unwrap_or_default());
    Ok(Some(change))
}

fn named(item: &Value, key: Option<&str>) -> Value {
    match key {
        Some(key) => json!({key: item[key]}),
        None => item.clone(),
    }
}

fn replace(name: &str, wish: &List<'_>, key: Option<&str>, patch: &mut Fields) {
    let mut items = wish.items.to_vec();
    if key.is_some() {
        items.push(json!({"$patch": "replace"}));
        patch.insert(name.to_owned(), Value::Array(items));
        return;
    }
    // Values that stand there twice are merged into one either way.
    let mut seen = BTreeSet::new();
    items.retain(|item| seen.insert(item.to_string()));
    patch.insert(format!("$setElementOrder/{name}"), Value::Array(items.clone()));
    patch.insert(name.to_owned(), Value::Array(items));
}

/// A list with its elements indexed by identity.
struct List<'a> {
    items: &'a [Value],
    ids: Vec<String>,
    index: BTreeMap<String, usize>,
}

impl<'a> List<'a> {
    fn new(items: &'a [Value], key: Option<&str>) -> Result<Self, PatchError> {
        let ids: Vec<String> = items.iter().map(|i| identity(i, key)).collect::<Result<_, _>>()?;
        let index = ids.iter().enumerate().rev().map(|(at, id)| (id.clone(), at)).collect();
        Ok(Self { items, ids, index })
    }

    fn repeats(&self) -> bool {
        self.index.len() < self.items.len()
    }

    fn find(&self, id: &str) -> Option<&'a Value> {
        self.index.get(id).map(|at| &self.items[*at])
    }

    fn each(&self) -> impl Iterator<Item = (&str, &'a Value)> {
        self.ids.iter().map(String::as_str).zip(self.items)
    }
}
