//! Objects that the schemas and the rules allow, as small as can be.

use serde_json::{Map, Value, json};

use crate::crd::spots::{KEY, Step};

/// The smallest object in which `steps` lead somewhere.
pub fn along(schema: &Value, steps: &[Step]) -> Value {
    let mut object = value(schema, steps);
    if let Some(map) = object.as_object_mut() {
        map.remove("metadata");
    }
    repair(&mut object);
    object
}

/// The smallest value of a schema, with what `steps` ask for.
pub fn value(schema: &Value, steps: &[Step]) -> Value {
    if schema["x-kubernetes-embedded-resource"] == true {
        return json!({"apiVersion": "v1", "kind": "ConfigMap"});
    }
    if !schema["default"].is_null() {
        return schema["default"].clone();
    }
    if let Some(values) = schema["enum"].as_array() {
        return values[0].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if schema["pattern"].is_null() { json!(1) } else { text(schema).into() };
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, steps),
        Some("array") => {
            let fewest = schema["minItems"].as_u64().unwrap_or(0) as usize;
            let rest = steps.split_first().map(|(_, rest)| rest);
            let count = fewest.max(usize::from(rest.is_some()));
            (0..count).map(|_| value(&schema["items"], rest.unwrap_or(&[]))).collect()
        }
        Some("string") => text(schema).into(),
        Some("integer") => schema["minimum"].as_i64().unwrap_or(0).into(),
        Some("boolean") => true.into(),
        // Anything goes.
        _ => json!({"any": "thing"}),
    }
}

fn object(schema: &Value, steps: &[Step]) -> Value {
    let mut map = Map::new();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        map.insert(name.to_owned(), value(&schema["properties"][name], &[]));
    }
    match steps.split_first() {
        Some((Step::Field(name), rest)) => {
            map.insert(name.clone(), value(&schema["properties"][name], rest));
        }
        Some((_, rest)) => {
            map.insert(KEY.to_owned(), value(&schema["additionalProperties"], rest));
        }
        None if !schema["minProperties"].is_null() => {
            map.insert(KEY.to_owned(), value(&schema["additionalProperties"], &[]));
        }
        None => {}
    }
    Value::Object(map)
}

/// A text that the schema's format and pattern allow.
pub fn text(schema: &Value) -> &'static str {
    match schema["format"].as_str() {
        Some("date-time") => return "2026-01-02T03:04:05Z",
        Some("byte") => return "aGFzaA==",
        _ => {}
    }
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    match pattern {
        _ if pattern.contains("%") => "50%",
        _ if pattern.contains("s|m|h") => "1h",
        _ if pattern.contains("KMGTPE") => "500m",
        _ => "canary",
    }
}

/// Adds what the rules between fields ask for, wherever in the object they apply.
pub fn repair(at: &mut Value) {
    match at {
        Value::Array(list) => list.iter_mut().for_each(repair),
        Value::Object(map) => {
            map.values_mut().for_each(repair);
            repair_policy(map);
            repair_stage(map);
            if map.get("type") == Some(&json!("Mirror")) {
                map.entry("destination").or_insert(json!("OriginalResource"));
            }
            if map.get("statusReportingScope") == Some(&json!("NamespaceAccessible")) {
                let namespace = json!([{"group": "", "version": "v1", "kind": "Namespace"}]);
                map.insert("resourceSelectors".to_owned(), namespace);
            }
            if let Some(Value::Array(tolerations)) = map.get_mut("tolerations") {
                for toleration in tolerations.iter_mut().filter_map(Value::as_object_mut) {
                    if toleration.get("operator") != Some(&json!("Exists")) {
                        toleration.entry("key").or_insert(json!("k"));
                    }
                }
            }
        }
        _ => {}
    }
}

/// A policy uses what its type uses.
fn repair_policy(map: &mut Map<String, Value>) {
    if map.contains_key("clusterNames") {
        map.insert("placementType".to_owned(), json!("PickFixed"));
    } else if ["topologySpreadConstraints", "numberOfClusters"].iter().any(|f| map.contains_key(*f))
    {
        map.insert("placementType".to_owned(), json!("PickN"));
    }
    if map.get("placementType") == Some(&json!("PickN")) {
        map.entry("numberOfClusters").or_insert(json!(1));
    }
}

/// A stage's tasks wait or ask, but not both.
fn repair_stage(map: &mut Map<String, Value>) {
    let tasks = |tasks: Option<&mut Value>, edit: fn(&mut Map<String, Value>)| {
        if let Some(Value::Array(list)) = tasks {
            list.iter_mut().filter_map(Value::as_object_mut).for_each(edit);
        }
    };
    tasks(map.get_mut("afterStageTasks"), |task| {
        if task.get("type") == Some(&json!("TimedWait")) {
            task.entry("waitTime").or_insert(json!("1h"));
        } else {
            task.remove("waitTime");
        }
    });
    tasks(map.get_mut("beforeStageTasks"), |task| {
        if task.contains_key("type") {
            task.insert("type".to_owned(), json!("Approval"));
        }
    });
}

/// An object with every field, except those that exclude others.
pub fn full(schema: &Value) -> Value {
    let mut object = every(schema);
    if let Some(map) = object.as_object_mut() {
        map.retain(|key, _| !["apiVersion", "kind", "metadata"].contains(&key.as_str()));
    }
    leave_out_rivals(&mut object);
    repair(&mut object);
    object
}

fn every(schema: &Value) -> Value {
    let Some(properties) = schema["properties"].as_object() else {
        return match (schema.get("items"), schema.get("additionalProperties")) {
            (Some(items), _) => json!([every(items)]),
            (_, Some(values)) => json!({KEY: every(values)}),
            // Types leave a zero out, as Go's do.
            _ if schema["type"] == "integer" => json!(7),
            _ => value(schema, &[]),
        };
    };
    let fields = properties.iter().map(|(name, field)| (name.clone(), every(field)));
    Value::Object(fields.collect())
}

fn leave_out_rivals(at: &mut Value) {
    match at {
        Value::Array(list) => list.iter_mut().for_each(leave_out_rivals),
        Value::Object(map) => {
            map.values_mut().for_each(leave_out_rivals);
            for (rival, of) in [
                ("clusterNames", "placementType"),
                ("labelSelector", "kind"),
                ("minAvailable", "maxUnavailable"),
            ] {
                if map.contains_key(of) {
                    map.remove(rival);
                }
            }
            let before = map.get_mut("beforeStageTasks").and_then(Value::as_array_mut);
            for task in before.into_iter().flatten().filter_map(Value::as_object_mut) {
                task.remove("waitTime");
            }
        }
        _ => {}
    }
}
