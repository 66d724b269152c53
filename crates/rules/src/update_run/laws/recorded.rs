//! P6: every effect of a run under a record was told there before it happened.

use std::collections::BTreeSet;

use flagship_api::rollout_record::{RecordEntry, What};

use super::super::observed::Observed;
use super::super::reconcile::Action;
use super::super::recorded::owed;
use super::{Told, broken};
use crate::record::{EntryDraft, chain, subject};

/// What may happen again and again in a run.
const REPEATS: [What; 8] = [
    What::Stopped,
    What::Resumed,
    What::Frozen,
    What::Unfrozen,
    What::WindowClosed,
    What::WindowOpened,
    What::Stuck,
    What::CheckMeasured,
];

/// P6, for a write: a status tells nothing that the record does not, and no binding is touched
/// whose cluster has not begun there.
pub fn effects_are_told_before(before: &Observed, action: &Action) -> Told {
    let adopted = before.run.adopted.as_ref().filter(|adopted| !adopted.is_empty());
    let Some(entries) = &before.record else { return Vec::new() };
    if !before.options.records.keeps(adopted.is_some()) {
        return Vec::new();
    }
    let binding = match action {
        Action::Status(status) => {
            let mut missing = owed(before, entries, status, adopted);
            // Of two hubs that both lead one may not know yet that the other told of a stop; it is
            // told when it turns again, or with the next entry.
            missing.retain(|draft| !REPEATS.contains(&draft.what));
            let what = |draft: &EntryDraft| {
                let about =
                    draft.cluster.as_deref().or(draft.stage.as_deref()).unwrap_or("the run");
                broken("P6", format!("{:?} of {about} is not in the record", draft.what))
            };
            return missing.iter().map(what).collect();
        }
        Action::UpdateBinding(deliver) => &deliver.binding,
        Action::SignalStart(signal) => &signal.binding,
        Action::DeleteBinding(withdraw) => &withdraw.binding,
        _ => return Vec::new(),
    };
    let found = before.bindings.iter().find(|found| found.name == *binding);
    let Some(cluster) = found.map(|found| found.cluster()) else { return Vec::new() };
    let begun = entries
        .iter()
        .any(|entry| entry.what == What::ClusterBegan && entry.cluster.as_deref() == Some(cluster));
    match begun {
        true => Vec::new(),
        false => {
            vec![broken("P6", format!("{cluster} is touched and has not begun in the record"))]
        }
    }
}

/// P6, for a stored state: nothing is told twice, and entries hang together.
pub fn told_once_and_in_a_chain(seen: &Observed) -> Told {
    let Some(entries) = &seen.record else { return Vec::new() };
    let (mut told, mut known) = (Vec::new(), BTreeSet::new());
    let mut last: Option<&RecordEntry> = None;
    for entry in entries.iter() {
        if !known.insert(subject(entry)) && !REPEATS.contains(&entry.what) {
            told.push(broken(
                "P6",
                format!("{:?} is told twice, in entry {}", entry.what, entry.n),
            ));
        }
        let linked = last.is_none_or(|last| last.hash == entry.previous_hash);
        last = Some(entry);
        if !linked || chain::hash_of(entry) != entry.hash {
            told.push(broken("P6", format!("entry {} breaks the chain", entry.n)));
        }
    }
    told
}
