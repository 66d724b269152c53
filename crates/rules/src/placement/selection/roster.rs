//! Which types of resources to watch, as discovery shows and hides them.
//!
//! Discovery is asked again and again, and one answer proves little: a group whose server
//! is down is missing and not gone. A type is dropped only after its group was answered
//! several times without it, because a watch that fails blocks every namespace selection.

use std::collections::{BTreeMap, BTreeSet};

use super::hub::Kind;
use super::type_rules::TypeRules;

/// How many answers without a type make it gone.
const MISSES: u8 = 3;

/// Types that are watched, and how often each was missed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster(BTreeMap<Kind, u8>);

/// What discovery answered once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Groups that were answered.
    pub groups: BTreeSet<String>,
    /// Types in their preferred version that can be listed and watched.
    pub kinds: BTreeSet<Kind>,
}

/// What changes about the watches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Types to begin watching.
    pub begin: Vec<Kind>,
    /// Types to stop watching.
    pub end: Vec<Kind>,
}

impl Roster {
    /// Takes one answer of discovery into account.
    pub fn update(&mut self, answer: &Discovery, rules: &TypeRules) -> Changes {
        let mut changes = Changes::default();
        for kind in answer.kinds.iter().filter(|kind| !rules.disables(kind)) {
            if self.0.insert(kind.clone(), 0).is_none() {
                changes.begin.push(kind.clone());
            }
        }
        self.0.retain(|kind, misses| {
            if answer.groups.contains(&kind.group) && !answer.kinds.contains(kind) {
                *misses = misses.saturating_add(1);
            }
            let gone = *misses >= MISSES;
            if gone {
                changes.end.push(kind.clone());
            }
            !gone
        });
        changes
    }

    /// Every type that is watched.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.0.keys()
    }
}

/// Whether the hub may begin its work: `Err` says what it still waits for.
pub fn readiness(synced: usize, watched: usize) -> Result<(), String> {
    match watched {
        0 => Err("resource informer not ready: no resources registered".to_owned()),
        _ if synced < watched => Err(format!(
            "resource informer not ready: {}/{watched} informers not synced yet",
            watched - synced
        )),
        _ => Ok(()),
    }
}
