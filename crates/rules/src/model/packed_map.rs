//! Names and values of one cluster in a single piece of memory.
//!
//! A pass looks up a handful of facts of every cluster of a fleet. As maps of strings they
//! are spread over some four kilobytes a cluster, and a large fleet is read from far away;
//! packed they take a few hundred bytes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A small sorted map from string to string.
///
/// Inside, each pair is the lengths of its halves, then both texts: `3:4:envprod`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct PackedMap(Box<str>);

impl PackedMap {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(candidate, _)| *candidate == name).map(|(_, value)| value)
    }

    /// Name and value of each, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (name, after) = rest.split_once(':')?;
            let (value, texts) = after.split_once(':')?;
            let (name, after) = texts.split_at_checked(name.parse().ok()?)?;
            let (value, after) = after.split_at_checked(value.parse().ok()?)?;
            rest = after;
            Some((name, value))
        })
    }

    /// Gives a name another value.
    #[cfg(test)]
    pub fn set(&mut self, name: &str, value: &str) {
        let mut map = self.to_map();
        map.insert(name.to_owned(), value.to_owned());
        *self = map.into();
    }

    /// The same as a map.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

impl From<BTreeMap<String, String>> for PackedMap {
    fn from(map: BTreeMap<String, String>) -> Self {
        let mut packed = String::new();
        for (name, value) in map {
            packed += &format!("{}:{}:{name}{value}", name.len(), value.len());
        }
        Self(packed.into_boxed_str())
    }
}

impl From<PackedMap> for BTreeMap<String, String> {
    fn from(packed: PackedMap) -> Self {
        packed.to_map()
    }
}

impl FromIterator<(String, String)> for PackedMap {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        pairs.into_iter().collect::<BTreeMap<_, _>>().into()
    }
}

impl fmt::Debug for PackedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_whatever_they_contain() {
        let pairs = [("env", "prod"), ("a:b", "1:2:x"), ("", "none"), ("ü", ""), ("env", "test")];
        let packed: PackedMap =
            pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect();
        let all: Vec<_> = packed.iter().collect();
        assert_eq!(all, [("", "none"), ("a:b", "1:2:x"), ("env", "test"), ("ü", "")]);
        assert_eq!((packed.get("a:b"), packed.get("ü")), (Some("1:2:x"), Some("")));
        assert_eq!((packed.get("en"), PackedMap::default().get("")), (None, None));
        assert_eq!(PackedMap::from(packed.to_map()), packed);
        let text = serde_json::to_string(&packed).unwrap();
        assert_eq!(text, r#"{"":"none","a:b":"1:2:x","env":"test","ü":""}"#);
        assert_eq!(serde_json::from_str::<PackedMap>(&text).unwrap(), packed);
    }
}
