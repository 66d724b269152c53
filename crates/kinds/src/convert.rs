//! Kinds that are served in more than one shape: autoscalers and events.
//!
//! Stored objects are in [`BuiltinKind::storage_api_version`](super::BuiltinKind); a
//! request in another served version is converted on the way in and on the way out.
//! All other kinds differ in `apiVersion` at most.

use serde_json::{Value, json};

use super::catalog::Kind;
use super::json::{Fill, Object, is_empty};

/// Fields of core events and what events.k8s.io calls them.
const EVENT_NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Turns an object of any served version into the stored one.
pub fn to_storage(kind: Kind, object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    match (kind, map.text("apiVersion")) {
        (Kind::Event, "events.k8s.io/v1") => {
            for (core, newer) in EVENT_NAMES {
                rename(map, newer, core);
            }
        }
        (Kind::HorizontalPodAutoscaler, "autoscaling/v1") => autoscaler_to_v2(map),
        _ => {}
    }
    map.insert("apiVersion".to_owned(), kind.info().storage_api_version().into());
}

/// Turns a stored object into the version asked for, such as `events.k8s.io/v1`.
pub fn from_storage(kind: Kind, api_version: &str, object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    match (kind, api_version) {
        (Kind::Event, "events.k8s.io/v1") => {
            for (core, newer) in EVENT_NAMES {
                rename(map, core, newer);
            }
        }
        (Kind::HorizontalPodAutoscaler, "autoscaling/v1") => autoscaler_to_v1(map),
        _ => {}
    }
    map.insert("apiVersion".to_owned(), api_version.into());
}

/// The label that the store keeps a field of events.k8s.io under; `None` where selectors
/// of that group know no such field.
pub fn event_label(label: &str) -> Option<String> {
    match label {
        "reason" | "type" => Some(label.to_owned()),
        "reportingController" => Some("reportingComponent".to_owned()),
        _ => label.strip_prefix("regarding.").map(|field| format!("involvedObject.{field}")),
    }
}

fn rename(map: &mut Object, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}

/// Where v1 keeps what it has no field for.
const METRICS_NOTE: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR_NOTE: &str = "autoscaling.alpha.kubernetes.io/behavior";

fn autoscaler_to_v2(map: &mut Object) {
    let mut noted = |key: &str| {
        let notes = map.child("metadata").and_then(|metadata| metadata.child("annotations"));
        let text = notes.and_then(|notes| notes.remove(key));
        text.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok())
    };
    let metrics: Option<Value> = noted(METRICS_NOTE);
    let behavior: Option<Value> = noted(BEHAVIOR_NOTE);
    if let Some(metadata) = map.child("metadata")
        && metadata.get("annotations").is_some_and(is_empty)
    {
        metadata.remove("annotations");
    }
    if let Some(spec) = map.child("spec") {
        let mut list = match metrics {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
            list.insert(0, cpu_metric(&percent));
        }
        if !list.is_empty() {
            spec.insert("metrics".to_owned(), list.into());
        }
        if let Some(behavior) = behavior.filter(Value::is_object) {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if let Some(status) = map.child("status")
        && let Some(percent) = status.remove("currentCPUUtilizationPercentage")
    {
        let current = json!({"averageUtilization": percent});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "current": current}});
        status.insert("currentMetrics".to_owned(), json!([metric]));
    }
}

fn cpu_metric(percent: &Value) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn autoscaler_to_v1(map: &mut Object) {
    let mut notes: Vec<(&str, Value)> = Vec::new();
    if let Some(spec) = map.child("spec") {
        if let Some(Value::Array(mut list)) = spec.remove("metrics") {
            let cpu = |metric: &Value| {
                let found = metric.pointer("/resource/name") == Some(&json!("cpu"));
                let percent = metric.pointer("/resource/target/averageUtilization");
                percent.filter(|_| found).cloned()
            };
            if let Some(position) = list.iter().position(|metric| cpu(metric).is_some())
                && let Some(percent) = cpu(&list.remove(position))
            {
                spec.insert("targetCPUUtilizationPercentage".to_owned(), percent);
            }
            if !list.is_empty() {
                notes.push((METRICS_NOTE, list.into()));
            }
        }
        if let Some(behavior) = spec.remove("behavior") {
            notes.push((BEHAVIOR_NOTE, behavior));
        }
    }
    if let Some(status) = map.child("status") {
        status.fill("currentReplicas", 0);
        let metrics = status.remove("currentMetrics");
        let first = metrics.as_ref().and_then(|metrics| metrics.get(0));
        let percent = first.and_then(|m| m.pointer("/resource/current/averageUtilization"));
        if let Some(percent) = percent {
            status.insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
        }
        // v1 has no place for conditions.
        status.remove("conditions");
    }
    if notes.is_empty() {
        return;
    }
    let metadata = map.child_or_new("metadata");
    if let Some(annotations) = metadata.and_then(|metadata| metadata.child_or_new("annotations")) {
        for (key, value) in notes {
            annotations.insert(key.to_owned(), value.to_string().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_same_under_both_names() {
        let newer = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "pulled", "reason": "Pulled",
            "regarding": {"kind": "Pod"}, "reportingController": "kubelet", "deprecatedCount": 3,
        });
        let mut object = newer.clone();
        to_storage(Kind::Event, &mut object);
        assert_eq!(
            object,
            json!({
                "apiVersion": "v1", "kind": "Event", "message": "pulled", "reason": "Pulled",
                "involvedObject": {"kind": "Pod"}, "reportingComponent": "kubelet", "count": 3,
            })
        );
        from_storage(Kind::Event, "events.k8s.io/v1", &mut object);
        assert_eq!(object, newer);
    }

    #[test]
    fn an_autoscaler_survives_the_way_through_v1() {
        let stored = json!({
            "apiVersion": "autoscaling/v2",
            "metadata": {"name": "web"},
            "spec": {
                "maxReplicas": 3,
                "metrics": [cpu_metric(&json!(70)), {"type": "Pods", "pods": {}}],
                "behavior": {"scaleUp": {}},
            },
        });
        let mut object = stored.clone();
        from_storage(Kind::HorizontalPodAutoscaler, "autoscaling/v1", &mut object);
        assert_eq!(object["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}));
        to_storage(Kind::HorizontalPodAutoscaler, &mut object);
        assert_eq!(object, stored);
    }
}
