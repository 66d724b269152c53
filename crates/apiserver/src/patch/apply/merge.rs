//! Lays an applied configuration over a live object, by schema.
//!
//! What the configuration does not mention stays. In keyed lists its elements stand
//! in its own order, and live elements that it leaves out keep their place between them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::element::Element;
use super::place::{Place, Shape, steps};

/// The merged value.
pub(super) fn merge(live: Value, applied: &Value, place: Place<'_>, depth: usize) -> Value {
    match (live, applied) {
        (Value::Object(mut live), Value::Object(changes))
            if place.shape(applied, depth) == Shape::Map =>
        {
            for (name, change) in changes {
                // Generated manifests say `creationTimestamp: null` and mean nothing by it.
                if change.is_null() && place.ignores(name) {
                    continue;
                }
                let merged = match live.remove(name) {
                    Some(old) => merge(old, change, place.field(name), depth + 1),
                    None => change.clone(),
                };
                live.insert(name.clone(), merged);
            }
            Value::Object(live)
        }
        (Value::Array(live), Value::Array(changes)) => match place.shape(applied, depth) {
            Shape::Leaf | Shape::Map => applied.clone(),
            shape => Value::Array(merge_lists(live, changes, shape, place.items(), depth)),
        },
        // To own a container without saying what is in it changes nothing in it.
        (live @ (Value::Object(_) | Value::Array(_)), Value::Null)
            if place.shape(&live, depth) != Shape::Leaf =>
        {
            live
        }
        _ => applied.clone(),
    }
}

fn merge_lists(
    live: Vec<Value>,
    changes: &[Value],
    shape: Shape<'_>,
    items: Place<'_>,
    depth: usize,
) -> Vec<Value> {
    let ids: Vec<Element> =
        steps(&live, shape, items).into_iter().map(|(element, _)| element).collect();
    let mut places: BTreeMap<&Element, usize> = BTreeMap::new();
    for (at, id) in ids.iter().enumerate() {
        places.entry(id).or_insert(at);
    }
    let changes = steps(changes, shape, items);
    let mentioned: BTreeSet<&Element> = changes.iter().map(|(element, _)| element).collect();
    let shared = changes.iter().enumerate().map(|(turn, (element, _))| (turn, element));
    let mut next = shared.filter(|(_, element)| places.contains_key(element)).peekable();
    let mut live: Vec<Option<Value>> = live.into_iter().map(Some).collect();
    let mut merged = Vec::with_capacity(live.len() + changes.len());
    let mut at = 0;
    for (turn, (element, change)) in changes.iter().enumerate() {
        // The next element that both have; live ones in front of it come out first.
        while next.peek().is_some_and(|(shared, _)| *shared < turn) {
            next.next();
        }
        let until = next.peek().map(|(_, id)| *id);
        while at < ids.len() && until != Some(&ids[at]) {
            if !mentioned.contains(&ids[at]) {
                merged.extend(live[at].take());
            }
            at += 1;
        }
        let own = places.get(element).and_then(|own| live[*own].take());
        merged.push(match own {
            Some(old) => merge(old, change, items, depth + 1),
            None => (*change).clone(),
        });
    }
    for (id, rest) in ids.iter().zip(&mut live) {
        if !mentioned.contains(id) {
            merged.extend(rest.take());
        }
    }
    merged
}
