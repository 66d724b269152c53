//! What a LimitRange does to pods and claims: fills in requests and limits, and refuses.
//!
//! [`apply_defaults`] changes the object before validation; [`violations`] says what is
//! out of bounds. Both look at one LimitRange; a namespace may have several.

use std::collections::BTreeMap;

use flagship_base::quantity::Quantity;
use serde_json::Value;

use super::catalog::Kind;
use super::json::{Fill, Object, at};

/// Fills in the default requests and limits of a pod's containers.
pub fn apply_defaults(kind: Kind, object: &mut Value, limit_range: &Value) {
    if kind != Kind::Pod {
        return;
    }
    let mut defaults: Vec<(&'static str, Object)> = Vec::new();
    for item in items(limit_range, "Container") {
        // Requests are filled first, then limits, each where nothing was said.
        for (list, from) in [("requests", "defaultRequest"), ("limits", "default")] {
            if let Some(values) = at(item, &[from]).as_object() {
                defaults.push((list, values.clone()));
            }
        }
    }
    let spec = object.as_object_mut().and_then(|object| object.child("spec"));
    let Some(spec) = spec else { return };
    for containers in ["initContainers", "containers"] {
        for container in spec.children(containers) {
            let Some(resources) = container.child_or_new("resources") else { continue };
            for (list, values) in &defaults {
                let Some(target) = resources.child_or_new(list) else { continue };
                for (name, value) in values {
                    target.fill(name, value.clone());
                }
            }
            resources.retain(|_, list| list != &Value::Object(Object::new()));
        }
    }
}

/// Why an object does not fit a LimitRange, in the sentences of a Forbidden answer.
pub fn violations(kind: Kind, object: &Value, limit_range: &Value) -> Vec<String> {
    let mut out = Vec::new();
    match kind {
        Kind::Pod => pod(object, limit_range, &mut out),
        Kind::PersistentVolumeClaim => claim(object, limit_range, &mut out),
        _ => {}
    }
    out
}

fn items<'a>(limit_range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let list = at(limit_range, &["spec", "limits"]).as_array();
    list.into_iter().flatten().filter(move |item| at(item, &["type"]) == kind)
}

fn amounts(list: &Value) -> BTreeMap<String, Quantity> {
    let entries = list.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, value)| Some((name.clone(), Quantity::bounded(value.as_str()?).ok()?)))
        .collect()
}

fn pod(pod: &Value, limit_range: &Value, out: &mut Vec<String>) {
    let containers = |list: &str| {
        let found = at(pod, &["spec", list]).as_array();
        found.into_iter().flatten().cloned().collect::<Vec<Value>>()
    };
    let (init, main) = (containers("initContainers"), containers("containers"));
    for item in items(limit_range, "Container") {
        for container in main.iter().chain(&init) {
            let requests = amounts(at(container, &["resources", "requests"]));
            let limits = amounts(at(container, &["resources", "limits"]));
            bounds("Container", item, &requests, &limits, out);
        }
    }
    for item in items(limit_range, "Pod") {
        let total = |list: &str| {
            let mut sum: BTreeMap<String, Quantity> = BTreeMap::new();
            for container in &main {
                for (name, amount) in amounts(at(container, &["resources", list])) {
                    let entry = sum.entry(name).or_insert(Quantity::ZERO);
                    *entry = *entry + amount;
                }
            }
            // One init container runs at a time, before the others.
            for container in &init {
                for (name, amount) in amounts(at(container, &["resources", list])) {
                    let entry = sum.entry(name).or_insert(Quantity::ZERO);
                    *entry = (*entry).max(amount);
                }
            }
            sum
        };
        bounds("Pod", item, &total("requests"), &total("limits"), out);
    }
}

fn claim(claim: &Value, limit_range: &Value, out: &mut Vec<String>) {
    let requests = amounts(at(claim, &["spec", "resources", "requests"]));
    for item in items(limit_range, "PersistentVolumeClaim") {
        bounds("PersistentVolumeClaim", item, &requests, &BTreeMap::new(), out);
    }
}

fn bounds(
    kind: &str,
    item: &Value,
    requests: &BTreeMap<String, Quantity>,
    limits: &BTreeMap<String, Quantity>,
    out: &mut Vec<String>,
) {
    for (name, least) in amounts(at(item, &["min"])) {
        match (requests.get(&name), limits.get(&name)) {
            (None, _) => out.push(format!(
                "minimum {name} usage per {kind} is {least}.  No request is specified"
            )),
            (Some(request), _) if *request < least => out.push(format!(
                "minimum {name} usage per {kind} is {least}, but request is {request}"
            )),
            (_, Some(limit)) if *limit < least => out
                .push(format!("minimum {name} usage per {kind} is {least}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, most) in amounts(at(item, &["max"])) {
        // Claims have no limits: their request is what is bounded.
        match (limits.get(&name), requests.get(&name)) {
            (None, request) if kind == "PersistentVolumeClaim" => {
                let Some(request) = request.filter(|request| **request > most) else { continue };
                out.push(format!(
                    "maximum {name} usage per {kind} is {most}, but request is {request}"
                ));
            }
            (None, _) => out
                .push(format!("maximum {name} usage per {kind} is {most}.  No limit is specified")),
            (Some(limit), _) if *limit > most => {
                out.push(format!(
                    "maximum {name} usage per {kind} is {most}, but limit is {limit}"
                ));
            }
            (_, Some(request)) if *request > most => out.push(format!(
                "maximum {name} usage per {kind} is {most}, but request is {request}"
            )),
            _ => {}
        }
    }
    for (name, ratio) in amounts(at(item, &["maxLimitRequestRatio"])) {
        let (Some(limit), Some(request)) = (limits.get(&name), requests.get(&name)) else {
            continue;
        };
        if !request.is_zero() {
            let observed = limit.to_milli() as f64 / request.to_milli() as f64;
            if observed > ratio.to_milli() as f64 / 1000.0 {
                out.push(format!(
                    "{name} max limit to request ratio per {kind} is {ratio}, but provided ratio is {observed:.6}"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn range() -> Value {
        json!({"spec": {"limits": [
            {
                "type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"},
                "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"},
            },
            {"type": "Pod", "max": {"cpu": "3"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
        ]}})
    }

    fn pod(containers: &[Value]) -> Value {
        let containers: Vec<Value> =
            containers.iter().map(|resources| json!({"resources": resources})).collect();
        json!({"spec": {"containers": containers}})
    }

    #[test]
    fn containers_that_say_nothing_get_the_defaults() {
        let mut object = pod(&[json!({}), json!({"limits": {"cpu": "2"}})]);
        apply_defaults(Kind::Pod, &mut object, &range());
        assert_eq!(
            object,
            pod(&[
                json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}),
                json!({"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}}),
            ])
        );
        assert_eq!(violations(Kind::Pod, &object, &range()), [""; 0]);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let large = json!({"limits": {"cpu": "3"}, "requests": {"cpu": "50m"}});
        assert_eq!(
            violations(Kind::Pod, &pod(&[large.clone(), large]), &range()),
            [
                "minimum cpu usage per Container is 100m, but request is 50m",
                "maximum cpu usage per Container is 2, but limit is 3",
                "minimum cpu usage per Container is 100m, but request is 50m",
                "maximum cpu usage per Container is 2, but limit is 3",
                "maximum cpu usage per Pod is 3, but limit is 6",
            ]
        );
        let claim = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        assert_eq!(
            violations(Kind::PersistentVolumeClaim, &claim, &range()),
            ["maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"]
        );
    }
}
