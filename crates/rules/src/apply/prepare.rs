//! Makes of a manifest what is sent to the member.

use flagship_api::go_json::{self, Sorted};
use flagship_api::hash::spec_hash;
use flagship_api::keys::annotation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::apply_options::ApplyOptions;
use super::owners::{is_applied_work, is_ours, metadata_mut, owners};

/// All annotations of an object together, keys included, in bytes.
pub(super) const MOST_ANNOTATIONS: usize = 262_144;

const OURS_OR_STALE: [&str; 4] = [
    annotation::SPEC_HASH,
    annotation::LAST_APPLIED,
    annotation::KUBECTL_LAST_APPLIED,
    annotation::DEPLOYMENT_REVISION,
];

const KEPT_BY_SERVERS: [&str; 9] = [
    "ownerReferences",
    "managedFields",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// A copy without what a server keeps, what we write ourselves, and what was true elsewhere.
pub(super) fn sanitised(manifest: &Value) -> Value {
    let mut copy = manifest.clone();
    if let Some(object) = copy.as_object_mut() {
        object.remove("status");
    }
    let Some(metadata) = copy.get_mut("metadata").and_then(Value::as_object_mut) else {
        return copy;
    };
    for field in KEPT_BY_SERVERS {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !OURS_OR_STALE.contains(&key.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    copy
}

/// The manifest as it is sent, but for what a three-way merge remembers in the object.
pub(super) fn prepared(manifest: &Value, owner: &OwnerReference) -> Result<Value, String> {
    let mut copy = sanitised(manifest);
    let hash = spec_hash(&copy).map_err(|error| error.to_string())?;
    annotate(&mut copy, annotation::SPEC_HASH, &hash);
    if let Some(metadata) = metadata_mut(&mut copy) {
        metadata.insert("ownerReferences".to_owned(), json!([owner]));
    }
    Ok(copy)
}

/// Remembers in the object what it was applied as. An object that would grow too large
/// remembers nothing, and says so: `false`.
pub(super) fn remember(prepared: &mut Value) -> Result<bool, String> {
    let text = go_json::to_string(&Sorted(prepared)).map_err(|error| error.to_string())?;
    annotate(prepared, annotation::LAST_APPLIED, &format!("{text}\n"));
    let fits = annotations_size(prepared) <= MOST_ANNOTATIONS;
    if !fits {
        annotate(prepared, annotation::LAST_APPLIED, "");
    }
    Ok(fits)
}

fn annotate(object: &mut Value, key: &str, value: &str) {
    let Some(metadata) = metadata_mut(object) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(key.to_owned(), Value::from(value));
    }
}

fn annotations_size(object: &Value) -> usize {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let size = |value: &Value| value.as_str().map_or(0, str::len);
    annotations.into_iter().flatten().map(|(key, value)| key.len() + size(value)).sum()
}

/// Whether the owners of both sides allow the manifest to be applied.
pub(super) fn check_owners(
    manifest: &Value,
    live: Option<&Value>,
    terms: &ApplyOptions,
) -> Result<(), &'static str> {
    let asked = owners(manifest);
    if !asked.is_empty() && !terms.allow_co_ownership {
        return Err("manifest is set to have owner references but co-ownership is disallowed");
    }
    if asked.iter().any(is_applied_work) {
        return Err(
            "an AppliedWork object is unexpectedly added as an owner in the manifest object",
        );
    }
    let Some(live) = live else { return Ok(()) };
    let present = owners(live);
    if present.len() > 1 && !terms.allow_co_ownership {
        return Err("object is co-owned by multiple objects but co-ownership has been disallowed");
    }
    if !is_ours(live, &terms.owner) {
        return Err("object is not owned by the expected AppliedWork object");
    }
    if present.iter().any(|owner| is_applied_work(owner) && owner.uid != terms.owner.uid) {
        return Err("object is already owned by another AppliedWork object");
    }
    Ok(())
}
