//! `/openapi/v2`: all kinds in one document, for tools that have not moved on.
//!
//! The same schemas and paths as in the documents of version 3, less what version 2 cannot say,
//! and schemas of lists; the packed form has no paths, as nobody looks for them there. kubectl asks for it when a kind cannot be
//! patched, and in protobuf, as its own messages and not as Kubernetes'.

use serde_json::{Map, Value, json};

/// What clients call the packed form: an old name, which no media type may have, and the one
/// that it is sent under.
pub const MEDIA: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

const TITLE: &str = "Kubernetes";
const VERSION: &str = "v1.34.0";

/// Schemas and paths of version 3 as a document of version 2.
pub(super) fn document(schemas: Map<String, Value>, paths: &Map<String, Value>) -> Value {
    let definitions: Map<String, Value> =
        schemas.into_iter().map(|(name, schema)| (name, plain(&schema))).collect();
    let paths: Map<String, Value> =
        paths.iter().map(|(path, item)| (path.clone(), plain_item(item))).collect();
    json!({
        "swagger": "2.0", "info": {"title": TITLE, "version": VERSION},
        "paths": paths, "definitions": definitions,
    })
}

/// The operations of a path in the words of version 2.
fn plain_item(item: &Value) -> Value {
    let operations = item.as_object().into_iter().flatten().map(|(method, operation)| {
        let mut operation = operation.clone();
        let parameters = operation["parameters"].as_array_mut();
        for parameter in parameters.into_iter().flatten() {
            let schema = parameter["schema"].take();
            parameter["type"] = schema["type"].clone();
            parameter["uniqueItems"] = json!(true);
            if let Some(fields) = parameter.as_object_mut() {
                fields.remove("schema");
            }
        }
        let mut schema =
            plain(&operation["responses"]["200"]["content"]["application/json"]["schema"]);
        // Lists have schemas of their own here.
        if operation["x-kubernetes-action"] == "list"
            && let Some(item) = schema["$ref"].as_str()
        {
            schema["$ref"] = json!(format!("{item}List"));
        }
        operation["responses"] = json!({"200": {"description": "OK", "schema": schema}});
        operation["produces"] = json!(["application/json", "application/yaml"]);
        (method.clone(), operation)
    });
    Value::Object(operations.collect())
}

/// Words about values that both versions have.
const BOUNDS: [&str; 13] = [
    "title",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
];

/// A schema in the words of version 2. What those have none for becomes anything at all,
/// as clients refuse a document with one schema that they do not understand.
fn plain(schema: &Value) -> Value {
    let Some(from) = schema.as_object() else { return json!({}) };
    // Words beside a reference are lost.
    let reference = from.get("$ref").or_else(|| from.get("allOf")?.get(0)?.get("$ref"));
    if let Some(target) = reference.and_then(Value::as_str) {
        return json!({"$ref": target.replace("#/components/schemas/", "#/definitions/")});
    }
    let mut into = Map::new();
    for (key, value) in from {
        if key.starts_with("x-kubernetes-") || key == "description" {
            into.insert(key.clone(), value.clone());
        }
    }
    let is = |key: &str| from.get(key).is_some_and(|value| value == true);
    let open = is("nullable") || is("x-kubernetes-int-or-string");
    let kind = from.get("type").and_then(Value::as_str).filter(|_| !open);
    match kind {
        Some("array") if !from.contains_key("items") => return Value::Object(into),
        None => return Value::Object(into),
        Some(kind) => into.insert("type".to_owned(), json!(kind)),
    };
    let both = ["format", "default", "required", "enum", "minProperties"];
    for key in both.into_iter().chain(BOUNDS) {
        if let Some(value) = from.get(key) {
            into.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(items) = from.get("items") {
        into.insert("items".to_owned(), plain(items));
    }
    if let Some(values) = from.get("additionalProperties").filter(|values| values.is_object()) {
        into.insert("additionalProperties".to_owned(), plain(values));
    }
    let fields = from.get("properties").and_then(Value::as_object);
    if let Some(fields) = fields.filter(|_| !is("x-kubernetes-preserve-unknown-fields")) {
        let fields = fields.iter().map(|(name, field)| (name.clone(), plain(field)));
        into.insert("properties".to_owned(), Value::Object(fields.collect()));
    }
    Value::Object(into)
}

/// The document as protobuf.
pub(super) fn packed(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, "2.0");
    out.message(2, |info| {
        info.text(1, TITLE);
        info.text(2, VERSION);
    });
    out.message(8, |_| {});
    out.message(9, |definitions| definitions.schemas(&document["definitions"]));
    out.0
}

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// Schemas by name, in a message of their own.
    fn schemas(&mut self, named: &Value) {
        for (name, schema) in named.as_object().into_iter().flatten() {
            self.message(1, |entry| {
                entry.text(1, name);
                entry.message(2, |value| value.schema(schema));
            });
        }
    }

    /// Any value, which travels as YAML; and JSON is YAML.
    fn any(&mut self, field: u64, value: &Value) {
        self.message(field, |any| any.text(2, &value.to_string()));
    }

    fn number(&mut self, field: u64, value: &Value) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
    }

    fn count(&mut self, field: u64, value: &Value) {
        self.varint(field << 3);
        self.varint(value.as_u64().unwrap_or_default());
    }

    fn flag(&mut self, field: u64, value: &Value) {
        self.varint(field << 3);
        self.varint(u64::from(value == true));
    }

    fn schema(&mut self, schema: &Value) {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for (key, value) in schema.as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            match key.as_str() {
                "$ref" => self.text(1, text),
                "format" => self.text(2, text),
                "title" => self.text(3, text),
                "description" => self.text(4, text),
                "multipleOf" => self.number(6, value),
                "maximum" => self.number(7, value),
                "exclusiveMaximum" => self.flag(8, value),
                "minimum" => self.number(9, value),
                "exclusiveMinimum" => self.flag(10, value),
                "maxLength" => self.count(11, value),
                "minLength" => self.count(12, value),
                "pattern" => self.text(13, text),
                "maxItems" => self.count(14, value),
                "minItems" => self.count(15, value),
                "uniqueItems" => self.flag(16, value),
                "maxProperties" => self.count(17, value),
                "minProperties" => self.count(18, value),
                "default" => self.any(5, value),
                "required" => {
                    list(value).iter().filter_map(Value::as_str).for_each(|one| self.text(19, one));
                }
                "enum" => list(value).iter().for_each(|one| self.any(20, one)),
                "additionalProperties" => {
                    self.message(21, |either| either.message(1, |inner| inner.schema(value)));
                }
                "type" => self.message(22, |kinds| kinds.text(1, text)),
                "items" => self.message(23, |items| items.message(1, |one| one.schema(value))),
                "properties" => self.message(25, |fields| fields.schemas(value)),
                _ => self.message(31, |extension| {
                    extension.text(1, key);
                    extension.any(2, value);
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_version_two_cannot_say_is_anything() {
        let table = [
            (
                json!({"allOf": [{"$ref": "#/components/schemas/a"}], "description": "d"}),
                json!({"$ref": "#/definitions/a"}),
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{}], "default": 1}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
            (
                json!({"type": "string", "nullable": true, "description": "d"}),
                json!({"description": "d"}),
            ),
            (json!({"type": "array"}), json!({})),
            (
                json!({"type": "integer", "minimum": 1, "format": "int32", "not": {}}),
                json!({"type": "integer", "minimum": 1, "format": "int32"}),
            ),
            (
                json!({"type": "string", "pattern": "^a$", "oneOf": []}),
                json!({"type": "string", "pattern": "^a$"}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": true}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            ),
            (
                json!({"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": true}),
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            ),
        ];
        for (schema, want) in table {
            assert_eq!(plain(&schema), want, "{schema}");
        }
    }

    #[test]
    fn the_packed_form_is_the_published_layout() {
        let schema = json!({"type": "array", "items": {"$ref": "#/definitions/b"}, "x-a": 1});
        let packed = packed(&document(Map::from_iter([("n".to_owned(), schema)]), &Map::new()));
        let mut want = b"\x0a\x032.0".to_vec();
        want.extend(b"\x12\x15\x0a\x0aKubernetes\x12\x07v1.34.0\x42\x00");
        // Of the extension nothing is left: it is not one of Kubernetes'.
        let definition = b"\x0a\x01n\x12\x20\xba\x01\x13\x0a\x11\x0a\x0f#/definitions/b\xb2\x01\x07\x0a\x05array";
        want.extend([0x4a, definition.len() as u8 + 2, 0x0a, definition.len() as u8]);
        want.extend(definition);
        // Keys come by name: items before type.
        assert_eq!(packed, want);
    }
}
