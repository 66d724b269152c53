//! Schemas by name: the published ones of built-in kinds, and those of definitions.

use flagship_base::machinery::gvk::GroupVersion;
use flagship_schema::{Published, published};
use serde_json::{Map, Value, json};

use super::prose;
use crate::registry::Kind;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The schemas of one document.
#[derive(Default)]
pub(super) struct Components {
    schemas: Map<String, Value>,
    /// Names that are referred to and not yet there.
    open: Vec<String>,
    published: Option<Published>,
}

impl Components {
    /// Adds a version of a kind; the name of its schema.
    pub(super) fn add(
        &mut self,
        kind: &Kind,
        version: usize,
        definition: impl FnOnce() -> Option<Value>,
    ) -> String {
        let gv = &kind.versions[version].gv;
        let known = kind.row().and_then(|row| self.known(gv, row.kind));
        let (name, schema) = known.unwrap_or_else(|| {
            let reversed: Vec<&str> = gv.group.rsplit('.').collect();
            let name = format!("{}.{}.{}", reversed.join("."), gv.version, kind.kind);
            (name, custom(&gv.version, &definition().unwrap_or_default()))
        });
        self.keep(gv, &kind.kind, name, schema)
    }

    /// Adds the list of a version of a kind whose schema has this name.
    pub(super) fn add_list(&mut self, kind: &Kind, version: usize, item: &str) {
        let gv = &kind.versions[version].gv;
        let text = json!({"type": "string"});
        let schema = json!({
            "type": "object", "required": ["items"],
            "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
            "properties": {
                "apiVersion": text, "kind": text,
                "items": {"type": "array", "items": {"$ref": format!("#/definitions/{item}")}},
                "metadata": {"type": "object", "properties": {
                    "continue": text, "resourceVersion": text,
                    "remainingItemCount": {"type": "integer", "format": "int64"},
                }},
            },
        });
        self.keep(gv, &kind.list_kind, format!("{item}List"), schema);
    }

    /// Adds a kind that is published and never stored.
    pub(super) fn add_published(&mut self, gv: &GroupVersion, kind: &str) -> Option<String> {
        let (name, schema) = self.known(gv, kind)?;
        Some(self.keep(gv, kind, name, schema))
    }

    fn known(&mut self, gv: &GroupVersion, kind: &str) -> Option<(String, Value)> {
        let published = self.published.get_or_insert_with(published);
        let name = published.kinds.get(&format!("{}/{}/{kind}", gv.group, gv.version))?;
        let mut schema = published.definitions.get(name)?.clone();
        prose::describe(name, &mut schema);
        Some((name.clone(), schema))
    }

    fn keep(&mut self, gv: &GroupVersion, kind: &str, name: String, mut schema: Value) -> String {
        self.take_references(&mut schema);
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": gv.group, "version": gv.version, "kind": kind}]);
        self.schemas.insert(name.clone(), schema);
        name
    }

    /// All schemas, with everything they refer to.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        while let Some(name) = self.open.pop() {
            if self.schemas.contains_key(&name) {
                continue;
            }
            let published = self.published.get_or_insert_with(published);
            let mut schema = published.definitions.get(&name).cloned().unwrap_or_default();
            prose::describe(&name, &mut schema);
            self.take_references(&mut schema);
            self.schemas.insert(name, schema);
        }
        self.schemas
    }

    /// Points references to where schemas stand here, and remembers their names.
    fn take_references(&mut self, schema: &mut Value) {
        match schema {
            Value::Object(map) => {
                if let Some(Value::String(target)) = map.get_mut("$ref")
                    && let Some(name) = target.strip_prefix("#/definitions/")
                {
                    self.open.push(name.to_owned());
                    *target = format!("#/components/schemas/{name}");
                }
                map.values_mut().for_each(|value| self.take_references(value));
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.take_references(value)),
            _ => {}
        }
    }
}

/// The schema of a version of a definition, with what every object has.
fn custom(version: &str, definition: &Value) -> Value {
    let mut versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let found = versions.find(|v| v["name"] == *version).unwrap_or(&Value::Null);
    let mut schema = found["schema"]["openAPIV3Schema"].clone();
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    for name in ["apiVersion", "kind"] {
        let field = &mut schema["properties"][name];
        if !field.is_object() {
            *field = json!({"type": "string"});
        }
    }
    let reference = json!({"$ref": format!("#/definitions/{OBJECT_META}")});
    schema["properties"]["metadata"] = reference;
    schema
}
