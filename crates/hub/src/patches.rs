//! The few patches and answers that all shells have in common.

use flagship_api::binding::ResourceBindingSpec;
use flagship_api::condition::{Condition, Conditions, Generation};
use flagship_api::condition_type::binding::ROLLOUT_STARTED;
use flagship_api::keys::{finalizer, own};
use flagship_rules::model::Binding;
use flagship_runtime::client::{ClientError, Precondition, ResourceType};
use flagship_runtime::effects::Kind;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::options::Options;

/// Puts a finalizer beside those that are there.
pub(crate) fn with_finalizer(there: &[String], finalizer: &str) -> Value {
    finalizers(there.iter().map(String::as_str).chain([finalizer]))
}

/// Puts those finalizers that are missing beside those that are there.
pub(crate) fn with_finalizers<'a>(
    there: &'a [String],
    wanted: impl Iterator<Item = &'a str>,
) -> Value {
    let missing = wanted.filter(|wanted| !there.iter().any(|held| held == wanted));
    finalizers(there.iter().map(String::as_str).chain(missing))
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

/// What the write that delivers leaves on a binding beside its spec: the finalizer of the work
/// generator, and the start signal, each of which would be a write of its own. The signal is for
/// the generation that the write makes, so there is none where the spec stays as it is; nor
/// where no work generator of ours would carry it into the status.
pub(crate) struct DeliveryMarks {
    metadata: Value,
    /// Whether the start signal is among them.
    pub signalled: bool,
}

impl DeliveryMarks {
    /// The marks for a binding that gets another spec, or not; `give` sets the signal in its
    /// conditions for a generation.
    pub fn of(
        binding: &Binding,
        spec: &ResourceBindingSpec,
        options: &Options,
        give: impl FnOnce(&mut Vec<Condition>, Generation),
    ) -> Self {
        let mut marks = Self { metadata: json!({}), signalled: false };
        if !options.controllers.work {
            return marks;
        }
        if !binding.has_finalizer(finalizer::WORK) {
            marks.metadata =
                with_finalizer(&binding.finalizers, finalizer::WORK)["metadata"].take();
        }
        if binding.spec != *spec {
            let mut conditions = Vec::new();
            give(&mut conditions, Generation(binding.generation + 1));
            let signal =
                conditions.of_type(ROLLOUT_STARTED).map(|signal| json!(signal).to_string());
            marks.signalled = signal.is_some();
            marks.metadata["annotations"] = json!({own::START_SIGNAL: signal});
        }
        marks
    }

    /// Puts them beside what else the write changes.
    pub fn add_to(self, patch: &mut Value) {
        let Value::Object(marks) = self.metadata else { return };
        for (key, mark) in marks {
            match (&mut patch["metadata"][&*key], mark) {
                (Value::Object(there), Value::Object(mark)) => there.extend(mark),
                (there, mark) => *there = mark,
            }
        }
    }
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
pub(crate) fn ignore_not_found<T>(
    result: Result<T, ClientError>,
) -> Result<Option<T>, ClientError> {
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
