//! A merge patch where a role lets us update and not patch, as KubeFleet's charts do for
//! placements, MemberClusters and every status.
//!
//! The object is read, merged here and written back at the version that was read, so the
//! precondition of the patch holds as before. Only a refusal of the verb itself leads here; what a
//! webhook refuses is refused.

use std::sync::PoisonError;

use flagship_api::names::ObjectKey;
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::objects::{JSON, Objects};
use super::{Call, ClientError};

impl<K: DeserializeOwned> Objects<K> {
    /// Whether this was refused for the verb alone, here and now or earlier.
    pub(super) fn may_not_patch(&self, sub: &str) -> bool {
        let known = self.client.unpatchable.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(&format!("{}{sub}", self.resource))
    }

    /// Updates from now on without asking first.
    pub(super) fn give_up_patching(&self, sub: &str) {
        let mut known = self.client.unpatchable.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert(format!("{}{sub}", self.resource)) {
            tracing::info!(resource = %self.resource, sub, "may not be patched, so it is updated");
        }
    }

    /// Does what the patch asks for by reading and writing back. The body of the answer.
    pub(super) async fn by_update(
        &self,
        key: &ObjectKey,
        sub: &str,
        patch: &Value,
    ) -> Result<bytes::Bytes, ClientError> {
        let (object, path) = (self.resource.named(key), self.resource.object(key));
        let call = |method: Method, path: String, content| Call {
            method,
            path,
            accept: JSON,
            content,
            object: object.clone(),
        };
        let body = self.client.ask(call(Method::GET, path.clone(), None)).await?;
        let there: Value = self.read(&body)?;
        let version = |of: &Value| of.pointer("/metadata/resourceVersion").cloned();
        if version(patch).is_some_and(|wanted| Some(wanted) != version(&there)) {
            let message = "the object has been modified".to_owned();
            return Err(ClientError::Conflict { object, message });
        }
        let content = Some((JSON, merged(there, patch).to_string().into_bytes()));
        let path = self.managed().on(path + sub);
        self.client.ask(call(Method::PUT, path, content)).await
    }
}

/// Whether it is the verb that is refused, in the words of a server that asks roles.
pub(super) fn is_about_the_verb(error: &ClientError) -> bool {
    let cannot = "cannot patch resource";
    matches!(error, ClientError::Forbidden { message, .. } if message.contains(cannot))
}

/// A merge patch as RFC 7386 has it. As deep as the patch, which is our own.
fn merged(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = match target {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    for (key, change) in patch {
        if change.is_null() {
            target.remove(key);
        } else {
            let was = target.remove(key).unwrap_or(Value::Null);
            target.insert(key.clone(), merged(was, change));
        }
    }
    Value::Object(target)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_sets_what_it_names_and_takes_away_what_it_nulls() {
        let there = json!({"a": {"b": 1, "c": [1, 2]}, "d": "x", "e": {"f": 1}});
        let patch = json!({"a": {"b": null, "c": [3]}, "d": {"new": {"gone": null}}, "g": null});
        let expected = json!({"a": {"c": [3]}, "d": {"new": {}}, "e": {"f": 1}});
        assert_eq!(merged(there, &patch), expected);
    }
}
