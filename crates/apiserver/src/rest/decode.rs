//! Request bodies into JSON values: JSON and YAML, with duplicate keys found.
//!
//! Depth is bounded by the parsers, size by the caller. The last of two equal keys
//! wins, as in Kubernetes; whether that is an error is for field validation to say.

use bytes::Bytes;
use flagship_base::machinery::status::ApiError;
use flagship_schema::{ReadJson, read_json};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

/// A decoded body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// The value.
    pub value: Value,
    /// Keys that stood twice in their object, as `duplicate field "spec.replicas"`.
    pub duplicates: Vec<String>,
    /// The JSON it was read from, where somebody may ask in which order it stands there.
    pub text: Bytes,
}

impl From<Value> for Decoded {
    fn from(value: Value) -> Self {
        Self { value, ..Self::default() }
    }
}

/// Decodes JSON.
pub fn json(bytes: &[u8]) -> Result<Decoded, ApiError> {
    if std::str::from_utf8(bytes).is_err() {
        return Err(ApiError::bad_request("the body of the request is not valid UTF-8"));
    }
    match read_json(bytes) {
        Ok(ReadJson { value, duplicates }) => {
            Ok(Decoded { value, duplicates, ..Decoded::default() })
        }
        Err(why) if why.is_eof() => Err(no_json("unexpected end of JSON input")),
        Err(why) => Err(no_json(&why.to_string())),
    }
}

/// What a body begins with that cannot be read.
const NO_JSON: &str = "couldn't get version/kind; json parse error: ";

fn no_json(why: &str) -> ApiError {
    ApiError::bad_request(format!("{NO_JSON}{why}"))
}

/// The same error about a body that should be an object of this kind.
pub(super) fn of_kind(mut error: ApiError, kind: &str, body: &[u8]) -> ApiError {
    if error.message.starts_with(NO_JSON) {
        error = unrecognized(kind, &error.message, body);
    }
    error
}

/// 400 for a body that is no object of this kind, with how it begins.
pub(super) fn unrecognized(kind: &str, why: &str, body: &[u8]) -> ApiError {
    const SHOWN: usize = 30;
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
    let begins = match body.len() {
        0 => "<empty>".to_owned(),
        1..=SHOWN => text.into_owned(),
        _ => format!("{text} ..."),
    };
    let says =
        format!("the object provided is unrecognized (must be of type {kind}): {why} ({begins})");
    ApiError::bad_request(says)
}

/// How many nodes of a YAML document may come from aliases.
const MAX_REPEATED: usize = 50_000;

/// Decodes YAML; text that is JSON is read as JSON.
pub fn yaml(bytes: &[u8]) -> Result<Decoded, ApiError> {
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{')
        && let Ok(decoded) = json(bytes)
    {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| ApiError::bad_request("the body of the request is not valid UTF-8"))?;
    let twice = match read(text, DuplicateKeyPolicy::Error) {
        Ok(value) => return Ok(value.into()),
        Err(why) => twice(&why).ok_or_else(|| unreadable(&why))?,
    };
    // A key that stands twice is for field validation to judge; the last one counts.
    let value = read(text, DuplicateKeyPolicy::LastWins).map_err(|why| unreadable(&why))?;
    Ok(Decoded { value, duplicates: vec![twice], ..Decoded::default() })
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, Error> {
    // Only `true` and `false` are booleans: `name: y` is a name.
    let options = serde_saphyr::options! {
        strict_booleans: true,
        duplicate_keys: duplicate_keys,
        // A few lines of aliases of aliases would be gigabytes.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPEATED },
        budget: serde_saphyr::budget! { max_recorded_anchor_events: MAX_REPEATED },
    };
    serde_saphyr::from_str_with_options::<Value>(text, options)
}

/// The first key that stands twice, as Kubernetes says it; `None` if something else is wrong.
fn twice(mut why: &Error) -> Option<String> {
    while let Error::WithSnippet { error, .. } = why {
        why = error;
    }
    let Error::DuplicateMappingKey { key, location } = why else { return None };
    let (key, line) = (key.as_deref().unwrap_or_default(), location.line());
    Some(format!("yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map"))
}

/// 400: this is no YAML.
fn unreadable(why: &Error) -> ApiError {
    // The full report draws the source; the first line says what is wrong.
    let why = why.to_string();
    let line = why.lines().next().unwrap_or_default();
    ApiError::bad_request(format!("error converting YAML to JSON: yaml: {line}"))
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
        let paths = ["a", "b.c[1].d", "b", "b.e"];
        assert_eq!(got.duplicates, paths.map(|path| format!("duplicate field {path:?}")));
    }

    #[test]
    fn yaml_and_json_in_yaml_are_read() {
        let got = yaml(b"kind: X\nspec:\n  n: 3\n  on: true\n  s: \"3\"\n").unwrap();
        assert_eq!(got.value, json!({"kind": "X", "spec": {"n": 3, "on": true, "s": "3"}}));
        assert_eq!(yaml(br#"{"a": [1, null]}"#).unwrap().value, json!({"a": [1, null]}));
    }

    #[test]
    fn a_key_that_stands_twice_in_yaml_is_found_and_the_last_counts() {
        let got = yaml(b"kind: X\nspec:\n  n: 3\n  m: 4\n  n: 5\n").unwrap();
        assert_eq!(got.value, json!({"kind": "X", "spec": {"n": 5, "m": 4}}));
        let [twice] = &got.duplicates[..] else { panic!("{:?}", got.duplicates) };
        assert!(twice.contains("key \"n\" already set in map"), "{twice}");
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
        fn json_reads_what_serde_json_writes(n: i64, s in ".{0,10}", eighths: i32) {
            let f = f64::from(eighths) / 8.0;
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
