//! Reads JSON and remembers which fields came twice.
//!
//! `serde_json` keeps the last of two equal keys without a word; strict decoding must
//! name them. Nesting is bounded by the reader itself.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use flagship_base::machinery::bounds::MAX_SHOWN;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::path::Path;

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadJson {
    /// The value; of repeated keys the last one counts.
    pub value: Value,
    /// One entry a repeated key, as `duplicate field "spec.foo"`, up to a bound.
    pub duplicates: Vec<String>,
}

/// Reads one JSON document.
pub fn read_json(text: &[u8]) -> Result<ReadJson, serde_json::Error> {
    let duplicates = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Seed { path: Path::Root, duplicates: &duplicates }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(ReadJson { value, duplicates: duplicates.into_inner() })
}

struct Seed<'a> {
    path: Path<'a>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = Path::Index(&self.path, list.len());
            match seq.next_element_seed(Seed { path, duplicates: self.duplicates })? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = Path::Field(&self.path, &key);
            if map.contains_key(&key) && self.duplicates.borrow().len() < MAX_SHOWN {
                self.duplicates.borrow_mut().push(format!("duplicate field \"{path}\""));
            }
            let value = entries.next_value_seed(Seed { path, duplicates: self.duplicates })?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// Puts findings of strict decoding, `unknown field "spec.a"` and `duplicate field "spec.b"`,
/// into the order in which a reader of this text meets them. What is not met keeps its place
/// behind the others.
pub fn in_order_of(text: &[u8], found: &mut [String]) {
    let order = RefCell::new(BTreeMap::new());
    let mut reader = serde_json::Deserializer::from_slice(text);
    let keys = Keys { path: Path::Root, found, order: &order };
    // Whoever could not be read has no findings.
    if keys.deserialize(&mut reader).is_ok() {
        let order = order.into_inner();
        found.sort_by_key(|finding| order.get(finding).copied().unwrap_or(usize::MAX));
    }
}

/// Visits every key of a document.
struct Keys<'a> {
    path: Path<'a>,
    found: &'a [String],
    order: &'a RefCell<BTreeMap<String, usize>>,
}

impl Keys<'_> {
    fn meet(&self, path: &Path<'_>, again: bool) {
        let what = if again { "duplicate" } else { "unknown" };
        let finding = format!("{what} field \"{path}\"");
        if self.found.contains(&finding) {
            let mut order = self.order.borrow_mut();
            let next = order.len();
            order.entry(finding).or_insert(next);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let (found, order, mut at) = (self.found, self.order, 0);
        loop {
            let path = Path::Index(&self.path, at);
            if seq.next_element_seed(Keys { path, found, order })?.is_none() {
                return Ok(());
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let (found, order, mut met) = (self.found, self.order, BTreeSet::new());
        while let Some(key) = entries.next_key::<String>()? {
            let path = Path::Field(&self.path, &key);
            self.meet(&path, met.contains(&key));
            entries.next_value_seed(Keys { path, found, order })?;
            met.insert(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn repeated_fields_are_named_and_the_last_one_counts() {
        let read = read_json(br#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": 3}"#).unwrap();
        assert_eq!(read.value, json!({"a": 3, "b": [{"c": 2}]}));
        assert_eq!(read.duplicates, [r#"duplicate field "b[0].c""#, r#"duplicate field "a""#]);
    }

    #[test]
    fn findings_stand_in_the_order_of_the_text() {
        let text = br#"{"z": 1, "spec": {"b": 1, "b": 2, "a": [{"y": 1}]}, "c": 1}"#;
        let mut found: Vec<String> = ["duplicate field \"spec.b\"", "unknown field \"c\""]
            .into_iter()
            .chain(["unknown field \"spec.a[0].y\"", "unknown field \"z\"", "something else"])
            .map(str::to_owned)
            .collect();
        in_order_of(text, &mut found);
        let order = ["unknown field \"z\"", "duplicate field \"spec.b\""];
        let rest = ["unknown field \"spec.a[0].y\"", "unknown field \"c\"", "something else"];
        assert_eq!(found, [&order[..], &rest].concat());
    }

    #[test]
    fn reading_agrees_with_serde_json() {
        for text in
            [r#"{"a":[1,-2,3.5,1e300,"x",null,true,{}]}"#, "18446744073709551615", "\"\\u00e9\""]
        {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(read_json(text.as_bytes()).unwrap().value, plain);
        }
        assert!(read_json(b"{} x").is_err());
        assert!(read_json("[".repeat(100_000).as_bytes()).is_err());
    }
}
