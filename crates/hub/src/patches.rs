//! The few patches and answers that all shells have in common.

use flagship_runtime::client::{ClientError, ResourceType};
use flagship_runtime::effects::Kind;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

/// Puts a finalizer beside those that are there.
pub(crate) fn with_finalizer(there: &[String], finalizer: &str) -> Value {
    finalizers(there.iter().map(String::as_str).chain([finalizer]))
}

/// Takes one finalizer away and leaves the others.
pub(crate) fn without_finalizer(there: &[String], finalizer: &str) -> Value {
    finalizers(there.iter().map(String::as_str).filter(|other| *other != finalizer))
}

fn finalizers<'a>(all: impl Iterator<Item = &'a str>) -> Value {
    json!({"metadata": {"finalizers": all.collect::<Vec<_>>()}})
}

/// The finalizers of an object.
pub(crate) fn finalizers_of(meta: &ObjectMeta) -> &[String] {
    meta.finalizers.as_deref().unwrap_or_default()
}

/// What is to be changed may go in the meantime, and then needs no change.
pub(crate) fn gone_is_fine<T>(result: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match result {
        Ok(changed) => Ok(Some(changed)),
        Err(ClientError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How an event says what it is about.
pub(crate) fn reference<K: Kind>(
    namespace: Option<&str>,
    name: &str,
    uid: &str,
) -> ObjectReference {
    let resource = ResourceType::of::<K>();
    ObjectReference {
        api_version: Some(resource.api_version()),
        kind: Some(resource.kind),
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// The merge patch that makes the second of the first: what is missing there is taken away.
/// Lists are replaced as a whole.
pub(crate) fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return to.clone() };
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        match old.get(key) {
            Some(same) if same == value => {}
            Some(other) => drop(patch.insert(key.clone(), merge_patch(other, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_names_only_what_differs() {
        let old = json!({"a": 1, "b": {"c": 2, "d": 3}, "list": [1], "gone": {"x": 1}});
        let new = json!({"a": 1, "b": {"c": 2, "e": 4}, "list": [1, 2], "new": {"y": 1}});
        assert_eq!(
            merge_patch(&old, &new),
            json!({"b": {"d": null, "e": 4}, "gone": null, "list": [1, 2], "new": {"y": 1}})
        );
        assert_eq!(merge_patch(&new, &new), json!({}));
    }
}
