//! Containers that exist in a new object of a built-in kind, so that nobody owns them in
//! managedFields.
//!
//! An object of a built-in kind is a struct to Kubernetes, whose inner structs exist
//! from the start. So nobody adds `spec` to a Deployment, only fields in it, and its
//! creator does not own `spec` itself. Custom resources start with nothing.

use serde_json::{Map, Value};

/// Group, kinds, and the containers that a new object of them has; lists end in `[]`, text that
/// is empty from the start in `=`.
const FRESH: &[(&str, &[&str], &[&str])] = &[
    ("", &["Pod"], &["spec.containers[]", "status"]),
    ("", &["Namespace", "PersistentVolume", "ResourceQuota", "Node"], &["spec", "status"]),
    ("", &["Node"], &["status.daemonEndpoints.kubeletEndpoint", "status.nodeInfo"]),
    ("", &["Service"], &["spec", "status.loadBalancer"]),
    ("", &["PersistentVolumeClaim"], &["spec.resources", "status"]),
    ("", &["LimitRange"], &["spec.limits[]"]),
    ("", &["ReplicationController"], &["spec", "status"]),
    ("", &["PodTemplate"], &["template.metadata", "template.spec.containers[]"]),
    ("", &["Event"], &["involvedObject", "source", "reportingComponent=", "reportingInstance="]),
    (
        "events.k8s.io",
        &["Event"],
        &["regarding", "deprecatedSource", "reportingController=", "reportingInstance="],
    ),
    ("apps", &["Deployment"], &["spec.strategy"]),
    ("apps", &["StatefulSet", "DaemonSet"], &["spec.updateStrategy"]),
    ("apps", &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"], POD_TEMPLATE),
    ("batch", &["Job"], POD_TEMPLATE),
    (
        "batch",
        &["CronJob"],
        &[
            "spec.jobTemplate.metadata",
            "spec.jobTemplate.spec.template.metadata",
            "spec.jobTemplate.spec.template.spec.containers[]",
            "status",
        ],
    ),
    ("autoscaling", &["HorizontalPodAutoscaler"], &["spec.scaleTargetRef", "status"]),
    ("policy", &["PodDisruptionBudget"], &["spec", "status"]),
    ("networking.k8s.io", &["Ingress"], &["spec", "status.loadBalancer"]),
    ("networking.k8s.io", &["NetworkPolicy"], &["spec.podSelector"]),
    ("coordination.k8s.io", &["Lease"], &["spec"]),
    ("admissionregistration.k8s.io", &["ValidatingAdmissionPolicy"], &["spec", "status"]),
    ("admissionregistration.k8s.io", &["ValidatingAdmissionPolicyBinding"], &["spec"]),
    (
        "apiextensions.k8s.io",
        &["CustomResourceDefinition"],
        &["spec.names", "spec.versions[]", "status"],
    ),
];

const POD_TEMPLATE: &[&str] =
    &["spec.template.metadata", "spec.template.spec.containers[]", "status"];

/// The object of this kind to which nobody has added anything.
pub(super) fn fresh(object: &Value) -> Value {
    let mut fresh = Value::Object(Map::new());
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let Some(kind) = object["kind"].as_str() else { return fresh };
    for (of, kinds, paths) in FRESH {
        if *of == group && kinds.contains(&kind) {
            paths.iter().for_each(|path| put(&mut fresh, path));
        }
    }
    fresh
}

fn put(at: &mut Value, path: &str) {
    let Value::Object(map) = at else { return };
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    if let Some(text) = name.strip_suffix('=') {
        map.insert(text.to_owned(), Value::String(String::new()));
        return;
    }
    match name.strip_suffix("[]") {
        Some(list) => {
            map.insert(list.to_owned(), Value::Null);
        }
        None => {
            let below = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Some(rest) = rest {
                put(below, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn built_in_kinds_start_with_their_structs_and_others_with_nothing() {
        assert_eq!(
            fresh(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})),
            json!({"spec": {"strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}})
        );
        assert_eq!(
            fresh(&json!({"apiVersion": "example.com/v1", "kind": "Deployment"})),
            json!({})
        );
        assert_eq!(fresh(&json!({"apiVersion": "v1", "kind": "ConfigMap"})), json!({}));
        assert_eq!(fresh(&json!(3)), json!({}));
    }
}
