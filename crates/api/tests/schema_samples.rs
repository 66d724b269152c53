//! Objects made from the schemas: what the API admits, the types must carry.
//!
//! The schema of each kind invents objects. Each is read, written and read
//! again; nothing may be lost on the way, and defaults must come out the same
//! whether the schema fills them in or the types do.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use flagship_api::defaults::SchemaDefaults;
use flagship_api::{crd, decode};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Draws choices from a list of bytes; when it is used up, always zero.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % limit
    }
}

/// Invents a value that the schema admits.
fn invent(schema: &Value, choices: &mut Choices<'_>) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return values[choices.below(values.len())].clone();
    }
    // A quantity may be a number too, but is always written as text.
    if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("KMGTPE")) {
        return json!("2Gi");
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return [json!(2), json!("25%")][choices.below(2)].clone();
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        return json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a<b"}});
    }
    match schema["type"].as_str() {
        Some("object") => invent_object(schema, choices),
        Some("array") => {
            let fewest = schema["minItems"].as_u64().unwrap_or(0);
            let count = fewest + choices.below(2) as u64;
            (0..count).map(|_| invent(&schema["items"], choices)).collect()
        }
        Some("string") => invent_text(schema, choices),
        Some("integer") => {
            let lowest = schema["minimum"].as_i64().unwrap_or(-1);
            json!(lowest + choices.below(3) as i64)
        }
        Some("boolean") => json!(choices.below(2) == 1),
        // Anything goes.
        _ => json!({"any": [1, "thing"]}),
    }
}

fn invent_object(schema: &Value, choices: &mut Choices<'_>) -> Value {
    let mut object = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        // The server fills in defaults before it asks for what is required.
        let needed = is_required(schema, name) && field["default"].is_null();
        if needed || choices.below(3) > 0 {
            object.insert(name.clone(), invent(field, choices));
        }
    }
    if schema["additionalProperties"].is_object() {
        object.insert("some/key".to_owned(), invent(&schema["additionalProperties"], choices));
    }
    Value::Object(object)
}

fn invent_text(schema: &Value, choices: &mut Choices<'_>) -> Value {
    match (schema["format"].as_str(), schema["pattern"].as_str()) {
        (Some("date-time"), _) => json!("2026-01-02T03:04:05Z"),
        (Some("byte"), _) => json!("YWJj"),
        (_, Some(pattern)) if pattern.contains("(?:s|m|h)") => json!("1m0s"),
        (_, Some(_)) => json!("abc"),
        _ => json!(["text", "a<b", "1"][choices.below(3)]),
    }
}

/// Which defaults to fill in.
#[derive(Clone, Copy, PartialEq)]
enum Defaults {
    /// All, as an API server does.
    All,
    /// Those of required fields: the types cannot leave them out.
    Required,
}

fn fill_in(which: Defaults, schema: &Value, value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let wanted = which == Defaults::All || is_required(schema, name);
                if wanted && !object.contains_key(name) && !field["default"].is_null() {
                    object.insert(name.clone(), field["default"].clone());
                }
                if let Some(inner) = object.get_mut(name) {
                    fill_in(which, field, inner);
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| fill_in(which, &schema["items"], item));
        }
        _ => {}
    }
}

fn is_required(schema: &Value, field: &str) -> bool {
    schema["required"].as_array().into_iter().flatten().any(|name| name == field)
}

/// Without what means the same as its absence.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.iter().map(|(key, value)| (key.clone(), bare(value)));
            // An empty selector or policy is not the same as none; these two are.
            let nothing = |key: &str, value: &Value| {
                let only_data = ["resourceUsage", "version"].contains(&key);
                means_nothing(value) || only_data && *value == json!({})
            };
            Value::Object(kept.filter(|(key, value)| !nothing(key, value)).collect())
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
}

fn means_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => false,
    }
}

fn check<K>(definition: &Value, choices: &[u8])
where
    K: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug + SchemaDefaults,
{
    let version = &definition["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let kind = &definition["spec"]["names"]["kind"];
    let mut invented = invent_object(schema, &mut Choices(choices.iter()));
    let group = definition["spec"]["group"].as_str().unwrap();
    invented["apiVersion"] = json!(format!("{group}/{}", version["name"].as_str().unwrap()));
    invented["kind"] = kind.clone();
    invented["metadata"] = json!({"name": "web", "generation": 3});

    let mut object: K =
        decode::decode_value(&invented).unwrap_or_else(|error| panic!("{error}\n{invented:#}"));
    let written = serde_json::to_value(&object).unwrap();
    let mut expected = invented.clone();
    fill_in(Defaults::Required, schema, &mut expected);
    if kind == "Work" {
        // Written even when there is nothing to apply.
        let spec = expected.as_object_mut().unwrap().entry("spec").or_insert_with(|| json!({}));
        spec.as_object_mut().unwrap().entry("workload").or_insert_with(|| json!({}));
    }
    assert_eq!(bare(&written), bare(&expected), "{kind} lost something");
    assert_eq!(decode::decode_value::<K>(&written).unwrap(), object);
    let text = serde_json::to_vec(&object).unwrap();
    assert_eq!(decode::decode::<K>(&text).unwrap(), object);

    let mut filled = invented;
    fill_in(Defaults::All, schema, &mut filled);
    object.fill_schema_defaults();
    assert_eq!(object, decode::decode_value::<K>(&filled).unwrap(), "{kind} has other defaults");
    let once = serde_json::to_value(&object).unwrap();
    object.fill_schema_defaults();
    assert_eq!(serde_json::to_value(&object).unwrap(), once);
}

fn check_every_kind(choices: &[u8]) {
    macro_rules! check_each {
        ($($module:ident::$Kind:ident),*) => {
            $(check::<flagship_api::$module::$Kind>(&definition(stringify!($Kind)), choices);)*
        };
    }
    flagship_api::every_kind!(check_each);
}

thread_local! {
    static DEFINITIONS: Vec<Value> = crd::all();
}

fn definition(kind: &str) -> Value {
    DEFINITIONS.with(|all| {
        all.iter().find(|found| found["spec"]["names"]["kind"] == kind).cloned().unwrap()
    })
}

#[test]
fn the_smallest_and_the_largest_object_of_every_kind_survive() {
    check_every_kind(&[]);
    check_every_kind(&[1; 4096]);
    check_every_kind(&[2; 4096]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn invented_objects_of_every_kind_survive(
        choices in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        check_every_kind(&choices);
    }
}
