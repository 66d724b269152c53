//! What changed between two versions of an object, as field sets.

use serde_json::{Map, Value};

use super::element::Element;
use super::extract::{Containers, fields};
use super::fieldset::FieldSet;
use super::place::{Place, Shape, grouped};

/// The difference between two objects. Order within keyed lists does not count.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Delta {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Delta {
    /// What was given a value: added or modified.
    pub(super) fn into_touched(self) -> (FieldSet, FieldSet) {
        let Self { added, modified: mut touched, removed } = self;
        touched.union_with(added);
        (touched, removed)
    }

    fn put(&mut self, element: Element, changed: bool, below: Delta) {
        if !below.added.is_empty() {
            self.added.push(element.clone(), false, below.added);
        }
        if !below.removed.is_empty() {
            self.removed.push(element.clone(), false, below.removed);
        }
        if changed || !below.modified.is_empty() {
            self.modified.push(element, changed, below.modified);
        }
    }

    fn add(&mut self, element: Element, value: &Value, place: Place<'_>, depth: usize) {
        let member = !matches!(place, Place::Meta(_));
        self.added.push(element, member, fields(value, place, Containers::All, depth));
    }

    fn remove(&mut self, element: Element, value: &Value, place: Place<'_>, depth: usize) {
        let member = !matches!(place, Place::Meta(_));
        self.removed.push(element, member, fields(value, place, Containers::All, depth));
    }
}

/// Compares two whole objects.
pub(super) fn compare(old: &Value, new: &Value, place: Place<'_>) -> Delta {
    compare_at(old, new, place, 0).1
}

/// Whether the place itself changed as a leaf, and what changed below it.
fn compare_at(old: &Value, new: &Value, place: Place<'_>, depth: usize) -> (bool, Delta) {
    let shapes = (place.shape(old, depth), place.shape(new, depth));
    let empty = Map::new();
    let mut delta = Delta::default();
    match (shapes, old, new) {
        ((Shape::Map, _) | (_, Shape::Map), Value::Object(o), Value::Object(n))
            if !o.is_empty() || !n.is_empty() =>
        {
            compare_maps(o, n, place, depth, &mut delta);
            (false, delta)
        }
        ((shape @ (Shape::Set | Shape::Keyed(_)), _), Value::Array(o), Value::Array(n)) => {
            compare_lists(o, n, shape, place, depth, &mut delta);
            (false, delta)
        }
        // Null in place of a container counts as an empty one.
        ((_, Shape::Map), Value::Null, Value::Object(n)) if !n.is_empty() => {
            compare_maps(&empty, n, place, depth, &mut delta);
            (false, delta)
        }
        ((Shape::Map, _), Value::Object(o), Value::Null) if !o.is_empty() => {
            compare_maps(o, &empty, place, depth, &mut delta);
            (false, delta)
        }
        ((_, shape @ (Shape::Set | Shape::Keyed(_))), Value::Null, Value::Array(n))
            if !n.is_empty() =>
        {
            compare_lists(&[], n, shape, place, depth, &mut delta);
            (false, delta)
        }
        ((shape @ (Shape::Set | Shape::Keyed(_)), _), Value::Array(o), Value::Null)
            if !o.is_empty() =>
        {
            compare_lists(o, &[], shape, place, depth, &mut delta);
            (false, delta)
        }
        ((Shape::Leaf, Shape::Leaf), _, _) => (!same(old, new), delta),
        // A container became something else, or the other way round.
        _ => {
            delta.removed = fields(old, place, Containers::All, depth);
            delta.added = fields(new, place, Containers::All, depth);
            (!same(old, new), delta)
        }
    }
}

fn compare_maps(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    place: Place<'_>,
    depth: usize,
    delta: &mut Delta,
) {
    for (name, value) in new {
        if place.ignores(name) {
            continue;
        }
        let inside = place.field(name);
        match old.get(name) {
            // Most of an object stays as it was, and that is seen without asking its schema.
            Some(before) if before == value => {}
            Some(before) => {
                let (changed, below) = compare_at(before, value, inside, depth + 1);
                if changed || below != Delta::default() {
                    delta.put(Element::field(name), changed, below);
                }
            }
            None => delta.add(Element::field(name), value, inside, depth + 1),
        }
    }
    for (name, value) in old {
        if !new.contains_key(name) && !place.ignores(name) {
            delta.remove(Element::field(name), value, place.field(name), depth + 1);
        }
    }
}

fn compare_lists(
    old: &[Value],
    new: &[Value],
    shape: Shape<'_>,
    place: Place<'_>,
    depth: usize,
    delta: &mut Delta,
) {
    // Telling elements apart costs more than seeing that nothing changed.
    if old == new {
        return;
    }
    let items = place.items();
    let mut before = grouped(old, shape, items);
    for (element, values) in grouped(new, shape, items) {
        match (before.remove(&element).as_deref(), values.as_slice()) {
            (Some([was]), [is]) => {
                let (changed, below) = compare_at(was, is, items, depth + 1);
                delta.put(element, changed, below);
            }
            (Some(were), are) => {
                let equal =
                    were.len() == are.len() && were.iter().zip(are).all(|(a, b)| same(a, b));
                delta.put(element, !equal, Delta::default());
            }
            (None, [is]) => delta.add(element, is, items, depth + 1),
            (None, _) => delta.added.push(element, true, FieldSet::new()),
        }
    }
    for (element, values) in before {
        match values.as_slice() {
            [was] => delta.remove(element, was, items, depth + 1),
            _ => delta.removed.push(element, true, FieldSet::new()),
        }
    }
}

/// Equality that does not tell `1` from `1.0`.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || x.as_f64() == y.as_f64() && (x.is_f64() || y.is_f64())
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, x)| y.get(k).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}
