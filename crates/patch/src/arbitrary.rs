//! Arbitrary JSON for property tests, with few names so that values collide often.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value;

/// Words that mean something to one of the patch types, and some that do not.
const WORDS: [&str; 14] = [
    "name",
    "a",
    "b",
    "spec",
    "metadata",
    "containers",
    "$patch",
    "replace",
    "delete",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "finalizers",
    "managedFields",
];

fn word() -> impl Strategy<Value = String> {
    proptest::sample::select(&WORDS[..]).prop_map(str::to_owned)
}

/// Any JSON value, small.
pub fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0i64..4).prop_map(Value::from),
        Just(Value::from(1.5)),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(word(), inner, 0..4).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

/// Any JSON object, small.
pub fn object() -> impl Strategy<Value = Value> {
    btree_map(word(), value(), 0..5).prop_map(|m| m.into_iter().collect())
}
