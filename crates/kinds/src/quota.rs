//! What an object counts for under a ResourceQuota, and what is said when it is too much.
//!
//! Counting what is used already is the caller's business: it sums [`usage_of`] over the
//! objects of the namespace, or reads `status.used`.

use std::collections::BTreeMap;

use flagship_base::quantity::Quantity;
use serde_json::Value;

use super::catalog::Kind;
use super::json::at;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// What one object uses, under every name a quota may call it.
pub fn usage_of(kind: Kind, object: &Value) -> Amounts {
    let one = Quantity::whole(1);
    let mut used = Amounts::new();
    used.insert(format!("count/{}", kind.info().resource()), one);
    match kind {
        Kind::Pod => pod(object, &mut used),
        Kind::Service => service(object, &mut used),
        Kind::PersistentVolumeClaim => claim(object, &mut used),
        Kind::ConfigMap | Kind::Secret | Kind::ReplicationController | Kind::ResourceQuota => {
            used.insert(kind.info().plural.to_owned(), one);
        }
        _ => {}
    }
    used
}

/// The resources of `hard` that `usage` touches.
pub fn counted(hard: &Value, usage: &Amounts) -> Amounts {
    let named = |name: &String| hard.get(name).is_some();
    usage.iter().filter(|(name, _)| named(name)).map(|(n, q)| (n.clone(), *q)).collect()
}

/// Whether a quota speaks about an object at all, by its scopes.
pub fn in_scope(kind: Kind, object: &Value, quota: &Value) -> bool {
    let scopes = at(quota, &["spec", "scopes"]).as_array().into_iter().flatten();
    let selected = at(quota, &["spec", "scopeSelector", "matchExpressions"]).as_array();
    scopes.filter_map(Value::as_str).all(|scope| has_scope(kind, object, scope))
        && selected.into_iter().flatten().all(|expression| {
            let name = at(expression, &["scopeName"]).as_str().unwrap_or_default();
            let operator = at(expression, &["operator"]).as_str().unwrap_or_default();
            match name {
                "PriorityClass" => priority_matches(object, expression, operator),
                _ => has_scope(kind, object, name),
            }
        })
}

fn has_scope(kind: Kind, object: &Value, scope: &str) -> bool {
    if kind != Kind::Pod {
        // Scopes are about pods; a quota with one says nothing about the rest.
        return false;
    }
    let spec = at(object, &["spec"]);
    let bounded = at(spec, &["activeDeadlineSeconds"]).as_i64().is_some_and(|seconds| seconds >= 0);
    let best_effort = super::prepare::qos_class(spec) == "BestEffort";
    match scope {
        "Terminating" => bounded,
        "NotTerminating" => !bounded,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => at(spec, &["priorityClassName"]).as_str().is_some_and(|n| !n.is_empty()),
        "CrossNamespacePodAffinity" => false,
        _ => true,
    }
}

fn priority_matches(pod: &Value, expression: &Value, operator: &str) -> bool {
    let class = at(pod, &["spec", "priorityClassName"]).as_str().unwrap_or_default();
    let values = at(expression, &["values"]).as_array().into_iter().flatten();
    let listed = values.filter_map(Value::as_str).any(|value| value == class);
    match operator {
        "In" => listed,
        "NotIn" => !listed,
        "DoesNotExist" => class.is_empty(),
        _ => !class.is_empty(),
    }
}

/// Why a request does not fit a quota; `None` when it does. `used` is without it.
pub fn refusal(quota: &str, hard: &Amounts, used: &Amounts, requested: &Amounts) -> Option<String> {
    let exceeded: Vec<&String> = requested
        .iter()
        .filter(|(name, amount)| {
            let before = used.get(*name).copied().unwrap_or(Quantity::ZERO);
            // What asks for nothing cannot be too much.
            !amount.is_zero() && hard.get(*name).is_some_and(|limit| before + **amount > *limit)
        })
        .map(|(name, _)| name)
        .collect();
    if exceeded.is_empty() {
        return None;
    }
    let list = |amounts: &Amounts| {
        let shown: Vec<String> = exceeded
            .iter()
            .map(|name| {
                let amount = amounts.get(*name).copied().unwrap_or(Quantity::ZERO);
                format!("{name}={amount}")
            })
            .collect();
        shown.join(",")
    };
    Some(format!(
        "exceeded quota: {quota}, requested: {}, used: {}, limited: {}",
        list(requested),
        list(used),
        list(hard)
    ))
}

/// What a quota asks pods to state, and this one does not; `None` when all is said.
pub fn unstated(quota: &str, kind: Kind, object: &Value, hard: &Value) -> Option<String> {
    if kind != Kind::Pod {
        return None;
    }
    const STATED: [&str; 6] =
        ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
    let missing: Vec<String> = STATED
        .into_iter()
        .filter(|name| hard.get(name).is_some())
        .filter_map(|name| {
            let (list, resource) = name.split_once('.').unwrap_or(("requests", name));
            let silent = containers(object)
                .filter(|container| at(container, &["resources", list, resource]).is_null())
                .map(|container| at(container, &["name"]).as_str().unwrap_or_default())
                .collect::<Vec<&str>>();
            (!silent.is_empty()).then(|| format!("{name} for: {}", silent.join(",")))
        })
        .collect();
    if missing.is_empty() {
        return None;
    }
    Some(format!("failed quota: {quota}: must specify {}", missing.join("; ")))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers"]
        .into_iter()
        .filter_map(|list| at(pod, &["spec", list]).as_array())
        .flatten()
}

fn add(used: &mut Amounts, name: String, amount: Quantity) {
    let entry = used.entry(name).or_insert(Quantity::ZERO);
    *entry = *entry + amount;
}

/// A finished pod still exists, but uses nothing.
fn pod(pod: &Value, used: &mut Amounts) {
    let phase = at(pod, &["status", "phase"]).as_str().unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") {
        return;
    }
    used.insert("pods".to_owned(), Quantity::whole(1));
    for list in ["requests", "limits"] {
        for (name, amount) in pod_total(pod, list) {
            if list == "requests" && matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
            {
                used.insert(name.clone(), amount);
            }
            used.insert(format!("{list}.{name}"), amount);
        }
    }
}

/// The sum over the containers, or the largest init container if that is more.
fn pod_total(pod: &Value, list: &str) -> Amounts {
    let amounts = |container: &Value| -> Vec<(String, Quantity)> {
        let entries = at(container, &["resources", list]).as_object().into_iter().flatten();
        entries
            .filter_map(|(name, value)| {
                Some((name.clone(), Quantity::bounded(value.as_str()?).ok()?))
            })
            .collect()
    };
    let mut total = Amounts::new();
    let items = |list: &str| at(pod, &["spec", list]).as_array().into_iter().flatten();
    let sidecar = |container: &&Value| at(container, &["restartPolicy"]) == "Always";
    for container in items("containers").chain(items("initContainers").filter(sidecar)) {
        for (name, amount) in amounts(container) {
            add(&mut total, name, amount);
        }
    }
    for container in items("initContainers").filter(|c| !sidecar(c)) {
        for (name, amount) in amounts(container) {
            let entry = total.entry(name).or_insert(Quantity::ZERO);
            *entry = (*entry).max(amount);
        }
    }
    let overhead = at(pod, &["spec", "overhead"]).as_object().into_iter().flatten();
    for (name, value) in overhead {
        if let Some(Ok(amount)) = value.as_str().map(str::parse) {
            add(&mut total, name.clone(), amount);
        }
    }
    total
}

fn service(service: &Value, used: &mut Amounts) {
    let spec = at(service, &["spec"]);
    let ports = at(spec, &["ports"]).as_array().map_or(0, Vec::len);
    let ports = Quantity::whole(i64::try_from(ports).unwrap_or(i64::MAX));
    used.insert("services".to_owned(), Quantity::whole(1));
    match at(spec, &["type"]).as_str().unwrap_or_default() {
        "NodePort" => drop(used.insert("services.nodeports".to_owned(), ports)),
        "LoadBalancer" => {
            if at(spec, &["allocateLoadBalancerNodePorts"]) != &Value::Bool(false) {
                used.insert("services.nodeports".to_owned(), ports);
            }
            used.insert("services.loadbalancers".to_owned(), Quantity::whole(1));
        }
        _ => {}
    }
}

fn claim(claim: &Value, used: &mut Amounts) {
    let one = Quantity::whole(1);
    used.insert("persistentvolumeclaims".to_owned(), one);
    let storage = at(claim, &["spec", "resources", "requests", "storage"]).as_str();
    let storage = storage.and_then(|text| Quantity::bounded(text).ok());
    let class = at(claim, &["spec", "storageClassName"]).as_str().unwrap_or_default();
    if let Some(storage) = storage {
        used.insert("requests.storage".to_owned(), storage);
    }
    if !class.is_empty() {
        let prefix = format!("{class}.storageclass.storage.k8s.io");
        used.insert(format!("{prefix}/persistentvolumeclaims"), one);
        if let Some(storage) = storage {
            used.insert(format!("{prefix}/requests.storage"), storage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn amounts(pairs: &[(&str, &str)]) -> Amounts {
        pairs
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), Quantity::bounded(amount).unwrap()))
            .collect()
    }

    #[test]
    fn a_pod_counts_itself_and_its_resources() {
        let pod = json!({"spec": {
            "containers": [
                {"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1"}}},
                {"resources": {"requests": {"cpu": "200m"}}},
            ],
            "initContainers": [{"resources": {"requests": {"cpu": "1"}}}],
        }});
        assert_eq!(
            usage_of(Kind::Pod, &pod),
            amounts(&[
                ("count/pods", "1"),
                ("pods", "1"),
                ("cpu", "1"),
                ("requests.cpu", "1"),
                ("memory", "1Gi"),
                ("requests.memory", "1Gi"),
                ("limits.cpu", "1"),
            ])
        );
        let done = json!({"status": {"phase": "Succeeded"}});
        assert_eq!(usage_of(Kind::Pod, &done), amounts(&[("count/pods", "1")]));
    }

    #[test]
    fn services_claims_and_counts() {
        let balancer = json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}});
        assert_eq!(
            usage_of(Kind::Service, &balancer),
            amounts(&[
                ("count/services", "1"),
                ("services", "1"),
                ("services.nodeports", "2"),
                ("services.loadbalancers", "1")
            ])
        );
        let claim = json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
        assert_eq!(
            usage_of(Kind::PersistentVolumeClaim, &claim),
            amounts(&[
                ("count/persistentvolumeclaims", "1"),
                ("persistentvolumeclaims", "1"),
                ("requests.storage", "1Gi"),
                ("fast.storageclass.storage.k8s.io/persistentvolumeclaims", "1"),
                ("fast.storageclass.storage.k8s.io/requests.storage", "1Gi"),
            ])
        );
        assert_eq!(
            usage_of(Kind::Deployment, &json!({})),
            amounts(&[("count/deployments.apps", "1")])
        );
    }

    #[test]
    fn too_much_is_refused_in_kubernetes_words() {
        let hard = amounts(&[("pods", "2"), ("cpu", "4")]);
        let used = amounts(&[("pods", "2"), ("cpu", "1")]);
        let requested =
            counted(&json!({"pods": "2", "cpu": "4"}), &usage_of(Kind::Pod, &json!({})));
        assert_eq!(
            refusal("q", &hard, &used, &requested).as_deref(),
            Some("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2")
        );
        assert_eq!(refusal("q", &hard, &amounts(&[("pods", "1")]), &requested), None);
        let both = amounts(&[("cpu", "4"), ("pods", "1")]);
        assert_eq!(
            refusal("q", &hard, &used, &both).as_deref(),
            Some(
                "exceeded quota: q, requested: cpu=4,pods=1, used: cpu=1,pods=2, limited: cpu=4,pods=2"
            )
        );
    }

    #[test]
    fn a_quota_on_processors_makes_pods_say_theirs() {
        let pod = json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}]}});
        assert_eq!(
            unstated(
                "q",
                Kind::Pod,
                &pod,
                &json!({"requests.cpu": "1", "limits.cpu": "1", "pods": "1"})
            )
            .as_deref(),
            Some("failed quota: q: must specify limits.cpu for: a,b; requests.cpu for: b")
        );
    }

    #[test]
    fn scopes_pick_pods() {
        let quota = |scope: &str| json!({"spec": {"scopes": [scope]}});
        let plain = json!({"spec": {"containers": [{}]}});
        assert!(in_scope(Kind::Pod, &plain, &quota("BestEffort")));
        assert!(!in_scope(Kind::Pod, &plain, &quota("Terminating")));
        assert!(!in_scope(Kind::Service, &json!({}), &quota("BestEffort")));
        assert!(in_scope(Kind::Service, &json!({}), &json!({})));
        let urgent = json!({"spec": {"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
        ]}}});
        assert!(!in_scope(Kind::Pod, &plain, &urgent));
        assert!(in_scope(Kind::Pod, &json!({"spec": {"priorityClassName": "high"}}), &urgent));
    }
}
