//! JSON merge patch, RFC 7386: objects are merged, `null` removes, all else replaces.

use serde_json::{Map, Value};

use crate::depth::{MAX_DEPTH, fits};
use crate::refused::PatchError;

/// Applies a merge patch. The patch must be an object, as the result must be one.
pub fn merge(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    check(current, patch)?;
    Ok(merged(current, patch.clone()))
}

/// The same with a patch that is not needed again: nothing of it is copied.
pub fn merge_owned(current: &Value, patch: Value) -> Result<Value, PatchError> {
    check(current, &patch)?;
    Ok(merged(current, patch))
}

fn check(current: &Value, patch: &Value) -> Result<(), PatchError> {
    if !patch.is_object() {
        return Err(PatchError::Malformed("Invalid JSON Patch".to_owned()));
    }
    if !fits(current, MAX_DEPTH) || !fits(patch, MAX_DEPTH) {
        return Err(PatchError::too_deep());
    }
    Ok(())
}

/// Copies only what stays: a status is mostly replaced whole.
fn merged(current: &Value, patch: Value) -> Value {
    let Value::Object(changes) = patch else { return patch };
    let nothing = Map::new();
    let fields = current.as_object().unwrap_or(&nothing);
    let kept = fields.iter().filter(|(name, _)| !changes.contains_key(*name));
    let mut all: Map<String, Value> =
        kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    let changed = changes.into_iter().filter(|(_, change)| !change.is_null());
    all.extend(changed.map(|(name, change)| {
        let value = merged(fields.get(&name).unwrap_or(&Value::Null), change);
        (name, value)
    }));
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    use crate::arbitrary::{object, value};

    #[test]
    fn the_examples_of_the_rfc_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (current, patch, result) in cases {
            assert_eq!(merge(&current, &patch), Ok(result), "{current} patched by {patch}");
        }
    }

    #[test]
    fn a_patch_that_is_no_object_is_malformed() {
        for patch in [json!([]), json!("a"), json!(null), json!(3)] {
            let refused = merge(&json!({}), &patch);
            assert_eq!(refused, Err(PatchError::Malformed("Invalid JSON Patch".into())));
        }
    }

    #[test]
    fn bottomless_values_are_refused() {
        let deep = (0..200).fold(json!({}), |inner, _| json!({"a": inner}));
        assert_eq!(merge(&json!({}), &deep), Err(PatchError::too_deep()));
        assert_eq!(merge(&deep, &json!({})), Err(PatchError::too_deep()));
    }

    /// No value within carries `null`, which a merge patch cannot express.
    fn without_null(value: &Value) -> Value {
        match value {
            Value::Object(map) => map
                .iter()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k.clone(), without_null(v)))
                .collect(),
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn patching_twice_is_patching_once(current in value(), patch in object()) {
            let once = merge(&current, &patch).unwrap();
            prop_assert_eq!(merge(&once, &patch).unwrap(), once);
        }

        #[test]
        fn an_empty_patch_changes_no_object(current in object()) {
            prop_assert_eq!(merge(&current, &json!({})).unwrap(), current);
        }

        #[test]
        fn a_patch_upon_nothing_is_itself_without_nulls(patch in object()) {
            prop_assert_eq!(merge(&json!({}), &patch).unwrap(), without_null(&patch));
        }
    }
}
