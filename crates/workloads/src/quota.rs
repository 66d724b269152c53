//! ResourceQuota: what a namespace uses, and the admission that keeps it within limits.
//!
//! Usage is always computed from the objects themselves, both for the status and at
//! admission, so the two cannot drift apart. What an object counts for is known in
//! the server's `kinds::quota`.

use std::collections::{BTreeMap, BTreeSet};

use flagship_apiserver::rest::{Admission, Review};
use flagship_base::machinery::status::ApiError;
use flagship_base::quantity::Quantity;
use flagship_kinds::{self as kinds, Kind, quota as rules};
use flagship_store::Scope;
use serde_json::{Map, Value, json};

use crate::object::Fields;
use crate::plan::Plan;
use crate::resources;

/// Amounts by name, such as `pods` or `requests.cpu`.
pub type Usage = BTreeMap<String, Quantity>;

/// Reads all objects of a resource in the quota's namespace.
pub type List<'a> = &'a dyn Fn(&str) -> Vec<Value>;

/// What the namespace uses of everything that the quota limits.
pub fn used(quota: &Value, list: List<'_>) -> Usage {
    let hard = quota.at("/spec/hard");
    let names = || hard.as_object().into_iter().flat_map(Map::keys);
    let mut total: Usage = names().map(|name| (name.clone(), Quantity::ZERO)).collect();
    let resources: BTreeSet<String> = names().filter_map(|name| resource_of(name)).collect();
    for resource in resources {
        add_up(&mut total, quota, &resource, list);
    }
    total
}

/// Adds what the objects of one resource use to the amounts named.
fn add_up(total: &mut Usage, quota: &Value, resource: &str, list: List<'_>) {
    for object in list(resource) {
        for (name, amount) in charge(quota, resource, &object) {
            if let Some(sum) = total.get_mut(&name) {
                *sum = *sum + amount;
            }
        }
    }
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
        "configmaps"
        | "secrets"
        | "services"
        | "persistentvolumeclaims"
        | "resourcequotas"
        | "replicationcontrollers" => limit.into(),
        "pods" | "cpu" | "memory" | "ephemeral-storage" => "pods".into(),
        other if other.starts_with("requests.") || other.starts_with("limits.") => "pods".into(),
        other if other.contains(".storageclass.storage.k8s.io/") => "persistentvolumeclaims".into(),
        _ => return None,
    })
}

fn kind_of(resource: &str) -> Option<Kind> {
    kinds::catalog().iter().find(|row| row.resource() == resource).map(|row| row.id)
}

/// What one object is charged for under one quota.
fn charge(quota: &Value, resource: &str, object: &Value) -> Usage {
    match kind_of(resource) {
        Some(kind) if !rules::in_scope(kind, object, quota) => Usage::new(),
        Some(kind) => rules::counted(quota.at("/spec/hard"), &rules::usage_of(kind, object)),
        // A custom resource can only be counted.
        None => Usage::from([(format!("count/{resource}"), Quantity::whole(1))]),
    }
}

/// Refuses objects that would exceed a quota of their namespace. Counts at the moment of
/// commit, so that writes which race cannot pass together.
#[derive(Debug, Clone, Copy, Default)]
pub struct QuotaAdmission;

impl Admission for QuotaAdmission {
    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        // What is committed is counted then; nothing is gained by counting twice.
        if review.dry_run && self.wants_last_word(review) { check(review) } else { Ok(()) }
    }

    fn wants_last_word(&self, review: &Review<'_>) -> bool {
        let scope = Scope::Namespace(review.namespace);
        review.operation != "delete"
            && !review.namespace.is_empty()
            && !review.store.list("resourcequotas", scope).items.is_empty()
    }

    fn last_word(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        check(review)
    }
}

fn check(review: &Review<'_>) -> Result<(), ApiError> {
    let scope = Scope::Namespace(review.namespace);
    let parsed = |resource: &str| -> Vec<Value> {
        let items = review.store.list(resource, scope).items;
        items.iter().filter_map(|s| serde_json::from_slice(&s.json).ok()).collect()
    };
    for quota in parsed("resourcequotas") {
        if let Some(why) = excess(&quota, review.resource, review.object, review.old, &parsed) {
            return Err(ApiError::forbidden(review.resource, review.name, &why));
        }
    }
    Ok(())
}

/// Why an object does not fit into a quota, in Kubernetes' words. `old` is the object as it
/// is, and is counted in `list`; only what comes on top of it is asked for.
pub fn excess(
    quota: &Value,
    resource: &str,
    object: &Value,
    old: Option<&Value>,
    list: List<'_>,
) -> Option<String> {
    let hard = quota.at("/spec/hard");
    if old.is_none()
        && let Some(kind) = kind_of(resource)
        && rules::in_scope(kind, object, quota)
        && let Some(why) = rules::unstated(quota.name(), kind, object, hard)
    {
        return Some(why);
    }
    let had = old.map(|old| charge(quota, resource, old)).unwrap_or_default();
    let more = |(name, amount): (String, Quantity)| {
        let more = amount - had.get(&name).copied().unwrap_or(Quantity::ZERO);
        (more > Quantity::ZERO).then_some((name, more))
    };
    let asked: Usage = charge(quota, resource, object).into_iter().filter_map(more).collect();
    if asked.is_empty() {
        return None;
    }
    let limits: Usage = hard
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| asked.contains_key(*name))
        .filter_map(|(name, limit)| Some((name.clone(), resources::read(limit)?)))
        .collect();
    // What is asked for is counted in objects of the same resource alone.
    let mut used: Usage = asked.keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
    add_up(&mut used, quota, resource, list);
    rules::refusal(quota.name(), &limits, &used, &asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cpu: &str) -> Value {
        json!({"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    #[test]
    fn usage_is_summed_over_living_pods() {
        let quota =
            json!({"spec": {"hard": {"pods": "3", "requests.cpu": "2", "configmaps": "5"}}});
        let mut ended = pod("4");
        ended["status"] = json!({"phase": "Succeeded"});
        let list = |resource: &str| match resource {
            "pods" => vec![pod("500m"), pod("1"), ended.clone()],
            _ => vec![json!({})],
        };
        let used: Vec<String> =
            used(&quota, &list).iter().map(|(n, q)| format!("{n}={q}")).collect();
        assert_eq!(used, ["configmaps=1", "pods=2", "requests.cpu=1500m"]);
    }

    #[test]
    fn the_door_speaks_kubernetes_words() {
        let list = |_: &str| vec![pod("1500m")];
        for (hard, asked, why) in [
            (
                json!({"pods": "1"}),
                pod("1"),
                Some("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"),
            ),
            (
                json!({"requests.cpu": "2"}),
                pod("1"),
                Some(
                    "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1500m, limited: requests.cpu=2",
                ),
            ),
            (json!({"requests.cpu": "3"}), pod("1"), None),
            (
                json!({"limits.cpu": "3"}),
                pod("1"),
                Some("failed quota: q: must specify limits.cpu for: web"),
            ),
            (json!({"configmaps": "0"}), pod("1"), None),
        ] {
            let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
            assert_eq!(excess(&quota, "pods", &asked, None, &list).as_deref(), why, "{hard}");
        }
    }

    #[test]
    fn a_change_is_charged_for_what_it_adds() {
        let list = |_: &str| vec![pod("1500m")];
        let hard = json!({"requests.cpu": "2", "pods": "1"});
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
        let old = pod("1500m");
        for (cpu, why) in [
            ("1", None),
            ("2", None),
            (
                "2500m",
                Some(
                    "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1500m, limited: requests.cpu=2",
                ),
            ),
        ] {
            let found = excess(&quota, "pods", &pod(cpu), Some(&old), &list);
            assert_eq!(found.as_deref(), why, "{cpu}");
        }
    }
}
