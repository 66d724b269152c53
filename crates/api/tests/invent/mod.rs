//! Objects invented from the schema of their kind.
//!
//! Which one comes out is decided by a list of bytes, so that proptest can draw
//! and shrink it.

use flagship_api::crd;
use serde_json::{Map, Value, json};

/// The definition of a kind; all of them are made once for each thread.
pub fn definition(kind: &str) -> Value {
    thread_local! {
        static ALL: Vec<Value> = crd::all();
    }
    ALL.with(|all| {
        all.iter().find(|found| found["spec"]["names"]["kind"] == kind).cloned().unwrap()
    })
}

/// Invents an object that the stored version of a definition admits.
pub fn object_of(definition: &Value, choices: &[u8]) -> Value {
    let version = &definition["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut invented = invent_object(schema, &mut Choices(choices.iter()));
    let group = definition["spec"]["group"].as_str().unwrap();
    invented["apiVersion"] = json!(format!("{group}/{}", version["name"].as_str().unwrap()));
    invented["kind"] = definition["spec"]["names"]["kind"].clone();
    invented["metadata"] = json!({"name": "web", "generation": 3});
    invented
}

/// Whether a schema requires one of its fields.
pub fn is_required(schema: &Value, field: &str) -> bool {
    schema["required"].as_array().into_iter().flatten().any(|name| name == field)
}

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
