//! Drops what a schema does not know, or names it for strict decoding.
//!
//! Both ask [`place`] the same question for every key, so that a pruned object never
//! has unknown fields. `metadata` of the object itself and of embedded objects
//! follows the built-in `ObjectMeta`, whatever the schema says about it.
//!
//! Nulls where the schema allows none go as well, unless a default will replace them.

use flagship_base::machinery::bounds::{MAX_SHOWN, MAX_WALK};
use serde_json::{Map, Value};

use super::builtin::object_meta;
use super::node::{NodeRef, Schema};
use super::path::Path;

/// What the schema says about one key of an object.
enum Place<'s> {
    /// Unknown: dropped, and named.
    Unknown,
    /// Kept as it is, whatever is inside.
    Opaque,
    /// Kept; what is inside follows this schema, or is all unknown without one.
    Known(Option<NodeRef<'s>>),
    /// `metadata` of an object.
    Metadata,
}

impl Schema {
    /// Drops every field that the schema does not know, below a built-in object's root.
    pub fn prune(&self, value: &mut Value) {
        drop_unknown(value, Some(self.root()), false, 0);
    }

    /// Names the fields that the schema does not know, as `unknown field "spec.foo"`, up to
    /// a bound.
    pub fn unknown_fields(&self, value: &Value) -> Vec<String> {
        list_unknown(value, self.root(), false)
    }
}

/// As [`Schema::prune`], with a custom resource's root: `apiVersion`, `kind` and
/// `metadata` need no mention in the schema.
pub(super) fn prune_resource(value: &mut Value, root: NodeRef<'_>) {
    drop_unknown(value, Some(root), true, 0);
    drop_nulls(value, Some(root), 0);
}

/// As [`Schema::unknown_fields`], with a custom resource's root.
pub(super) fn unknown_in_resource(value: &Value, root: NodeRef<'_>) -> Vec<String> {
    list_unknown(value, root, true)
}

fn place<'s>(node: Option<NodeRef<'s>>, is_resource: bool, key: &str) -> Place<'s> {
    let Some(node) = node else { return Place::Unknown };
    if is_resource || node.node().embedded_resource {
        match key {
            "apiVersion" | "kind" => return Place::Opaque,
            "metadata" => return Place::Metadata,
            _ => {}
        }
    }
    match node.field(key) {
        Some(field) => Place::Known(Some(field)),
        None if node.node().preserve_unknown => Place::Opaque,
        // `additionalProperties: false` refuses in validation, so what it refuses must get there.
        None if node.node().checks.as_deref().is_some_and(|c| c.closed) => Place::Known(None),
        None => Place::Unknown,
    }
}

/// Elements of a list under a schema that keeps the unknown are themselves kept.
fn element<'s>(node: Option<NodeRef<'s>>) -> Option<Option<NodeRef<'s>>> {
    match node {
        Some(node) => match node.items() {
            Some(items) => Some(Some(items)),
            None if node.node().preserve_unknown => None,
            None => Some(None),
        },
        None => Some(None),
    }
}

fn drop_unknown(value: &mut Value, node: Option<NodeRef<'_>>, is_resource: bool, depth: usize) {
    if depth > MAX_WALK {
        return;
    }
    match value {
        Value::Object(map) => {
            // Most objects hold nothing unknown, and rebuilding a map is dear.
            let mut unknown = false;
            for (key, value) in map.iter_mut() {
                match place(node, is_resource, key) {
                    Place::Unknown => unknown = true,
                    Place::Opaque => {}
                    Place::Known(field) => drop_unknown(value, field, false, depth + 1),
                    Place::Metadata => {
                        drop_unknown(value, Some(object_meta().root()), false, depth + 1);
                    }
                }
            }
            if unknown {
                map.retain(|key, _| !matches!(place(node, is_resource, key), Place::Unknown));
            }
        }
        Value::Array(list) => {
            if let Some(items) = element(node) {
                list.iter_mut().for_each(|v| drop_unknown(v, items, false, depth + 1));
            }
        }
        _ => {}
    }
}

fn list_unknown(value: &Value, root: NodeRef<'_>, is_resource: bool) -> Vec<String> {
    let mut found = Vec::new();
    name_unknown(value, Some(root), is_resource, &Path::Root, 0, &mut found);
    found.sort_unstable();
    found
}

fn name_unknown(
    value: &Value,
    node: Option<NodeRef<'_>>,
    is_resource: bool,
    path: &Path<'_>,
    depth: usize,
    found: &mut Vec<String>,
) {
    if depth > MAX_WALK {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if found.len() >= MAX_SHOWN {
                    return;
                }
                let path = Path::Field(path, key);
                match place(node, is_resource, key) {
                    Place::Unknown => found.push(format!("unknown field \"{path}\"")),
                    Place::Opaque => {}
                    Place::Known(field) => {
                        name_unknown(value, field, false, &path, depth + 1, found);
                    }
                    Place::Metadata => {
                        let meta = object_meta();
                        name_unknown(value, Some(meta.root()), false, &path, depth + 1, found);
                    }
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = element(node) {
                for (at, value) in list.iter().enumerate() {
                    name_unknown(value, items, false, &Path::Index(path, at), depth + 1, found);
                }
            }
        }
        _ => {}
    }
}

pub(super) fn drop_nulls(value: &mut Value, node: Option<NodeRef<'_>>, depth: usize) {
    if depth > MAX_WALK {
        return;
    }
    let Some(node) = node else { return };
    match value {
        Value::Object(map) => drop_null_fields(map, node, depth),
        Value::Array(list) => {
            list.iter_mut().for_each(|v| drop_nulls(v, node.items(), depth + 1));
        }
        _ => {}
    }
}

fn drop_null_fields(map: &mut Map<String, Value>, node: NodeRef<'_>, depth: usize) {
    let mut nulls = false;
    for (key, value) in map.iter_mut() {
        match value {
            Value::Null => nulls = true,
            Value::Object(_) | Value::Array(_) => drop_nulls(value, node.field(key), depth + 1),
            _ => {}
        }
    }
    if nulls {
        map.retain(|key, value| {
            let field = node.field(key).filter(|_| value.is_null());
            field.is_none_or(|field| field.node().nullable || field.node().default.is_some())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use serde_json::json;

    #[test]
    fn a_custom_resource_keeps_what_its_schema_knows() {
        let schema = Schema::from_openapi(&json!({
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "list": {"type": "array", "items": {
                            "type": "object", "properties": {"a": {"type": "integer"}}}},
                        "map": {"type": "object", "additionalProperties": {
                            "type": "object", "properties": {"b": {"type": "string"}}}},
                        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                            "properties": {"known": {"type": "object"}}},
                        "loose": {"type": "object", "additionalProperties": true},
                        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
                            "x-kubernetes-preserve-unknown-fields": true},
                        "plain": {"type": "string"},
                        "maybe": {"type": "string", "nullable": true},
                    },
                },
            },
        }))
        .unwrap();
        let mut object = json!({
            "apiVersion": "a/v1", "kind": "K",
            "metadata": {"name": "n", "color": "red", "labels": {"a": "b"}},
            "spec": {
                "list": [{"a": 1, "x": 2}],
                "map": {"k": {"b": "", "y": 1}},
                "any": {"free": {"deep": 1}, "known": {"z": 1}},
                "loose": {"key": {"inside": 1}, "scalar": 1},
                "embedded": {"kind": "P", "metadata": {"name": "p", "shape": 1}, "spec": {"q": 1}},
                "plain": null, "maybe": null, "extra": 1,
            },
            "status": {},
        });
        assert_eq!(
            unknown_in_resource(&object, schema.root()),
            [
                r#"unknown field "metadata.color""#,
                r#"unknown field "spec.any.known.z""#,
                r#"unknown field "spec.embedded.metadata.shape""#,
                r#"unknown field "spec.extra""#,
                r#"unknown field "spec.list[0].x""#,
                r#"unknown field "spec.loose.key.inside""#,
                r#"unknown field "spec.map.k.y""#,
                r#"unknown field "status""#,
            ]
        );
        prune_resource(&mut object, schema.root());
        assert_eq!(
            object,
            json!({
                "apiVersion": "a/v1", "kind": "K",
                "metadata": {"name": "n", "labels": {"a": "b"}},
                "spec": {
                    "list": [{"a": 1}],
                    "map": {"k": {"b": ""}},
                    "any": {"free": {"deep": 1}, "known": {}},
                    "loose": {"key": {}, "scalar": 1},
                    "embedded": {"kind": "P", "metadata": {"name": "p"}, "spec": {"q": 1}},
                    "maybe": null,
                },
            })
        );
        assert!(unknown_in_resource(&object, schema.root()).is_empty());
    }

    #[test]
    fn built_in_kinds_name_fields_with_indices() {
        let deployment = builtin("apps", "v1", "Deployment").unwrap();
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"nam": "x"},
            "spec": {"replica": 1, "template": {"spec": {"containers": [{"imag": "x"}]}}},
        });
        assert_eq!(
            deployment.unknown_fields(&object),
            [
                r#"unknown field "metadata.nam""#,
                r#"unknown field "spec.replica""#,
                r#"unknown field "spec.template.spec.containers[0].imag""#,
            ]
        );
    }
}
