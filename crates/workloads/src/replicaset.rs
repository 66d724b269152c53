//! ReplicaSet or ReplicationController -> Pods: keeps the number of active pods at
//! `spec.replicas`.
//!
//! Pods that are least worth keeping go first: unscheduled, not started, not ready,
//! cheap, crowded, young. What the server refuses is told in the condition
//! `ReplicaFailure` and tried again later.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::claim;
use crate::condition::{self, ConditionDraft, Style};
use crate::facts::Pod;
use crate::object::Fields;
use crate::plan::{Action, Note, Plan};
use crate::pods::{BURST, from_template, remove, sort_for_deletion};
use crate::selector;

/// Who speaks in events of this set.
fn source(set: &Value) -> &'static str {
    match set.text("/kind") {
        "ReplicationController" => "replication-controller",
        _ => "replicaset-controller",
    }
}

/// Where this set is stored.
fn resource(set: &Value) -> &'static str {
    match set.text("/kind") {
        "ReplicationController" => "replicationcontrollers",
        _ => "replicasets.apps",
    }
}

/// What one ReplicaSet looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The ReplicaSet, or a ReplicationController.
    pub set: Value,
    /// Pods that it controls.
    pub pods: Vec<Pod>,
    /// Whole pods whose belonging is in question: ours but not matching, matching but free.
    pub strays: Vec<Value>,
    /// Why the last attempt to make a pod was refused.
    pub refusal: Option<String>,
    /// The present moment.
    pub now: Timestamp,
}

/// Decides the next moves for one ReplicaSet.
pub fn plan(seen: &Observed) -> Plan {
    let set = &seen.set;
    let mut plan = Plan { actions: claim::settle(set, "pods", &seen.strays), ..Plan::default() };
    if !plan.actions.is_empty() {
        plan.waiting.push("pods change hands first".into());
        return plan;
    }
    let selector = selector::of(set);
    let wanted = |p: &&Pod| p.is_active() && selector::picks(&selector, &p.labels);
    let mut active: Vec<&Pod> = seen.pods.iter().filter(wanted).collect();
    let desired = set.int("/spec/replicas").unwrap_or(1).max(0);
    let surplus = active.len() as i64 - desired;
    if !set.is_deleting() {
        if surplus < 0 && seen.refusal.is_none() {
            (0..(-surplus).min(BURST)).for_each(|_| plan.act(make(set)));
        }
        if surplus > 0 {
            sort_for_deletion(&mut active);
            for pod in active.iter().take(usize::try_from(surplus.min(BURST)).unwrap_or(0)) {
                plan.act(remove(source(set), set, pod));
            }
        }
    }
    report(seen, &active, surplus, &mut plan);
    plan
}

fn make(set: &Value) -> Action {
    Action::Create {
        resource: "pods",
        object: from_template(set, set.at("/spec/template")),
        then: Some(Note::normal(set, source(set), "SuccessfulCreate", "Created pod: {name}")),
        refused: Some(Note::warning(set, source(set), "FailedCreate", "Error creating: ")),
    }
}

fn report(seen: &Observed, active: &[&Pod], surplus: i64, plan: &mut Plan) {
    let (set, now) = (&seen.set, seen.now);
    let delay = set.int("/spec/minReadySeconds").unwrap_or(0);
    let template = set.strings("/spec/template/metadata/labels");
    let labelled = |p: &&&Pod| template.iter().all(|(k, v)| p.labels.get(k) == Some(v));
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut status = json!({
        "replicas": active.len(),
        "observedGeneration": set.generation(),
    });
    for (field, number) in [
        ("fullyLabeledReplicas", active.iter().filter(labelled).count()),
        ("readyReplicas", active.iter().filter(|p| p.is_ready()).count()),
        ("availableReplicas", active.iter().filter(|p| p.is_available(delay, now)).count()),
    ] {
        if number > 0 {
            status[field] = json!(count(number));
        }
    }
    let mut conditions = set.list("/status/conditions").to_vec();
    match &seen.refusal {
        Some(why) if surplus != 0 => {
            let reason = if surplus < 0 { "FailedCreate" } else { "FailedDelete" };
            plan.waiting.push(why.clone());
            let draft = ConditionDraft {
                kind: "ReplicaFailure",
                status: "True",
                reason,
                message: why.clone(),
            };
            if condition::find(&conditions, "ReplicaFailure").is_none() {
                condition::put(&mut conditions, Style::Plain, now, &draft);
            }
        }
        _ => condition::remove(&mut conditions, "ReplicaFailure"),
    }
    if !conditions.is_empty() {
        status["conditions"] = Value::Array(conditions);
    }
    if let Some(next) = active.iter().filter_map(|p| p.available_at(delay, now)).min() {
        plan.wake_at(next);
    }
    plan.status(resource(set), set, status);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Phase;

    fn pod(name: &str, node: &str, phase: Phase, ready: Option<i64>) -> Pod {
        let mut pod =
            Pod::of(&json!({"metadata": {"name": name, "uid": name, "namespace": "default",
            "labels": {"app": "web"}}}));
        pod.node = node.to_owned();
        pod.phase = phase;
        pod.ready_since = ready.map(|s| Timestamp::from_second(s).unwrap());
        pod
    }

    fn set(replicas: i64) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web-abc", "namespace": "default", "uid": "rs", "generation": 1},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
        })
    }

    fn seen(replicas: i64, pods: Vec<Pod>) -> Observed {
        let now = Timestamp::from_second(1_000).unwrap();
        Observed { set: set(replicas), pods, strays: vec![], refusal: None, now }
    }

    #[test]
    fn missing_pods_are_made_and_ended_ones_do_not_count() {
        let pods =
            vec![pod("a", "n1", Phase::Running, Some(10)), pod("b", "n1", Phase::Failed, None)];
        let plan = plan(&seen(3, pods));
        let made = plan.actions.iter().filter(|a| matches!(a, Action::Create { .. })).count();
        assert_eq!(made, 2);
        let Some(Action::ReplaceStatus { object, .. }) = plan.actions.last() else {
            panic!("status is written last: {plan:?}");
        };
        assert_eq!(
            object["status"],
            json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1,
                "availableReplicas": 1, "observedGeneration": 1})
        );
    }

    #[test]
    fn a_refusal_is_reported_and_not_repeated() {
        let mut seen = seen(1, vec![]);
        seen.refusal = Some("pods \"web-abc-x\" is forbidden: exceeded quota: q".into());
        let plan = plan(&seen);
        let [Action::ReplaceStatus { object, .. }] = plan.actions.as_slice() else {
            panic!("only the status is written: {plan:?}");
        };
        assert_eq!(
            object["status"]["conditions"][0],
            json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": "pods \"web-abc-x\" is forbidden: exceeded quota: q",
                "lastTransitionTime": "1970-01-01T00:16:40Z"})
        );
    }

    #[test]
    fn a_set_that_is_going_makes_and_removes_nothing() {
        let mut seen = seen(3, vec![]);
        crate::object::set(&mut seen.set, &["metadata", "deletionTimestamp"], json!("x"));
        let plan = plan(&seen);
        assert!(plan.actions.iter().all(|a| matches!(a, Action::ReplaceStatus { .. })), "{plan:?}");
    }

    #[test]
    fn a_ready_pod_becomes_available_later_and_the_plan_wakes_for_it() {
        let mut seen = seen(1, vec![pod("a", "n1", Phase::Running, Some(995))]);
        seen.set["spec"]["minReadySeconds"] = json!(10);
        let plan = plan(&seen);
        assert_eq!(plan.wake, Some(Timestamp::from_second(1_005).unwrap()));
    }
}
