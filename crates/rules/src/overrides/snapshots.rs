//! Whether an override becomes a new snapshot, and which old ones go.
//!
//! The new snapshot is there before the old one loses its label: between the two writes
//! both are the latest, and readers take the higher index. The other way round a rollout
//! in the gap would drop the override and roll it out again.
//!
//! What a binding or an update run still names is kept, however old it is.

use std::collections::BTreeSet;

use flagship_api::names::{IndexError, SnapshotIndex, override_snapshot};
use serde::{Deserialize, Serialize};

use crate::placement::PassError;

/// How many snapshots an override keeps before a new one is taken.
pub const KEPT: usize = 9;

/// Everything one pass over an override may look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// `metadata.name` of the override.
    pub name: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it carries our finalizer.
    pub has_finalizer: bool,
    /// Hash of its spec.
    pub hash: String,
    /// Its snapshots, in any order.
    pub snapshots: Vec<Snapshot>,
    /// Names of snapshots that bindings and unfinished update runs refer to.
    pub in_use: BTreeSet<String>,
}

/// A snapshot of an override, without the override in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// `metadata.name`.
    pub name: String,
    /// Label `override-index`.
    pub index: Option<String>,
    /// Whether label `is-latest-snapshot` is `true`.
    pub latest: bool,
    /// `spec.overrideHash`, as the hex digits it holds.
    pub hash: String,
}

/// One write, in the order of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Put our finalizer on the override.
    AddFinalizer,
    /// Create a snapshot of the override as it is, labelled the latest.
    Create {
        /// Its name.
        name: String,
        /// Its index.
        index: String,
        /// Hash of the override.
        hash: String,
    },
    /// Set the label that tells the latest from the others.
    Mark {
        /// The snapshot.
        name: String,
        /// Whether it is the latest.
        latest: bool,
    },
    /// Delete one snapshot.
    Delete {
        /// The snapshot.
        name: String,
    },
    /// Delete every snapshot of the override, whatever state it is in.
    DeleteAll,
    /// Take our finalizer off the override.
    RemoveFinalizer,
}

/// What to do about one override.
pub fn plan(seen: &Observed) -> Result<Vec<Action>, PassError> {
    if seen.deleting {
        let actions = seen.has_finalizer.then(|| vec![Action::DeleteAll, Action::RemoveFinalizer]);
        return Ok(actions.unwrap_or_default());
    }
    let mut snapshots = Vec::with_capacity(seen.snapshots.len());
    for snapshot in &seen.snapshots {
        snapshots.push((index_of(snapshot)?, snapshot));
    }
    snapshots.sort_by_key(|(index, _)| *index);
    let mut actions = Vec::new();
    if !seen.has_finalizer {
        actions.push(Action::AddFinalizer);
    }
    let newest = snapshots.last().copied();
    match newest {
        Some((_, newest)) if newest.hash == seen.hash => {
            if !newest.latest {
                actions.push(mark(newest, true));
            }
            // A pass that created it may have ended before it took the label off.
            let others = snapshots.iter().map(|(_, other)| *other);
            actions.extend(others.filter(|o| o.latest && o.name != newest.name).map(retire));
        }
        _ => {
            let index = newest.map_or(SnapshotIndex::FIRST, |(index, _)| index.next());
            actions.push(Action::Create {
                name: override_snapshot(&seen.name, index),
                index: index.to_string(),
                hash: seen.hash.clone(),
            });
            let all = snapshots.iter().map(|(_, snapshot)| *snapshot);
            actions.extend(all.filter(|snapshot| snapshot.latest).map(retire));
        }
    }
    actions.extend(trimmed(&snapshots, &seen.in_use));
    Ok(actions)
}

/// The oldest ones beyond the limit; neither the newest nor what is in use.
fn trimmed<'a>(
    snapshots: &'a [(SnapshotIndex, &'a Snapshot)],
    in_use: &'a BTreeSet<String>,
) -> impl Iterator<Item = Action> + 'a {
    let beyond = snapshots.len().saturating_sub(KEPT);
    let old = snapshots.iter().take(beyond).map(|(_, snapshot)| *snapshot);
    old.filter(|old| !in_use.contains(&old.name))
        .map(|old| Action::Delete { name: old.name.clone() })
}

fn mark(snapshot: &Snapshot, latest: bool) -> Action {
    Action::Mark { name: snapshot.name.clone(), latest }
}

fn retire(snapshot: &Snapshot) -> Action {
    mark(snapshot, false)
}

fn index_of(snapshot: &Snapshot) -> Result<SnapshotIndex, PassError> {
    let bad = |why: &str| {
        let name = &snapshot.name;
        PassError::Unexpected(format!("override snapshot {name} has a bad override-index: {why}"))
    };
    let text = snapshot.index.as_deref().ok_or_else(|| bad("it is missing"))?;
    text.parse().map_err(|error: IndexError| bad(&error.to_string()))
}
