//! How deep values may nest. Whoever walks a value asks first.

use serde_json::Value;

/// Containers inside each other: what the JSON reader accepts, and so the most that may
/// be stored.
pub const MAX_DEPTH: usize = 127;

/// Whether `value` nests at most `limit` containers deep. Visits no deeper than that.
pub fn fits(value: &Value, limit: usize) -> bool {
    match value {
        Value::Object(map) => limit > 0 && map.values().all(|v| fits(v, limit - 1)),
        Value::Array(list) => limit > 0 && list.iter().all(|v| fits(v, limit - 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_count_and_scalars_do_not() {
        assert!(fits(&json!(1), 0));
        assert!(!fits(&json!({}), 0));
        assert!(fits(&json!({"a": [1]}), 2));
        assert!(!fits(&json!({"a": [[]]}), 2));
    }

    #[test]
    fn the_deepest_value_is_the_deepest_that_can_be_read_again() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let deepest: Value = serde_json::from_str(&nested(MAX_DEPTH)).unwrap();
        assert!(fits(&deepest, MAX_DEPTH) && !fits(&deepest, MAX_DEPTH - 1));
        assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH + 1)).is_err());
    }
}
