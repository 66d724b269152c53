//! Pods as controllers make and remove them, whoever the owner is.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::facts::Pod;
use crate::object::{Fields, controller_ref, set};
use crate::plan::{Action, Note, Propagation};

/// Pods made or removed in one pass; the next pass goes on.
pub const BURST: i64 = 500;

/// A pod from the owner's template, named by the server after the owner.
pub fn from_template(owner: &Value, template: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", owner.name()),
            "namespace": owner.namespace(),
            "labels": template.at("/metadata/labels").clone(),
            "ownerReferences": [controller_ref(owner)],
        },
        "spec": template.at("/spec").clone(),
    });
    for field in ["annotations", "finalizers"] {
        if let Some(value) = template.at("/metadata").get(field) {
            set(&mut pod, &["metadata", field], value.clone());
        }
    }
    pod
}

/// Deletes one pod and says so in the owner's events.
pub fn remove(source: &'static str, owner: &Value, pod: &Pod) -> Action {
    Action::Delete {
        target: pod.target(),
        propagation: Propagation::Background,
        grace: None,
        then: Some(Note::normal(
            owner,
            source,
            "SuccessfulDelete",
            format!("Deleted pod: {}", pod.name),
        )),
    }
}

/// Least worth keeping first.
pub fn sort_for_deletion(pods: &mut [&Pod]) {
    let mut crowd: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|p| !p.node.is_empty()) {
        *crowd.entry(pod.node.clone()).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| {
        (
            !pod.node.is_empty(),
            pod.phase,
            pod.is_ready(),
            pod.deletion_cost,
            Reverse(crowd.get(&pod.node).copied().unwrap_or(0)),
            Reverse(pod.ready_since),
            Reverse(pod.restarts),
            (Reverse(pod.created), pod.uid.clone()),
        )
    });
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::facts::Phase;

    fn pod(name: &str, node: &str, phase: Phase, ready: Option<i64>) -> Pod {
        let mut pod = Pod::of(&json!({"metadata": {"name": name, "uid": name}}));
        pod.node = node.to_owned();
        pod.phase = phase;
        pod.ready_since = ready.map(|s| Timestamp::from_second(s).unwrap());
        pod
    }

    #[test]
    fn pods_least_worth_keeping_go_first() {
        let mut cheap = pod("cheap", "n3", Phase::Running, Some(10));
        cheap.deletion_cost = -5;
        let pods = [
            pod("old-ready", "n1", Phase::Running, Some(10)),
            pod("new-ready", "n2", Phase::Running, Some(20)),
            pod("crowded", "n4", Phase::Running, Some(5)),
            pod("crowding", "n4", Phase::Running, Some(6)),
            pod("unready", "n1", Phase::Running, None),
            pod("pending", "n1", Phase::Pending, None),
            pod("unscheduled", "", Phase::Pending, None),
            cheap,
        ];
        let mut order: Vec<&Pod> = pods.iter().collect();
        sort_for_deletion(&mut order);
        let names: Vec<&str> = order.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            // n1 holds three pods and n4 two, so their ready pods count as crowded.
            [
                "unscheduled",
                "pending",
                "unready",
                "cheap",
                "old-ready",
                "crowding",
                "crowded",
                "new-ready"
            ]
        );
    }
}
