//! How a served version differs from the stored one, as edits of its schema.
//!
//! An edit names fields by the end of their path: `envelope.type` is every
//! `type` inside every `envelope`, `spec` the one at the top. Lists and maps are
//! stepped through without a sign.

use serde_json::Value;

/// A schema on its way to another version.
#[derive(Debug)]
pub(crate) struct Edits {
    root: Value,
    missed: Vec<String>,
}

impl Edits {
    pub(super) fn of(root: Value) -> Self {
        Self { root, missed: Vec::new() }
    }

    /// The edited schema, and the paths of edits that met no field: mistakes in
    /// the table, which a test looks for.
    pub(super) fn finish(self) -> (Value, Vec<String>) {
        (self.root, self.missed)
    }

    /// Takes the fields away.
    pub(crate) fn remove(&mut self, path: &str) -> &mut Self {
        self.on_parents(path, |parent, name| {
            if let Some(Value::Object(properties)) = parent.get_mut("properties") {
                properties.remove(name);
            }
            if let Some(Value::Array(required)) = parent.get_mut("required") {
                required.retain(|required| required != name);
            }
        })
    }

    /// Makes the fields required.
    pub(crate) fn require(&mut self, path: &str) -> &mut Self {
        self.on_parents(path, |parent, name| match parent.get_mut("required") {
            Some(Value::Array(required)) => required.push(name.into()),
            _ => parent["required"] = vec![name].into(),
        })
    }

    /// Sets one attribute of the fields.
    pub(crate) fn set(&mut self, path: &str, key: &str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        self.on_parents(path, |parent, name| parent["properties"][name][key] = value.clone())
    }

    /// Takes one attribute of the fields away.
    pub(crate) fn unset(&mut self, path: &str, key: &str) -> &mut Self {
        self.on_parents(path, |parent, name| {
            if let Value::Object(field) = &mut parent["properties"][name] {
                field.remove(key);
            }
        })
    }

    /// Takes the CEL rules of the fields away.
    pub(crate) fn without_rules(&mut self, path: &str) -> &mut Self {
        self.unset(path, RULES)
    }

    /// Replaces the CEL rules of the fields.
    pub(crate) fn rules(&mut self, path: &str, rules: &[(&str, &str)]) -> &mut Self {
        self.set(path, RULES, super::cel::rules(rules))
    }

    /// Replaces the CEL rules of the object itself.
    pub(crate) fn object_rules(&mut self, rules: &[(&str, &str)]) -> &mut Self {
        self.root[RULES] = super::cel::rules(rules);
        self
    }

    fn on_parents(&mut self, path: &str, mut edit: impl FnMut(&mut Value, &str)) -> &mut Self {
        let wanted: Vec<&str> = path.split('.').collect();
        let hits = visit(&mut self.root, &mut Vec::new(), &wanted, &mut edit);
        if hits == 0 {
            self.missed.push(path.to_owned());
        }
        self
    }
}

const RULES: &str = "x-kubernetes-validations";

/// Calls `edit` with the parent of every field whose path ends as wanted. The
/// depth is that of the Rust types.
fn visit(
    node: &mut Value,
    path: &mut Vec<String>,
    wanted: &[&str],
    edit: &mut impl FnMut(&mut Value, &str),
) -> usize {
    let mut hits = 0;
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            hits += visit(child, path, wanted, edit);
        }
    }
    let names: Vec<String> = match node.get("properties") {
        Some(Value::Object(properties)) => properties.keys().cloned().collect(),
        _ => return hits,
    };
    for name in names {
        path.push(name.clone());
        hits += visit(&mut node["properties"][&name], path, wanted, edit);
        if path.len() >= wanted.len() && path[path.len() - wanted.len()..] == *wanted {
            edit(node, &name);
            hits += 1;
        }
        path.pop();
    }
    hits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_edit_reaches_every_field_its_path_ends_in() {
        let field =
            |name: &str| json!({"properties": {name: {"type": "string"}}, "required": [name]});
        let root = json!({"properties": {
            "a": {"items": field("x")},
            "b": {"properties": {"a": {"additionalProperties": field("x")}}},
        }});
        let mut edits = Edits::of(root);
        edits.set("a.x", "maxLength", 3).remove("b.a.x").require("b.a");
        let (done, missed) = edits.finish();
        assert!(missed.is_empty());
        assert_eq!(done["properties"]["a"]["items"]["properties"]["x"]["maxLength"], 3);
        assert_eq!(
            done["properties"]["b"],
            json!({
                "properties": {"a": {"additionalProperties": {"properties": {}, "required": []}}},
                "required": ["a"],
            })
        );
    }

    #[test]
    fn an_edit_that_meets_nothing_is_remembered() {
        let mut edits = Edits::of(json!({"properties": {}}));
        edits.remove("gone");
        assert_eq!(edits.finish().1, ["gone"]);
    }
}
