//! `kubectl explain` has one short, helpful sentence for every field.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use flagship_api::{crd, kinds};
use serde_json::{Value, json};

#[test]
fn every_field_has_one_short_sentence() {
    let mut bad = Vec::new();
    for info in kinds::all().iter().chain(kinds::policies()) {
        let definition = crd::definition(info);
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let path = format!("{} {}", info.kind, version["name"]);
            let schema = &version["schema"]["openAPIV3Schema"];
            check(schema, &path, true, &mut bad);
            // No server takes a definition that describes metadata.
            let metadata = &schema["properties"]["metadata"];
            assert_eq!(*metadata, json!({"type": "object"}), "{path}");
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

fn check(schema: &Value, path: &str, is_field: bool, bad: &mut Vec<String>) {
    let description = schema["description"].as_str().unwrap_or_default();
    let is_sentence = description.ends_with('.')
        && description.len() > 3
        && description.len() <= 110
        && !description.contains('\n');
    if is_field && !is_sentence {
        bad.push(format!("{path}: {description:?}"));
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, child) in properties.iter().filter(|(name, _)| *name != "metadata") {
            check(child, &format!("{path}.{name}"), true, bad);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(key) {
            check(child, &format!("{path}[]"), false, bad);
        }
    }
}
