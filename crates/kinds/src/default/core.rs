//! Defaults of the small core kinds: Namespace, Secret, Node, quotas and priorities.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::json::{Fill, Object};
use super::{fill_text, resource_list};

pub(super) fn namespace(object: &mut Object) {
    if let Some(metadata) = object.child_or_new("metadata") {
        let name = metadata.text("name").to_owned();
        if !name.is_empty()
            && let Some(labels) = metadata.child_or_new("labels")
        {
            labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
        }
    }
    if let Some(status) = object.child_or_new("status") {
        fill_text(status, "phase", "Active");
    }
}

/// `stringData` is for writing only: it ends up, encoded, in `data`.
pub(super) fn secret(object: &mut Object) {
    fill_text(object, "type", "Opaque");
    if let Some(Value::Object(plain)) = object.remove("stringData")
        && let Some(data) = object.child_or_new("data")
    {
        for (key, value) in plain {
            if let Value::String(text) = value {
                data.insert(key, STANDARD.encode(text).into());
            }
        }
    }
}

pub(super) fn node(object: &mut Object) {
    object.child_or_new("spec");
    let Some(status) = object.child("status") else { return };
    resource_list(status, "capacity");
    if let Some(capacity) = status.get("capacity").cloned() {
        status.fill("allocatable", capacity);
    }
    resource_list(status, "allocatable");
}

pub(super) fn resource_quota(object: &mut Object) {
    if let Some(spec) = object.child_or_new("spec") {
        resource_list(spec, "hard");
    }
    if let Some(status) = object.child("status") {
        resource_list(status, "hard");
        resource_list(status, "used");
    }
}

pub(super) fn limit_range(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    for item in spec.children("limits") {
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            resource_list(item, list);
        }
        if item.text("type") == "Container" {
            // In this order: an upper bound is a default limit, a default limit a
            // default request, and only then does the lower bound speak.
            inherit(item, "max", "default");
            inherit(item, "default", "defaultRequest");
            inherit(item, "min", "defaultRequest");
        }
    }
}

fn inherit(item: &mut Object, from: &str, into: &str) {
    let Some(values) = item.get(from).and_then(Value::as_object).cloned() else { return };
    if values.is_empty() {
        return;
    }
    let Some(target) = item.child_or_new(into) else { return };
    for (name, value) in values {
        target.fill(&name, value);
    }
}

pub(super) fn priority_class(object: &mut Object) {
    object.fill("preemptionPolicy", "PreemptLowerPriority");
}

/// What an event says even if it says nothing; the newer group has other names for it.
pub(super) fn event(object: &mut Object) {
    let newer = object.get("apiVersion").is_some_and(|version| version == "events.k8s.io/v1");
    let (source, component) = match newer {
        true => ("deprecatedSource", "reportingController"),
        false => ("source", "reportingComponent"),
    };
    object.fill(source, serde_json::json!({}));
    object.fill(component, "");
    object.fill("reportingInstance", "");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_secret_data_is_encoded_over_what_was_there() {
        let mut object = json!({"data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new"}});
        secret(object.as_object_mut().unwrap());
        assert_eq!(object, json!({"type": "Opaque", "data": {"a": "bmV3", "b": "Yg=="}}));
    }

    #[test]
    fn a_namespace_carries_its_name_as_a_label() {
        let mut object = json!({"metadata": {"name": "web"}});
        namespace(object.as_object_mut().unwrap());
        assert_eq!(object["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "web"}));
        assert_eq!(object["status"], json!({"phase": "Active"}));
    }

    #[test]
    fn container_limits_flow_from_max_to_default_to_request() {
        let mut object = json!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": "2000m"}, "min": {"cpu": "100m", "memory": "64Mi"}},
            {"type": "Pod", "max": {"cpu": "4"}},
        ]}});
        limit_range(object.as_object_mut().unwrap());
        assert_eq!(
            object["spec"]["limits"],
            json!([
                {
                    "type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m", "memory": "64Mi"},
                    "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "64Mi"},
                },
                {"type": "Pod", "max": {"cpu": "4"}},
            ])
        );
    }
}
