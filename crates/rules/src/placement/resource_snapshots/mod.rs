//! Whether the selected resources become a new snapshot, and which old ones go.
//!
//! A snapshot is a group of objects under one index: the master, which carries the hash
//! and the count, and as many others as it takes. Groups are created before old ones are
//! pruned, and an index that somebody still rolls out is never pruned: a crash at any
//! point leaves bindings with something to point at.
//!
//! Update runs take their snapshots through here too; for them nothing waits.

mod batching;
mod group;
mod split;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use flagship_api::hash::of_resources;
use flagship_api::names::{SnapshotIndex, master_snapshot, sub_snapshot};
use flagship_api::placement_status::ResourceIdentifier;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::observed::Batching;
use super::pass_error::{Frozen, PassError};
use super::selection::Selection;
use crate::model::{Binding, ResourceSnapshot};
pub use group::{bad_count, content, incomplete};
pub use split::{LIMIT, split};

use batching::Due;
use group::{Member, Place, bad, groups, number};

/// What is known about the snapshots of one placement.
#[derive(Debug, Clone, Copy)]
pub struct Snapshots<'a> {
    /// Name of the placement.
    pub placement: &'a str,
    /// All its resource snapshots.
    pub existing: &'a [Arc<ResourceSnapshot>],
    /// How many groups to keep.
    pub limit: usize,
    /// All its bindings.
    pub bindings: &'a [Arc<Binding>],
    /// Indexes its update runs still work with.
    pub indexes_in_runs: &'a [String],
    /// The present moment.
    pub now: Timestamp,
}

/// What to do about resource snapshots, and where that leaves the placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourcePlan {
    /// Writes, in order.
    pub actions: Vec<ResourceAction>,
    /// The group that is the latest once they are done.
    pub latest: LatestResources,
    /// How long a change that is known already has to wait.
    pub wait: Option<SignedDuration>,
}

/// The latest group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatestResources {
    /// Its index.
    pub index: String,
    /// Name of its master.
    pub master: String,
    /// What is inside, in order.
    pub resources: Vec<ResourceIdentifier>,
}

/// One write about resource snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourceAction {
    /// Set the label that tells the latest from the others.
    Mark {
        /// The master.
        name: String,
        /// Whether it is the latest.
        latest: bool,
    },
    /// Write down when a change was first seen.
    Stamp {
        /// The latest master.
        name: String,
        /// The annotation's value.
        at: String,
    },
    /// Create one object.
    Create(NewResourceSnapshot),
    /// Delete one object.
    Delete {
        /// The object.
        name: String,
    },
}

/// A resource snapshot object to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewResourceSnapshot {
    /// Its name.
    pub name: String,
    /// Index of its group.
    pub index: String,
    /// Master or not.
    pub part: Part,
    /// Which of the selected resources it holds.
    pub resources: Range<usize>,
}

/// What tells the objects of a group apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The first one, latest from the start.
    Master {
        /// Hash of the whole group.
        hash: String,
        /// Number of objects in the group.
        count: usize,
        /// Number of envelopes in the group.
        envelopes: usize,
    },
    /// A further one.
    Sub {
        /// From 0 at the second object.
        subindex: String,
    },
}

/// Gets or creates the snapshot of this selection. Without `batching` a change becomes a
/// snapshot at once.
pub fn plan(
    seen: &Snapshots<'_>,
    selection: &Selection,
    batching: Option<Batching>,
) -> Result<ResourcePlan, PassError> {
    let hash = hash_of(selection)?;
    let found = find_latest(seen.existing)?;
    let mut actions: Vec<ResourceAction> = found.unmark;
    let selected = || selection.resources.iter().map(|selected| selected.id.clone()).collect();
    let latest = found.latest;
    if let Some(latest) = latest.filter(|latest| latest.snapshot.hash.as_ref() == Some(&hash)) {
        if !latest.snapshot.latest {
            actions.push(mark(latest.snapshot, true));
        }
        actions.extend(missing_tail(seen, latest, selection)?);
        actions.extend(prune(seen, latest.index));
        let kept = LatestResources {
            index: latest.index.to_string(),
            master: latest.snapshot.name.clone(),
            resources: selected(),
        };
        return Ok(ResourcePlan { actions, latest: kept, wait: None });
    }
    if let Some(old) = latest.filter(|latest| latest.snapshot.latest) {
        let due = batching.map_or(Due::Now, |b| batching::due(old.snapshot, b, seen.now));
        if let Due::In { wait, stamp } = due {
            if stamp {
                let (name, at) = (old.snapshot.name.clone(), batching::stamp(seen.now));
                actions.push(ResourceAction::Stamp { name, at });
            }
            actions.extend(prune(seen, old.index));
            let index = old.index.to_string();
            let resources = content(seen.existing, old.snapshot.index.as_deref().unwrap_or(&index));
            let kept = LatestResources { index, master: old.snapshot.name.clone(), resources };
            return Ok(ResourcePlan { actions, latest: kept, wait: Some(wait) });
        }
        actions.push(mark(old.snapshot, false));
    }
    // Every index must be readable, or the new one might not be the highest.
    let next = groups(seen.existing)?.last_key_value().map_or(SnapshotIndex::FIRST, |g| g.0.next());
    let new = new_group(seen.placement, next, selection, hash);
    let master = master_snapshot(seen.placement, next);
    actions.extend(new.into_iter().map(ResourceAction::Create));
    actions.extend(prune(seen, next));
    let created = LatestResources { index: next.to_string(), master, resources: selected() };
    Ok(ResourcePlan { actions, latest: created, wait: None })
}

/// Deletes what is beyond the limit. Alone it is for placements that take no snapshots
/// themselves.
pub fn prune_only(seen: &Snapshots<'_>) -> Vec<ResourceAction> {
    let newest = groups(seen.existing).ok().and_then(|g| g.last_key_value().map(|last| *last.0));
    newest.map_or_else(Vec::new, |newest| prune(seen, newest))
}

/// The hash of a selection.
pub fn hash_of(selection: &Selection) -> Result<String, PassError> {
    of_resources(selection.resources.iter().map(|selected| &selected.manifest)).map_err(|error| {
        PassError::Unexpected(format!("cannot hash the selected resources: {error}"))
    })
}

struct Latest<'a> {
    latest: Option<Member<'a>>,
    /// Others that claim to be the latest too.
    unmark: Vec<ResourceAction>,
}

fn find_latest(existing: &[Arc<ResourceSnapshot>]) -> Result<Latest<'_>, PassError> {
    let labelled: Vec<&ResourceSnapshot> =
        existing.iter().map(Arc::as_ref).filter(|s| s.latest).collect();
    if labelled.is_empty() {
        let groups = groups(existing)?;
        let newest = groups.last_key_value().and_then(|(_, group)| group.last().copied());
        return match newest {
            Some(newest) if newest.place != Place::Master => {
                let name = newest.snapshot.name.clone();
                let cause = format!("the newest resource snapshot {name} has no hash annotation");
                Err(PassError::Snapshot { of: Frozen::Resources, name, cause })
            }
            newest => Ok(Latest { latest: newest, unmark: Vec::new() }),
        };
    }
    let masters = labelled.iter().filter(|snapshot| snapshot.hash.is_some());
    let mut masters = masters.map(|s| Member::read(s)).collect::<Result<Vec<_>, _>>()?;
    masters.sort_by_key(|member| member.index);
    let Some(latest) = masters.pop() else {
        let name = labelled.last().map(|snapshot| snapshot.name.clone()).unwrap_or_default();
        let cause = format!(
            "{} resource snapshots are labelled latest and none of them has a hash annotation",
            labelled.len()
        );
        return Err(PassError::Snapshot { of: Frozen::Resources, name, cause });
    };
    let unmark = masters.iter().map(|member| mark(member.snapshot, false)).collect();
    Ok(Latest { latest: Some(latest), unmark })
}

fn mark(snapshot: &ResourceSnapshot, latest: bool) -> ResourceAction {
    ResourceAction::Mark { name: snapshot.name.clone(), latest }
}

/// What a crash kept from being created.
fn missing_tail(
    seen: &Snapshots<'_>,
    master: Member<'_>,
    selection: &Selection,
) -> Result<Vec<ResourceAction>, PassError> {
    let want = number(master.snapshot, "count annotation", master.snapshot.count.as_deref())?;
    if want == SnapshotIndex::FIRST {
        return Err(bad(master.snapshot, "count annotation", "it must be at least 1"));
    }
    let text = master.snapshot.index.as_deref();
    let siblings = seen.existing.iter().filter(|s| s.index.as_deref() == text);
    let siblings = siblings.map(|s| Member::read(s)).collect::<Result<Vec<_>, _>>()?;
    let have: BTreeSet<Place> = siblings.iter().map(|member| member.place).collect();
    if i64::try_from(have.len()).unwrap_or(i64::MAX) >= want.get() {
        return Ok(Vec::new());
    }
    let hash = master.snapshot.hash.clone().unwrap_or_default();
    let whole = new_group(seen.placement, master.index, selection, hash);
    let missing = whole.into_iter().filter(|new| match &new.part {
        Part::Master { .. } => false,
        Part::Sub { subindex } => {
            !subindex.parse().is_ok_and(|subindex| have.contains(&Place::Sub(subindex)))
        }
    });
    Ok(missing.map(ResourceAction::Create).collect())
}

/// All objects of a group, master first.
fn new_group(
    placement: &str,
    index: SnapshotIndex,
    selection: &Selection,
    hash: String,
) -> Vec<NewResourceSnapshot> {
    let pieces = split(selection.resources.iter().map(|s| s.manifest.text().len()));
    let count = pieces.len();
    let mut subindex = SnapshotIndex::FIRST;
    let mut hash = Some(hash);
    let mut group = Vec::new();
    for resources in pieces {
        let (name, part) = match hash.take() {
            Some(hash) => {
                let part = Part::Master { hash, count, envelopes: selection.envelopes };
                (master_snapshot(placement, index), part)
            }
            None => {
                let name = sub_snapshot(placement, index, subindex);
                let part = Part::Sub { subindex: subindex.to_string() };
                subindex = subindex.next();
                (name, part)
            }
        };
        group.push(NewResourceSnapshot { name, index: index.to_string(), part, resources });
    }
    group
}

/// Deletes groups beyond the limit, oldest first, counting `newest` whether it exists yet
/// or not. Snapshots that cannot be read keep everything: better too many than too few.
fn prune(seen: &Snapshots<'_>, newest: SnapshotIndex) -> Vec<ResourceAction> {
    let Ok(groups) = groups(seen.existing) else { return Vec::new() };
    let kept_anyway = in_use(seen);
    let count = groups.len() + usize::from(!groups.contains_key(&newest));
    let beyond = count.saturating_sub(seen.limit.max(1));
    let old = groups.into_iter().take(beyond).filter(|(index, _)| !kept_anyway.contains(index));
    let gone = old.flat_map(|(_, group)| group);
    gone.map(|member| ResourceAction::Delete { name: member.snapshot.name.clone() }).collect()
}

/// Indexes that a binding delivers, an update run works with, or somebody has quarantined:
/// that must not be forgotten.
fn in_use(seen: &Snapshots<'_>) -> BTreeSet<SnapshotIndex> {
    let index_of = |snapshot: &ResourceSnapshot| snapshot.index.as_deref()?.parse().ok();
    let by_name: BTreeMap<&str, SnapshotIndex> = seen
        .existing
        .iter()
        .filter_map(|snapshot| Some((snapshot.name.as_str(), index_of(snapshot)?)))
        .collect();
    let live = seen.bindings.iter().filter(|b| !b.deleting && !b.is_unscheduled());
    let bound = live.filter_map(|b| by_name.get(b.spec.resource_snapshot_name.as_str()).copied());
    let in_runs = seen.indexes_in_runs.iter().filter_map(|index| index.parse().ok());
    let held = seen.existing.iter().filter(|found| found.quarantine.is_some());
    bound.chain(in_runs).chain(held.filter_map(|found| index_of(found))).collect()
}
