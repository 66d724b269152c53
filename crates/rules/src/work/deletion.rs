//! The end of a binding: its Works go first, and it waits until they are gone.
//!
//! A Work leaves only after the member has cleaned up, so a binding that is gone means
//! that the member said so. Works that are on their way out count as long as they are there.

use jiff::SignedDuration;

use super::observed::Observed;
use super::reconcile::{Action, Plan, Waiting};
use super::sync::Write;

/// How soon to look again although nobody told that a Work is gone.
pub const FALLBACK: SignedDuration = SignedDuration::from_secs(30);

/// Deletes the Works, then lets the binding go.
pub fn plan(seen: &Observed) -> Plan {
    if seen.works.is_empty() {
        let actions = if seen.binding.guarded { vec![Action::Unguard] } else { Vec::new() };
        return Plan { actions, ..Plan::default() };
    }
    // The placement is deleted, and not only this one cluster dropped.
    let over = seen.placement.as_ref().is_none_or(|placement| placement.deleting);
    let abandons = seen.placement.as_ref().is_some_and(|placement| placement.abandons);
    let mut actions = Vec::new();
    for work in &seen.works {
        if over && (abandons || work.to_abandon) && !work.abandoned {
            actions.push(Action::Work(Write::Abandon { name: work.name.clone() }));
        }
    }
    for work in seen.live_works() {
        actions.push(Action::Work(Write::Delete { name: work.name.clone() }));
    }
    let waiting = Some(Waiting::WorksToGo(seen.works.len()));
    Plan { actions, waiting, wake: Some(FALLBACK), ..Plan::default() }
}
