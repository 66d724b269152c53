//! The `scale` path of workloads: one small object in front of several kinds.

use serde_json::{Map, Value, json};

use super::catalog::Kind;
use super::json::{Fill, at};

/// The `Scale` of an object, if its kind has one.
pub fn scale_of(kind: Kind, object: &Value) -> Option<Value> {
    kind.info().subresource("scale")?;
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let value = at(object, &["metadata", key]);
        if !value.is_null() {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let replicas = |path: &[&str]| at(object, path).as_i64().unwrap_or(0);
    Some(json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas(&["spec", "replicas"])},
        "status": {
            "replicas": replicas(&["status", "replicas"]),
            "selector": selector_text(at(object, &["spec", "selector"])),
        },
    }))
}

/// Writes the replicas of a `Scale` into the object.
pub fn apply_scale(object: &mut Value, scale: &Value) {
    let replicas = at(scale, &["spec", "replicas"]).as_i64().unwrap_or(0);
    let spec = object.as_object_mut().and_then(|object| object.child_or_new("spec"));
    if let Some(spec) = spec {
        spec.insert("replicas".to_owned(), replicas.into());
    }
}

/// A label selector, or a plain map of labels, as selectors are written in queries.
pub fn selector_text(selector: &Value) -> String {
    let structured = selector.get("matchLabels").is_some_and(Value::is_object)
        || selector.get("matchExpressions").is_some_and(Value::is_array);
    let labels = if structured { at(selector, &["matchLabels"]) } else { selector };
    let mut terms: Vec<(&str, String)> = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        terms.push((key, format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    if structured {
        let expressions = at(selector, &["matchExpressions"]).as_array();
        for expression in expressions.into_iter().flatten() {
            let key = at(expression, &["key"]).as_str().unwrap_or_default();
            let values = at(expression, &["values"]).as_array();
            let mut values: Vec<&str> =
                values.into_iter().flatten().filter_map(Value::as_str).collect();
            values.sort_unstable();
            let values = values.join(",");
            let term = match at(expression, &["operator"]).as_str().unwrap_or_default() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            };
            terms.push((key, term));
        }
    }
    terms.sort_by(|left, right| left.0.cmp(right.0));
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_scaled_through_its_scale() {
        let mut web = json!({
            "metadata": {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "7", "labels": {}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "z", "operator": "Exists"},
            ]}},
            "status": {"replicas": 2},
        });
        let scale = scale_of(Kind::Deployment, &web).unwrap();
        assert_eq!(
            scale,
            json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "7"},
                "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a in (x,y),app=web,z"},
            })
        );
        apply_scale(&mut web, &json!({"spec": {"replicas": 5}}));
        assert_eq!(web["spec"]["replicas"], 5);
        assert_eq!(scale_of(Kind::DaemonSet, &web), None);
    }
}
