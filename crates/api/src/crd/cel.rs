//! CEL rules as the attribute value `x-kubernetes-validations`.

use serde_json::{Value, json};

/// Rules, each with the message a user sees when it fails.
pub(crate) fn rules(rules: &[(&str, &str)]) -> Value {
    rules.iter().map(|(rule, message)| json!({ "rule": rule, "message": message })).collect()
}

/// One rule: the value may be set but never changed.
pub(crate) fn immutable(message: &str) -> Value {
    rules(&[("self == oldSelf", message)])
}
