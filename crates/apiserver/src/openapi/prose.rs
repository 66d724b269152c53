//! What `kubectl explain` says about built-in kinds.
//!
//! The published descriptions are left out of the embedded table; what stands here are
//! words of our own for the kinds that people ask about, and the values of fields that
//! have few (`data/prose.txt`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

const TEXT: &str = include_str!("../../data/prose.txt");

/// What is said about one definition.
#[derive(Debug, Default)]
struct About {
    says: &'static str,
    fields: BTreeMap<&'static str, Field>,
}

#[derive(Debug)]
struct Field {
    says: &'static str,
    values: Vec<&'static str>,
}

static PROSE: LazyLock<BTreeMap<&'static str, About>> = LazyLock::new(|| {
    let mut all: BTreeMap<&str, About> = BTreeMap::new();
    let mut current = "";
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, says)) = line.split_once(" | ") else { continue };
        match name.strip_prefix("  ") {
            None => {
                current = name;
                all.entry(name).or_default().says = says;
            }
            Some(field) => {
                let (field, values) = field.split_once(" [").unwrap_or((field, ""));
                let values = values.trim_end_matches(']').split_whitespace().collect();
                let about = all.entry(current).or_default();
                about.fields.insert(field, Field { says, values });
            }
        }
    }
    all
});

/// Changes when the words do: clients keep documents by their tag.
pub(super) static EDITION: LazyLock<[u8; 32]> =
    LazyLock::new(|| Sha256::digest(TEXT.as_bytes()).into());

/// Adds words and values to a published definition.
pub(super) fn describe(definition: &str, schema: &mut Value) {
    let short = definition.strip_prefix("io.k8s.").unwrap_or(definition);
    let short = short.strip_prefix("api.").unwrap_or(short);
    let short = short.strip_prefix("apimachinery.pkg.apis.").unwrap_or(short);
    let Some(about) = PROSE.get(short) else { return };
    schema["description"] = json!(about.says);
    let Some(properties) = schema["properties"].as_object_mut() else { return };
    for (name, field) in &about.fields {
        let Some(property) = properties.get_mut(*name) else { continue };
        if let Some(reference) = property.get("$ref").cloned() {
            // Beside a reference nothing else is read.
            *property = json!({"allOf": [{"$ref": reference}]});
        }
        let Some(property) = property.as_object_mut() else { continue };
        add(property, field);
    }
}

fn add(property: &mut Map<String, Value>, field: &Field) {
    property.insert("description".to_owned(), json!(field.says));
    if !field.values.is_empty() {
        property.insert("enum".to_owned(), json!(field.values));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagship_schema::published;

    #[test]
    fn every_name_is_one_of_the_published_schemas() {
        let definitions = published().definitions;
        assert!(PROSE.len() > 50 && PROSE.values().all(|about| !about.says.is_empty()));
        for (name, about) in PROSE.iter() {
            let longs =
                [format!("io.k8s.api.{name}"), format!("io.k8s.apimachinery.pkg.apis.{name}")];
            let found = longs.iter().find_map(|long| definitions.get(long));
            let found = found.unwrap_or_else(|| panic!("{name}"));
            for field in about.fields.keys() {
                assert!(found["properties"].get(field).is_some(), "{name}.{field}");
            }
        }
    }

    #[test]
    fn a_reference_keeps_its_words() {
        let name = "io.k8s.api.apps.v1.DeploymentSpec";
        let mut schema = published().definitions[name].clone();
        describe(name, &mut schema);
        assert_eq!(
            schema["properties"]["strategy"],
            json!({
                "allOf": [{"$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy"}],
                "description": "How old pods are replaced.",
            })
        );
    }
}
