//! Label selectors as objects carry them: `matchLabels` and `matchExpressions`.

use std::borrow::Cow;

use flagship_base::selector;
use serde_json::{Value, json};

use crate::object::{Fields, Labels};

/// The LabelSelector of a workload; a ReplicationController has plain labels in its place.
pub fn of(owner: &Value) -> Cow<'_, Value> {
    let wanted = owner.at("/spec/selector");
    let plain = wanted.as_object().filter(|_| owner.text("/kind") == "ReplicationController");
    match plain {
        // Without labels it picks nothing, where an empty LabelSelector picks everything.
        Some(labels) if labels.is_empty() => Cow::Owned(Value::Null),
        Some(labels) => Cow::Owned(json!({"matchLabels": labels})),
        None => Cow::Borrowed(wanted),
    }
}

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

    #[test]
    fn a_replication_controller_selects_by_plain_labels() {
        let labels = Labels::from([("app".into(), "web".into())]);
        for (kind, selector, expected) in [
            ("ReplicationController", json!({"app": "web"}), true),
            ("ReplicationController", json!({"app": "db"}), false),
            ("ReplicationController", json!({}), false),
            ("ReplicationController", json!(null), false),
            ("ReplicaSet", json!({"matchLabels": {"app": "web"}}), true),
        ] {
            let owner = json!({"kind": kind, "spec": {"selector": selector}});
            assert_eq!(picks(&of(&owner), &labels), expected, "{owner}");
        }
    }

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
