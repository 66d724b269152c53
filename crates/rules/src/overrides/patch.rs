//! RFC 6902 `add`, `remove` and `replace` with the words and habits users know.
//!
//! The failure texts reach conditions and are matched by clients, and array indices may
//! count from the end; the general crate offers neither.

use flagship_api::overrides::JsonPatchOperator;
use flagship_base::go_number::atoi;
use serde_json::Value;

/// How deep a document may become: as deep as any reader of it will follow.
const DEEPEST: usize = 128;

/// Carries out one operation on the document. On failure the document may not be used.
pub fn apply(
    document: &mut Value,
    operator: JsonPatchOperator,
    path: &str,
    value: Value,
) -> Result<(), String> {
    let word = match operator {
        JsonPatchOperator::Add => "add",
        JsonPatchOperator::Remove => "remove",
        JsonPatchOperator::Replace => "replace",
    };
    if path.matches('/').count() + depth(&value) > DEEPEST {
        return Err(format!(
            "{word} operation does not apply: path \"{path}\" leads deeper than {DEEPEST} levels"
        ));
    }
    if path.is_empty() && operator != JsonPatchOperator::Remove {
        *document = value;
        return Ok(());
    }
    let Some((parent, key)) = parent_of(document, path) else {
        return Err(match operator {
            JsonPatchOperator::Replace => {
                format!(
                    "replace operation does not apply: doc is missing path: {path}: missing value"
                )
            }
            _ => format!(
                "{word} operation does not apply: doc is missing path: \"{path}\": missing value"
            ),
        });
    };
    let failed = |why: String| format!("error in {word} for path: '{path}': {why}");
    match operator {
        JsonPatchOperator::Add => add(parent, &key, value).map_err(failed),
        JsonPatchOperator::Remove => remove(parent, &key).map_err(failed),
        JsonPatchOperator::Replace => match member(parent, &key) {
            Some(there) => {
                *there = value;
                Ok(())
            }
            None => Err(format!(
                "replace operation does not apply: doc is missing key: {path}: missing value"
            )),
        },
    }
}

/// The object or array that holds, or is to hold, what the path leads to; and the last key.
fn parent_of<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut keys: Vec<String> = path.split('/').skip(1).map(unescaped).collect();
    let last = keys.pop()?;
    let mut at = document;
    for key in keys {
        at = member(at, &key)?;
    }
    (at.is_object() || at.is_array()).then_some((at, last))
}

fn unescaped(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

fn member<'a>(of: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    match of {
        Value::Object(map) => map.get_mut(key),
        Value::Array(list) => {
            let at = index(key, list.len()).ok()?;
            list.get_mut(at)
        }
        _ => None,
    }
}

fn add(parent: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match parent {
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        Value::Array(list) if key == "-" => list.push(value),
        // One place more than there are items: behind the last.
        Value::Array(list) => list.insert(index(key, list.len() + 1)?, value),
        _ => return Err(format!("unable to add key: {key}: missing value")),
    }
    Ok(())
}

fn remove(parent: &mut Value, key: &str) -> Result<(), String> {
    let removed = match parent {
        Value::Object(map) => map.remove(key),
        Value::Array(list) => Some(list.remove(index(key, list.len())?)),
        _ => None,
    };
    let missing = || format!("unable to remove nonexistent key: {key}: missing value");
    removed.map(drop).ok_or_else(missing)
}

/// A place among so many; negative ones count from the end.
fn index(key: &str, places: usize) -> Result<usize, String> {
    let given = atoi(key).map_err(|error| error.to_string())?;
    let invalid = || format!("Unable to access invalid index: {given}: invalid index referenced");
    let size = i64::try_from(places).map_err(|_| invalid())?;
    let from_start = if given < 0 { given.checked_add(size) } else { Some(given) };
    let at = from_start.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < places);
    at.ok_or_else(invalid)
}

/// Levels below a value. It was read from text, which bounds it.
fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
