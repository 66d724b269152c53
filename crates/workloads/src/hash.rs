//! The hash that tells pod templates apart: `pod-template-hash` and
//! `controller-revision-hash`.
//!
//! Kubernetes hashes the Go debug print of its own struct, which nobody else can
//! reproduce; nothing may rely on the value but the cluster that made it. Ours is
//! FNV-1a over canonical JSON, written with the same alphabet and look.
//!
//! Names need no more; whether two templates are one, a [`Fingerprint`] tells.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::object::says_nothing;

/// Letters and digits without vowels and look-alikes.
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Hash of a template; `collisions` makes a second one where the first was taken.
pub fn of_template(template: &Value, collisions: Option<i64>) -> String {
    // serde_json maps are sorted, so equal templates print equally.
    let mut state = fnv1a(0x811c_9dc5, strip(template).to_string().as_bytes());
    if let Some(count) = collisions {
        state = fnv1a(state, &count.to_le_bytes());
    }
    safe(&state.to_string())
}

/// Spells decimal digits in the safe alphabet.
fn safe(digits: &str) -> String {
    digits.bytes().map(|b| char::from(SAFE[usize::from(b) % SAFE.len()])).collect()
}

fn fnv1a(mut state: u32, bytes: &[u8]) -> u32 {
    for byte in bytes {
        state ^= u32::from(*byte);
        state = state.wrapping_mul(0x0100_0193);
    }
    state
}

/// Fields that say nothing must not change the hash.
fn strip(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(k, v)| (k.clone(), strip(v)))
                .filter(|(_, v)| !v.is_null() && v.as_object().is_none_or(|m| !m.is_empty()))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(strip).collect()),
        other => other.clone(),
    }
}

/// Equal for values that [mean the same](crate::object::means_the_same), and for no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of several values, in this order.
    pub fn of(values: &[&Value]) -> Self {
        let mut hasher = Sha256::new();
        values.iter().for_each(|value| feed(&mut hasher, value));
        Self(hasher.finalize().into())
    }
}

/// Every value begins with a mark of its kind and ends where its length or mark says.
fn feed(hasher: &mut Sha256, value: &Value) {
    let text = |hasher: &mut Sha256, mark: &[u8], text: &str| {
        hasher.update(mark);
        hasher.update(text.len().to_le_bytes());
        hasher.update(text);
    };
    match value {
        value if says_nothing(value) => hasher.update(b"0"),
        Value::Object(map) => {
            hasher.update(b"{");
            for (key, value) in map.iter().filter(|(_, value)| !says_nothing(value)) {
                text(hasher, b"k", key);
                feed(hasher, value);
            }
            hasher.update(b"}");
        }
        Value::Array(list) => {
            hasher.update(b"[");
            list.iter().for_each(|value| feed(hasher, value));
            hasher.update(b"]");
        }
        Value::String(string) => text(hasher, b"s", string),
        other => text(hasher, b"n", &other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::means_the_same;
    use serde_json::json;

    #[test]
    fn values_have_one_fingerprint_when_they_mean_the_same() {
        let values = [
            json!(null),
            json!({}),
            json!([]),
            json!([null]),
            json!([{}]),
            json!([[]]),
            json!({"a": 1}),
            json!({"a": 1, "b": null}),
            json!({"a": 1, "b": {"c": []}}),
            json!({"a": [1]}),
            json!({"a": ["1"]}),
            json!({"a": "1"}),
            json!({"a": true}),
            json!({"a": "true"}),
            json!({"a": {"b": 1}}),
            json!({"a": {}, "b": 1}),
            json!(["a", "b"]),
            json!(["ab"]),
            json!([["a"], "b"]),
            json!([["a", "b"]]),
        ];
        for a in &values {
            for b in &values {
                let one = Fingerprint::of(&[a]) == Fingerprint::of(&[b]);
                assert_eq!(one, means_the_same(a, b), "{a} {b}");
            }
        }
    }

    #[test]
    fn equal_templates_have_equal_hashes_and_collisions_move_them() {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
        let noisy = json!({
            "metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": {"containers": []},
        });
        let hash = of_template(&template, None);
        assert_eq!(hash, of_template(&noisy, None));
        assert_ne!(hash, of_template(&template, Some(1)));
        assert!(hash.bytes().all(|b| SAFE.contains(&b)), "{hash}");
    }
}
