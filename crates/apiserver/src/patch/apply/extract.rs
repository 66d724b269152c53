//! The field set of an object.

use serde_json::Value;

use super::element::Element;
use super::fieldset::FieldSet;
use super::place::{Place, Shape, grouped};

/// Which of the containers on the way are members themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Containers {
    /// Those that exist by being named: list elements and keys of maps. For what
    /// somebody applies.
    Named,
    /// All of them. For what appears or disappears as a whole.
    All,
}

/// The paths below a value.
pub(super) fn fields(
    value: &Value,
    place: Place<'_>,
    containers: Containers,
    depth: usize,
) -> FieldSet {
    let mut set = FieldSet::new();
    match (place.shape(value, depth), value) {
        (Shape::Map, Value::Object(map)) => {
            for (name, child) in map {
                if place.ignores(name) {
                    continue;
                }
                let inside = place.field(name);
                let below = fields(child, inside, containers, depth + 1);
                let member = containers == Containers::All
                    || inside.shape(child, depth + 1) == Shape::Leaf
                    || child.as_object().is_some_and(|m| m.is_empty())
                    || !place.declares(name);
                // Metadata is everybody's; only what is in it can be owned.
                let member = member && !matches!(inside, Place::Meta(_));
                set.push(Element::field(name), member, below);
            }
        }
        (shape @ (Shape::Set | Shape::Keyed(_)), Value::Array(list)) => {
            let items = place.items();
            for (element, values) in grouped(list, shape, items) {
                let below = match values.as_slice() {
                    [only] => fields(only, items, containers, depth + 1),
                    _ => FieldSet::new(),
                };
                set.push(element, true, below);
            }
        }
        _ => {}
    }
    set
}
