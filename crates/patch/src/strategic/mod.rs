//! Strategic merge patch: a merge patch that knows which lists to merge, and by what key.
//!
//! The patch may carry directives beside its fields: `$patch`, `$retainKeys`,
//! `$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`. They steer the
//! merge and never reach the result, not even where the patch brings a whole new
//! subtree. Fields the schema does not know are merged as maps and replaced as lists.
//!
//! Merging of lists is in `lists`. Making such patches is not done here, but in
//! `three_way`.

mod directives;
pub(crate) mod lists;

use serde_json::{Map, Value};

use self::directives::{Directives, Whole};
use self::lists::ListChange;
use crate::depth::{MAX_DEPTH, fits};
use crate::printed::type_name;
use crate::refused::PatchError;
use crate::shape::Shape;

/// Applies a strategic merge patch. Without a schema no list is merged.
pub fn strategic<S: Shape>(
    current: &Value,
    patch: &Value,
    schema: Option<S>,
) -> Result<Value, PatchError> {
    let (Value::Object(current), Value::Object(changes)) = (current, patch) else {
        return Err(PatchError::Malformed("invalid JSON document".to_owned()));
    };
    let shallow = |map: &Map<String, Value>| map.values().all(|v| fits(v, MAX_DEPTH - 1));
    if !shallow(current) || !shallow(changes) {
        return Err(PatchError::too_deep());
    }
    merge_map(current.clone(), changes, schema).map(Value::Object)
}

/// Merges `patch` into `current`.
fn merge_map<S: Shape>(
    mut current: Map<String, Value>,
    patch: &Map<String, Value>,
    schema: Option<S>,
) -> Result<Map<String, Value>, PatchError> {
    let directives = Directives::of(patch)?;
    match directives.whole {
        Some(Whole::Delete) => return Ok(Map::new()),
        Some(Whole::Replace) => return directives::fields_without(patch),
        Some(Whole::Merge) | None => {}
    }
    if let Some(keep) = &directives.retain {
        current.retain(|name, _| keep.contains(name.as_str()));
    }
    for (name, change) in patch {
        if directives::is_directive(name) {
            continue;
        }
        let below = schema.and_then(|s| s.field(name));
        if change.is_null() {
            current.remove(name);
            continue;
        }
        let merged = match (current.remove(name), change) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                Some(Value::Object(merge_map(old, new, below)?))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Some(directives.list(name, Some(new)).merge(old, below)?)
            }
            (None, Value::Array(new)) if directives.speaks_of(name) => {
                Some(directives.list(name, Some(new)).merge(Vec::new(), below)?)
            }
            (Some(old), _) if directives.speaks_of(name) => return Err(not_a_list(&old)),
            _ => directives::without(change)?,
        };
        if let Some(value) = merged {
            current.insert(name.clone(), value);
        }
    }
    // Lists that are only reordered, or only lose elements.
    for name in directives.lists() {
        if patch.contains_key(name) {
            continue;
        }
        match current.remove(name) {
            Some(Value::Array(old)) => {
                let below = schema.and_then(|s| s.field(name));
                let merged = directives.list(name, None).merge(old, below)?;
                current.insert(name.to_owned(), merged);
            }
            Some(other) => return Err(not_a_list(&other)),
            None => {}
        }
    }
    Ok(current)
}

fn not_a_list(value: &Value) -> PatchError {
    let got = type_name(value);
    PatchError::Unmergeable(format!("expected a []interface {{}}, but received a {got}"))
}

#[cfg(test)]
mod tests;
