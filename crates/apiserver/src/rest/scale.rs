//! The `/scale` path: a small `Scale` object in front of workloads and custom resources.

use flagship_base::machinery::status::{ApiError, FieldError};
use flagship_kinds as kinds;
use serde_json::{Value, json};

use super::meta;
use crate::registry::{Origin, Served};

/// The Scale of an object; `None` when its kind has none.
pub(super) fn of(served: &Served, object: &Value) -> Option<Value> {
    if let Origin::Builtin(id) = served.kind.origin {
        return kinds::scale::scale_of(id, object);
    }
    let paths = served.version().scale.as_ref()?;
    let number = |path: &[Box<str>]| at(object, path).and_then(Value::as_i64).unwrap_or_default();
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = paths.selector.as_ref().and_then(|path| at(object, path)?.as_str());
    if let Some(selector) = selector {
        status["selector"] = json!(selector);
    }
    let mut metadata = serde_json::Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = meta::of(object).get(key) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    Some(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number(&paths.spec_replicas)}, "status": status,
    }))
}

/// Writes a Scale back into its object.
pub(super) fn apply(
    served: &Served,
    name: &str,
    scale: &Value,
    object: &mut Value,
) -> Result<(), ApiError> {
    if scale.get("kind").is_some_and(|kind| kind != "Scale") {
        let says = "the object provided is unrecognized (must be of type Scale)";
        return Err(ApiError::bad_request(says));
    }
    let replicas = match &scale["spec"]["replicas"] {
        Value::Null => 0,
        value => value.as_i64().filter(|n| i32::try_from(*n).is_ok()).ok_or_else(|| {
            ApiError::bad_request(format!("spec.replicas: {value} is not a 32-bit number"))
        })?,
    };
    if replicas < 0 {
        let detail = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", json!(replicas), detail);
        return Err(ApiError::invalid("autoscaling", "Scale", name, &[error]));
    }
    if let Origin::Builtin(_) = served.kind.origin {
        kinds::scale::apply_scale(object, scale);
        return Ok(());
    }
    if let Some(paths) = &served.version().scale {
        put(object, &paths.spec_replicas, json!(replicas));
    }
    Ok(())
}

fn at<'a>(object: &'a Value, path: &[Box<str>]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(&**key))
}

/// Puts a value at a path, making objects on the way.
fn put(object: &mut Value, path: &[Box<str>], value: Value) {
    let mut here = object;
    for key in path {
        if !here.is_object() {
            *here = json!({});
        }
        here = &mut here[&**key];
    }
    *here = value;
}
