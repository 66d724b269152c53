//! Which Works a binding should have, told from the metadata of its snapshot group.
//!
//! One plain Work per snapshot, however empty, so that there is always somebody to report;
//! and one per envelope.

use std::sync::Arc;

use flagship_api::keys::group::PLACEMENT;
use flagship_api::names::{
    EnvelopeKind, EnvelopeRef, IndexError, ObjectKey, SnapshotIndex, SubIndex, WorkBase,
};
use flagship_api::placement_status::ResourceIdentifier;

use super::observed::Observed;
use super::pass_error::{PARTIAL_GROUP_RETRY, PassError, Stage};
use crate::model::ResourceSnapshot;
use crate::placement::resource_snapshots::{bad_count, incomplete};

/// The snapshots a binding names: the master, and the others in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<'a> {
    /// The index all of them carry.
    pub index: SnapshotIndex,
    /// Each with the name of its plain Work, the master first.
    pub snapshots: Vec<(&'a ResourceSnapshot, String)>,
}

/// A Work that should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name, unless a Work of another name already stands for the same envelope.
    pub name: String,
    /// Which snapshot it carries things of.
    pub snapshot: String,
    /// The envelope it is made from.
    pub envelope: Option<EnvelopeRef>,
}

/// The master of the group a binding names, if it has been seen.
pub fn master(seen: &Observed) -> Option<&ResourceSnapshot> {
    let named = &seen.binding.spec.resource_snapshot_name;
    seen.snapshots.iter().map(Arc::as_ref).find(|snapshot| snapshot.name == *named)
}

impl<'a> Group<'a> {
    /// The group of a master; trouble if it is not complete yet, or cannot be read.
    pub fn read(seen: &'a Observed, master: &'a ResourceSnapshot) -> Result<Self, PassError> {
        let unexpected = |cause| PassError::unexpected(Stage::Override, cause);
        let placement = seen.binding.placement_key();
        let label = master.index.as_deref().unwrap_or_default();
        let index = label.parse().map_err(|error: IndexError| {
            let key = seen.binding.sibling(&master.name);
            unexpected(format!(
                "resource snapshot {key} has an invalid resource index label {label} or err {error}"
            ))
        })?;
        let count = master.count.as_deref().unwrap_or_default();
        let expected = count.parse::<SnapshotIndex>().map_err(|error: IndexError| {
            unexpected(bad_count(&placement, &master.name, count, &error))
        })?;
        let others = seen.snapshots.iter().map(Arc::as_ref).filter(|snapshot| {
            snapshot.hash.is_none() && snapshot.index == master.index && *snapshot != master
        });
        let base = WorkBase::new(&placement);
        let mut numbered = others
            .map(|snapshot| Ok((place(seen, snapshot)?, snapshot)))
            .collect::<Result<Vec<_>, PassError>>()?;
        numbered.sort_by_key(|(subindex, _)| *subindex);
        let found = numbered.len() + 1;
        if i64::try_from(found) != Ok(expected.get()) {
            return Err(partial(seen, &master.name, expected.get(), found));
        }
        let subs = numbered.into_iter().map(|(subindex, snapshot)| (snapshot, base.sub(subindex)));
        Ok(Self { index, snapshots: [(master, base.master())].into_iter().chain(subs).collect() })
    }

    /// The Works that should be there, in order.
    pub fn wanted(&self) -> Vec<Wanted> {
        let of_one = |(snapshot, work): &(&ResourceSnapshot, String)| {
            let snapshot_name = snapshot.name.clone();
            let plain =
                Wanted { name: work.clone(), snapshot: snapshot_name.clone(), envelope: None };
            let envelopes = snapshot.resources.iter().filter_map(envelope);
            let wrapped = envelopes.map(|envelope| Wanted {
                name: envelope.work(work),
                snapshot: snapshot_name.clone(),
                envelope: Some(envelope),
            });
            [plain].into_iter().chain(wrapped).collect::<Vec<_>>()
        };
        self.snapshots.iter().flat_map(of_one).collect()
    }
}

/// The group of a binding's master out of all snapshots of its placement.
pub fn relevant(
    named: &str,
    mut snapshots: Vec<Arc<ResourceSnapshot>>,
) -> Vec<Arc<ResourceSnapshot>> {
    let master = snapshots.iter().find(|snapshot| snapshot.name == named);
    let Some(index) = master.map(|master| master.index.clone()) else { return Vec::new() };
    snapshots.retain(|snapshot| snapshot.index == index);
    snapshots
}

/// The envelope a resource is, if it is one.
pub fn envelope(resource: &ResourceIdentifier) -> Option<EnvelopeRef> {
    if resource.group != PLACEMENT {
        return None;
    }
    let kind = EnvelopeKind::read(&resource.kind)?;
    Some(EnvelopeRef { kind, key: ObjectKey::new(Some(&resource.namespace), &resource.name) })
}

/// Not all snapshots of the group have been seen.
pub fn partial(seen: &Observed, master: &str, expected: i64, found: usize) -> PassError {
    let told = incomplete(&seen.binding.placement_key(), master, expected, found);
    PassError::expected(Stage::Override, told).again_after(PARTIAL_GROUP_RETRY)
}

fn place(seen: &Observed, snapshot: &ResourceSnapshot) -> Result<SubIndex, PassError> {
    let text = snapshot.subindex.as_deref().unwrap_or_default();
    text.parse().map_err(|error: IndexError| {
        let key = seen.binding.sibling(&snapshot.name);
        PassError::unexpected(
            Stage::Override,
            format!(
                "resource snapshot {key} has an invalid sub-index annotation {text} or err {error}"
            ),
        )
    })
}
