//! An object as it leaves the hub: without what the hub's server and controllers wrote.
//!
//! Every rewrite a server makes by itself must vanish here, or the hash changes and a
//! new version is rolled out for nothing.

use flagship_api::go_json::{self, Sorted};
use flagship_api::keys::{annotation, label};
use flagship_api::raw_json::RawJson;
use serde_json::{Map, Value};

use super::hub::Kind;

/// Metadata that only means something on the hub.
const LOCAL_METADATA: [&str; 8] = [
    "resourceVersion",
    "generation",
    "uid",
    "selfLink",
    "deletionTimestamp",
    "managedFields",
    "ownerReferences",
    "creationTimestamp",
];

const LOCAL_ANNOTATIONS: [&str; 2] =
    [annotation::KUBECTL_LAST_APPLIED, annotation::DEPLOYMENT_REVISION];

/// The manifest of an object: compact, keys in order, `apiVersion` and `kind` included.
pub fn manifest(kind: &Kind, mut object: Value) -> serde_json::Result<RawJson> {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), kind.api_version().into());
        fields.insert("kind".to_owned(), kind.kind.clone().into());
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            strip_metadata(metadata);
        }
        if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
            if kind.is("", "v1", "Service") {
                strip_service(spec);
            } else if kind.is("batch", "v1", "Job") {
                strip_job(spec);
            }
        }
    }
    RawJson::from_text(go_json::to_string(&Sorted(&object))?)
}

fn strip_metadata(metadata: &mut Map<String, Value>) {
    for field in LOCAL_METADATA {
        metadata.remove(field);
    }
    let Some(annotations) = metadata.get_mut("annotations") else { return };
    if let Some(entries) = annotations.as_object_mut() {
        for key in LOCAL_ANNOTATIONS {
            entries.remove(key);
        }
    }
    let empty = annotations.is_null() || annotations.as_object().is_some_and(Map::is_empty);
    if empty {
        metadata.remove("annotations");
    }
}

/// Addresses and ports are the member's to give out.
fn strip_service(spec: &mut Map<String, Value>) {
    if spec.get("clusterIP").is_some_and(|address| address != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
}

/// The hub's Job controller marked selector and template with the hub's own uid.
fn strip_job(spec: &mut Map<String, Value>) {
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let unmark = |labels: Option<&mut Value>| {
        if let Some(labels) = labels.and_then(Value::as_object_mut) {
            labels.remove(label::JOB_CONTROLLER_UID_LEGACY);
            labels.remove(label::JOB_CONTROLLER_UID);
        }
    };
    unmark(spec.get_mut("selector").and_then(|selector| selector.get_mut("matchLabels")));
    let template = spec.get_mut("template").and_then(|template| template.get_mut("metadata"));
    if let Some(metadata) = template.and_then(Value::as_object_mut) {
        unmark(metadata.get_mut("labels"));
        metadata.remove("creationTimestamp");
    }
}
