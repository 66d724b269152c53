//! An object as a row is filled from it: nothing in it need have the shape it should.

use flagship_base::machinery::time;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::human;
use crate::scale::selector_text;

/// An object and the moment it is looked at.
pub(super) struct Object<'a> {
    pub(super) value: &'a Value,
    pub(super) now: Timestamp,
}

impl<'a> Object<'a> {
    /// The value at a JSON pointer; null when there is none.
    pub(super) fn at(&self, pointer: &str) -> &'a Value {
        self.value.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(super) fn name(&self) -> Value {
        json!(self.text("/metadata/name"))
    }

    /// A string, empty when there is none.
    pub(super) fn text(&self, pointer: &str) -> &'a str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// A string or what stands for its absence.
    pub(super) fn text_or(&self, pointer: &str, absent: &str) -> Value {
        let text = self.text(pointer);
        json!(if text.is_empty() { absent } else { text })
    }

    pub(super) fn number(&self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    /// A number, 0 when there is none.
    pub(super) fn count(&self, pointer: &str) -> Value {
        json!(self.number(pointer))
    }

    pub(super) fn flag(&self, pointer: &str, absent: bool) -> Value {
        json!(self.at(pointer).as_bool().unwrap_or(absent))
    }

    /// The elements of a list.
    pub(super) fn list(&self, pointer: &str) -> &'a [Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    /// How many entries a list or a map has.
    pub(super) fn len(&self, pointer: &str) -> Value {
        let value = self.at(pointer);
        let list = value.as_array().map(Vec::len);
        json!(list.or_else(|| value.as_object().map(serde_json::Map::len)).unwrap_or_default())
    }

    pub(super) fn is_deleting(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// How long ago the object was made.
    pub(super) fn age(&self) -> Value {
        json!(self.since("/metadata/creationTimestamp"))
    }

    /// How long ago a moment was; `<unknown>` without one.
    pub(super) fn since(&self, pointer: &str) -> String {
        self.ago(self.at(pointer))
    }

    pub(super) fn ago(&self, moment: &Value) -> String {
        match moment.as_str().and_then(time::parse) {
            Some(then) => human(self.now.duration_since(then)),
            None => "<unknown>".to_owned(),
        }
    }

    /// Names and images of containers, each joined with commas.
    pub(super) fn containers(&self, pointer: &str) -> [Value; 2] {
        let of = |key: &str| {
            let texts = self.list(pointer).iter().map(|c| c[key].as_str().unwrap_or_default());
            json!(texts.collect::<Vec<_>>().join(","))
        };
        [of("name"), of("image")]
    }

    /// A label selector as text; `<none>` for one that names nothing.
    pub(super) fn selector(&self, pointer: &str) -> Value {
        let text = selector_text(self.at(pointer));
        json!(if text.is_empty() { "<none>".to_owned() } else { text })
    }

    /// The condition of a type.
    pub(super) fn condition(&self, kind: &str) -> Option<&'a Value> {
        self.list("/status/conditions").iter().find(|condition| condition["type"] == *kind)
    }

    pub(super) fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition["status"] == "True")
    }
}

/// Texts joined with commas; the first `max` of them, and how many are left out.
pub(super) fn joined(texts: &[String], max: usize) -> String {
    let shown = texts[..texts.len().min(max)].join(",");
    match texts.len().saturating_sub(max) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// The cells of a row at one in the morning of 2026, as one line.
#[cfg(test)]
pub(super) fn shown(printer: &super::Printer, value: &Value) -> String {
    let now = "2026-01-01T01:00:00Z".parse().expect("a moment");
    let cells = (printer.cells)(&Object { value, now });
    let texts = cells.iter().map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned));
    texts.collect::<Vec<_>>().join(" | ")
}
