//! How much of what somebody sent is kept, walked and said again.
//!
//! A request is bounded by its bytes, but a finding repeats a path or a value, and there
//! can be one finding for every few bytes: without these bounds a small request becomes a
//! huge answer. What is cut off ends in `...`.

use std::{fmt, io};

use serde_json::Value;

/// Levels of a schema, which is an object too but is walked by more.
pub const MAX_SCHEMA_DEPTH: usize = 128;
/// Levels that a walk over an object and its schema goes down; branches of a schema
/// count as well as levels of the object.
pub const MAX_WALK: usize = 256;
/// All annotations of an object together, keys included, in bytes.
pub const MAX_ANNOTATIONS: usize = 256 * 1024;
/// Findings about one object that are kept; the rest is not even remembered.
pub const MAX_FINDINGS: usize = 1000;
/// Findings that one answer shows.
pub const MAX_SHOWN: usize = 100;
/// Bytes of a field's path that are printed.
pub const MAX_PATH: usize = 256;
/// Bytes of an offending value that are printed.
pub const MAX_VALUE: usize = 512;
/// Bytes of one sentence.
pub const MAX_SENTENCE: usize = 2048;

const CUT: &str = "...";

/// At most `max` bytes of a text, and a mark where it was cut.
pub fn clip(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(boundary(&text, max));
        text.push_str(CUT);
        text.shrink_to_fit();
    }
    text
}

/// The last place at or before `max` where a text can be cut.
fn boundary(text: &str, max: usize) -> usize {
    (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// A value as Kubernetes prints it, with strings quoted, clipped.
pub fn print(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() > MAX_VALUE => {
            let shown = &text[..boundary(text, MAX_VALUE)];
            format!("{:?}", format!("{shown}{CUT}"))
        }
        Value::String(text) => format!("{text:?}"),
        other => {
            let mut out = Clipped::new(MAX_VALUE);
            // Full is the only way to fail, and then the text says so.
            serde_json::to_writer(&mut out, other).ok();
            out.finish()
        }
    }
}

/// A text under construction that stops its writer when it is full.
#[derive(Debug)]
pub struct Clipped {
    bytes: Vec<u8>,
    max: usize,
    full: bool,
}

impl Clipped {
    /// Room for `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max, full: false }
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        let room = self.max - self.bytes.len();
        self.full |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        !self.full
    }

    /// What was written, marked where it was cut.
    pub fn finish(mut self) -> String {
        if self.full {
            let whole = match std::str::from_utf8(&self.bytes) {
                Ok(_) => self.bytes.len(),
                Err(error) => error.valid_up_to(),
            };
            self.bytes.truncate(whole);
            self.bytes.extend_from_slice(CUT.as_bytes());
        }
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl io::Write for Clipped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.take(bytes) { Ok(bytes.len()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Clipped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.take(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_too_long_is_cut_between_characters_and_marked() {
        assert_eq!(clip("abc".to_owned(), 3), "abc");
        assert_eq!(clip("abcd".to_owned(), 3), "abc...");
        assert_eq!(clip("aéé".to_owned(), 4), "aé...");
        assert_eq!(print(&json!({"a": [1]})), r#"{"a":[1]}"#);
        assert_eq!(print(&json!("x".repeat(513))), format!("\"{}...\"", "x".repeat(512)));
        let list = json!(vec!["é".repeat(10); 100]);
        let shown = print(&list);
        assert!(shown.ends_with("...") && shown.len() <= MAX_VALUE + 3, "{shown}");
        assert!(list.to_string().starts_with(shown.trim_end_matches('.')));
    }
}
