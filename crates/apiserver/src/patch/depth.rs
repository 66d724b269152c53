//! How deep a value may nest.
//!
//! Parsing stops at this depth already, but a patch can build deeper values than it
//! carries, and everything that walks, prints or drops a value does so recursively.

use serde_json::Value;

/// The deepest value that a patch may lead to; what the JSON parser accepts.
pub const MAX_DEPTH: usize = 128;

/// Whether `value` nests at most `limit` containers deep. Visits no deeper than that.
pub(super) fn fits(value: &Value, limit: usize) -> bool {
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
}
