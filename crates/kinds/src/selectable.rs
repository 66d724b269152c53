//! The field selectors of a kind, read from an object for the store to keep beside it.

use serde_json::Value;

use super::catalog::{Kind, Selectable};
use super::json::at;

/// The selectable fields of an object beyond name and namespace, sorted by label.
pub fn selectable_fields(kind: Kind, object: &Value) -> Box<[(Box<str>, Box<str>)]> {
    kind.info()
        .selectable
        .iter()
        .map(|field| (field.label.into(), text_of(kind, field, object).into()))
        .collect()
}

fn text_of(kind: Kind, field: &Selectable, object: &Value) -> String {
    let text = match at(object, field.path) {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => field.absent.to_owned(),
    };
    // Events of the newer API name their reporter elsewhere.
    if text.is_empty() && kind == Kind::Event && field.label == "source" {
        return at(object, &["reportingComponent"]).as_str().unwrap_or_default().to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(kind: Kind, object: &Value) -> Vec<String> {
        let pairs = selectable_fields(kind, object);
        pairs.iter().map(|(label, value)| format!("{label}={value}")).collect()
    }

    #[test]
    fn a_pod_is_selected_by_node_and_phase() {
        let pod = json!({"spec": {"nodeName": "n1", "hostNetwork": true}, "status": {"phase": "Running"}});
        let all = fields(Kind::Pod, &pod);
        assert!(all.contains(&"spec.nodeName=n1".to_owned()));
        assert!(all.contains(&"spec.hostNetwork=true".to_owned()));
        assert!(all.contains(&"status.phase=Running".to_owned()));
        assert!(all.contains(&"status.podIP=".to_owned()));
    }

    #[test]
    fn absent_numbers_and_flags_have_their_zero() {
        assert_eq!(fields(Kind::Node, &json!({})), ["spec.unschedulable=false"]);
        assert_eq!(fields(Kind::Job, &json!({"status": 5})), ["status.successful=0"]);
        assert_eq!(fields(Kind::ConfigMap, &json!({})), [""; 0]);
    }

    #[test]
    fn the_source_of_an_event_falls_back_to_its_reporter() {
        let event = json!({"reportingComponent": "kubelet"});
        assert!(fields(Kind::Event, &event).contains(&"source=kubelet".to_owned()));
    }
}
