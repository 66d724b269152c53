//! JSON kept as the text it arrived in.
//!
//! Manifests travel through snapshots, Works and envelopes without anybody
//! looking inside, and text is a tenth of the size of a parsed tree. Two values
//! are equal when their text is: key order and spaces count.
//!
//! Text can only be kept when it is read straight from JSON. Where something in
//! between has parsed it already (YAML, a watch event whose type comes last),
//! the value is written out anew, with its keys in order.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// One JSON value as unparsed text.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Takes text that must be exactly one well-formed JSON value.
    pub fn from_text(text: String) -> serde_json::Result<Self> {
        RawValue::from_string(text).map(Self)
    }

    /// Writes a value as compact JSON and keeps the text.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The text, as it will be written.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Reads the text as a typed value or a `serde_json::Value`.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.text())
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_newtype_struct(ASK_FOR_TEXT, TextOrValue)
    }
}

/// The name by which serde_json recognises a wish for text. Should it ever
/// change, values are still read, only no longer as they were written.
const ASK_FOR_TEXT: &str = "$serde_json::private::RawValue";

struct TextOrValue;

impl<'de> Visitor<'de> for TextOrValue {
    type Value = RawJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    /// serde_json hands its text over like this.
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawJson, A::Error> {
        Box::deserialize(MapAccessDeserializer::new(map)).map(RawJson)
    }

    /// Everybody else takes the newtype at its word.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, input: D) -> Result<RawJson, D::Error> {
        let value = Value::deserialize(input)?;
        RawJson::of(&value).map_err(serde::de::Error::custom)
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for RawJson {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_survives_untouched_inside_a_larger_document() {
        let text = r#"[{"b":1.50,"a":[ 2 ]},"x"]"#;
        let read: Vec<RawJson> = serde_json::from_str(text).unwrap();
        assert_eq!(read[0].text(), r#"{"b":1.50,"a":[ 2 ]}"#);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn a_tree_a_buffer_or_yaml_is_written_out_anew() {
        let value = serde_json::json!({"b": [1.5, null], "a": "x"});
        let anew = r#"{"a":"x","b":[1.5,null]}"#;
        let from_tree: RawJson = serde_json::from_value(value).unwrap();
        assert_eq!(from_tree.text(), anew);

        let from_yaml: RawJson = serde_saphyr::from_str("b: [1.5, null]\na: x\n").unwrap();
        assert_eq!(from_yaml.text(), anew);

        #[derive(Deserialize)]
        #[serde(tag = "type", content = "object")]
        enum Event {
            Added(RawJson),
        }
        for (text, kept) in [
            (
                r#"{"type":"Added","object":{"b":[1.5,null],"a":"x"}}"#,
                r#"{"b":[1.5,null],"a":"x"}"#,
            ),
            (r#"{"object":{"b":[1.5,null],"a":"x"},"type":"Added"}"#, anew),
        ] {
            let Event::Added(raw) = serde_json::from_str(text).unwrap();
            assert_eq!(raw.text(), kept);
        }
    }

    #[test]
    fn text_that_is_not_one_json_value_is_refused() {
        for bad in ["", "{", "{} {}", "nul"] {
            assert!(RawJson::from_text(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
