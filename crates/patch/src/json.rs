//! JSON patch, RFC 6902, with bounds on what a hostile patch may cost.
//!
//! Operations are applied one by one to a copy, so a refusal leaves nothing behind.
//! Before each, the crate that applies it is spared three bombs: copies that double
//! the document, values nested without end, and long lists shifted again and again.

use json_patch::jsonptr::Pointer;
use json_patch::{Patch, PatchErrorKind, PatchOperation};
use serde_json::Value;

use crate::depth::{MAX_DEPTH, fits};
use crate::refused::PatchError;

/// How many operations one patch may carry.
pub const MAX_OPERATIONS: usize = 10_000;
/// How many bytes `copy` may add in all; as much as a request body may have.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// How many list elements all operations together may push aside.
const MAX_SHIFTED: usize = 50_000_000;

/// Applies a JSON patch: a list of operations.
pub fn json(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let count = patch.as_array().map_or(0, Vec::len);
    if count > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        )));
    }
    let operations: Patch = serde::Deserialize::deserialize(patch)
        .map_err(|e: serde_json::Error| PatchError::Malformed(e.to_string()))?;
    if !fits(current, MAX_DEPTH) {
        return Err(PatchError::too_deep());
    }
    let mut result = current.clone();
    let mut spent = Spent::default();
    for operation in &operations.0 {
        spent.allow(&result, operation)?;
        apply(&mut result, operation)?;
    }
    Ok(result)
}

fn apply(document: &mut Value, operation: &PatchOperation) -> Result<(), PatchError> {
    // A missing field equals null: clients test for absence that way.
    if let PatchOperation::Test(test) = operation
        && test.value.is_null()
        && document.pointer(test.path.as_str()).is_none()
    {
        return Ok(());
    }
    json_patch::patch_unsafe(document, std::slice::from_ref(operation)).map_err(|error| {
        let path = operation.path();
        PatchError::Misfit(match (error.kind, operation) {
            (PatchErrorKind::TestFailed, _) => format!("testing value {path} failed: test failed"),
            (PatchErrorKind::InvalidFromPointer, PatchOperation::Move(op)) => {
                format!("move operation does not apply: doc is missing from path: {}", op.from)
            }
            (PatchErrorKind::InvalidFromPointer, PatchOperation::Copy(op)) => {
                format!("copy operation does not apply: doc is missing from path: {}", op.from)
            }
            (PatchErrorKind::InvalidPointer, _) => {
                let verb = verb(operation);
                format!("{verb} operation does not apply: doc is missing path: \"{path}\"")
            }
            (kind, _) => format!("{} operation does not apply: {kind}", verb(operation)),
        })
    })
}

fn verb(operation: &PatchOperation) -> &'static str {
    match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    }
}

/// What the operations so far have cost beyond their own size.
#[derive(Default)]
struct Spent {
    copied: usize,
    shifted: usize,
}

impl Spent {
    /// Charges one operation, and refuses it when it would go too far.
    fn allow(&mut self, document: &Value, operation: &PatchOperation) -> Result<(), PatchError> {
        let path = operation.path();
        let placed = match operation {
            PatchOperation::Add(op) => Some(&op.value),
            PatchOperation::Replace(op) => Some(&op.value),
            PatchOperation::Copy(op) => document.pointer(op.from.as_str()),
            PatchOperation::Move(op) => {
                self.shift(document, &op.from)?;
                document.pointer(op.from.as_str())
            }
            PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
        };
        if let Some(value) = placed {
            let room = MAX_DEPTH.checked_sub(path.count()).ok_or_else(PatchError::too_deep)?;
            if !fits(value, room) {
                return Err(PatchError::too_deep());
            }
            if matches!(operation, PatchOperation::Copy(_)) {
                self.copy(value)?;
            }
        }
        if !matches!(operation, PatchOperation::Replace(_) | PatchOperation::Test(_)) {
            self.shift(document, path)?;
        }
        Ok(())
    }

    fn copy(&mut self, value: &Value) -> Result<(), PatchError> {
        self.copied += encoded_len(value, MAX_COPIED - self.copied);
        if self.copied > MAX_COPIED {
            return Err(PatchError::TooLarge(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MAX_COPIED}",
                self.copied
            )));
        }
        Ok(())
    }

    /// Inserting into or removing from a list moves what stands behind.
    fn shift(&mut self, document: &Value, path: &Pointer) -> Result<(), PatchError> {
        let Some((parent, last)) = path.split_back() else { return Ok(()) };
        let Some(Value::Array(list)) = document.pointer(parent.as_str()) else { return Ok(()) };
        let at = last.decoded().parse().unwrap_or(list.len());
        self.shifted += list.len().saturating_sub(at);
        if self.shifted > MAX_SHIFTED {
            return Err(PatchError::TooLarge("the patch moves too many list elements".to_owned()));
        }
        Ok(())
    }
}

/// The length of a value as JSON, roughly; stops counting somewhere beyond `limit`.
fn encoded_len(value: &Value, limit: usize) -> usize {
    let mut total = 2;
    match value {
        Value::String(s) => total += s.len(),
        Value::Array(list) => {
            for item in list {
                if total > limit {
                    break;
                }
                total += 1 + encoded_len(item, limit - total);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                if total > limit {
                    break;
                }
                total += 4 + key.len();
                total += encoded_len(item, limit.saturating_sub(total));
            }
        }
        _ => total += 3,
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    use crate::arbitrary::value;

    fn patched(current: &Value, patch: &Value) -> Result<Value, String> {
        json(current, patch).map_err(|e| e.to_string())
    }

    #[test]
    fn every_operation_does_what_the_rfc_says() {
        let cases = [
            (
                json!({"a": 1}),
                json!([{"op": "add", "path": "/b", "value": 2}]),
                json!({"a": 1, "b": 2}),
            ),
            (
                json!({"a": [1, 3]}),
                json!([{"op": "add", "path": "/a/1", "value": 2}]),
                json!({"a": [1, 2, 3]}),
            ),
            (
                json!({"a": [1]}),
                json!([{"op": "add", "path": "/a/-", "value": 2}]),
                json!({"a": [1, 2]}),
            ),
            (json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2})),
            (
                json!({"a": 1}),
                json!([{"op": "replace", "path": "/a", "value": {"b": 1}}]),
                json!({"a": {"b": 1}}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!([{"op": "move", "from": "/a/b", "path": "/c"}]),
                json!({"a": {}, "c": 1}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!([{"op": "copy", "from": "/a", "path": "/c"}]),
                json!({"a": {"b": 1}, "c": {"b": 1}}),
            ),
            (
                json!({"a/b": 1, "m~n": 2}),
                json!([{"op": "test", "path": "/a~1b", "value": 1}, {"op": "remove", "path": "/m~0n"}]),
                json!({"a/b": 1}),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "test", "path": "/none", "value": null}]),
                json!({"a": 1}),
            ),
            (json!({"a": 1}), json!([]), json!({"a": 1})),
        ];
        for (current, patch, result) in cases {
            assert_eq!(patched(&current, &patch), Ok(result), "{current} {patch}");
        }
    }

    #[test]
    fn what_does_not_fit_the_object_is_a_misfit() {
        let cases = [
            (
                json!([{"op": "test", "path": "/a", "value": 2}]),
                "testing value /a failed: test failed",
            ),
            (
                json!([{"op": "remove", "path": "/b"}]),
                "remove operation does not apply: doc is missing path: \"/b\"",
            ),
            (
                json!([{"op": "add", "path": "/b/c", "value": 1}]),
                "add operation does not apply: doc is missing path: \"/b/c\"",
            ),
            (
                json!([{"op": "replace", "path": "/b", "value": 1}]),
                "replace operation does not apply: doc is missing path: \"/b\"",
            ),
            (
                json!([{"op": "copy", "from": "/x", "path": "/b"}]),
                "copy operation does not apply: doc is missing from path: /x",
            ),
            (
                json!([{"op": "move", "from": "", "path": "/b"}]),
                "move operation does not apply: cannot move the value inside itself",
            ),
        ];
        for (patch, says) in cases {
            assert_eq!(json(&json!({"a": 1}), &patch), Err(PatchError::Misfit(says.into())));
        }
    }

    #[test]
    fn a_failing_operation_undoes_the_ones_before() {
        let current = json!({"a": 1});
        let patch =
            json!([{"op": "remove", "path": "/a"}, {"op": "test", "path": "/a", "value": 1}]);
        assert!(json(&current, &patch).is_err());
        assert_eq!(current, json!({"a": 1}));
    }

    #[test]
    fn what_is_no_patch_is_malformed() {
        for patch in
            [json!({}), json!([1]), json!([{"op": "jump", "path": ""}]), json!([{"op": "add"}])]
        {
            assert!(matches!(json(&json!({}), &patch), Err(PatchError::Malformed(_))));
        }
    }

    #[test]
    fn too_many_operations_are_refused() {
        let operation = json!({"op": "add", "path": "/a", "value": 1});
        let patch = Value::from(vec![operation; MAX_OPERATIONS + 1]);
        let says = "The allowed maximum operations in a JSON patch is 10000, got 10001";
        assert_eq!(json(&json!({}), &patch), Err(PatchError::TooLarge(says.into())));
    }

    #[test]
    fn a_copy_bomb_is_refused() {
        let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let mut current = json!({"a": ["x".repeat(1000)]});
        let patch = Value::from(vec![double; 100]);
        assert!(matches!(json(&current, &patch), Err(PatchError::TooLarge(_))));
        // Wide instead of deep.
        current = json!({"a": ["x".repeat(1000)], "b": []});
        let widen = json!({"op": "copy", "from": "/a", "path": "/b/-"});
        let patch = Value::from(vec![widen; 9000]);
        assert!(matches!(json(&current, &patch), Err(PatchError::TooLarge(_))));
    }

    #[test]
    fn a_nesting_bomb_is_refused() {
        let deeper = json!({"op": "move", "from": "/a", "path": "/b/c"});
        let back = json!({"op": "move", "from": "/b", "path": "/a"});
        let again = json!({"op": "add", "path": "/b", "value": {}});
        let round = [deeper, back, again];
        let patch = Value::from(round.iter().cycle().take(3000).cloned().collect::<Vec<_>>());
        assert_eq!(json(&json!({"a": {}, "b": {}}), &patch), Err(PatchError::too_deep()));
    }

    #[test]
    fn shifting_a_long_list_again_and_again_is_refused() {
        let current = json!({"a": vec![0; 100_000]});
        let patch = Value::from(vec![json!({"op": "add", "path": "/a/0", "value": 1}); 2000]);
        assert!(matches!(json(&current, &patch), Err(PatchError::TooLarge(_))));
    }

    proptest! {
        #[test]
        fn arbitrary_patches_never_panic(current in value(), patch in value()) {
            drop(json(&current, &patch));
        }

        #[test]
        fn replacing_the_whole_is_the_new_whole(current in value(), new in value()) {
            let patch = json!([{"op": "replace", "path": "", "value": new}]);
            prop_assert_eq!(json(&current, &patch).unwrap(), new);
        }
    }
}
