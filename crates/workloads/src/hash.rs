//! The hash that tells pod templates apart: `pod-template-hash` and
//! `controller-revision-hash`.
//!
//! Kubernetes hashes the Go debug print of its own struct, which nobody else can
//! reproduce; nothing may rely on the value but the cluster that made it. Ours is
//! FNV-1a over canonical JSON, written with the same alphabet and look.

use serde_json::Value;

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
