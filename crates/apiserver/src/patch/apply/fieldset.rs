//! Sets of field paths, as `FieldsV1` carries them in `managedFields`.
//!
//! A set is a tree of steps, sorted, in which some nodes are members. A node that is
//! a member and has members below is written with a `"."` inside.

use std::fmt;

use flagship_patch::MAX_DEPTH;
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::element::Element;

/// A set of field paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element; each is a member or has members below.
    nodes: Vec<Node>,
}

/// One step within a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: Element,
    /// Whether the path up to here is in the set.
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl FieldSet {
    /// The set with nothing in it.
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn get(&self, element: &Element) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        Some(&self.nodes[at])
    }

    /// Adds one path.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.at(first.clone());
        match rest {
            [] => node.member = true,
            more => node.below.insert(more),
        }
    }

    /// The node for an element, made if missing.
    fn at(&mut self, element: Element) -> &mut Node {
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(&element)) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, Node { element, member: false, below: Self::new() });
                at
            }
        };
        &mut self.nodes[at]
    }

    /// Adds a node with all that is below it, unless it would be empty. Cheap when
    /// elements arrive in order.
    pub(super) fn push(&mut self, element: Element, member: bool, below: FieldSet) {
        if !member && below.is_empty() {
            return;
        }
        if self.nodes.last().is_none_or(|last| last.element < element) {
            self.nodes.push(Node { element, member, below });
            return;
        }
        let node = self.at(element);
        node.member |= member;
        node.below.union_with(below);
    }

    /// Whether the path is in the set.
    pub fn contains(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.get(first).is_some_and(|node| match rest {
            [] => node.member,
            more => node.below.contains(more),
        })
    }

    /// Adds all paths of another set.
    pub fn union_with(&mut self, other: FieldSet) {
        if self.nodes.is_empty() {
            *self = other;
            return;
        }
        if other.nodes.is_empty() {
            return;
        }
        let mut merged = Vec::with_capacity(self.nodes.len() + other.nodes.len());
        let mut theirs = other.nodes.into_iter().peekable();
        for mut mine in std::mem::take(&mut self.nodes) {
            while let Some(node) = theirs.next_if(|node| node.element < mine.element) {
                merged.push(node);
            }
            if let Some(node) = theirs.next_if(|node| node.element == mine.element) {
                mine.member |= node.member;
                mine.below.union_with(node.below);
            }
            merged.push(mine);
        }
        merged.extend(theirs);
        self.nodes = merged;
    }

    /// Removes all paths of another set. Paths below those are kept.
    pub fn subtract(&mut self, other: &FieldSet) {
        let mut theirs = other.nodes.iter().peekable();
        if theirs.peek().is_none() {
            return;
        }
        self.nodes.retain_mut(|mine| {
            while theirs.next_if(|node| node.element < mine.element).is_some() {}
            if let Some(node) = theirs.next_if(|node| node.element == mine.element) {
                mine.member &= !node.member;
                mine.below.subtract(&node.below);
            }
            mine.member || !mine.below.is_empty()
        });
    }

    /// The paths that are in both sets.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut both = FieldSet::new();
        let mut theirs = other.nodes.iter().peekable();
        for mine in &self.nodes {
            while theirs.next_if(|node| node.element < mine.element).is_some() {}
            if let Some(node) = theirs.next_if(|node| node.element == mine.element) {
                let below = mine.below.intersection(&node.below);
                both.push(mine.element.clone(), mine.member && node.member, below);
            }
        }
        both
    }

    /// The paths of this set that are not in the other.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// The paths that have no other path below them.
    pub fn leaves(&self) -> FieldSet {
        let mut leaves = FieldSet::new();
        for node in &self.nodes {
            leaves.push(node.element.clone(), node.below.is_empty(), node.below.leaves());
        }
        leaves
    }

    /// All paths: those of a level before those below it, as Kubernetes lists them.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all
    }

    fn collect(&self, prefix: &mut Vec<Element>, all: &mut Vec<Vec<Element>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            all.push(path);
        }
        for node in &self.nodes {
            if !node.below.is_empty() {
                prefix.push(node.element.clone());
                node.below.collect(prefix, all);
                prefix.pop();
            }
        }
    }

    /// Reads `FieldsV1`.
    pub fn from_value(fields: &Value) -> Result<Self, String> {
        match fields {
            Value::Object(map) => Self::from_map(map),
            other => Err(format!("fields must be a map, not {other}")),
        }
    }

    pub(super) fn from_map(fields: &Map<String, Value>) -> Result<Self, String> {
        Self::read(fields, MAX_DEPTH)
    }

    fn read(map: &Map<String, Value>, depth: usize) -> Result<Self, String> {
        let mut set = Self { nodes: Vec::with_capacity(map.len()) };
        for (text, inside) in map {
            if text == "." {
                continue;
            }
            let Value::Object(inside) = inside else {
                return Err(format!("expected a map at {text}"));
            };
            let Some(element) = Element::parse(text)? else { continue };
            let depth = depth.checked_sub(1).ok_or("fields nest too deep")?;
            let below = Self::read(inside, depth)?;
            // Steps of an unknown kind may be all there is below; the path itself still counts.
            set.push(element, inside.contains_key(".") || below.is_empty(), below);
        }
        Ok(set)
    }

    /// Writes `FieldsV1`.
    pub fn to_value(&self) -> Value {
        Value::Object(self.to_map())
    }

    pub(super) fn to_map(&self) -> Map<String, Value> {
        self.nodes.iter().map(|node| (node.element.text(), node.inside())).collect()
    }

    /// Whether a set in its written form has a path in common with this one.
    pub(super) fn touches(&self, fields: &Map<String, Value>) -> bool {
        self.nodes.iter().any(|node| {
            let Some(Value::Object(inside)) = fields.get(&node.element.text()) else {
                return false;
            };
            (node.member && is_member(inside)) || node.below.touches(inside)
        })
    }

    /// Removes all paths from a set in its written form. Costs as much as this set is
    /// large, while reading and writing the other would cost as much as that one is.
    pub(super) fn subtract_from(&self, fields: &mut Map<String, Value>) {
        for node in &self.nodes {
            let text = node.element.text();
            let Some(Value::Object(inside)) = fields.get_mut(&text) else { continue };
            let member = is_member(inside) && !node.member;
            inside.remove(".");
            node.below.subtract_from(inside);
            if !inside.is_empty() {
                mark(inside, member);
            } else if !member {
                fields.remove(&text);
            }
        }
    }

    /// Adds all paths to a set in its written form.
    pub(super) fn add_to(&self, fields: &mut Map<String, Value>) {
        for node in &self.nodes {
            match fields.entry(node.element.text()) {
                Entry::Occupied(mut found) => {
                    let Value::Object(inside) = found.get_mut() else { continue };
                    let member = is_member(inside) || node.member;
                    inside.remove(".");
                    node.below.add_to(inside);
                    if !inside.is_empty() {
                        mark(inside, member);
                    }
                }
                Entry::Vacant(free) => {
                    free.insert(node.inside());
                }
            }
        }
    }
}

/// Whether a written path is in its set: with nothing below, or with a mark.
fn is_member(inside: &Map<String, Value>) -> bool {
    inside.is_empty() || inside.contains_key(".")
}

fn mark(inside: &mut Map<String, Value>, member: bool) {
    if member {
        inside.insert(".".to_owned(), Value::Object(Map::new()));
    }
}

impl Node {
    fn inside(&self) -> Value {
        let mut inside = self.below.to_map();
        mark(&mut inside, self.member && !self.below.is_empty());
        Value::Object(inside)
    }
}

/// Compact `FieldsV1` text in the order Kubernetes prints it.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_nodes(&self.nodes, false, f)
    }
}

fn write_nodes(nodes: &[Node], member: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("{")?;
    let mut comma = "";
    if member && !nodes.is_empty() {
        f.write_str("\".\":{}")?;
        comma = ",";
    }
    for node in nodes {
        write!(f, "{comma}{}:", Value::from(node.element.text()))?;
        write_nodes(&node.below.nodes, node.member, f)?;
        comma = ",";
    }
    f.write_str("}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn set(fields: &Value) -> FieldSet {
        FieldSet::from_value(fields).unwrap()
    }

    #[test]
    fn text_is_in_kubernetes_order_with_the_dot_first() {
        let fields = json!({"f:spec": {"f:ports": {".": {}, "k:{\"port\":443}": {"f:port": {}}, "k:{\"port\":80}": {".": {}, "f:port": {}}},
                            "f:replicas": {}}, "f:metadata": {"f:labels": {"f:app": {}}}});
        assert_eq!(
            set(&fields).to_string(),
            r#"{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:ports":{".":{},"k:{\"port\":80}":{".":{},"f:port":{}},"k:{\"port\":443}":{"f:port":{}}},"f:replicas":{}}}"#
        );
        assert_eq!(set(&fields).to_value(), fields);
        assert_eq!(FieldSet::new().to_string(), "{}");
    }

    #[test]
    fn removing_a_path_keeps_what_is_below_it() {
        let mut all = set(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        all.subtract(&set(&json!({"f:a": {}})));
        assert_eq!(all.to_value(), json!({"f:a": {"f:b": {}}, "f:c": {}}));
        all.subtract(&set(&json!({"f:a": {"f:b": {}}})));
        assert_eq!(all.to_value(), json!({"f:c": {}}));
    }

    #[test]
    fn leaves_are_the_paths_with_nothing_below() {
        let leaves = set(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}})).leaves();
        assert_eq!(leaves.to_value(), json!({"f:a": {"f:b": {}}, "f:c": {}}));
    }

    #[test]
    fn paths_of_a_level_come_before_those_below() {
        let fields = set(&json!({"f:a": {"f:x": {}}, "f:b": {}}));
        let printed = fields
            .paths()
            .into_iter()
            .map(|path| path.iter().map(ToString::to_string).collect::<String>());
        assert_eq!(printed.collect::<Vec<_>>(), [".b", ".a.x"]);
    }

    #[test]
    fn malformed_fields_are_refused() {
        for fields in [json!([]), json!({"f:a": 1}), json!({"nonsense": {}}), json!({"k:x": {}})] {
            assert!(FieldSet::from_value(&fields).is_err(), "{fields}");
        }
        let deep = (0..300).fold(json!({}), |inner, _| json!({"f:a": inner}));
        assert!(FieldSet::from_value(&deep).is_err());
        assert_eq!(set(&json!({"z:later": {}})), FieldSet::new());
    }

    pub(crate) fn any_set() -> impl Strategy<Value = FieldSet> {
        let step = prop_oneof![
            prop::sample::select(vec!["a", "b", "c"]).prop_map(Element::field),
            (0i64..3).prop_map(|n| Element::Value(Box::new(json!(n)))),
            prop::sample::select(vec!["x", "y"])
                .prop_map(|n| Element::Key([("name".into(), json!(n))].into())),
            (0i64..2).prop_map(Element::Index),
        ];
        let path = prop::collection::vec(step, 1..4);
        prop::collection::vec(path, 0..8).prop_map(|paths| {
            let mut set = FieldSet::new();
            paths.iter().for_each(|path| set.insert(path));
            set
        })
    }

    proptest! {
        #[test]
        fn reading_what_was_written_gives_the_same_set(fields in any_set()) {
            prop_assert_eq!(&set(&fields.to_value()), &fields);
            let text: Value = serde_json::from_str(&fields.to_string()).unwrap();
            prop_assert_eq!(text, fields.to_value());
        }

        #[test]
        fn the_algebra_of_sets_holds(a in any_set(), b in any_set()) {
            let mut union = a.clone();
            union.union_with(b.clone());
            let mut other = b.clone();
            other.union_with(a.clone());
            prop_assert_eq!(&union, &other);
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            // a = (a - b) + (a and b)
            let mut parts = a.difference(&b);
            parts.union_with(a.intersection(&b));
            prop_assert_eq!(&parts, &a);
            prop_assert!(a.difference(&union).is_empty());
            for path in union.paths() {
                prop_assert_eq!(union.contains(&path), a.contains(&path) || b.contains(&path));
            }
            // The same on written sets.
            prop_assert_eq!(a.touches(&b.to_map()), !a.intersection(&b).is_empty());
            let mut written = a.to_map();
            b.add_to(&mut written);
            prop_assert_eq!(written, union.to_map());
            let mut written = a.to_map();
            b.subtract_from(&mut written);
            prop_assert_eq!(written, a.difference(&b).to_map());
        }
    }
}
