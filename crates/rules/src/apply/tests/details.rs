//! How differences are told.

use flagship_api::placement_status::PatchDetail;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::apply::diff::{MOST_DETAILS, details};

/// Each difference as `path member|hub`.
fn told(hub: Value, member: Value) -> Vec<String> {
    let one = |PatchDetail { path, value_in_member, value_in_hub }: PatchDetail| {
        format!("{path} {value_in_member}|{value_in_hub}")
    };
    details(&hub, &member).unwrap().into_iter().map(one).collect()
}

// checklist 6.6
#[test]
fn fields_are_added_removed_and_replaced() {
    assert_eq!(
        told(json!({"gone": 1, "same": 2, "other": 3}), json!({"new": 4, "same": 2, "other": 5})),
        ["/gone |1", "/new 4|", "/other 5|3"]
    );
    assert_eq!(
        told(json!({"a": {"b": {"c": 1}}}), json!({"a": {"b": {"c": 2, "d": 3}}})),
        ["/a/b/c 2|1", "/a/b/d 3|"]
    );
    assert_eq!(told(json!({"a": {"b": 1}}), json!({"a": [1]})), ["/a [1]|map[b:1]"]);
    assert_eq!(told(json!({"a/b": 1, "c~d": 2}), json!({})), ["/a~1b |1", "/c~0d |2"]);
}

// checklist 6.6
#[test]
fn lists_are_compared_place_by_place() {
    assert_eq!(
        told(json!({"l": [1, 2]}), json!({"l": [1, 3, 4, 5]})),
        ["/l/1 3|2", "/l/- 4|", "/l/- 5|"]
    );
    // What was at the end and is gone comes first, each with its own value.
    assert_eq!(
        told(json!({"l": ["a", "b", "c", "d"]}), json!({"l": ["x", "b"]})),
        ["/l/2 |c", "/l/3 |d", "/l/0 x|a"]
    );
    assert_eq!(told(json!({"l": [{"n": 1}]}), json!({"l": [{"n": 2}]})), ["/l/0/n 2|1"]);
}

// checklist 6.6
#[test]
fn values_are_printed_as_people_read_them() {
    let value = |value: Value| told(json!({"k": "?"}), json!({ "k": value })).remove(0);
    for (json, text) in [
        (json!("bare text"), "bare text"),
        (json!(true), "true"),
        (json!(false), "false"),
        (json!(null), "<nil>"),
        (json!(7), "7"),
        (json!(1.5), "1.5"),
        (json!(2.0), "2"),
        (json!(1_000_000), "1000000"),
        (json!(1_234_567_890_123_i64), "1234567890123"),
        (json!({"b": [1, "x"], "a": {"c": null}}), "map[a:map[c:<nil>] b:[1 x]]"),
        (json!([]), "[]"),
    ] {
        assert_eq!(value(json), format!("/k {text}|?"));
    }
    // The same on the side of the hub.
    assert_eq!(told(json!({"n": 5_000_000}), json!({"n": 6_000_000})), ["/n 6000000|5000000"]);
}

#[test]
fn numbers_are_compared_by_value() {
    let none = Vec::<String>::new();
    assert_eq!(told(json!({"n": 3}), json!({"n": 3.0})), none);
    assert_eq!(told(json!({"n": u64::MAX}), json!({"n": u64::MAX})), none);
    assert_eq!(
        told(json!({"n": 9_007_199_254_740_993_i64}), json!({"n": 9_007_199_254_740_992_i64}))
            .len(),
        1
    );
    assert_eq!(told(json!({"n": 3}), json!({"n": "3"})), ["/n 3|3"]);
}

// checklist 6.6
#[test]
fn only_the_first_hundred_are_told() {
    let many = |from: usize| -> Value {
        (from..from + 150).map(|n| (format!("k{n:03}"), Value::from(n))).collect()
    };
    let all = told(many(0), json!({}));
    assert_eq!(all.len(), MOST_DETAILS);
    assert_eq!((all[0].as_str(), all[99].as_str()), ("/k000 |0", "/k099 |99"));
    let list: Vec<usize> = (0..150).collect();
    assert_eq!(told(json!({"l": []}), json!({ "l": list })).len(), MOST_DETAILS);
}

#[test]
fn bottomless_objects_are_refused() {
    let deep = (0..200).fold(json!(1), |inner, _| json!({"a": inner}));
    assert_eq!(
        details(&deep, &json!({})),
        Err("an object nests deeper than 127 levels".to_owned())
    );
    assert!(details(&json!({}), &deep).is_err());
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(value in flagship_patch::arbitrary::value()) {
        prop_assert_eq!(details(&value, &value).unwrap(), vec![]);
    }

    #[test]
    fn different_objects_differ_somewhere(
        hub in flagship_patch::arbitrary::object(),
        member in flagship_patch::arbitrary::object(),
    ) {
        let found = details(&hub, &member).unwrap();
        prop_assert_eq!(found.is_empty(), hub == member);
        prop_assert!(found.iter().all(|one| one.path.starts_with('/')));
    }
}
