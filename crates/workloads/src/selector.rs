//! Label selectors as objects carry them: `matchLabels` and `matchExpressions`.

use flagship_base::selector;
use serde_json::Value;

use crate::object::{Fields, Labels};

/// Whether a LabelSelector picks these labels. `null` picks nothing, `{}` everything.
pub fn picks(selector: &Value, labels: &Labels) -> bool {
    if selector.is_null() {
        return false;
    }
    let equal = selector.strings("/matchLabels");
    equal.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.list("/matchExpressions").iter().all(|rule| holds(rule, labels))
}

/// Whether a LabelSelector picks everything, which controllers refuse to act on.
pub fn is_empty(selector: &Value) -> bool {
    selector.strings("/matchLabels").is_empty() && selector.list("/matchExpressions").is_empty()
}

/// One `{key, operator, values}`; also what node selector terms are made of.
pub fn holds(rule: &Value, labels: &Labels) -> bool {
    selector::holds(rule, labels.get(rule.text("/key")).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_is_the_conjunction_of_its_parts() {
        let labels = Labels::from([("app".into(), "web".into()), ("size".into(), "7".into())]);
        for (selector, expected) in [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["web"]}]}),
                true,
            ),
            (json!({"matchExpressions": [{"key": "x", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}), true),
            (
                json!({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["5"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "size", "operator": "Lt", "values": ["5"]}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "size", "operator": "Near", "values": ["5"]}]}),
                false,
            ),
        ] {
            assert_eq!(picks(&selector, &labels), expected, "{selector}");
        }
    }
}
