//! What a Deployment says about itself: counts and the three conditions.
//!
//! Reasons and sentences are Kubernetes', because dashboards, `kubectl rollout
//! status` and fleets match on them.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::budget::Budget;
use super::facts::Failure;
use super::sets::Set;
use crate::condition::{self, ConditionDraft, Style};
use crate::object::Fields;

/// Reasons of a Deployment's conditions.
pub mod reason {
    /// Available: enough pods serve.
    pub const AVAILABLE: &str = "MinimumReplicasAvailable";
    /// Available: too few pods serve.
    pub const UNAVAILABLE: &str = "MinimumReplicasUnavailable";
    /// Progressing: the new set has been made.
    pub const CREATED: &str = "NewReplicaSetCreated";
    /// Progressing: a set with this template was there already.
    pub const FOUND: &str = "FoundNewReplicaSet";
    /// Progressing: pods are moving.
    pub const UPDATED: &str = "ReplicaSetUpdated";
    /// Progressing: the rollout is complete.
    pub const COMPLETE: &str = "NewReplicaSetAvailable";
    /// Progressing: nothing moved within the deadline.
    pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    /// Progressing: the new set could not be made.
    pub const REFUSED: &str = "ReplicaSetCreateError";
    /// Progressing: paused by its user.
    pub const PAUSED: &str = "DeploymentPaused";
    /// Progressing: no longer paused.
    pub const RESUMED: &str = "DeploymentResumed";
}

/// Replaces a condition. The same status and reason change nothing, whatever the message.
pub(super) fn put(conditions: &mut Vec<Value>, now: Timestamp, draft: &ConditionDraft<'_>) {
    let old = condition::find(conditions, draft.kind).cloned();
    if let Some(old) = &old
        && old.text("/status") == draft.status
        && old.text("/reason") == draft.reason
    {
        return;
    }
    replace(conditions, now, draft);
}

/// Replaces a condition even if only its update time moves; it goes to the end.
fn replace(conditions: &mut Vec<Value>, now: Timestamp, draft: &ConditionDraft<'_>) {
    let old = condition::find(conditions, draft.kind).cloned();
    condition::remove(conditions, draft.kind);
    let mut fresh = Vec::new();
    condition::put(&mut fresh, Style::Updated, now, draft);
    if let Some(old) = old
        && old.text("/status") == draft.status
    {
        fresh[0]["lastTransitionTime"] = old.at("/lastTransitionTime").clone();
    }
    conditions.append(&mut fresh);
}

/// Counts over all sets, and the Available condition.
pub(super) fn counted(
    deployment: &Value,
    new: Option<&Set>,
    old: &[Set],
    budget: Budget,
    mut conditions: Vec<Value>,
    now: Timestamp,
) -> Value {
    let sum = |count: fn(&Set) -> i64| -> i64 { new.into_iter().chain(old).map(count).sum() };
    let available = sum(Set::available);
    let serves = available >= budget.floor();
    let draft = if serves {
        ConditionDraft {
            kind: "Available",
            status: "True",
            reason: reason::AVAILABLE,
            message: "Deployment has minimum availability.".into(),
        }
    } else {
        ConditionDraft {
            kind: "Available",
            status: "False",
            reason: reason::UNAVAILABLE,
            message: "Deployment does not have minimum availability.".into(),
        }
    };
    put(&mut conditions, now, &draft);
    let mut status = json!({
        "observedGeneration": deployment.generation(),
        "conditions": conditions,
    });
    let counts = [
        ("replicas", sum(Set::actual)),
        ("updatedReplicas", new.map_or(0, Set::actual)),
        ("readyReplicas", sum(Set::ready)),
        ("availableReplicas", available),
        ("unavailableReplicas", (sum(Set::size) - available).max(0)),
    ];
    // Zero counts are absent, as Go's omitempty leaves them.
    for (field, count) in counts.into_iter().filter(|(_, count)| *count != 0) {
        status[field] = json!(count);
    }
    if let Some(collisions) = deployment.int("/status/collisionCount") {
        status["collisionCount"] = json!(collisions);
    }
    status
}

/// Whether every pod is new and available.
pub(super) fn is_complete(deployment: &Value, status: &Value, desired: i64) -> bool {
    count(status, "updatedReplicas") == desired
        && count(status, "replicas") == desired
        && count(status, "availableReplicas") == desired
        && status.int("/observedGeneration").unwrap_or(0) >= deployment.generation()
}

/// Adds how the rollout goes: complete, moving, or stuck; and failures to make pods.
/// Returns when a silent rollout has to be looked at again.
pub(super) fn judge(
    deployment: &Value,
    new: Option<&Set>,
    old: &[Set],
    status: &mut Value,
    desired: i64,
    now: Timestamp,
) -> Option<Timestamp> {
    let mut conditions = status.list("/conditions").to_vec();
    let deadline = deadline(deployment);
    if deadline.is_none() {
        condition::remove(&mut conditions, "Progressing");
    }
    let current = condition::find(&conditions, "Progressing").cloned();
    let was_complete = count(status, "replicas") == count(status, "updatedReplicas")
        && current.as_ref().is_some_and(|c| c.text("/reason") == reason::COMPLETE);
    let subject = new.map_or_else(
        || format!("Deployment {:?}", deployment.name()),
        |set| format!("ReplicaSet {:?}", set.name()),
    );
    let complete = is_complete(deployment, status, desired);
    if let Some(deadline) = deadline.filter(|_| !was_complete) {
        let say = |status, reason, tail: &str| ConditionDraft {
            kind: "Progressing",
            status,
            reason,
            message: format!("{subject} {tail}"),
        };
        if complete {
            let draft = say("True", reason::COMPLETE, "has successfully progressed.");
            put(&mut conditions, now, &draft);
        } else if has_moved(deployment, status) {
            replace(&mut conditions, now, &say("True", reason::UPDATED, "is progressing."));
        } else if is_overdue(current.as_ref(), deadline, now) {
            let draft = say("False", reason::TIMED_OUT, "has timed out progressing.");
            put(&mut conditions, now, &draft);
        }
    }
    match failure(new, old) {
        Some(failed) => put(
            &mut conditions,
            now,
            &ConditionDraft {
                kind: "ReplicaFailure",
                status: &failed.status,
                reason: &failed.reason,
                message: failed.message.clone(),
            },
        ),
        None => condition::remove(&mut conditions, "ReplicaFailure"),
    }
    let wake = deadline.filter(|_| !complete).and_then(|deadline| {
        let progressing = condition::find(&conditions, "Progressing")?;
        if [reason::TIMED_OUT, reason::COMPLETE].contains(&progressing.text("/reason")) {
            return None;
        }
        let since = progressing.time("/lastUpdateTime")?;
        // One second late rather than early: times in objects are whole seconds.
        since.checked_add(deadline + SignedDuration::from_secs(1)).ok()
    });
    status["conditions"] = Value::Array(conditions);
    wake
}

/// `spec.progressDeadlineSeconds`, unless it says "never".
pub(super) fn deadline(deployment: &Value) -> Option<SignedDuration> {
    let seconds = deployment.int("/spec/progressDeadlineSeconds")?;
    (seconds < i64::from(i32::MAX)).then(|| SignedDuration::from_secs(seconds))
}

fn count(status: &Value, field: &str) -> i64 {
    status.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// Compared with the stored status: more new, fewer old, more ready or more available.
fn has_moved(deployment: &Value, status: &Value) -> bool {
    let before = deployment.at("/status");
    let outdated = |s: &Value| count(s, "replicas") - count(s, "updatedReplicas");
    count(status, "updatedReplicas") > count(before, "updatedReplicas")
        || outdated(status) < outdated(before)
        || count(status, "readyReplicas") > count(before, "readyReplicas")
        || count(status, "availableReplicas") > count(before, "availableReplicas")
}

fn is_overdue(current: Option<&Value>, deadline: SignedDuration, now: Timestamp) -> bool {
    let Some(current) = current else { return false };
    match current.text("/reason") {
        reason::COMPLETE => false,
        reason::TIMED_OUT => true,
        _ => current
            .time("/lastUpdateTime")
            .and_then(|since| since.checked_add(deadline).ok())
            .is_some_and(|limit| limit < now),
    }
}

/// The first set's word that it cannot make pods; the new set is asked first.
fn failure<'a>(new: Option<&'a Set>, old: &'a [Set]) -> Option<&'a Failure> {
    new.into_iter().chain(old).find_map(Set::failure)
}
