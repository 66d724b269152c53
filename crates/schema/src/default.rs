//! Fills in defaults, as deep as the object itself goes.
//!
//! A default is applied where its parent exists; the filled-in value is then
//! defaulted in turn. A null where the schema allows none counts as missing.

use flagship_base::machinery::bounds::MAX_WALK;
use serde_json::Value;

use super::node::{NodeRef, Schema};

impl Schema {
    /// Fills in what is missing and has a default.
    pub fn apply_defaults(&self, value: &mut Value) {
        fill(value, self.root(), 0);
    }
}

fn fill(value: &mut Value, node: NodeRef<'_>, depth: usize) {
    if depth > MAX_WALK {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, field) in node.fields() {
                let Some(default) = &field.node().default else { continue };
                let missing = match map.get(name) {
                    None => true,
                    Some(Value::Null) => !field.node().nullable,
                    Some(_) => false,
                };
                if missing && !default.is_null() {
                    map.insert(name.to_owned(), (**default).clone());
                }
            }
            for (key, value) in map {
                if let Some(field) = node.field(key) {
                    replace_null(value, field);
                    fill(value, field, depth + 1);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = node.items() else { return };
            for value in list {
                replace_null(value, items);
                fill(value, items, depth + 1);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, node: NodeRef<'_>) {
    if value.is_null()
        && !node.node().nullable
        && let Some(default) = &node.node().default
    {
        *value = (**default).clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_reach_into_lists_maps_and_other_defaults() {
        let schema = Schema::from_openapi(&json!({
            "type": "object",
            "properties": {
                "spec": {"type": "object", "default": {}, "properties": {
                    "n": {"type": "integer", "default": 1},
                    "s": {"type": "string", "default": "x"},
                    "nullable": {"type": "string", "nullable": true, "default": "y"},
                    "list": {"type": "array", "items": {"type": "object", "properties": {
                        "p": {"type": "string", "default": "TCP"}}}},
                    "map": {"type": "object", "additionalProperties": {
                        "type": "object", "properties": {"q": {"type": "boolean", "default": false}}}},
                }},
            },
        }))
        .unwrap();
        let mut empty = json!({});
        schema.apply_defaults(&mut empty);
        assert_eq!(empty, json!({"spec": {"n": 1, "s": "x", "nullable": "y"}}));

        let mut object = json!({"spec": {
            "n": null, "s": "kept", "nullable": null, "list": [{}, {"p": "UDP"}], "map": {"a": {}},
        }});
        schema.apply_defaults(&mut object);
        assert_eq!(
            object,
            json!({"spec": {
                "n": 1, "s": "kept", "nullable": null,
                "list": [{"p": "TCP"}, {"p": "UDP"}], "map": {"a": {"q": false}},
            }})
        );
    }
}
