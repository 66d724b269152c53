//! JSON as CEL sees it, without copying.
//!
//! An object or list is a view into the JSON together with its schema; only what a rule
//! touches is ever looked at. Integers are `int`, numbers of a `number` field are
//! `double`, and strings with a time, duration or byte format become such values.
//!
//! Fields of structs are reached by their escaped names (`__namespace__`), keys of maps
//! as they are. Sets and keyed lists are equal in any order.

use std::sync::OnceLock;

use base64::Engine;
use cel::ExecutionError;
use cel::common::traits::{self, Adder, Container, Indexer, Iterable, Sizer, Zeroer};
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelNull, CelString, LIST_TYPE, MAP_TYPE, Type,
};
use cel::common::value::{CowVal, Val};
use serde_json::{Map, Value};

use super::library;
use crate::node::{ListType, NodeRef, Type as NodeType};

/// A CEL value for a piece of JSON under its schema.
pub(super) fn view<'v>(value: &'v Value, node: Option<NodeRef<'v>>) -> Box<dyn Val + 'v> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(b) => Box::new(CelBool::from(*b)),
        Value::Number(n) => {
            let wants_double = node.is_some_and(|n| n.node().kind == NodeType::Number);
            match n.as_i64() {
                Some(i) if !wants_double => Box::new(CelInt::from(i)),
                _ => Box::new(CelDouble::from(n.as_f64().unwrap_or(f64::NAN))),
            }
        }
        Value::String(text) => text_view(text, node.map_or("", |n| &n.node().format)),
        Value::Array(list) => Box::new(ListView { list, node, elements: OnceLock::new() }),
        Value::Object(map) => Box::new(MapView { map, node, keys: OnceLock::new() }),
    }
}

/// A text that does not have its format stays a text; validation has told already.
fn text_view<'v>(text: &'v str, format: &str) -> Box<dyn Val + 'v> {
    let parsed = match format {
        "date-time" => library::call("timestamp", text),
        "date" => library::call("timestamp", &format!("{text}T00:00:00Z")),
        "duration" => library::call("duration", text),
        "byte" => base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()
            .map(|bytes| Box::new(CelBytes::from(bytes)) as Box<dyn Val>),
        _ => None,
    };
    parsed.unwrap_or_else(|| Box::new(CelString::from(text)))
}

/// An object. A clone is a pointer, so loops over lists of objects copy nothing.
#[derive(Debug)]
struct MapView<'v> {
    map: &'v Map<String, Value>,
    node: Option<NodeRef<'v>>,
    /// Made when a rule loops over the keys: loops take references.
    keys: OnceLock<Vec<Box<dyn Val + 'v>>>,
}

impl<'v> MapView<'v> {
    /// Whether fields go by their escaped names, as those of structs do.
    fn is_struct(&self) -> bool {
        self.node.is_some_and(|n| n.node().values.is_none())
    }

    fn find(&self, key: &str) -> Option<Box<dyn Val + 'v>> {
        let (name, value) = if self.is_struct() && key.contains("__") {
            let name = unescape(key)?;
            self.map.get_key_value(&name)?
        } else {
            self.map.get_key_value(key)?
        };
        // In a struct, null is as good as absent.
        if self.is_struct() && value.is_null() {
            return None;
        }
        let field = self.node.and_then(|n| n.field(name));
        Some(view(value, field))
    }

    fn keys(&self) -> &[Box<dyn Val + 'v>] {
        self.keys.get_or_init(|| self.make_keys())
    }

    fn make_keys(&self) -> Vec<Box<dyn Val + 'v>> {
        let is_struct = self.is_struct();
        let key = |name: &'v String| -> Box<dyn Val + 'v> {
            match is_struct.then(|| escape(name)).flatten() {
                Some(escaped) if escaped != *name => Box::new(CelString::from(escaped)),
                _ => Box::new(CelString::from(name.as_str())),
            }
        };
        self.map.keys().map(key).collect()
    }
}

impl<'v> Val for MapView<'v> {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn into_indexer<'w>(self: Box<Self>) -> Option<Box<dyn Indexer + 'w>>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_iterable<'b, 'w>(&'b self) -> Option<&'b (dyn Iterable + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        let (Some(sizer), Some(indexer)) = (other.as_sizer(), other.as_indexer()) else {
            return false;
        };
        *other.get_type() == MAP_TYPE
            && *sizer.size().inner() == self.map.len() as i64
            && self.keys().iter().all(|key| {
                let ours = key.downcast_ref::<CelString>().and_then(|k| self.find(k.inner()));
                match (ours, indexer.get(key.as_ref())) {
                    (Some(ours), Ok(theirs)) => ours.equals(theirs.as_ref()),
                    (None, Err(_)) => true,
                    _ => false,
                }
            })
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(MapView { map: self.map, node: self.node, keys: OnceLock::new() })
    }
}

impl Container for MapView<'_> {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(key.downcast_ref::<CelString>().is_some_and(|k| self.find(k.inner()).is_some()))
    }
}

impl Indexer for MapView<'_> {
    fn get<'b, 'w>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        let Some(key) = key.downcast_ref::<CelString>() else {
            return Err(ExecutionError::UnexpectedType {
                got: key.get_type().name().to_owned(),
                want: "string".to_owned(),
            });
        };
        let found = self.find(key.inner());
        found.map(CowVal::Owned).ok_or_else(|| ExecutionError::no_such_key(key.inner()))
    }

    fn steal<'w>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.get(key).map(CowVal::into_owned)
    }
}

impl<'v> Iterable for MapView<'v> {
    fn iter<'b, 'w>(&'b self) -> Box<dyn traits::Iterator<'b, 'w> + 'b>
    where
        Self: 'w,
    {
        Box::new(References(self.keys().iter()))
    }
}

impl Sizer for MapView<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(self.map.len() as i64)
    }
}

impl Zeroer for MapView<'_> {
    fn is_zero_value(&self) -> bool {
        self.map.is_empty()
    }
}

/// A list, with its elements made when a rule first looks at them.
#[derive(Debug)]
struct ListView<'v> {
    list: &'v [Value],
    node: Option<NodeRef<'v>>,
    elements: OnceLock<Vec<Box<dyn Val + 'v>>>,
}

impl<'v> ListView<'v> {
    fn elements(&self) -> &[Box<dyn Val + 'v>] {
        self.elements.get_or_init(|| {
            let items = self.node.and_then(NodeRef::items);
            self.list.iter().map(|value| view(value, items)).collect()
        })
    }

    /// Whether order does not count, as in sets and keyed lists.
    fn is_unordered(&self) -> bool {
        let list_type = self.node.and_then(|n| n.node().list_type.as_ref());
        matches!(list_type, Some(ListType::Set | ListType::Map(_)))
    }
}

impl<'v> Val for ListView<'v> {
    fn get_type(&self) -> &Type {
        &LIST_TYPE
    }

    fn cel_type() -> &'static Type {
        &LIST_TYPE
    }

    fn as_adder<'b, 'w>(&'b self) -> Option<&'b (dyn Adder + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn into_indexer<'w>(self: Box<Self>) -> Option<Box<dyn Indexer + 'w>>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_iterable<'b, 'w>(&'b self) -> Option<&'b (dyn Iterable + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        let (Some(sizer), Some(iterable)) = (other.as_sizer(), other.as_iterable()) else {
            return false;
        };
        if *other.get_type() != LIST_TYPE || *sizer.size().inner() != self.list.len() as i64 {
            return false;
        }
        let mut theirs = iterable.iter();
        if !self.is_unordered() {
            return self.elements().iter().all(|o| theirs.next().is_some_and(|t| o.equals(t)));
        }
        let mut others: Vec<&dyn Val> = Vec::new();
        while let Some(element) = theirs.next() {
            others.push(element);
        }
        same_elements(self.elements(), &others)
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(ListView { list: self.list, node: self.node, elements: OnceLock::new() })
    }
}

/// Pairs elements up in any order; the position is tried first, as most lists keep theirs.
fn same_elements(ours: &[Box<dyn Val + '_>], theirs: &[&dyn Val]) -> bool {
    let mut open: Vec<usize> = (0..theirs.len()).collect();
    ours.iter().enumerate().all(|(at, element)| {
        let matches = |slot: usize| element.equals(theirs[slot]);
        let found = match open.binary_search(&at) {
            Ok(place) if matches(at) => Some(place),
            _ => open.iter().position(|slot| matches(*slot)),
        };
        found.map(|place| open.remove(place)).is_some()
    })
}

impl Adder for ListView<'_> {
    fn add<'b, 'w>(&'b self, other: &(dyn Val + 'w)) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        let Some(iterable) = other.as_iterable() else {
            let types = vec![LIST_TYPE.name().to_owned(), other.get_type().name().to_owned()];
            return Err(ExecutionError::no_such_overload("_+_", types));
        };
        let mut all: Vec<Box<dyn Val + 'w>> =
            self.elements().iter().map(|e| e.clone_as_boxed()).collect();
        let mut others = iterable.iter();
        while let Some(element) = others.next() {
            all.push(element.clone_as_boxed());
        }
        Ok(CowVal::owned(CelList::from(all)))
    }
}

impl Container for ListView<'_> {
    fn contains(&self, value: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.elements().iter().any(|element| element.equals(value)))
    }
}

impl Indexer for ListView<'_> {
    fn get<'b, 'w>(&'b self, index: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        let Some(at) = index.downcast_ref::<CelInt>() else {
            return Err(ExecutionError::UnexpectedType {
                got: index.get_type().name().to_owned(),
                want: "int".to_owned(),
            });
        };
        let at = *at.inner();
        let found = usize::try_from(at).ok().and_then(|at| self.list.get(at));
        let items = self.node.and_then(NodeRef::items);
        found
            .map(|value| CowVal::Owned(view(value, items)))
            .ok_or_else(|| ExecutionError::IndexOutOfBounds(at.into()))
    }

    fn steal<'w>(self: Box<Self>, index: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.get(index).map(CowVal::into_owned)
    }
}

impl<'v> Iterable for ListView<'v> {
    fn iter<'b, 'w>(&'b self) -> Box<dyn traits::Iterator<'b, 'w> + 'b>
    where
        Self: 'w,
    {
        Box::new(References(self.elements().iter()))
    }
}

impl Sizer for ListView<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(self.list.len() as i64)
    }
}

impl Zeroer for ListView<'_> {
    fn is_zero_value(&self) -> bool {
        self.list.is_empty()
    }
}

struct References<'b, 'v>(std::slice::Iter<'b, Box<dyn Val + 'v>>);

impl<'b, 'v: 'w, 'w> traits::Iterator<'b, 'w> for References<'b, 'v> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'w)> {
        let next = self.0.next()?;
        Some(next.as_ref())
    }
}

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name under which a rule reaches a field, or `None` if no rule can.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(escaped)
}

/// The field behind an escaped name, or `None` if it is not well escaped.
fn unescape(escaped: &str) -> Option<String> {
    if let Some(word) = escaped.strip_prefix("__").and_then(|e| e.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return Some(word.to_owned());
    }
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find("__") {
        name.push_str(&rest[..at]);
        let (code, after) = rest[at + 2..].split_once("__")?;
        name.push_str(match code {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            _ => return None,
        });
        rest = after;
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_escaping() {
        for (name, escaped) in [
            ("namespace", "__namespace__"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("a__b", "a__underscores__b"),
            ("x-prop", "x__dash__prop"),
            ("plain", "plain"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped));
            assert_eq!(unescape(escaped).as_deref(), Some(name));
        }
        assert_eq!(escape("9a"), None);
        assert_eq!(escape("a b"), None);
        assert_eq!(unescape("a__nothing__b"), None);
    }
}
