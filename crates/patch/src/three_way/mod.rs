//! Makes patches as `kubectl apply` does: from what was applied last, what is to be
//! applied now, and what is there.
//!
//! A patch sets what differs between the present and the wish, and deletes what the
//! last application named and the wish does not. What others put there stays. Nothing
//! is said of what is already so: where nothing needs to change, the patch is empty.
//!
//! [`merge()`] makes JSON merge patches, [`strategic()`] strategic ones. Applying them
//! is in the modules beside this one.

mod lists;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::builtin::Builtin;
use crate::depth::{MAX_DEPTH, fits};
use crate::refused::PatchError;
use crate::shape::Shape;

type Fields = Map<String, Value>;

/// A JSON merge patch that leads from `current` to `modified`. `original` is what was
/// applied before, null if nothing was.
pub fn merge(original: &Value, modified: &Value, current: &Value) -> Result<Value, PatchError> {
    make(original, modified, current, Style::<Builtin>::Plain)
}

/// A strategic merge patch that leads from `current` to `modified`. `original` is what
/// was applied before, null if nothing was.
pub fn strategic<S: Shape>(
    original: &Value,
    modified: &Value,
    current: &Value,
    schema: Option<S>,
) -> Result<Value, PatchError> {
    make(original, modified, current, Style::Strategic(schema))
}

/// Which directives the patch may use, and what the schema says of the place.
#[derive(Clone, Copy)]
enum Style<S> {
    Plain,
    Strategic(Option<S>),
}

impl<S: Shape> Style<S> {
    fn field(self, name: &str) -> Self {
        match self {
            Self::Plain => Self::Plain,
            Self::Strategic(shape) => Self::Strategic(shape.and_then(|s| s.field(name))),
        }
    }

    fn shape(self) -> Option<S> {
        match self {
            Self::Plain => None,
            Self::Strategic(shape) => shape,
        }
    }
}

fn make<S: Shape>(
    original: &Value,
    modified: &Value,
    current: &Value,
    style: Style<S>,
) -> Result<Value, PatchError> {
    if ![original, modified, current].iter().all(|v| fits(v, MAX_DEPTH)) {
        return Err(PatchError::too_deep());
    }
    let (Value::Object(modified), Value::Object(current)) = (modified, current) else {
        return Err(PatchError::Malformed("invalid JSON document".to_owned()));
    };
    let nothing = Map::new();
    let original = match original {
        Value::Object(map) => map,
        Value::Null => &nothing,
        _ => return Err(PatchError::Malformed("invalid JSON document".to_owned())),
    };
    compare_maps(original, modified, current, style).map(Value::Object)
}

/// The patch of one map; empty if nothing is to be done.
fn compare_maps<S: Shape>(
    original: &Fields,
    modified: &Fields,
    current: &Fields,
    style: Style<S>,
) -> Result<Fields, PatchError> {
    let nothing = Map::new();
    let mut patch = Map::new();
    for (name, wish) in modified {
        let inside = style.field(name);
        match (current.get(name), wish) {
            // To wish for nothing is to delete.
            (None, Value::Null) => {}
            (Some(Value::Object(is)), Value::Object(wish)) => {
                let was = original.get(name).and_then(Value::as_object).unwrap_or(&nothing);
                let below = compare_maps(was, wish, is, inside)?;
                if !below.is_empty() {
                    patch.insert(name.clone(), Value::Object(below));
                }
            }
            (Some(Value::Array(is)), Value::Array(wish))
                if inside.shape().is_some_and(Shape::merges) =>
            {
                let was = original.get(name).and_then(Value::as_array).map_or(&[][..], |l| l);
                lists::compare(name, was, wish, is, inside.shape(), &mut patch)?;
            }
            (Some(is), wish) if is == wish => {}
            (_, wish) => {
                patch.insert(name.clone(), wish.clone());
            }
        }
    }
    for name in original.keys() {
        if !modified.contains_key(name) && current.contains_key(name) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    let asked = style.shape().is_some_and(Shape::retains_keys);
    retain_keys(&mut patch, modified, current, asked);
    Ok(patch)
}

/// Says which fields may stay, where the schema wants only those that were asked for.
fn retain_keys(patch: &mut Fields, modified: &Fields, current: &Fields, asked: bool) {
    if !asked {
        return;
    }
    let extra = current.iter().any(|(name, is)| !is.is_null() && !modified.contains_key(name));
    let keep: Vec<Value> = modified
        .iter()
        .filter(|(_, wish)| !wish.is_null())
        .map(|(name, _)| Value::from(name.as_str()))
        .collect();
    if !keep.is_empty() && (extra || !patch.is_empty()) {
        patch.insert("$retainKeys".to_owned(), Value::Array(keep));
    }
}
