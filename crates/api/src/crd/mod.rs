//! CustomResourceDefinitions, made from the Rust types.
//!
//! The derived schema of a kind is its storage version. `structural` turns what
//! schemars writes into what Kubernetes accepts; `versions` holds the edits that
//! make another served version of it. `shape` and `cel` are for the types' own
//! attributes. Nothing here knows a particular kind.

pub(crate) mod cel;
pub(crate) mod shape;
mod structural;
pub(crate) mod versions;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::kinds::{self, Column, KindInfo, Version};
use versions::Edits;

/// All definitions of KubeFleet's API, in alphabetical order of kind.
pub fn all() -> Vec<Value> {
    kinds::all().iter().map(|info| definition(info)).collect()
}

/// The definitions of our own group, in alphabetical order of kind.
pub fn policies() -> Vec<Value> {
    kinds::policies().iter().map(|info| definition(info)).collect()
}

/// The definition a person means by a kind, plural, short name or `plural.group`.
pub fn of(name: &str) -> Option<Value> {
    kinds::find(name).map(definition)
}

/// The complete `apiextensions.k8s.io/v1` object of one kind.
pub fn definition(info: &KindInfo) -> Value {
    let stored = structural::structural((info.schema)());
    let versions: Vec<Value> = info
        .versions
        .iter()
        .enumerate()
        .map(|(i, version)| version_entry(info, version, &stored, i == 0))
        .collect();
    let mut names = json!({
        "kind": info.kind,
        "listKind": info.list_kind(),
        "plural": info.plural,
        "singular": info.singular(),
    });
    if !info.short_names.is_empty() {
        names["shortNames"] = json!(info.short_names);
    }
    if !info.categories().is_empty() {
        names["categories"] = json!(info.categories());
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": info.crd_name() },
        "spec": {
            "group": info.group,
            "names": names,
            "scope": info.scope.as_str(),
            "conversion": { "strategy": "None" },
            "versions": versions,
        },
    })
}

fn version_entry(info: &KindInfo, version: &Version, stored: &Value, storage: bool) -> Value {
    let mut entry = json!({
        "name": version.name,
        "served": true,
        "storage": storage,
        "schema": { "openAPIV3Schema": version_schema(info, version, stored).0 },
    });
    if info.status_subresource {
        entry["subresources"] = json!({ "status": {} });
    }
    if !version.columns.is_empty() {
        entry["additionalPrinterColumns"] = version.columns.iter().map(column).collect();
    }
    entry
}

/// The schema of one version, and the paths of edits that met nothing.
fn version_schema(info: &KindInfo, version: &Version, stored: &Value) -> (Value, Vec<String>) {
    let mut root = stored.clone();
    root["properties"]["apiVersion"] = json!({
        "type": "string",
        "description": "Group and version of the API this object is written in.",
    });
    root["properties"]["kind"] = json!({
        "type": "string",
        "description": "Kind of this object.",
    });
    // A server refuses a definition that says anything about metadata, even in prose.
    root["properties"]["metadata"] = json!({ "type": "object" });
    if !info.rules.is_empty() {
        root["x-kubernetes-validations"] = cel::rules(info.rules);
    }
    let mut edits = Edits::of(root);
    (version.edits)(&mut edits);
    edits.finish()
}

fn column(column: &Column) -> Value {
    let mut entry = json!({
        "name": column.name,
        "type": column.r#type,
        "jsonPath": column.json_path,
    });
    if column.wide {
        entry["priority"] = json!(1);
    }
    entry
}

/// What schemars says about a type, everything inlined.
pub(crate) fn derived_schema<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_of_every_version_meets_a_field() {
        for info in kinds::all().iter().chain(kinds::policies()) {
            let stored = structural::structural((info.schema)());
            for version in info.versions {
                let missed = version_schema(info, version, &stored).1;
                assert!(missed.is_empty(), "{} {}: {missed:?}", info.kind, version.name);
            }
        }
    }
}
