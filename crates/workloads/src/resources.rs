//! Amounts of cpu, memory and other resources: what pods ask for and nodes have.
//!
//! Everything is counted in thousandths, so that `100m` cpu is a whole number.

use std::collections::BTreeMap;

use flagship_base::quantity::Quantity;
use serde_json::Value;

use crate::object::Fields;

/// Resource name to amount in thousandths.
pub type Amounts = BTreeMap<String, i128>;

/// Reads a quantity into thousandths; fractions of a thousandth round up.
pub fn milli(quantity: &Value) -> Option<i128> {
    read(quantity).map(|q| i128::from(q.to_milli()))
}

/// Reads a quantity that may be written as a string or as a number.
pub fn read(quantity: &Value) -> Option<Quantity> {
    match quantity {
        Value::Number(number) => Quantity::bounded(&number.to_string()).ok(),
        Value::String(text) => Quantity::bounded(text).ok(),
        _ => None,
    }
}

/// What a pod asks of its node: containers and sidecars together, or its hungriest
/// init container if that is more, plus overhead.
pub fn requests(pod: &Value) -> Amounts {
    let mut total = Amounts::new();
    let mut peak = Amounts::new();
    let mut sidecars = Amounts::new();
    for container in pod.list("/spec/initContainers") {
        let own = amounts(container.at("/resources/requests"));
        if container.text("/restartPolicy") == "Always" {
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut with = sidecars.clone();
            add(&mut with, &own);
            raise(&mut peak, &with);
        }
    }
    for container in pod.list("/spec/containers") {
        add(&mut total, &amounts(container.at("/resources/requests")));
    }
    add(&mut total, &sidecars);
    raise(&mut total, &peak);
    add(&mut total, &amounts(pod.at("/spec/overhead")));
    total
}

/// A `ResourceList` as amounts. Unreadable quantities count as nothing.
pub fn amounts(list: &Value) -> Amounts {
    let Some(map) = list.as_object() else { return Amounts::new() };
    map.iter().filter_map(|(name, quantity)| Some((name.clone(), milli(quantity)?))).collect()
}

/// Adds `more` to `total`.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let known = total.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_read_in_every_notation() {
        for (text, expected) in [
            ("1", Some(1_000)),
            ("100m", Some(100)),
            ("1.5", Some(1_500)),
            ("1Ki", Some(1_024_000)),
            ("128Mi", Some(134_217_728_000)),
            ("2k", Some(2_000_000)),
            ("1e3", Some(1_000_000)),
            ("10n", Some(1)),
            ("-2", Some(-2_000)),
            ("", None),
            ("x", None),
            ("1.2.3", None),
            ("1Q", None),
        ] {
            assert_eq!(milli(&json!(text)), expected, "{text}");
        }
        assert_eq!(milli(&json!(2)), Some(2_000));
        assert_eq!(milli(&json!(0.5)), Some(500));
    }

    #[test]
    fn a_pod_asks_for_its_hungriest_moment() {
        let pod = json!({"spec": {
            "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
            "containers": [
                {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                {"resources": {"requests": {"cpu": "500m"}}},
            ],
        }});
        let asked = requests(&pod);
        assert_eq!(asked["cpu"], 3_000);
        assert_eq!(asked["memory"], 1_073_741_824_000);
    }
}
