//! What admission adds to every pod, and its class of service.

use flagship_base::quantity::Quantity;
use serde_json::{Value, json};

use super::super::json::{Fill, Object, at};

/// Account, priority and the two tolerations that a real server's admission adds.
pub(super) fn admit(pod: &mut Object) {
    let Some(spec) = pod.child("spec") else { return };
    spec.fill("serviceAccountName", "default");
    let account = spec.text("serviceAccountName").to_owned();
    spec.fill("serviceAccount", account);
    let priority = match spec.text("priorityClassName") {
        "" => Some(0),
        "system-cluster-critical" => Some(2_000_000_000),
        "system-node-critical" => Some(2_000_001_000),
        // The class is another object: whoever can read it sets the number.
        _ => None,
    };
    if let Some(priority) = priority {
        spec.fill("priority", priority);
        spec.fill("preemptionPolicy", "PreemptLowerPriority");
    }
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        tolerate(spec, taint);
    }
}

fn tolerate(spec: &mut Object, taint: &str) {
    spec.fill("tolerations", json!([]));
    let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut) else { return };
    let says = |toleration: &Value, key: &str, wanted: &str| {
        let value = at(toleration, &[key]).as_str().unwrap_or_default();
        value.is_empty() || value == wanted
    };
    let known = list.iter().any(|t| says(t, "key", taint) && says(t, "effect", "NoExecute"));
    if !known {
        list.push(json!({
            "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
        }));
    }
}

/// `BestEffort` without requests and limits, `Guaranteed` when they are equal
/// everywhere, else `Burstable`. Only processor and memory count.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let whole = at(spec, &["resources"]);
    let lists: Vec<&Value> = if whole.is_object() {
        vec![whole]
    } else {
        ["initContainers", "containers"]
            .into_iter()
            .filter_map(|list| spec.get(list).and_then(Value::as_array))
            .flatten()
            .map(|container| at(container, &["resources"]))
            .collect()
    };
    let amount = |resources: &Value, list: &str, name: &str| {
        let text = at(resources, &[list, name]).as_str()?;
        Quantity::bounded(text).ok().filter(|q| !q.is_zero() && !q.is_negative())
    };
    let mut any = false;
    let mut equal = !lists.is_empty();
    for resources in lists {
        for name in ["cpu", "memory"] {
            let request = amount(resources, "requests", name);
            let limit = amount(resources, "limits", name);
            any |= request.is_some() || limit.is_some();
            equal &= limit.is_some() && (request == limit || request.is_none());
        }
    }
    match (any, equal) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_service_follows_requests_and_limits() {
        let class =
            |resources: Value| qos_class(&json!({"containers": [{"resources": resources}]}));
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "0"}})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(class(json!({"limits": both, "requests": both})), "Guaranteed");
        let more = json!({"cpu": "1", "memory": "2Gi"});
        assert_eq!(class(json!({"limits": more, "requests": both})), "Burstable");
    }

    #[test]
    fn tolerations_are_added_once_and_not_over_the_users_own() {
        let mut pod = json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}});
        admit(pod.as_object_mut().unwrap());
        let first = pod.clone();
        admit(pod.as_object_mut().unwrap());
        assert_eq!(pod, first);
        assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        assert_eq!(pod["spec"]["priority"], 0);
    }
}
