//! JSON kept as the text it arrived in.
//!
//! Manifests travel through snapshots, Works and envelopes without anybody
//! looking inside, and text is a tenth of the size of a parsed tree. Two values
//! are equal when their text is: key order and spaces count.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One JSON value as unparsed text.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    fn text_that_is_not_one_json_value_is_refused() {
        for bad in ["", "{", "{} {}", "nul"] {
            assert!(RawJson::from_text(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
