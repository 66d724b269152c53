//! Request bodies into JSON values: JSON and YAML, with duplicate keys found.
//!
//! Depth is bounded by the parsers, size by the caller. The last of two equal keys
//! wins, as in Kubernetes; whether that is an error is for field validation to say.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::machinery::status::ApiError;

/// A decoded body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// The value.
    pub value: Value,
    /// Paths of keys that stood twice in their object, such as `spec.replicas`.
    pub duplicates: Vec<String>,
}

impl From<Value> for Decoded {
    fn from(value: Value) -> Self {
        Self { value, duplicates: Vec::new() }
    }
}

/// How deep a document may nest. More than any real object, little enough for every
/// walker that recurses.
const MAX_DEPTH: usize = 100;

/// Decodes JSON.
pub fn json(bytes: &[u8]) -> Result<Decoded, ApiError> {
    if std::str::from_utf8(bytes).is_err() {
        return Err(ApiError::bad_request("the body of the request is not valid UTF-8"));
    }
    let mut duplicates = Vec::new();
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let seed = Seed { duplicates: &mut duplicates, depth: MAX_DEPTH };
    let value = seed.deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    match value {
        Ok(value) => Ok(Decoded { value, duplicates }),
        Err(why) => Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: {why}"
        ))),
    }
}

/// Decodes YAML; text that is JSON is read as JSON.
pub fn yaml(bytes: &[u8]) -> Result<Decoded, ApiError> {
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{')
        && let Ok(decoded) = json(bytes)
    {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| ApiError::bad_request("the body of the request is not valid UTF-8"))?;
    let mut duplicates = Vec::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |parser| {
        Seed { duplicates: &mut duplicates, depth: MAX_DEPTH }.deserialize(parser)
    });
    match read {
        Ok(value) => Ok(Decoded { value, duplicates }),
        Err(why) => {
            // The full report draws the source; the first line says what is wrong.
            let why = why.to_string();
            let line = why.lines().next().unwrap_or_default();
            Err(ApiError::bad_request(format!("error converting YAML to JSON: yaml: {line}")))
        }
    }
}

/// Builds a value and notes duplicates. Paths are put together only when there is one.
struct Seed<'a> {
    duplicates: &'a mut Vec<String>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        parser.deserialize_any(self)
    }
}

impl Seed<'_> {
    fn inner<E: Error>(&mut self) -> Result<Seed<'_>, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| E::custom("exceeded max depth"))?;
        Ok(Seed { duplicates: &mut *self.duplicates, depth })
    }

    /// Puts `prefix` before the paths found since there were `from` of them.
    fn place(&mut self, from: usize, prefix: impl fmt::Display) {
        for path in &mut self.duplicates[from..] {
            let joint = if path.starts_with('[') { "" } else { "." };
            *path = format!("{prefix}{joint}{path}");
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number that JSON cannot hold"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        parser.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let from = self.duplicates.len();
            let Some(item) = items.next_element_seed(self.inner()?)? else { break };
            self.place(from, format_args!("[{}]", list.len()));
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let from = self.duplicates.len();
            let value = entries.next_value_seed(self.inner()?)?;
            self.place(from, &key);
            if map.contains_key(&key) {
                self.duplicates.push(key.clone());
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicates_are_found_wherever_they_stand() {
        let text = br#"{"a":1,"a":2,"b":{"c":[{"d":1},{"d":1,"d":2}]},"b":{"e":1,"e":2}}"#;
        let got = json(text).unwrap();
        assert_eq!(got.value, json!({"a": 2, "b": {"e": 2}}));
        assert_eq!(got.duplicates, ["a", "b.c[1].d", "b.e", "b"]);
    }

    #[test]
    fn yaml_and_json_in_yaml_are_read() {
        let got = yaml(b"kind: X\nspec:\n  n: 3\n  on: true\n  s: \"3\"\n").unwrap();
        assert_eq!(got.value, json!({"kind": "X", "spec": {"n": 3, "on": true, "s": "3"}}));
        assert_eq!(yaml(br#"{"a": [1, null]}"#).unwrap().value, json!({"a": [1, null]}));
    }

    #[test]
    fn hostile_text_is_refused() {
        let deep = "[".repeat(100_000);
        for text in [deep.as_bytes(), b"", b"{", b"{}x", b"\"\xff\"", b"{\"a\":\"\xc3\x28\"}"] {
            assert_eq!(json(text).map_err(|e| e.code), Err(400));
        }
        for text in [deep.as_bytes(), "a: &a [*a]".as_bytes(), b"a: b: c", b"\xff"] {
            assert_eq!(yaml(text).map_err(|e| e.code), Err(400));
        }
        let bomb = "a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n".to_owned()
            + &(b'c'..=b'z')
                .map(|c| {
                    let (c, p) = (char::from(c), char::from(c - 1));
                    format!("{c}: &{c} [*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p}]\n")
                })
                .collect::<String>();
        assert_eq!(yaml(bomb.as_bytes()).map_err(|e| e.code), Err(400));
    }

    proptest! {
        #[test]
        fn json_reads_what_serde_json_writes(n: i64, s in ".{0,10}", f in -1e300..1e300) {
            let value = json!({"n": n, "s": s, "f": f, "l": [n, s], "o": {"x": null}});
            let got = json(value.to_string().as_bytes()).unwrap();
            prop_assert_eq!(got, Decoded::from(value));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            assert!(json(&bytes).is_ok() || json(&bytes).is_err());
            assert!(yaml(&bytes).is_ok() || yaml(&bytes).is_err());
        }
    }
}
