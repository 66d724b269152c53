//! The few patches and answers that all shells have in common.

use flagship_rules::model::Binding;
use flagship_runtime::client::{ClientError, Precondition, ResourceType};
use flagship_runtime::effects::Kind;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

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

/// The precondition of a write to a binding: the version that was read.
pub(crate) fn precondition_of(binding: &Binding) -> Precondition {
    Precondition {
        key: binding.key(),
        uid: binding.uid.clone(),
        resource_version: binding.resource_version.clone(),
    }
}

/// A merge patch that turns one value into another: what the new one lacks is taken away.
pub(crate) fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let kept = new.iter().map(|(key, value)| {
        let was = old.get(key).unwrap_or(&Value::Null);
        (key.clone(), difference(was, value))
    });
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    kept.chain(gone.map(|key| (key.clone(), Value::Null))).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_takes_away_what_is_no_longer_there() {
        let old = json!({"a": {"type": "ServerSideApply", "config": {"force": true}}, "b": null});
        let new = json!({"a": {"type": "ClientSideApply"}, "b": {"type": "Mirror"}});
        let expected = json!({
            "a": {"type": "ClientSideApply", "config": null},
            "b": {"type": "Mirror"},
        });
        assert_eq!(difference(&old, &new), expected);
        assert_eq!(difference(&new, &json!({"a": null, "b": null})), json!({"a": null, "b": null}));
    }
}
