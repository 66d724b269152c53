//! P6: every effect on a binding of a run under a record was told there before it happened, and
//! what a run says is told there in the same pass.

use std::collections::BTreeSet;

use flagship_api::rollout_record::{RecordEntry, What};

use super::super::observed::Observed;
use super::super::reconcile::{Action, Plan};
use super::super::recorded::owed;
use super::{Told, broken};
use crate::policy::Adopted;
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

/// The entries of a run of which a record is kept, and the policies it follows.
fn kept(seen: &Observed) -> Option<(&[RecordEntry], Option<&Adopted>)> {
    let adopted = seen.run.adopted.as_ref().filter(|adopted| !adopted.is_empty());
    let entries = seen.record.as_ref()?;
    seen.options.records.keeps(adopted.is_some()).then_some((entries, adopted))
}

/// P6, for a plan: whatever its status tells and the record does not, the plan adds, and before
/// the status what could not be added later.
pub fn status_is_told(read: &Observed, plan: &Plan) -> Told {
    let (mut then, mut written) = (read.clone(), None);
    for action in &plan.actions {
        match action {
            Action::Adopt(adopted) => then.run.adopted = Some(adopted.clone()),
            Action::Status(status) => written = Some(status),
            Action::Record(recording) if written.is_none() || recording.follows_from_status() => {
                then.take_down(recording);
            }
            _ => {}
        }
    }
    let (Some(status), Some((entries, adopted))) = (written, kept(&then)) else {
        return Vec::new();
    };
    let missing = owed(read, entries, status, adopted);
    let what = |draft: &EntryDraft| {
        let about = draft.cluster.as_deref().or(draft.stage.as_deref()).unwrap_or("the run");
        broken("P6", format!("{:?} of {about} is not in the record", draft.what))
    };
    missing.iter().map(what).collect()
}

/// P6, for a write: no binding is touched whose cluster has not begun in the record.
pub fn effects_are_told_before(before: &Observed, action: &Action) -> Told {
    let Some((entries, _)) = kept(before) else { return Vec::new() };
    let binding = match action {
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
