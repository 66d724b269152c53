//! The facts of an object that are asked for without parsing it.
//!
//! [`Pairs`] packs labels and selectable fields into one allocation: an object with
//! two labels pays about 60 bytes for them, where a list of string pairs pays 200.

use std::fmt;

use serde_json::Value;

/// Facts of an object kept beside its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.labels`, sorted by key.
    pub labels: Pairs,
    /// Selectable fields beyond name and namespace, sorted by path.
    pub fields: Pairs,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub terminating: bool,
}

impl Head {
    /// Reads the head of an object. `fields` are its selectable fields as path and
    /// value; which they are is the registry's knowledge.
    pub fn of(object: &Value, fields: Pairs) -> Self {
        let meta = &object["metadata"];
        let labels = meta["labels"].as_object().into_iter().flatten();
        Self {
            uid: meta["uid"].as_str().unwrap_or_default().into(),
            labels: Pairs::new(labels.filter_map(|(key, value)| Some((key, value.as_str()?)))),
            fields,
            generation: meta["generation"].as_i64().unwrap_or_default(),
            terminating: meta["deletionTimestamp"].is_string(),
        }
    }
}

/// A small sorted map from string to string in a single allocation.
///
/// Inside is a run of netstrings (`3:app3:web`), so that no content needs escaping.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pairs(Box<str>);

impl Pairs {
    /// Sorts by key; of equal keys the last one stays.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let mut all: Vec<(K, V)> = pairs.into_iter().collect();
        all.sort_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
        let mut packed = String::new();
        for (at, (key, value)) in all.iter().enumerate() {
            let repeated = all.get(at + 1).is_some_and(|next| next.0.as_ref() == key.as_ref());
            if !repeated {
                push(&mut packed, key.as_ref());
                push(&mut packed, value.as_ref());
            }
        }
        Self(packed.into_boxed_str())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(candidate, _)| *candidate == key).map(|(_, value)| value)
    }

    /// Key and value of each pair, in the order of the keys.
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.0 }
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes held on the heap.
    pub fn heap(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<(Box<str>, Box<str>)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Box<str>)>>(pairs: I) -> Self {
        Self::new(pairs)
    }
}

impl<'a> IntoIterator for &'a Pairs {
    type Item = (&'a str, &'a str);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// Walks [`Pairs`].
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, rest) = pop(self.rest)?;
        let (value, rest) = pop(rest)?;
        self.rest = rest;
        Some((key, value))
    }
}

fn push(packed: &mut String, text: &str) {
    packed.push_str(&text.len().to_string());
    packed.push(':');
    packed.push_str(text);
}

fn pop(packed: &str) -> Option<(&str, &str)> {
    let (length, rest) = packed.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pairs_are_sorted_and_the_last_of_equal_keys_stays() {
        let pairs = Pairs::new([("b", "2"), ("a", "1:x"), ("b", ""), ("ü", "\0")]);
        let all: Vec<_> = pairs.iter().collect();
        assert_eq!(all, [("a", "1:x"), ("b", ""), ("ü", "\0")]);
        assert_eq!((pairs.get("a"), pairs.get("c"), pairs.len()), (Some("1:x"), None, 3));
    }

    #[test]
    fn a_head_reads_what_selectors_ask_for() {
        let object = json!({"metadata": {
            "uid": "u", "generation": 3, "labels": {"app": "web", "bad": 1},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }});
        let head = Head::of(&object, Pairs::new([("status.phase", "Running")]));
        assert_eq!(head.uid.as_ref(), "u");
        assert_eq!(head.labels.iter().collect::<Vec<_>>(), [("app", "web")]);
        assert_eq!(head.fields.get("status.phase"), Some("Running"));
        assert_eq!((head.generation, head.terminating), (3, true));
        assert_eq!(Head::of(&json!([]), Pairs::default()), Head::default());
    }
}
