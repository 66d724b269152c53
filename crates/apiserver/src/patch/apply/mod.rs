//! Server-side apply: merging configurations of many managers into one object.
//!
//! [`apply`] lays a configuration over the live object, removes what its manager
//! applied before and left out now, and refuses to change what others own unless
//! forced. [`record_update`] keeps the books for every other kind of write. Ownership
//! is a [`FieldSet`] per manager in `metadata.managedFields`.
//!
//! Neither knows which fields an endpoint may write: `rest` takes `status` out of
//! what is applied to the object itself, and all but `status` on its subresource.

mod check;
mod compare;
mod conflict;
mod element;
mod extract;
mod fieldset;
mod fresh;
mod last_applied;
mod managers;
mod merge;
mod place;
mod prune;
mod update;

use std::borrow::Cow;

use flagship_patch::{MAX_DEPTH, fits};
use flagship_schema::NodeRef;
use serde_json::{Map, Value};

use self::compare::compare;
pub use self::conflict::{ApplyError, Conflict};
pub use self::element::Element;
use self::extract::{Containers, fields};
pub use self::fieldset::FieldSet;
use self::fresh::fresh;
pub use self::managers::Manager;
use self::managers::{Entry, Operation};
use self::place::Place;
use self::prune::Owners;
pub use self::update::record_update;
use self::update::{managed, put_managed};

/// Who owns the fields of an object that was never tracked when it is first applied to.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// What an apply leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The object to store, `managedFields` included.
    pub object: Value,
    /// Whether it differs from the live one.
    pub changed: bool,
}

/// The field set of an object: what it would own if it were applied.
pub fn field_set(object: &Value, schema: Option<NodeRef<'_>>) -> FieldSet {
    if !fits(object, MAX_DEPTH) {
        return FieldSet::new();
    }
    fields(object, Place::Root(schema), Containers::Named, 0)
}

/// Applies a configuration. `live` is `None` where the object does not exist yet.
///
/// The result is to be defaulted and validated like any other write; what defaulting
/// fills in then belongs to nobody. A `uid` or `resourceVersion` in the configuration
/// stands in the result as it was sent, for the caller to compare. Equal values are
/// shared; an apply that changes neither object nor ownership gives back the live
/// object exactly, times included.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    manager: &Manager<'_>,
    force: bool,
    schema: Option<NodeRef<'_>>,
) -> Result<Applied, ApplyError> {
    let root = Place::Root(schema);
    admit(applied, manager, root)?;
    let nothing = Value::Object(Map::new());
    let before = live.unwrap_or(&nothing);
    if !fits(before, MAX_DEPTH) {
        return Err(ApplyError::BadRequest("the object nests too deep".to_owned()));
    }
    let mut entries = managers::read(Cow::Borrowed(managed(before)), true).unwrap_or_default();
    if entries.is_empty() && live.is_some() {
        let untracked = Manager { name: BEFORE_FIRST_APPLY, subresource: "", ..*manager };
        entries = update::recorded(&fresh(before), before, entries, &untracked, schema);
    }
    let own = entries.iter().position(|e| e.is(manager, Operation::Apply));
    let own = own.map(|at| entries.remove(at));
    let set = fields(applied, root, Containers::Named, 0);
    let written = set.to_map();
    let moved = own.as_ref().is_none_or(|entry| !entry.is_written_as(&written));
    let mut object = merge::merge(update::without_managed(before), applied, root, 0);
    if let (Some(own), true) = (&own, moved) {
        let last = own.read();
        let owners = entries.iter_mut().map(|entry| &*entry.set());
        let owners = Owners(owners.chain([&set]).collect());
        prune::prune(&mut object, root, &last, &owners);
    }
    let (touched, removed) = compare(before, &object, root).into_touched();
    if !force {
        let mut conflicts = conflicts(&entries, &touched);
        if !conflicts.is_empty() && manager.name == last_applied::KUBECTL {
            let allowed = last_applied::still_as_applied(before, manager.api_version, root);
            conflicts.retain(|(_, path)| !allowed.contains(path));
        }
        if !conflicts.is_empty() {
            let printed =
                conflicts.into_iter().map(|(at, path)| Conflict::new(&entries[at], &path));
            return Err(ApplyError::Conflicts(printed.collect()));
        }
    }
    for entry in &mut entries {
        entry.lose(&touched);
        entry.lose(&removed);
    }
    if has_null(applied) {
        drop_nulls(&mut object, root);
    }
    if manager.name == last_applied::KUBECTL {
        last_applied::follow(&mut object, applied);
    }
    let unchanged = live.is_some_and(|live| same_but_managed(live, &object));
    if !written.is_empty() {
        entries.push(match own {
            Some(own) if unchanged && !moved => own.in_version(manager.api_version),
            // Its time is that of the last apply that changed the object; there may be none.
            own if unchanged => {
                let mut entry = Entry::new(manager, Operation::Apply, written);
                entry.time = own.and_then(|own| own.time);
                entry
            }
            _ => Entry::new(manager, Operation::Apply, written),
        });
    }
    put_managed(&mut object, managers::write(entries));
    let changed = !unchanged || managed(before) != managed(&object);
    Ok(Applied { object, changed })
}

/// Refuses what cannot be applied at all.
fn admit(applied: &Value, manager: &Manager<'_>, root: Place<'_>) -> Result<(), ApplyError> {
    let refuse = |says: String| Err(ApplyError::BadRequest(says));
    if !applied.is_object() || !fits(applied, MAX_DEPTH) {
        return refuse("the applied configuration must be an object".to_owned());
    }
    if applied.get("metadata").is_some_and(|m| !m.is_object() && !m.is_null()) {
        return refuse("metadata must be a map".to_owned());
    }
    if !managed(applied).is_null() {
        return refuse("metadata.managedFields must be nil".to_owned());
    }
    let version = applied["apiVersion"].as_str().unwrap_or_default();
    if version != manager.api_version {
        return refuse(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {}",
            manager.api_version
        ));
    }
    check::check(applied, root).map_err(|findings| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &applied["metadata"];
        ApplyError::Untyped(format!(
            "failed to create typed patch object ({}/{}; {version}, Kind={}): {findings}",
            text(&metadata["namespace"]),
            text(&metadata["name"]),
            text(&applied["kind"]),
        ))
    })
}

/// What others own among the fields that get a new value: (whose entry, path).
fn conflicts(entries: &[Entry<'_>], touched: &FieldSet) -> Vec<(usize, Vec<Element>)> {
    let mut found = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let both = entry.shared_with(touched);
        found.extend(both.paths().into_iter().map(|path| (at, path)));
    }
    found.sort_by(|(a, _), (b, _)| entries[*a].manager.cmp(&entries[*b].manager));
    found
}

fn same_but_managed(live: &Value, object: &Value) -> bool {
    let (Value::Object(live), Value::Object(object)) = (live, object) else { return false };
    live.len() == object.len()
        && live.iter().all(|(name, value)| match object.get(name) {
            Some(Value::Object(new)) if name == "metadata" => {
                let Value::Object(old) = value else { return false };
                let old = old.iter().filter(|(name, _)| *name != "managedFields");
                old.clone().count() == new.len()
                    && old.into_iter().all(|(k, v)| new.get(k) == Some(v))
            }
            Some(new) => new == value,
            None => false,
        })
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().any(has_null),
        Value::Array(list) => list.iter().any(has_null),
        _ => false,
    }
}

/// Removes the nulls that a configuration brought where null is no value.
fn drop_nulls(value: &mut Value, place: Place<'_>) {
    match value {
        Value::Object(map) => {
            map.retain(|name, child| !child.is_null() || place.field(name).keeps_null());
            for (name, child) in map.iter_mut() {
                drop_nulls(child, place.field(name));
            }
        }
        Value::Array(list) => {
            let items = place.items();
            list.iter_mut().for_each(|item| drop_nulls(item, items));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
