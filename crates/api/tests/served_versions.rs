//! Objects of every served version decode into the Rust types and lose nothing.
//!
//! The samples are made from the schemas: one object with every field a version
//! allows, once per enum value, and one with the required fields only.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fmt::Debug;

use flagship_api::crd;
use flagship_api::kinds::FleetKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn an_object_with_every_field_survives_in_every_version() {
    macro_rules! survive {
        ($($module:ident::$Kind:ident),*) => {
            $(survives::<flagship_api::$module::$Kind>();)*
        };
    }
    flagship_api::every_kind!(survive);
}

/// Reads and writes samples of every served version.
fn survives<K>()
where
    K: FleetKind + Clone + Debug + PartialEq + Serialize + DeserializeOwned,
{
    let definition = crd::definition(K::INFO);
    for version in definition["spec"]["versions"].as_array().unwrap() {
        let api_version = format!("{}/{}", K::INFO.group, version["name"].as_str().unwrap());
        for choice in 0..3 {
            for only_required in [false, true] {
                let maker = Maker { choice, only_required };
                let mut object = maker.sample(&version["schema"]["openAPIV3Schema"]);
                object["apiVersion"] = api_version.as_str().into();
                object["kind"] = K::INFO.kind.into();
                object["metadata"] = json!({"name": "x", "labels": {"a": "b"}});
                let decoded: K = serde_json::from_str(&object.to_string())
                    .unwrap_or_else(|e| panic!("{api_version} {}: {e}\n{object:#}", K::INFO.kind));
                let encoded = serde_json::to_value(&decoded).unwrap();

                object["apiVersion"] = K::api_version(&()).as_ref().into();
                if K::INFO.kind == "Work" && only_required {
                    object["spec"] = json!({"workload": {}});
                }
                assert_eq!(encoded, object, "{api_version} {}", K::INFO.kind);
            }
        }
    }
}

/// Makes a value that a schema allows.
struct Maker {
    /// Which value of every enum to use, round and round.
    choice: usize,
    /// Whether to leave out what may be left out.
    only_required: bool,
}

impl Maker {
    fn sample(&self, schema: &Value) -> Value {
        if schema["x-kubernetes-embedded-resource"] == true {
            return json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "2", "a": "1"}});
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return json!({"any": ["thing", null, 1.5]});
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[self.choice % values.len()].clone();
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema),
            Some("array") => json!([self.sample(&schema["items"])]),
            Some("boolean") => true.into(),
            Some("integer") => schema["minimum"].as_i64().unwrap_or(6).max(6).into(),
            Some("string") | None => text(schema).into(),
            other => panic!("no sample for type {other:?}"),
        }
    }

    fn object(&self, schema: &Value) -> Value {
        if let Some(values) = schema.get("additionalProperties") {
            return json!({"key": self.sample(values)});
        }
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let Some(properties) = schema["properties"].as_object() else { return json!({}) };
        properties
            .iter()
            .filter(|(name, _)| !self.only_required || required.contains(&json!(name)))
            .map(|(name, child)| (name.clone(), self.sample(child)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// The first of a few texts that the schema's format and pattern allow.
fn text(schema: &Value) -> &'static str {
    match schema["format"].as_str() {
        Some("date-time") => return "2026-01-02T03:04:05Z",
        Some("byte") => return "aGFzaA==",
        _ => {}
    }
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    let pattern = regex::Regex::new(pattern).unwrap();
    let texts = ["canary", "50%", "1h30m0s", "500m"];
    texts.into_iter().find(|text| pattern.is_match(text)).unwrap()
}
