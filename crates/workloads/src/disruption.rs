//! PodDisruptionBudget: how many of its pods may be missed right now.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use crate::condition::{self, ConditionDraft, Style};
use crate::deployment::{Round, resolve};
use crate::facts::Pod;
use crate::object::{Fields, set};
use crate::plan::Plan;

/// How long an eviction may take before it counts as given up.
const GIVEN_UP: SignedDuration = SignedDuration::from_mins(2);

/// What one budget looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The PodDisruptionBudget.
    pub budget: Value,
    /// Pods that it selects.
    pub pods: Vec<Pod>,
    /// Replicas that the owners of these pods want.
    pub expected: i64,
    /// The present moment.
    pub now: Timestamp,
}

/// Keeps the status of one budget.
pub fn plan(seen: &Observed) -> Plan {
    let budget = &seen.budget;
    let mut plan = Plan::default();
    let pods: Vec<&Pod> = seen.pods.iter().filter(|p| !p.phase.is_final()).collect();
    let mut disrupted = budget.strings("/status/disruptedPods");
    disrupted.retain(|name, since| {
        let until = since.parse::<Timestamp>().ok().and_then(|s| s.checked_add(GIVEN_UP).ok());
        let pending = pods.iter().any(|p| p.name == *name && !p.deleting);
        match until.filter(|until| pending && *until > seen.now) {
            Some(until) => {
                plan.wake_at(until);
                true
            }
            None => false,
        }
    });
    let size = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let is_healthy = |p: &&&Pod| p.is_ready() && !p.deleting && !disrupted.contains_key(&p.name);
    let healthy = size(pods.iter().filter(is_healthy).count());
    let (expected, desired) =
        match (budget.at("/spec/minAvailable"), budget.at("/spec/maxUnavailable")) {
            (Value::Null, Value::Null) => (size(pods.len()), 0),
            (Value::Null, most) => {
                let missing = resolve(most, seen.expected, Round::Up);
                (seen.expected, (seen.expected - missing).max(0))
            }
            (least @ Value::Number(_), _) => (size(pods.len()), resolve(least, 0, Round::Up)),
            (least, _) => (seen.expected, resolve(least, seen.expected, Round::Up)),
        };
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let mut conditions = budget.list("/status/conditions").to_vec();
    let draft = if allowed > 0 {
        ConditionDraft {
            kind: "DisruptionAllowed",
            status: "True",
            reason: "SufficientPods",
            message: String::new(),
        }
    } else {
        ConditionDraft {
            kind: "DisruptionAllowed",
            status: "False",
            reason: "InsufficientPods",
            message: String::new(),
        }
    };
    condition::put(&mut conditions, Style::Plain, seen.now, &draft);
    for condition in &mut conditions {
        set(condition, &["observedGeneration"], json!(budget.generation()));
        // A required field, unlike in older kinds.
        if condition.at("/message").is_null() {
            set(condition, &["message"], json!(""));
        }
    }
    let mut status = json!({
        "observedGeneration": budget.generation(), "conditions": conditions,
        "currentHealthy": healthy, "desiredHealthy": desired,
        "disruptionsAllowed": allowed, "expectedPods": expected,
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = json!(disrupted);
    }
    plan.status("poddisruptionbudgets.policy", budget, status);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_count_healthy_pods_above_what_is_desired() {
        let now = Timestamp::from_second(0).unwrap();
        let pods = |healthy: usize, sick: usize| -> Vec<Pod> {
            (0..healthy + sick)
                .map(|n| {
                    let mut pod = Pod::of(&json!({"metadata": {"name": format!("p{n}")}}));
                    pod.ready_since = (n < healthy).then_some(now);
                    pod
                })
                .collect()
        };
        for (spec, healthy, sick, expected, allowed, desired) in [
            (json!({"minAvailable": 2}), 3, 0, 3, 1, 2),
            (json!({"minAvailable": 2}), 2, 1, 3, 0, 2),
            (json!({"minAvailable": "50%"}), 3, 0, 3, 1, 2),
            (json!({"maxUnavailable": 1}), 3, 0, 3, 1, 2),
            (json!({"maxUnavailable": 1}), 2, 1, 3, 0, 2),
            (json!({"maxUnavailable": "100%"}), 1, 0, 3, 1, 0),
            (json!({"minAvailable": 0}), 0, 0, 0, 0, 0),
        ] {
            let budget = json!({"metadata": {"generation": 1}, "spec": spec});
            let plan = plan(&Observed { budget, pods: pods(healthy, sick), expected, now });
            let crate::plan::Action::ReplaceStatus { object, .. } = &plan.actions[0] else {
                panic!("{plan:?}")
            };
            let status = &object["status"];
            assert_eq!(
                (&status["disruptionsAllowed"], &status["desiredHealthy"]),
                (&json!(allowed), &json!(desired)),
                "{spec}"
            );
        }
    }
}
