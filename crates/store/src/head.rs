//! The facts of an object that are asked for without parsing it.
//!
//! [`Pairs`] packs labels and selectable fields into one allocation and common words into
//! one byte: a pod pays about 80 bytes for two labels and its eight selectable fields,
//! where lists of string pairs take 900.

use std::fmt;

use serde_json::Value;

use super::uid::Uid;

/// Facts of an object kept beside its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// `metadata.uid`.
    pub uid: Uid,
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
/// Inside is a run of words: a common one as its letter, any other as a netstring
/// (`8:checkout`), so that no content needs escaping.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pairs(Box<str>);

impl Pairs {
    /// Sorts by key; of equal keys the last one stays.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let mut all: Vec<(K, V)> = pairs.into_iter().collect();
        all.sort_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
        let last =
            |at: usize, key: &K| all.get(at + 1).is_none_or(|n| n.0.as_ref() != key.as_ref());
        let kept = || all.iter().enumerate().filter(|(at, (key, _))| last(*at, key));
        let texts = || kept().flat_map(|(_, (key, value))| [key.as_ref(), value.as_ref()]);
        // Measured first: a string that grows and shrinks leaves holes in the heap.
        let mut packed = String::with_capacity(texts().map(packed_len).sum());
        texts().for_each(|text| push(&mut packed, text));
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

fn packed_len(text: &str) -> usize {
    let digits = text.len().checked_ilog10().unwrap_or(0) as usize + 1;
    if letter_of(text).is_some() { 1 } else { digits + 1 + text.len() }
}

fn push(packed: &mut String, text: &str) {
    match letter_of(text) {
        Some(letter) => packed.push(letter),
        None => {
            packed.push_str(&text.len().to_string());
            packed.push(':');
            packed.push_str(text);
        }
    }
}

fn pop(packed: &str) -> Option<(&str, &str)> {
    let common = packed.bytes().next()?.checked_sub(FIRST_LETTER);
    if let Some(word) = common.and_then(|at| COMMON.get(usize::from(at))) {
        return Some((word, &packed[1..]));
    }
    let (length, rest) = packed.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

fn letter_of(text: &str) -> Option<char> {
    let at = COMMON.binary_search(&text).ok()?;
    Some(char::from(FIRST_LETTER + u8::try_from(at).ok()?))
}

/// Above the digits, with which netstrings begin, and leaving room for 63 words of ASCII.
const FIRST_LETTER: u8 = b'@';

/// Words found in the labels and selectable fields of most clusters, sorted. Only a means
/// to save memory: the list may change at any time, for nothing packed is ever stored.
const COMMON: [&str; 62] = [
    "",
    "Always",
    "Failed",
    "Never",
    "Normal",
    "OnFailure",
    "Pending",
    "Pod",
    "Running",
    "Succeeded",
    "Warning",
    "app",
    "app.kubernetes.io/component",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-revision-hash",
    "controller-uid",
    "default",
    "default-scheduler",
    "false",
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.resourceVersion",
    "involvedObject.uid",
    "job-name",
    "k8s-app",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/metadata.name",
    "kubernetes.io/os",
    "pod-template-generation",
    "pod-template-hash",
    "reason",
    "reportingComponent",
    "source",
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.unschedulable",
    "statefulset.kubernetes.io/pod-name",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.replicas",
    "status.successful",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "true",
    "type",
    "v1",
];

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
        let long = "x".repeat(100);
        assert_eq!(Pairs::new([("k", &long)]).get("k"), Some(long.as_str()));
        assert_eq!(packed_len(&long), "100:".len() + 100);
    }

    #[test]
    fn common_words_take_one_byte() {
        assert!(COMMON.is_sorted());
        assert!(usize::from(FIRST_LETTER) + COMMON.len() <= 0x7f, "letters are ASCII");
        for word in COMMON {
            let pairs = Pairs::new([(word, "web"), ("zone", word)]);
            assert_eq!(pairs.get(word), Some("web"));
            assert_eq!(pairs.get("zone"), Some(word));
            assert_eq!(pairs.heap(), "@3:web4:zone@".len());
        }
    }

    #[test]
    fn a_head_reads_what_selectors_ask_for() {
        let object = json!({"metadata": {
            "uid": "u", "generation": 3, "labels": {"app": "web", "bad": 1},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }});
        let head = Head::of(&object, Pairs::new([("status.phase", "Running")]));
        assert_eq!(&*head.uid, "u");
        assert_eq!(head.labels.iter().collect::<Vec<_>>(), [("app", "web")]);
        assert_eq!(head.fields.get("status.phase"), Some("Running"));
        assert_eq!((head.generation, head.terminating), (3, true));
        assert_eq!(Head::of(&json!([]), Pairs::default()), Head::default());
    }
}
