//! Removes what a manager applied before and leaves out now.
//!
//! A field goes if the manager owned it and nobody owns it any more, the new
//! configuration included. A list element goes with all that is in it when its last
//! owner lets go, even if others own fields inside: they never said that it should exist.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::Element;
use super::fieldset::{FieldSet, Node};
use super::place::{Place, Shape, steps};

/// Whose word counts about what stays.
pub(super) struct Owners<'s>(pub(super) Vec<&'s FieldSet>);

impl<'s> Owners<'s> {
    fn at(&self, element: &Element) -> Vec<&'s Node> {
        self.0.iter().filter_map(|set| set.get(element)).collect()
    }
}

/// What is already decided about the place a walk has reached.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    /// The manager owned this or something around it.
    released: bool,
    /// Nobody owns this or something around it any more.
    ownerless: bool,
}

impl Fate {
    /// The fate of one child, and whether it is removed. A struct field counts as
    /// owned with anything in it; everything else only by itself.
    fn of(self, last: &Node, owners: &[&Node], named: bool) -> (Fate, bool) {
        let owned = |node: &Node| node.member || (named && !node.below.is_empty());
        let mine = owned(last);
        let released = self.released || mine;
        let ownerless = self.ownerless || (released && !owners.iter().any(|node| owned(node)));
        (Fate { released, ownerless }, mine && ownerless)
    }
}

/// Removes from `object` what is only in `last`.
pub(super) fn prune(object: &mut Value, root: Place<'_>, last: &FieldSet, owners: &Owners<'_>) {
    walk(object, root, last, owners, Fate::default(), 0);
}

fn walk(
    value: &mut Value,
    place: Place<'_>,
    last: &FieldSet,
    owners: &Owners<'_>,
    fate: Fate,
    depth: usize,
) {
    match (place.shape(value, depth), value) {
        (Shape::Map, Value::Object(map)) => {
            for node in last.nodes() {
                let Element::Field(name) = &node.element else { continue };
                let Some(child) = map.get_mut(&**name) else { continue };
                let inside = place.field(name);
                let around = owners.at(&node.element);
                let (next, gone) = fate.of(node, &around, place.declares(name));
                if gone && !matches!(inside, Place::Meta(_)) {
                    map.remove(&**name);
                    continue;
                }
                let before = size(child);
                let below = Owners(around.iter().map(|node| &node.below).collect());
                walk(child, inside, &node.below, &below, next, depth + 1);
                if before > 0 && size(child) == 0 {
                    map.remove(&**name);
                }
            }
        }
        (shape @ (Shape::Set | Shape::Keyed(_)), Value::Array(list)) => {
            let items = place.items();
            let mut places: BTreeMap<Element, Vec<usize>> = BTreeMap::new();
            for (at, (element, _)) in steps(list, shape, items).into_iter().enumerate() {
                places.entry(element).or_default().push(at);
            }
            let mut removed = Vec::new();
            for node in last.nodes() {
                let Some(found) = places.get(&node.element) else { continue };
                let around = owners.at(&node.element);
                let (next, gone) = fate.of(node, &around, false);
                if gone {
                    removed.extend_from_slice(found);
                } else if let [at] = found.as_slice() {
                    let below = Owners(around.iter().map(|node| &node.below).collect());
                    walk(&mut list[*at], items, &node.below, &below, next, depth + 1);
                }
            }
            removed.sort_unstable();
            let mut at = 0;
            list.retain(|_| {
                at += 1;
                removed.binary_search(&(at - 1)).is_err()
            });
        }
        _ => {}
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.len(),
        Value::Array(list) => list.len(),
        _ => 0,
    }
}
