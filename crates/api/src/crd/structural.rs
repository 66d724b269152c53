//! From the schema schemars writes to the structural schema Kubernetes accepts.
//!
//! schemars describes what serde reads: an `Option` may be null, a documented
//! enum is a choice of constants. Kubernetes wants one plain type per field, and
//! lets absence speak for itself.

use serde_json::{Map, Value};

/// Rewrites a schema and everything below it.
pub(super) fn structural(mut schema: Value) -> Value {
    rewrite(&mut schema);
    schema
}

// Recursion ends where the Rust types end: none of them contains itself.
fn rewrite(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    drop_null(node);
    constants_to_enum(node);
    node.remove("title");
    if node.get("default").is_some_and(|default| !is_written_default(default)) {
        node.remove("default");
    }
    if let Some(Value::String(text)) = node.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(rewrite);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            rewrite(child);
        }
    }
}

/// `T or null` becomes `T`, whichever way it is spelled.
fn drop_null(node: &mut Map<String, Value>) {
    let is_null = |schema: &Value| schema["type"] == "null";
    if let Some(Value::Array(choices)) = node.get_mut("anyOf")
        && choices.iter().any(is_null)
    {
        choices.retain(|choice| !is_null(choice));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            node.remove("anyOf");
            for (key, value) in only {
                // What the field says wins over what its type says.
                node.entry(key).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(types)) = node.get("type")
        && let [only, Value::String(null)] = types.as_slice()
        && null == "null"
    {
        let only = only.clone();
        node.insert("type".to_owned(), only);
    }
    if let Some(Value::Array(values)) = node.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

/// A documented enum becomes a plain list of its values.
fn constants_to_enum(node: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = node.get("oneOf") else { return };
    let values: Option<Vec<Value>> =
        choices.iter().map(|choice| choice.get("const").cloned()).collect();
    if let Some(values) = values {
        node.remove("oneOf");
        node.insert("type".to_owned(), "string".into());
        node.insert("enum".to_owned(), values.into());
    }
}

/// The API's own defaults are numbers and words; anything else is how serde
/// fills an absent field, which is not for the server to write.
fn is_written_default(default: &Value) -> bool {
    matches!(default, Value::Number(_) | Value::String(_))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absence_and_choice_become_plain_types() {
        let table = [
            ("text", json!({"type": ["string", "null"]}), json!({"type": "string"})),
            (
                "object",
                json!({"description": "field", "anyOf": [
                    {"type": "object", "description": "type", "title": "T"}, {"type": "null"}]}),
                json!({"type": "object", "description": "field"}),
            ),
            (
                "enum",
                json!({"default": "A", "anyOf": [
                    {"oneOf": [{"const": "A"}, {"const": "B"}]}, {"type": "null"}]}),
                json!({"default": "A", "type": "string", "enum": ["A", "B"]}),
            ),
            (
                "int or string",
                json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
                json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            ),
            ("serde default", json!({"type": "object", "default": {}}), json!({"type": "object"})),
            (
                "nested",
                json!({"items": {"properties": {"a": {"type": ["integer", "null"]}}}}),
                json!({"items": {"properties": {"a": {"type": "integer"}}}}),
            ),
        ];
        for (name, from, to) in table {
            assert_eq!(structural(from), to, "{name}");
        }
    }
}
