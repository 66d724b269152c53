//! Reads objects one by one, so that a bad one harms nobody else.
//!
//! An error names the object as far as it can be read and the field that is
//! wrong, because it becomes a condition or an event on that very object. A list
//! gives its good objects and one error for each bad one. No input panics:
//! nesting is limited by the parser, size by [`LARGEST_OBJECT`].

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::names::ObjectKey;
use crate::null::or_default;

mod identity;

/// Largest object that is read; no API server stores one of half this size.
pub const LARGEST_OBJECT: usize = 8 << 20;

/// What an object calls itself, as far as it can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `kind`.
    pub kind: Option<String>,
    /// `metadata.namespace` and `metadata.name`.
    pub key: Option<ObjectKey>,
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.resourceVersion`: which version it is that cannot be read.
    pub resource_version: Option<String>,
}

impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_deref().unwrap_or("object");
        match &self.key {
            Some(key) => write!(out, "{kind} {key}"),
            None => write!(out, "{kind} without a readable name"),
        }
    }
}

/// Why an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{object}: {}{problem}", if .path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct DecodeError {
    /// Which object.
    pub object: Box<Identity>,
    /// Which field, such as `spec.stages[0].name`; empty if it is the whole.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

/// Reads one object.
pub fn decode<K: DeserializeOwned>(bytes: &[u8]) -> Result<K, DecodeError> {
    if bytes.len() > LARGEST_OBJECT {
        let problem = format!("{} bytes are more than the {LARGEST_OBJECT} allowed", bytes.len());
        return Err(DecodeError {
            object: Box::new(identity::of_bytes(bytes)),
            path: String::new(),
            problem,
        });
    }
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|first| *first != b'{') {
        return Err(not_an_object());
    }
    // Good objects are the rule: only a bad one is read again, to learn where.
    serde_json::from_slice(bytes).map_err(|error| {
        let reader = &mut serde_json::Deserializer::from_slice(bytes);
        let located = serde_path_to_error::deserialize::<_, K>(reader).err();
        located_error(identity::of_bytes(bytes), located, &error)
    })
}

/// Reads one object from a JSON tree.
pub fn decode_value<K: DeserializeOwned>(value: &Value) -> Result<K, DecodeError> {
    if !value.is_object() {
        return Err(not_an_object());
    }
    K::deserialize(value).map_err(|error| {
        let located = serde_path_to_error::deserialize::<_, K>(value).err();
        located_error(identity::of_value(value), located, &error)
    })
}

/// The types would take a list of their fields for an object.
fn not_an_object() -> DecodeError {
    let problem = "not a JSON object".to_owned();
    DecodeError { object: Box::default(), path: String::new(), problem }
}

/// What a list held.
#[derive(Clone, Debug)]
pub struct DecodedList<K> {
    /// `metadata.resourceVersion`: where a watch may go on.
    pub resource_version: Option<String>,
    /// `metadata.continue`: more to come, if present.
    pub continue_token: Option<String>,
    /// The good objects, in order.
    pub items: Vec<K>,
    /// One error for each bad one, in order.
    pub errors: Vec<DecodeError>,
}

/// Reads a list. Only a list that is none is an error as a whole.
pub fn decode_list<K: DeserializeOwned>(bytes: &[u8]) -> Result<DecodedList<K>, DecodeError> {
    let text = splittable(bytes);
    if !text.trim_start().starts_with('{') {
        return Err(not_an_object());
    }
    let list: RawList<'_> = serde_json::from_str(&text).map_err(|error| {
        let reader = &mut serde_json::Deserializer::from_str(&text);
        let located = serde_path_to_error::deserialize::<_, RawList<'_>>(reader).err();
        located_error(identity::of_bytes(bytes), located, &error)
    })?;
    let kind_of_items = list.kind.as_deref().and_then(|kind| kind.strip_suffix("List"));
    let kind_of_items = kind_of_items.map(|kind| identity::kind(kind.to_owned()));
    let mut decoded = DecodedList {
        resource_version: list.metadata.resource_version,
        continue_token: list.metadata.r#continue.filter(|token| !token.is_empty()),
        items: Vec::with_capacity(list.items.len()),
        errors: Vec::new(),
    };
    for item in list.items {
        // An item is a part of the text: its distance from the beginning is where
        // its own bytes are, valid or not.
        let start = item.get().as_ptr().addr() - text.as_ptr().addr();
        match decode(&bytes[start..start + item.get().len()]) {
            Ok(item) => decoded.items.push(item),
            Err(mut error) => {
                // Lists of built-in kinds leave the kind of their items out.
                error.object.kind = error.object.kind.or_else(|| kind_of_items.clone());
                decoded.errors.push(error);
            }
        }
    }
    Ok(decoded)
}

/// The same bytes as text, every one that is not UTF-8 replaced by one that is:
/// good enough to find where each item of a list begins and ends.
fn splittable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    Cow::Owned(text)
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    metadata: RawListMeta,
    /// Must be there, but an empty list may be written as null.
    #[serde(borrow, deserialize_with = "or_default")]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawListMeta {
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default)]
    r#continue: Option<String>,
}

/// Longest problem text: a message quotes what it found, which may be large.
const LONGEST_PROBLEM: usize = 500;

fn located_error(
    object: Identity,
    located: Option<serde_path_to_error::Error<serde_json::Error>>,
    plain: &serde_json::Error,
) -> DecodeError {
    let object = Box::new(object);
    // Trailing text behind a whole object has no place inside it.
    let Some(located) = located else {
        return DecodeError { object, path: String::new(), problem: shortened(plain.to_string()) };
    };
    let path = match located.path().to_string() {
        path if path == "." => String::new(),
        path => shortened(path),
    };
    DecodeError { object, path, problem: shortened(located.inner().to_string()) }
}

fn shortened(text: String) -> String {
    cut(text, LONGEST_PROBLEM)
}

/// At most so many characters; dots take the place of what is cut off.
fn cut(text: String, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
