//! ResourceQuota: what a namespace uses, and the door that keeps it within limits.
//!
//! Usage is always computed from the objects themselves, both for the status and at
//! the door, so the two cannot drift apart. Scopes other than none are not looked at:
//! a quota with scopes is reported and not enforced.

use std::collections::BTreeMap;

use flagship_apiserver::machinery::quantity::Quantity;
use flagship_apiserver::machinery::status::ApiError;
use flagship_apiserver::rest::{Admission, Review};
use flagship_apiserver::store::Scope;
use serde_json::{Map, Value, json};

use crate::object::Fields;
use crate::plan::Plan;
use crate::resources;

/// Used or requested amounts by name, such as `pods` or `requests.cpu`.
pub type Usage = BTreeMap<String, Quantity>;

/// Reads all objects of a resource in the quota's namespace.
pub type List<'a> = &'a dyn Fn(&str) -> Vec<Value>;

/// What the namespace uses of everything that the quota limits.
pub fn used(quota: &Value, list: List<'_>) -> Usage {
    let mut total = Usage::new();
    let hard = quota.at("/spec/hard").as_object();
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in hard.into_iter().flat_map(Map::keys) {
        total.insert(name.clone(), Quantity::ZERO);
        if let Some(resource) = resource_of(name) {
            lists.entry(resource).or_default().push(name.clone());
        }
    }
    for (resource, names) in lists {
        for object in list(&resource) {
            for (name, amount) in charge(&resource, &object) {
                if names.contains(&name)
                    && let Some(sum) = total.get_mut(&name)
                {
                    *sum = *sum + amount;
                }
            }
        }
    }
    total
}

/// Keeps the status of one quota.
pub fn plan(quota: &Value, used: &Usage) -> Plan {
    let mut plan = Plan::default();
    let used: Map<String, Value> =
        used.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string()))).collect();
    let status = json!({"hard": quota.at("/spec/hard").clone(), "used": used});
    plan.status("resourcequotas", quota, status);
    plan
}

/// The resource whose objects a limit counts.
fn resource_of(limit: &str) -> Option<String> {
    if let Some(counted) = limit.strip_prefix("count/") {
        return Some(counted.to_owned());
    }
    Some(match limit {
        "services.loadbalancers" | "services.nodeports" => "services".into(),
        "requests.storage" => "persistentvolumeclaims".into(),
        "configmaps" | "secrets" | "services" | "persistentvolumeclaims" | "resourcequotas"
        | "replicationcontrollers" => limit.into(),
        "pods" | "cpu" | "memory" | "ephemeral-storage" => "pods".into(),
        other if other.starts_with("requests.") || other.starts_with("limits.") => "pods".into(),
        _ => return None,
    })
}

/// What one object is charged for.
fn charge(resource: &str, object: &Value) -> Usage {
    let mut usage = Usage::new();
    let one = Quantity::whole(1);
    usage.insert(format!("count/{resource}"), one);
    match resource {
        "pods" => {
            if ["Succeeded", "Failed"].contains(&object.text("/status/phase")) {
                return usage;
            }
            usage.insert("pods".into(), one);
            for (kind, list) in [("requests", "requests"), ("limits", "limits")] {
                for container in object.list("/spec/containers") {
                    let amounts = container.at("/resources").get(list).and_then(Value::as_object);
                    for (name, amount) in amounts.into_iter().flatten() {
                        let amount = resources::read(amount).unwrap_or(Quantity::ZERO);
                        let mut add = |key: String| {
                            let sum = usage.entry(key).or_insert(Quantity::ZERO);
                            *sum = *sum + amount;
                        };
                        add(format!("{kind}.{name}"));
                        if kind == "requests" {
                            add(name.clone());
                        }
                    }
                }
            }
        }
        "services" => {
            usage.insert("services".into(), one);
            let kind = object.text("/spec/type");
            if kind == "LoadBalancer" {
                usage.insert("services.loadbalancers".into(), one);
            }
            if ["NodePort", "LoadBalancer"].contains(&kind) {
                let ports = i64::try_from(object.list("/spec/ports").len()).unwrap_or(i64::MAX);
                usage.insert("services.nodeports".into(), Quantity::whole(ports));
            }
        }
        "persistentvolumeclaims" => {
            usage.insert("persistentvolumeclaims".into(), one);
            let size = resources::read(object.at("/spec/resources/requests/storage"));
            usage.insert("requests.storage".into(), size.unwrap_or(Quantity::ZERO));
        }
        other => {
            usage.insert(other.to_owned(), one);
        }
    }
    usage
}

/// Refuses objects that would exceed a quota of their namespace.
#[derive(Debug, Clone, Copy, Default)]
pub struct QuotaDoor;

impl Admission for QuotaDoor {
    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        if review.operation != "create" || review.namespace.is_empty() || !review.subresource.is_empty() {
            return Ok(());
        }
        let scope = Scope::Namespace(review.namespace);
        let quotas = review.store.list("resourcequotas", scope).items;
        if quotas.is_empty() {
            return Ok(());
        }
        let list = |resource: &str| -> Vec<Value> {
            let items = review.store.list(resource, scope).items;
            items.iter().filter_map(|s| serde_json::from_slice(&s.json).ok()).collect()
        };
        for stored in quotas {
            let Ok(quota) = serde_json::from_slice::<Value>(&stored.json) else { continue };
            let why = excess(&quota, review.resource, review.object, &list);
            if let Some(why) = why {
                return Err(ApiError::forbidden(review.resource, review.name, &why));
            }
        }
        Ok(())
    }
}

/// Why an object does not fit into a quota, in Kubernetes' words.
pub fn excess(quota: &Value, resource: &str, object: &Value, list: List<'_>) -> Option<String> {
    let has_scopes = !quota.list("/spec/scopes").is_empty() || quota.at("/spec").get("scopeSelector").is_some();
    let hard = quota.at("/spec/hard").as_object()?;
    let is_ours = |name: &String| resource_of(name).as_deref() == Some(resource);
    if has_scopes || !hard.keys().any(is_ours) {
        return None;
    }
    let asked = charge(resource, object);
    if resource == "pods"
        && let Some(missing) = unsaid(hard, object)
    {
        return Some(format!("failed quota: {}: must specify {missing}", quota.name()));
    }
    let used = used(quota, list);
    let (mut over_asked, mut over_used, mut over_hard) = (Vec::new(), Vec::new(), Vec::new());
    for (name, limit) in hard.iter().filter(|(name, _)| is_ours(name)) {
        let Some(more) = asked.get(name).filter(|more| !more.is_zero()) else { continue };
        let limit = resources::read(limit).unwrap_or(Quantity::ZERO);
        let now = used.get(name).copied().unwrap_or(Quantity::ZERO);
        if now + *more > limit {
            over_asked.push(format!("{name}={more}"));
            over_used.push(format!("{name}={now}"));
            over_hard.push(format!("{name}={limit}"));
        }
    }
    (!over_asked.is_empty()).then(|| {
        format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name(),
            over_asked.join(","),
            over_used.join(","),
            over_hard.join(",")
        )
    })
}

/// Containers must state what is limited: `limits.cpu for: web; requests.cpu for: web`.
fn unsaid(hard: &Map<String, Value>, pod: &Value) -> Option<String> {
    let mut missing = Vec::new();
    for name in hard.keys() {
        let (list, amount) = match name.split_once('.') {
            Some((list @ ("requests" | "limits"), amount @ ("cpu" | "memory"))) => (list, amount),
            None if ["cpu", "memory"].contains(&name.as_str()) => ("requests", name.as_str()),
            _ => continue,
        };
        let silent: Vec<&str> = pod
            .list("/spec/containers")
            .iter()
            .filter(|c| c.at("/resources").get(list).and_then(|l| l.get(amount)).is_none())
            .map(|c| c.text("/name"))
            .collect();
        if !silent.is_empty() {
            missing.push(format!("{name} for: {}", silent.join(",")));
        }
    }
    (!missing.is_empty()).then(|| missing.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cpu: &str) -> Value {
        json!({"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    #[test]
    fn usage_is_summed_over_living_pods() {
        let quota = json!({"spec": {"hard": {"pods": "3", "requests.cpu": "2", "configmaps": "5"}}});
        let mut ended = pod("4");
        ended["status"] = json!({"phase": "Succeeded"});
        let list = |resource: &str| match resource {
            "pods" => vec![pod("500m"), pod("1"), ended.clone()],
            _ => vec![json!({})],
        };
        let used: Vec<String> = used(&quota, &list).iter().map(|(n, q)| format!("{n}={q}")).collect();
        assert_eq!(used, ["configmaps=1", "pods=2", "requests.cpu=1500m"]);
    }

    #[test]
    fn the_door_speaks_kubernetes_words() {
        let list = |_: &str| vec![pod("1500m")];
        for (hard, asked, why) in [
            (json!({"pods": "1"}), pod("1"), Some("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1")),
            (json!({"requests.cpu": "2"}), pod("1"), Some("exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1500m, limited: requests.cpu=2")),
            (json!({"requests.cpu": "3"}), pod("1"), None),
            (json!({"limits.cpu": "3"}), pod("1"), Some("failed quota: q: must specify limits.cpu for: web")),
            (json!({"configmaps": "0"}), pod("1"), None),
        ] {
            let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
            assert_eq!(excess(&quota, "pods", &asked, &list).as_deref(), why, "{hard}");
        }
    }
}
