//! The hash a member leaves on every object it applied.
//!
//! Equal hashes mean "this very manifest was applied before", which is what
//! tells a drift from a new version. Only what an author writes may count, so
//! the manifest is cleaned first; comparisons on the member use the same form.

use serde_json::{Map, Result, Value, json};

use crate::go_json::Sorted;
use crate::keys::IGNORED_IN_COMPARISON;

/// Hash of a manifest as [`cleaned`] leaves it.
pub fn spec_hash(manifest: &Value) -> Result<String> {
    super::of(&Sorted(&cleaned(manifest)))
}

/// Metadata that names an object or that a server fills in.
const NOT_AUTHORED: [&str; 10] = [
    "name",
    "namespace",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "uid",
    "creationTimestamp",
];

/// A copy with everything removed that says nothing about the wanted state.
/// Lists of finalizers, managed fields and owners become empty rather than
/// absent, and so do the maps of labels and annotations.
pub fn cleaned(manifest: &Value) -> Value {
    let mut copy = manifest.clone();
    let Some(object) = copy.as_object_mut() else { return copy };
    object.remove("status");
    if !object.get("metadata").is_some_and(Value::is_object) {
        object.insert("metadata".to_owned(), json!({}));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        clean_metadata(metadata);
    }
    for template in ["/spec/template/metadata", "/spec/jobTemplate/spec/template/metadata"] {
        if let Some(metadata) = copy.pointer_mut(template).and_then(Value::as_object_mut) {
            metadata.remove("creationTimestamp");
        }
    }
    copy
}

fn clean_metadata(metadata: &mut Map<String, Value>) {
    for field in NOT_AUTHORED {
        metadata.remove(field);
    }
    for field in ["finalizers", "managedFields", "ownerReferences"] {
        metadata.insert(field.to_owned(), json!([]));
    }
    for field in ["labels", "annotations"] {
        let mut entries = match metadata.remove(field) {
            Some(Value::Object(entries)) => entries,
            _ => Map::new(),
        };
        entries.retain(|key, _| is_authored(key));
        metadata.insert(field.to_owned(), Value::Object(entries));
    }
}

fn is_authored(key: &str) -> bool {
    !IGNORED_IN_COMPARISON.iter().any(|fragment| key.contains(fragment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_json::to_string;

    #[track_caller]
    fn check(manifest: &Value, form: &str, hash: &str) {
        assert_eq!(to_string(&Sorted(&cleaned(manifest))).unwrap(), form);
        assert_eq!(spec_hash(manifest).unwrap(), hash);
    }

    #[test]
    fn a_bare_namespace() {
        check(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}, "spec": {}}),
            r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{},"finalizers":[],"labels":{},"managedFields":[],"ownerReferences":[]},"spec":{}}"#,
            "08a19eb5a085293fdc5b9e252422e44002e5cfeea1ae3cb303ce1a6537d97c69",
        );
        let without_spec =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}});
        assert_eq!(
            spec_hash(&without_spec).unwrap(),
            "4b58955643cce460a35dc822c0b341df7c5e9350dba8cacfc84e8ab60e2ce0e8"
        );
    }

    #[test]
    fn a_namespace_as_it_comes_from_a_hub() {
        check(
            &json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": "app",
                    "uid": "0a1b",
                    "resourceVersion": "7",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": {"team": "a", "kubernetes.io/metadata.name": "app"},
                    "annotations": {"kubernetes-fleet.io/spec-hash": "x", "a.k8s.io/b": "y"},
                    "finalizers": ["f"],
                },
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }),
            r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{},"finalizers":[],"labels":{"team":"a"},"managedFields":[],"ownerReferences":[]},"spec":{"finalizers":["kubernetes"]}}"#,
            "18917ff84d39329c5b0acd82fddedc3a1f4f0757492117aea63270c64e3da8e0",
        );
    }

    #[test]
    fn a_config_map_with_characters_to_escape() {
        check(
            &json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "cm", "namespace": "app"},
                "data": {"expr": "a < b & c", "data": "test"},
            }),
            r#"{"apiVersion":"v1","data":{"data":"test","expr":"a \u003c b \u0026 c"},"kind":"ConfigMap","metadata":{"annotations":{},"finalizers":[],"labels":{},"managedFields":[],"ownerReferences":[]}}"#,
            "faf14dd6f0efd12bbf8fda1dad0917fcb4d7e8ec559ca5a8922a24cce2fd64a8",
        );
    }

    #[test]
    fn a_fraction_of_zero_is_no_difference() {
        let replicas = |text: &str| -> Value {
            serde_json::from_str(&format!(r#"{{"metadata":{{}},"spec":{{"replicas":{text}}}}}"#))
                .unwrap()
        };
        assert_eq!(spec_hash(&replicas("3")).unwrap(), spec_hash(&replicas("3.0")).unwrap());
    }

    #[test]
    fn template_timestamps_are_removed_in_deployments_and_cron_jobs() {
        let stamped = json!({"creationTimestamp": null, "labels": {"a": "b"}});
        let cron = json!({"spec": {
            "template": {"metadata": stamped},
            "jobTemplate": {"spec": {"template": {"metadata": stamped}}},
        }});
        let bare = json!({"labels": {"a": "b"}});
        let clean = cleaned(&cron);
        assert_eq!(clean["spec"]["template"]["metadata"], bare);
        assert_eq!(clean["spec"]["jobTemplate"]["spec"]["template"]["metadata"], bare);
    }

    #[test]
    fn anything_but_an_object_is_left_alone() {
        for odd in [json!(null), json!([1]), json!("x")] {
            assert_eq!(cleaned(&odd), odd);
        }
        let repaired = cleaned(&json!({"metadata": "text"}));
        assert_eq!(repaired["metadata"]["labels"], json!({}));
    }
}
