//! The end of a binding: its Works go first, and it waits until they are gone.
//!
//! A Work leaves only after the member has cleaned up, so a binding that is gone means
//! that the member said so. A member that is to keep what it has is told before its Works
//! are deleted, in a pass of its own: a hub that dies in between has lost nothing. Works
//! that are on their way out count as long as they are there.
//!
//! A hub that does not know yet may write a Work after the last look at them; it outlives its
//! binding, and goes the same way.

use flagship_api::keys::finalizer;
use jiff::SignedDuration;

use super::observed::{Observed, Placement, Work};
use super::reconcile::{Action, Plan, Waiting};
use super::sync::Write;

/// How soon to look again although nobody told that a Work is gone.
pub const FALLBACK: SignedDuration = SignedDuration::from_secs(30);

/// Deletes the Works, then lets the binding go.
pub fn plan(seen: &Observed) -> Plan {
    if seen.works.is_empty() {
        let actions = if seen.binding.has_finalizer(finalizer::WORK) {
            vec![Action::RemoveFinalizer]
        } else {
            Vec::new()
        };
        return Plan { actions, ..Plan::default() };
    }
    let actions = ends_of(&seen.works, seen.placement.as_ref());
    let actions = actions.into_iter().map(Action::Work).collect();
    let waiting = Some(Waiting::WorksToGo(seen.works.len()));
    Plan { actions, waiting, wake: Some(FALLBACK), ..Plan::default() }
}

/// What is to be done to the Works of a binding that goes, or is gone.
pub fn ends_of(works: &[Work], placement: Option<&Placement>) -> Vec<Write> {
    // The placement is deleted, and not only this one cluster dropped.
    let over = placement.is_none_or(|placement| placement.deleting);
    let abandons = placement.is_some_and(|placement| placement.abandons);
    let untold =
        works.iter().filter(|work| over && (abandons || work.to_abandon) && !work.abandoned);
    let name = |work: &Work| work.name.clone();
    let mut writes: Vec<Write> = untold.map(|work| Write::Abandon { name: name(work) }).collect();
    if writes.is_empty() {
        let live = works.iter().filter(|work| !work.deleting);
        writes.extend(live.map(|work| Write::Delete { name: name(work) }));
    }
    writes
}
