//! Objects made from the schemas: what the API admits, the types must carry.
//!
//! The schema of each kind invents objects. Each is read, written and read
//! again; nothing may be lost on the way, and defaults must come out the same
//! whether the schema fills them in or the types do.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use flagship_api::decode;
use flagship_api::defaults::SchemaDefaults;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

mod invent;

use invent::is_required;

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
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let kind = &definition["spec"]["names"]["kind"];
    let invented = invent::object_of(definition, choices);

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

/// The object without each optional field in turn, and with null in its place;
/// lists may be null even where they are required.
fn without_and_null(schema: &Value, whole: &Value, at: &str, pairs: &mut Vec<(Value, Value)>) {
    match whole.pointer(at) {
        Some(Value::Array(items)) => {
            for n in 0..items.len() {
                without_and_null(&schema["items"], whole, &format!("{at}/{n}"), pairs);
            }
        }
        Some(Value::Object(object)) => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            for (name, field) in properties.filter(|(name, _)| object.contains_key(*name)) {
                without_and_null(field, whole, &format!("{at}/{name}"), pairs);
                let absent = match is_required(schema, name) && field["default"].is_null() {
                    false => None,
                    true if field["type"] == "array" => Some(json!([])),
                    true => continue,
                };
                let with = |value| with_field(whole, at, name, value);
                pairs.push((with(absent), with(Some(Value::Null))));
            }
        }
        _ => {}
    }
}

/// The same object with one field replaced or left out.
fn with_field(whole: &Value, at: &str, name: &str, value: Option<Value>) -> Value {
    let mut changed = whole.clone();
    let fields = changed.pointer_mut(at).unwrap().as_object_mut().unwrap();
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
    changed
}

fn check_null<K: DeserializeOwned + PartialEq + std::fmt::Debug>(definition: &Value) {
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut pairs = Vec::new();
    without_and_null(schema, &invent::object_of(definition, &[1; 4096]), "", &mut pairs);
    assert!(pairs.len() > 2);
    for (without, null) in pairs {
        let read = decode::decode_value::<K>(&null).unwrap_or_else(|e| panic!("{e}\n{null:#}"));
        assert_eq!(read, decode::decode_value::<K>(&without).unwrap());
    }
}

#[test]
fn null_means_the_same_as_absence_in_every_field_of_every_kind() {
    macro_rules! check_each {
        ($($module:ident::$Kind:ident),*) => {
            $(check_null::<flagship_api::$module::$Kind>(&invent::definition(stringify!($Kind)));)*
        };
    }
    flagship_api::every_kind!(check_each);
}

fn check_every_kind(choices: &[u8]) {
    macro_rules! check_each {
        ($($module:ident::$Kind:ident),*) => {
            $(check::<flagship_api::$module::$Kind>(&invent::definition(stringify!($Kind)), choices);)*
        };
    }
    flagship_api::every_kind!(check_each);
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
