//! Who owns an object on the member, and what follows for removing it.
//!
//! An object is ours if it carries a reference to the AppliedWork of its Work; the member's
//! garbage collector does the rest. Taking objects over is in `take_over`.

use std::fmt;

use flagship_api::kinds::FleetKind;
use flagship_api::work::AppliedWork;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};

/// The kind that owns what a Work brought.
pub(super) const APPLIED_WORK: &str = "AppliedWork";

/// The owners of an object. An entry that is no reference counts as a foreign one, with
/// whatever of it could be read.
pub(super) fn owners(object: &Value) -> Vec<OwnerReference> {
    let listed = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let word = |entry: &Value, field: &str| {
        entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let flag = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_bool);
    let read = |entry: &Value| OwnerReference {
        api_version: word(entry, "apiVersion"),
        kind: word(entry, "kind"),
        name: word(entry, "name"),
        uid: word(entry, "uid"),
        controller: flag(entry, "controller"),
        block_owner_deletion: flag(entry, "blockOwnerDeletion"),
    };
    listed.into_iter().flatten().map(read).collect()
}

/// Whether two references name the same owner.
pub(super) fn same(one: &OwnerReference, other: &OwnerReference) -> bool {
    let name = |of: &OwnerReference| {
        (of.uid.clone(), of.name.clone(), of.kind.clone(), of.api_version.clone())
    };
    name(one) == name(other)
}

/// Whether a reference names an AppliedWork, ours or another.
pub(super) fn is_applied_work(owner: &OwnerReference) -> bool {
    owner.kind == APPLIED_WORK && AppliedWork::INFO.serves(&owner.api_version)
}

/// Whether the object is ours.
pub(super) fn is_ours(object: &Value, owner: &OwnerReference) -> bool {
    owners(object).iter().any(|listed| same(listed, owner))
}

/// A copy of the object with these owners.
pub(super) fn with_owners(object: &Value, owners: &[OwnerReference]) -> Value {
    let mut copy = object.clone();
    if let Some(metadata) = metadata_mut(&mut copy) {
        metadata.insert("ownerReferences".to_owned(), json!(owners));
    }
    copy
}

/// The metadata of an object, made if it is missing.
pub(super) fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.as_object_mut()?.entry("metadata").or_insert_with(|| json!({})).as_object_mut()
}

/// What to do about an object that no manifest asks for any more.
#[derive(Clone, PartialEq)]
pub enum Removal {
    /// It is gone, going, or not ours.
    Nothing,
    /// Others own it too: write it back without our reference.
    Disown(Value),
    /// Delete it, if it is still the one with this UID, without saying what becomes of its
    /// dependents.
    Delete {
        /// `metadata.uid`.
        uid: String,
    },
}

impl fmt::Debug for Removal {
    /// Without the object, which may be a Secret.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => out.write_str("Nothing"),
            Self::Disown(_) => out.write_str("Disown"),
            Self::Delete { uid } => write!(out, "Delete({uid})"),
        }
    }
}

/// Decides about a left-over, as found on the member.
pub fn removal(live: Option<&Value>, owner: &OwnerReference) -> Removal {
    let Some(live) = live else { return Removal::Nothing };
    if is_terminating(live) {
        return Removal::Nothing;
    }
    let owners = owners(live);
    let others: Vec<_> = owners.iter().filter(|listed| !same(listed, owner)).cloned().collect();
    if others.len() == owners.len() {
        return Removal::Nothing;
    }
    if !others.is_empty() {
        return Removal::Disown(with_owners(live, &others));
    }
    let uid = live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    Removal::Delete { uid: uid.to_owned() }
}

/// The object as it must be written so that the deletion of its AppliedWork stops waiting for
/// it; none if it is not what the deletion waits for.
pub fn release(live: &Value, owner: &OwnerReference) -> Option<Value> {
    let mut owners = owners(live);
    if owners.len() < 2 {
        return None;
    }
    let ours = owners.iter_mut().find(|listed| same(listed, owner))?;
    if ours.block_owner_deletion == Some(false) {
        return None;
    }
    ours.block_owner_deletion = Some(false);
    Some(with_owners(live, &owners))
}

/// Whether the object is being deleted.
pub(super) fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}
