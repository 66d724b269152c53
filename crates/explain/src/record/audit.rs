//! Whether records are as they were written, and hang together.

use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::record::chain::{Fault, verify};
use flagship_rules::update_run::recorded::without_effect;
use serde::Serialize;

use super::{Record, sentence};

/// What is to be said of one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The run.
    pub run: String,
    /// Its UID.
    pub uid: String,
    /// How many entries there are.
    pub entries: usize,
    /// Over how many objects.
    pub parts: usize,
    /// Hash of the last one.
    pub last_hash: String,
    /// What is wrong, first things first.
    pub faults: Vec<Fault>,
    /// What is worth knowing and not wrong.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Whether the record is as it was written.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }

    /// One line for a person.
    pub fn told(&self) -> String {
        let Self { run, entries, .. } = self;
        match self.faults.len() {
            0 => format!("{run}: verified, {entries} entries"),
            _ => format!("{run}: NOT as it was written, {entries} entries"),
        }
    }
}

/// Judges one record among all of its namespace; `status` is what its run says, if it is there.
pub fn judge(record: &Record, all: &[Record], status: Option<&UpdateRunStatus>) -> Verdict {
    let parts: Vec<_> = record.parts.iter().collect();
    let (mut faults, mut notes) = (verify(&parts), Vec::new());
    if let Some(follows) = record.parts.first().and_then(|first| first.follows.as_ref()) {
        let before = all.iter().find(|other| other.uid() == follows.uid);
        let removed = record.checkpoint.as_ref().filter(|checkpoint| {
            (&checkpoint.uid, &checkpoint.hash) == (&follows.uid, &follows.hash)
        });
        match (before, removed) {
            (Some(before), _) if before.entries().any(|entry| entry.hash == follows.hash) => {}
            (Some(_), _) => faults.push(Fault {
                entry: None,
                what: format!(
                    "it follows an entry of {} that is not there any more: that record was written anew",
                    follows.run
                ),
            }),
            (None, Some(checkpoint)) => notes.push(format!(
                "follows {}, which retention removed at {:.0}",
                follows.run, checkpoint.removed
            )),
            (None, None) => faults.push(Fault {
                entry: None,
                what: format!(
                    "it follows the record of {}, which is gone and was not removed by retention",
                    follows.run
                ),
            }),
        }
    }
    let entries: Vec<_> = record.entries().cloned().collect();
    if let Some(status) = status {
        // What was changed afterwards never was to have that effect.
        let changed = |n: i64| faults.iter().any(|fault| fault.entry == Some(n));
        let open = without_effect(&entries, status).into_iter().filter(|entry| !changed(entry.n));
        notes.extend(
            open.map(|entry| {
                format!("entry {} has had no effect yet: {}", entry.n, sentence(entry))
            }),
        );
    }
    Verdict {
        run: record.run().to_owned(),
        uid: record.uid().to_owned(),
        entries: entries.len(),
        parts: record.parts.len(),
        last_hash: record.last_hash().to_owned(),
        faults,
        notes,
    }
}
