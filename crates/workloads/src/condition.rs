//! Conditions of built-in kinds, which differ in the times they carry.
//!
//! `lastTransitionTime` moves only when the truth does. Deployments also carry
//! `lastUpdateTime`, pods and jobs `lastProbeTime`; those are added by the caller's
//! choice of [`Style`].

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::{Fields, stamp};

/// Which extra time a kind's conditions carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Only `lastTransitionTime`.
    Plain,
    /// Also `lastUpdateTime`: Deployments.
    Updated,
    /// Also `lastProbeTime: null`: Pods.
    Probed,
    /// Also `lastProbeTime` at the moment of writing: Jobs.
    ProbedNow,
}

/// What a condition says.
#[derive(Debug, Clone)]
pub struct ConditionDraft<'a> {
    /// Such as `Available`.
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// CamelCase reason; may be empty.
    pub reason: &'a str,
    /// Sentence for people; may be empty.
    pub message: String,
}

/// The condition of a type, if there is one.
pub fn find<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|c| c.text("/type") == kind)
}

/// Whether a condition is there and `True`.
pub fn is_true(conditions: &[Value], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|c| c.text("/status") == "True")
}

/// Adds or replaces a condition in place. Same status, reason and message change nothing.
pub fn put(conditions: &mut Vec<Value>, style: Style, now: Timestamp, draft: &ConditionDraft<'_>) {
    let old = find(conditions, draft.kind);
    if let Some(old) = old
        && old.text("/status") == draft.status
        && old.text("/reason") == draft.reason
        && old.text("/message") == draft.message
    {
        return;
    }
    let since = old
        .filter(|c| c.text("/status") == draft.status)
        .map(|c| c.text("/lastTransitionTime").to_owned())
        .filter(|t| !t.is_empty())
        .unwrap_or_else(|| stamp(now));
    let mut fresh =
        json!({"type": draft.kind, "status": draft.status, "lastTransitionTime": since});
    for (key, text) in [("reason", draft.reason), ("message", &draft.message)] {
        if !text.is_empty() {
            fresh[key] = json!(text);
        }
    }
    match style {
        Style::Plain => {}
        Style::Updated => fresh["lastUpdateTime"] = json!(stamp(now)),
        Style::Probed => fresh["lastProbeTime"] = Value::Null,
        Style::ProbedNow => fresh["lastProbeTime"] = json!(stamp(now)),
    }
    match conditions.iter_mut().find(|c| c.text("/type") == draft.kind) {
        Some(place) => *place = fresh,
        None => conditions.push(fresh),
    }
}

/// Removes a condition.
pub fn remove(conditions: &mut Vec<Value>, kind: &str) {
    conditions.retain(|c| c.text("/type") != kind);
}
