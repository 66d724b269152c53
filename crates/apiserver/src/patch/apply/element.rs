//! One step of a field path: a field, a list element by key or by value, or a position.
//!
//! The text form is that of `FieldsV1` (`f:spec`, `k:{"name":"web"}`, `v:"x"`, `i:0`);
//! the printed form is that of error messages (`.spec`, `[name="web"]`, `[="x"]`, `[0]`).

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

/// One step of a field path. Ordered as Kubernetes orders them.
#[derive(Debug, Clone)]
pub enum Element {
    /// A field of a map.
    Field(Box<str>),
    /// An element of a list of maps, by the values of its keys; sorted by key.
    Key(Box<[(Box<str>, Value)]>),
    /// An element of a set.
    Value(Box<Value>),
    /// An element by its position.
    Index(i64),
}

impl Element {
    /// A step into a field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Reads the `FieldsV1` form. `None` for kinds of steps that are not known yet,
    /// which readers are to skip.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let (kind, rest) = match (text.as_bytes(), text.get(2..)) {
            ([kind, b':', ..], Some(rest)) => (*kind, rest),
            _ => return Err(format!("key must be 2 characters long: {text}")),
        };
        let wrong = |e: serde_json::Error| format!("cannot read field path element {text}: {e}");
        match kind {
            b'f' => Ok(Some(Self::Field(rest.into()))),
            b'k' => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(wrong)?;
                let fields = fields.into_iter().map(|(name, value)| (name.into(), value));
                Ok(Some(Self::Key(fields.collect())))
            }
            b'v' => Ok(Some(Self::Value(serde_json::from_str(rest).map_err(wrong)?))),
            b'i' => {
                let at = rest.parse().map_err(|_| format!("not a list position: {text}"))?;
                Ok(Some(Self::Index(at)))
            }
            _ => Ok(None),
        }
    }

    /// The `FieldsV1` form.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Field(name) => {
                let mut text = String::with_capacity(name.len() + 2);
                text.push_str("f:");
                text.push_str(name);
                text
            }
            Self::Key(fields) => {
                let mut text = String::from("k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        text.push(',');
                    }
                    text.push_str(&Value::from(&**name).to_string());
                    text.push(':');
                    text.push_str(&value.to_string());
                }
                text.push('}');
                text
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(at) => format!("i:{at}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                for ((a_name, a_value), (b_name, b_value)) in a.iter().zip(b.iter()) {
                    let by_field =
                        a_name.cmp(b_name).then_with(|| compare_values(a_value, b_value));
                    if by_field != Ordering::Equal {
                        return by_field;
                    }
                }
                a.len().cmp(&b.len())
            }
            (Self::Value(a), Self::Value(b)) => compare_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

/// Numbers first and by size, then strings, booleans, lists, maps and null.
pub(super) fn compare_values(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => match (x.as_i64(), y.as_i64()) {
            (Some(x), Some(y)) => x.cmp(&y),
            _ => x.as_f64().unwrap_or(0.0).total_cmp(&y.as_f64().unwrap_or(0.0)),
        },
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Array(x), Value::Array(y)) => {
            let first = x.iter().zip(y).map(|(x, y)| compare_values(x, y)).find(|o| o.is_ne());
            first.unwrap_or_else(|| x.len().cmp(&y.len()))
        }
        (Value::Object(x), Value::Object(y)) => {
            let pairs = x.iter().zip(y);
            let by_field =
                pairs.map(|((k, x), (l, y))| k.cmp(l).then_with(|| compare_values(x, y)));
            by_field.into_iter().find(|o| o.is_ne()).unwrap_or_else(|| x.len().cmp(&y.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(text: &str) -> Element {
        Element::parse(text).unwrap().unwrap()
    }

    #[test]
    fn steps_are_written_as_they_were_read() {
        for (text, printed) in [
            ("f:spec", ".spec"),
            ("f:", "."),
            ("f:app.kubernetes.io/name", ".app.kubernetes.io/name"),
            (r#"k:{"name":"web"}"#, r#"[name="web"]"#),
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
            (r#"v:"finalizer""#, r#"[="finalizer"]"#),
            ("v:3", "[=3]"),
            ("i:2", "[2]"),
        ] {
            assert_eq!(parsed(text).text(), text);
            assert_eq!(parsed(text).to_string(), printed);
        }
    }

    #[test]
    fn keys_are_sorted_when_read() {
        assert_eq!(parsed(r#"k:{"b": 1, "a": 2}"#).text(), r#"k:{"a":2,"b":1}"#);
    }

    #[test]
    fn unknown_kinds_are_skipped_and_nonsense_is_refused() {
        assert_eq!(Element::parse("x:later").unwrap(), None);
        for text in ["", "f", "spec", "k:[]", "k:{", "v:", "i:x", "ä:b"] {
            assert!(Element::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn steps_are_ordered_by_kind_then_by_value() {
        let sorted = [
            "f:a",
            "f:b",
            r#"k:{"port":80}"#,
            r#"k:{"port":443}"#,
            r#"k:{"port":443,"protocol":"TCP"}"#,
            "v:2",
            "v:10",
            r#"v:"a""#,
            "v:true",
            "v:null",
            "i:0",
            "i:10",
        ];
        for pair in sorted.windows(2) {
            assert!(parsed(pair[0]) < parsed(pair[1]), "{pair:?}");
        }
        assert_eq!(compare_values(&json!(1), &json!(1.0)), Ordering::Equal);
    }
}
