//! An object as compact JSON with a gap where its revision goes.
//!
//! Encoding is the dear part of a write and needs no lock; the revision is only known
//! under the lock. So the text is made first, and the lock pays for one copy.

use bytes::Bytes;
use serde_json::{Map, Value};

/// Compact JSON without `metadata.resourceVersion`, and where it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    text: Vec<u8>,
    gap: usize,
}

impl Encoded {
    /// Encodes an object, leaving any old `metadata.resourceVersion` out. Something that
    /// is not an object is encoded as it is and never shows a revision.
    pub fn new(object: &Value) -> Self {
        let mut text = Vec::with_capacity(1024);
        let mut gap = 0;
        match object.as_object() {
            Some(fields) => write_object(fields, &mut text, &mut gap),
            None => write(object, &mut text),
        }
        Self { text, gap }
    }

    /// From text that [`Encoded::at`] made: nothing is encoded anew.
    pub fn stored(json: &[u8]) -> Self {
        let parts = without_revision(json);
        Self { text: parts.concat(), gap: parts[0].len() }
    }

    /// Length of the JSON without the digits of the revision.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether there is no text at all; there always is some.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The text with `revision` in its gap.
    pub fn at(&self, revision: u64) -> Bytes {
        splice(&self.text, self.gap, self.gap, revision)
    }
}

/// Text made by [`Encoded::at`] with another revision in its gap. Where the gap is must be
/// looked for: it is needed too seldom to be remembered with every object.
pub(super) fn respliced(json: &[u8], revision: u64) -> Bytes {
    let (start, end) = gap_in(json);
    splice(json, start, end, revision)
}

/// What stands before and behind the digits of the revision in text made by
/// [`Encoded::at`].
pub fn without_revision(json: &[u8]) -> [&[u8]; 2] {
    let (start, end) = gap_in(json);
    [&json[..start], &json[end..]]
}

/// From where to where the digits of the revision stand; zero where there are none.
fn gap_in(json: &[u8]) -> (usize, usize) {
    let Some(start) = gap_of(json) else { return (0, 0) };
    let digits = json.iter().skip(start).take_while(|byte| byte.is_ascii_digit()).count();
    (start, start + digits)
}

/// Where `metadata.resourceVersion` of compact JSON begins.
fn gap_of(json: &[u8]) -> Option<usize> {
    let (mut depth, mut inside, mut at) = (0, false, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                inside &= depth > 1;
            }
            // A string with a colon behind it is a key, whatever it says.
            b'"' => {
                let rest = &json[at..];
                if depth == 1 && rest.starts_with(b"\"metadata\":{") {
                    inside = true;
                } else if depth == 2 && inside && rest.starts_with(b"\"resourceVersion\":\"") {
                    return Some(at + b"\"resourceVersion\":\"".len());
                }
                at += string_len(rest);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Length of the string literal at the beginning, with its quotes.
fn string_len(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

/// A start of zero means that there is no gap.
fn splice(text: &[u8], start: usize, end: usize, revision: u64) -> Bytes {
    if start == 0 {
        return Bytes::copy_from_slice(text);
    }
    let digits = revision.to_string();
    // Of exactly the right size: bytes made from a larger buffer would keep all of it.
    let mut whole = Vec::with_capacity(text.len() - (end - start) + digits.len());
    whole.extend_from_slice(&text[..start]);
    whole.extend_from_slice(digits.as_bytes());
    whole.extend_from_slice(&text[end..]);
    Bytes::from(whole)
}

fn write_object(fields: &Map<String, Value>, text: &mut Vec<u8>, gap: &mut usize) {
    let empty = Map::new();
    let mut entries = Entries::begin(text);
    let mut found = false;
    for (key, value) in fields {
        if key == "metadata" {
            found = true;
            write_metadata(value.as_object().unwrap_or(&empty), entries.key(key), gap);
        } else {
            write(value, entries.key(key));
        }
    }
    if !found {
        write_metadata(&empty, entries.key("metadata"), gap);
    }
    entries.end();
}

fn write_metadata(fields: &Map<String, Value>, text: &mut Vec<u8>, gap: &mut usize) {
    const REVISION: &str = "resourceVersion";
    let mut entries = Entries::begin(text);
    let mut written = false;
    for (key, value) in fields {
        // At its place in the alphabet, as everything else is.
        if !written && key.as_str() >= REVISION {
            written = true;
            *gap = entries.revision(REVISION);
        }
        if key != REVISION {
            write(value, entries.key(key));
        }
    }
    if !written {
        *gap = entries.revision(REVISION);
    }
    entries.end();
}

/// Writes the entries of one JSON object with their commas.
struct Entries<'a> {
    text: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Entries<'a> {
    fn begin(text: &'a mut Vec<u8>) -> Self {
        text.push(b'{');
        Self { text, first: true }
    }

    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.text.push(b',');
        }
        serde_json::to_writer(&mut *self.text, key).expect("a string is written to memory");
        self.text.push(b':');
        self.text
    }

    /// Writes the key with an empty string and says where its content goes.
    fn revision(&mut self, key: &str) -> usize {
        self.key(key).extend_from_slice(b"\"\"");
        self.text.len() - 1
    }

    fn end(self) {
        self.text.push(b'}');
    }
}

fn write(value: &Value, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("a JSON value is written to memory");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(object: &Value, revision: u64) -> String {
        String::from_utf8(Encoded::new(object).at(revision).to_vec()).unwrap()
    }

    #[test]
    fn the_revision_goes_to_its_place_in_the_alphabet() {
        let object = json!({"kind": "Pod", "metadata": {
            "name": "a", "resourceVersion": "7", "uid": "u",
            "labels": {"resourceVersion": "mine"},
        }});
        assert_eq!(
            text(&object, 12),
            r#"{"kind":"Pod","metadata":{"labels":{"resourceVersion":"mine"},"name":"a","resourceVersion":"12","uid":"u"}}"#
        );
    }

    #[test]
    fn objects_without_usable_metadata_get_some() {
        assert_eq!(text(&json!({}), 3), r#"{"metadata":{"resourceVersion":"3"}}"#);
        assert_eq!(
            text(&json!({"metadata": null, "x": 1}), 3),
            r#"{"metadata":{"resourceVersion":"3"},"x":1}"#
        );
        assert_eq!(text(&json!([1]), 3), "[1]");
    }

    #[test]
    fn an_old_revision_is_replaced_by_one_of_another_length() {
        for object in [
            json!({"metadata": {"name": "a", "uid": "5"}}),
            json!({}),
            json!([7]),
            json!({
                "a": {"metadata": {"resourceVersion": "1"}}, "b": [{"resourceVersion": "2"}],
                "c": "\"metadata\":{\"resourceVersion\":\"3\\", "kind": "metadata",
                "metadata": {"annotations": {"resourceVersion": "4", "x\\": "}\"]"}, "list": [[]], "uid": "u"},
                "status": {"resourceVersion": "5"},
            }),
        ] {
            let encoded = Encoded::new(&object);
            let new = respliced(&encoded.at(99), 100);
            assert_eq!(new, encoded.at(100));
            assert_eq!(respliced(&new, 1), encoded.at(1));
            assert_eq!(Encoded::stored(&new), encoded);
        }
    }
}
