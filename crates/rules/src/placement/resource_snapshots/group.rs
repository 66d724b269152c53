//! Snapshot objects read as groups: one master and its numbered siblings per index.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::names::{IndexError, ObjectKey, SnapshotIndex};
use flagship_api::placement_status::ResourceIdentifier;

use crate::model::ResourceSnapshot;
use crate::placement::pass_error::{Frozen, PassError};

/// Place of a snapshot in its group; the master sorts last, as the newest word on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A further object.
    Sub(SnapshotIndex),
    /// The first object.
    Master,
}

/// A snapshot whose labels and annotations could be read.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    pub index: SnapshotIndex,
    pub place: Place,
    pub snapshot: &'a ResourceSnapshot,
}

impl<'a> Member<'a> {
    /// Reads where a snapshot belongs.
    pub fn read(snapshot: &'a ResourceSnapshot) -> Result<Self, PassError> {
        let index = number(snapshot, "resource index label", snapshot.index.as_deref())?;
        let place = if snapshot.hash.is_some() {
            Place::Master
        } else {
            Place::Sub(number(snapshot, "subindex annotation", snapshot.subindex.as_deref())?)
        };
        Ok(Self { index, place, snapshot })
    }
}

/// A number on a snapshot that must be there.
pub fn number(
    on: &ResourceSnapshot,
    what: &str,
    text: Option<&str>,
) -> Result<SnapshotIndex, PassError> {
    let text = text.ok_or_else(|| bad(on, what, "it is missing"))?;
    text.parse().map_err(|error: IndexError| bad(on, what, &error.to_string()))
}

/// Says what is wrong with a snapshot.
pub fn bad(on: &ResourceSnapshot, what: &str, why: &str) -> PassError {
    let cause = format!("resource snapshot {} has a bad {what}: {why}", on.name);
    PassError::Snapshot { of: Frozen::Resources, name: on.name.clone(), cause }
}

/// All snapshots of a placement by index, oldest first, each group in its own order with
/// the master last.
pub fn groups(
    snapshots: &[Arc<ResourceSnapshot>],
) -> Result<BTreeMap<SnapshotIndex, Vec<Member<'_>>>, PassError> {
    let mut groups: BTreeMap<SnapshotIndex, Vec<Member<'_>>> = BTreeMap::new();
    for snapshot in snapshots {
        let member = Member::read(snapshot)?;
        groups.entry(member.index).or_default().push(member);
    }
    for group in groups.values_mut() {
        group.sort_by_key(|member| member.place);
    }
    Ok(groups)
}

/// Said of a group of which not everything has been seen.
pub fn incomplete(placement: &ObjectKey, master: &str, expected: i64, found: usize) -> String {
    format!(
        "not all resource snapshot in the same index group are created: resource snapshots are \
         still being created for the masterResourceSnapshot {master}, total snapshot in the index \
         group = {expected}, num Of existing snapshot in the group= {found}, placement = {placement}"
    )
}

/// Said of a master whose count of snapshots cannot be read.
pub fn bad_count(placement: &ObjectKey, master: &str, count: &str, error: &IndexError) -> String {
    format!(
        "master resource snapshot {master} for placement {placement} has an invalid snapshot count \
         {count} or err {error}"
    )
}

/// What a group holds: the master's content, then that of the others in order.
pub fn content(snapshots: &[Arc<ResourceSnapshot>], index: &str) -> Vec<ResourceIdentifier> {
    let of_group = snapshots.iter().filter(|snapshot| snapshot.index.as_deref() == Some(index));
    let mut group: Vec<&ResourceSnapshot> = of_group.map(Arc::as_ref).collect();
    let place = |snapshot: &ResourceSnapshot| {
        let subindex = snapshot.subindex.as_deref().and_then(|text| text.parse().ok());
        (snapshot.hash.is_none(), subindex.unwrap_or(SnapshotIndex::FIRST))
    };
    group.sort_by_key(|snapshot| place(snapshot));
    group.into_iter().flat_map(|snapshot| snapshot.resources.iter().cloned()).collect()
}
