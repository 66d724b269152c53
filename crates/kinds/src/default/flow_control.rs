//! Defaults of FlowSchema and PriorityLevelConfiguration.

use super::super::json::{Fill, Object};

pub(super) fn schema(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    // Zero is the same as nothing here.
    if spec.get("matchingPrecedence").is_none_or(|number| number == 0) {
        spec.insert("matchingPrecedence".to_owned(), 1000.into());
    }
}

pub(super) fn level(object: &mut Object) {
    let Some(spec) = object.child("spec") else { return };
    if let Some(exempt) = spec.child("exempt") {
        exempt.fill("nominalConcurrencyShares", 0);
        exempt.fill("lendablePercent", 0);
    }
    let Some(limited) = spec.child("limited") else { return };
    limited.fill("nominalConcurrencyShares", 30);
    limited.fill("lendablePercent", 0);
    let Some(queuing) = limited.child("limitResponse").and_then(|it| it.child("queuing")) else {
        return;
    };
    for (key, number) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
        queuing.fill(key, number);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_level_with_queues_gets_as_many_as_kubernetes_gives_it() {
        let mut object = json!({"spec": {"type": "Limited", "limited":
            {"lendablePercent": 10, "limitResponse": {"type": "Queue", "queuing": {"queues": 3}}}}});
        level(object.as_object_mut().unwrap());
        let queuing = json!({"queues": 3, "handSize": 8, "queueLengthLimit": 50});
        let limited = json!({"nominalConcurrencyShares": 30, "lendablePercent": 10,
            "limitResponse": {"type": "Queue", "queuing": queuing}});
        assert_eq!(object["spec"]["limited"], limited);
    }

    #[test]
    fn a_schema_without_precedence_comes_late() {
        for mut object in [json!({}), json!({"spec": {"matchingPrecedence": 0}})] {
            schema(object.as_object_mut().unwrap());
            assert_eq!(object["spec"]["matchingPrecedence"], 1000);
        }
    }
}
