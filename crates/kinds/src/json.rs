//! Reading and filling JSON whose shape nobody has vouched for.
//!
//! [`Fill`] is for defaulting: it adds what is missing and steps around what has the
//! wrong type. [`Field`] is for validation: a value that knows its path, so that a
//! finding can name it; an absent field is a `Field` too.

use std::fmt::Write as _;
use std::rc::Rc;

use flagship_base::machinery::bounds::{Clipped, MAX_PATH};
use flagship_base::machinery::status::{FieldError, FieldProblem};
use serde_json::{Map, Value};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// Adds what is missing to a JSON object.
pub(super) trait Fill {
    /// Sets a field that is absent or null.
    fn fill(&mut self, key: &str, value: impl Into<Value>);

    /// The object under this key, if there is one.
    fn child(&mut self, key: &str) -> Option<&mut Object>;

    /// The object under this key, made empty if absent; `None` if something else is there.
    fn child_or_new(&mut self, key: &str) -> Option<&mut Object>;

    /// The objects in the list under this key.
    fn children(&mut self, key: &str) -> impl Iterator<Item = &mut Object>;

    /// The string under this key, or nothing.
    fn text(&self, key: &str) -> &str;

    /// Whether the field is there and not null.
    fn has(&self, key: &str) -> bool;
}

impl Fill for Object {
    fn fill(&mut self, key: &str, value: impl Into<Value>) {
        if !self.has(key) {
            self.insert(key.to_owned(), value.into());
        }
    }

    fn child(&mut self, key: &str) -> Option<&mut Object> {
        self.get_mut(key)?.as_object_mut()
    }

    fn child_or_new(&mut self, key: &str) -> Option<&mut Object> {
        self.fill(key, Object::new());
        self.child(key)
    }

    fn children(&mut self, key: &str) -> impl Iterator<Item = &mut Object> {
        let list = self.get_mut(key).and_then(Value::as_array_mut);
        list.into_iter().flatten().filter_map(Value::as_object_mut)
    }

    fn text(&self, key: &str) -> &str {
        self.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| !value.is_null())
    }
}

/// The value at a path of keys; null when any step is missing.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |here, key| here.get(key).unwrap_or(&Value::Null))
}

/// Whether two values say the same, with absent, null and empty counted as equal.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    left == right || (is_empty(left) && is_empty(right))
}

/// Whether a value is what Go would leave out: null, or a string, list or map without content.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A value and where it stands.
#[derive(Clone)]
pub(super) struct Field<'a> {
    value: &'a Value,
    step: Option<Rc<Step<'a>>>,
}

/// One step of a path, linked to the ones before it.
struct Step<'a> {
    before: Option<Rc<Step<'a>>>,
    here: Here<'a>,
}

enum Here<'a> {
    Key(&'a str),
    MapKey(&'a str),
    Index(usize),
}

impl<'a> Field<'a> {
    /// The whole object.
    pub fn root(value: &'a Value) -> Self {
        Self { value, step: None }
    }

    fn below(&self, value: &'a Value, here: Here<'a>) -> Self {
        Self { value, step: Some(Rc::new(Step { before: self.step.clone(), here })) }
    }

    /// The field of this name, present or not.
    pub fn get(&self, key: &'a str) -> Self {
        self.below(self.value.get(key).unwrap_or(&Value::Null), Here::Key(key))
    }

    /// The elements of a list.
    pub fn items(&self) -> impl Iterator<Item = Self> + '_ {
        let list = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().enumerate().map(|(index, value)| self.below(value, Here::Index(index)))
    }

    /// The entries of a map, each at `map[key]`.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> + '_ {
        let map = self.value.as_object();
        map.into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), self.below(value, Here::MapKey(key))))
    }

    /// The same value, reported at another place: some of Kubernetes' paths are not
    /// where the field is, and people have learned to read them.
    pub fn reported_at(&self, place: &Self) -> Self {
        Self { value: self.value, step: place.step.clone() }
    }

    /// The value itself; null when absent.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The string here, or nothing.
    pub fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The whole number here.
    pub fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Whether `true` stands here.
    pub fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// Whether anything but null stands here.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether nothing, or nothing of substance, stands here.
    pub fn is_empty(&self) -> bool {
        is_empty(self.value)
    }

    /// Number of elements or entries.
    pub fn len(&self) -> usize {
        match self.value {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    /// The path, as Kubernetes writes it, clipped.
    pub fn path(&self) -> String {
        let mut steps = Vec::new();
        let mut step = self.step.as_deref();
        while let Some(Step { before, here }) = step {
            steps.push(here);
            step = before.as_deref();
        }
        let mut path = Clipped::new(MAX_PATH);
        for (at, here) in steps.into_iter().rev().enumerate() {
            let room = match here {
                Here::Key(key) if at == 0 => path.write_str(key),
                Here::Key(key) => write!(path, ".{key}"),
                Here::MapKey(key) => write!(path, "[{key}]"),
                Here::Index(index) => write!(path, "[{index}]"),
            };
            if room.is_err() {
                break;
            }
        }
        path.finish()
    }

    /// The value breaks a rule.
    pub fn invalid(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path(), self.value.clone(), detail)
    }

    /// The value breaks a rule, and is printed otherwise than it stands.
    pub fn invalid_as(&self, shown: impl Into<Value>, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path(), shown.into(), detail)
    }

    /// The field must be present.
    pub fn required(&self, detail: impl Into<String>) -> FieldError {
        FieldError::required(self.path(), detail)
    }

    /// The field may not be set or changed.
    pub fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(self.path(), detail)
    }

    /// The value stands in its list twice.
    pub fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path(), self.value.clone())
    }

    /// The value is none of these.
    pub fn not_supported(&self, allowed: &[&str]) -> FieldError {
        // Kubernetes prints the value of an absent string as "".
        let shown = if self.value.is_null() { Value::from("") } else { self.value.clone() };
        FieldError::not_supported(self.path(), shown, allowed)
    }

    /// The text is longer than this many bytes.
    pub fn too_long(&self, max: usize) -> FieldError {
        FieldError::too_long(self.path(), max)
    }

    /// The list or map has more entries than this.
    pub fn too_many(&self, max: usize) -> FieldError {
        let detail = format!("must have at most {max} items");
        FieldError::new(FieldProblem::TooMany, self.path(), Value::from(self.len()), detail)
    }

    /// The value names something that is not there.
    pub fn not_found(&self) -> FieldError {
        FieldError::new(FieldProblem::NotFound, self.path(), self.value.clone(), "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_reads_as_kubernetes_writes_it() {
        let object =
            json!({"spec": {"containers": [{}, {"ports": [{"hostPort": 1}]}]}, "data": {"a.b": 1}});
        let root = Field::root(&object);
        let containers = root.get("spec").get("containers");
        let second = containers.items().nth(1).unwrap();
        let port = second.get("ports").items().next().unwrap().get("hostPort");
        assert_eq!(port.path(), "spec.containers[1].ports[0].hostPort");
        assert_eq!(port.int(), Some(1));
        let (key, entry) = root.get("data").entries().next().unwrap();
        assert_eq!((key, entry.path().as_str()), ("a.b", "data[a.b]"));
        assert!(!root.get("nowhere").get("deeper").is_set());
    }

    #[test]
    fn filling_keeps_what_is_there() {
        let mut object = json!({"a": 1, "b": null, "c": "text"});
        let map = object.as_object_mut().unwrap();
        map.fill("a", 2);
        map.fill("b", 2);
        assert!(map.child_or_new("c").is_none());
        map.child_or_new("d").unwrap().fill("e", true);
        assert_eq!(object, json!({"a": 1, "b": 2, "c": "text", "d": {"e": true}}));
    }
}
