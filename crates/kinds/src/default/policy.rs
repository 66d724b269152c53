//! Defaults of HorizontalPodAutoscaler, in its storage version.

use serde_json::{Value, json};

use super::super::json::{Fill, Object, is_empty};
use super::canonical;

pub(super) fn autoscaler(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("minReplicas", 1);
    if spec.get("metrics").is_none_or(is_empty) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
    for metric in spec.children("metrics") {
        let sources = ["resource", "containerResource", "pods", "object", "external"];
        for source in sources {
            if let Some(target) = metric.child(source).and_then(|s| s.child("target")) {
                for amount in ["value", "averageValue"] {
                    if let Some(amount) = target.get_mut(amount) {
                        canonical(amount);
                    }
                }
            }
        }
    }
    let Some(behavior) = spec.child("behavior") else { return };
    if let Some(up) = behavior.child_or_new("scaleUp") {
        up.fill("stabilizationWindowSeconds", 0);
        scaling_rules(
            up,
            json!([
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]),
        );
    }
    if let Some(down) = behavior.child_or_new("scaleDown") {
        scaling_rules(down, json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}

fn scaling_rules(rules: &mut Object, policies: Value) {
    rules.fill("selectPolicy", "Max");
    rules.fill("policies", policies);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_without_metrics_watches_the_cpu() {
        let mut object = json!({"spec": {"maxReplicas": 3}});
        autoscaler(object.as_object_mut().unwrap());
        assert_eq!(object["spec"]["minReplicas"], 1);
        assert_eq!(object["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
        assert!(object["spec"].get("behavior").is_none());
    }

    #[test]
    fn a_behaviour_for_one_direction_gets_the_other() {
        let mut object = json!({"spec": {"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}});
        autoscaler(object.as_object_mut().unwrap());
        let behavior = &object["spec"]["behavior"];
        assert_eq!(behavior["scaleDown"]["selectPolicy"], "Disabled");
        assert_eq!(behavior["scaleUp"]["policies"][0]["value"], 4);
    }
}
