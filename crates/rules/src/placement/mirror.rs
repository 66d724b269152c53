//! The copy of a placement's status for readers of the placed namespace.
//!
//! The copy is written before the status, so that one status write can say how it went.
//! The namespace may never be exchanged: its readers would be left with a status that
//! nobody updates.

use flagship_api::condition::{Condition, Conditions, Generation, draft, remove};
use flagship_api::condition_type::Placement as Step;
use flagship_api::error_class::ErrorClass;
use flagship_api::names::Scope;
use flagship_api::placement_status::{ClusterResourcePlacementStatus, PlacementStatus};
use flagship_api::reason::placement as reason;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use super::observed::Placement;
use super::status::messages;

const NO_NAMESPACE: &str = "NamespaceAccessible ClusterResourcePlacement doesn't specify a resource selector which selects a namespace";

/// The copy to create or update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mirror {
    /// Where it goes.
    pub namespace: String,
    /// Its name, the placement's.
    pub name: String,
    /// What it says: the status without word of the copy itself.
    pub status: PlacementStatus,
    /// When it was copied.
    pub updated: Timestamp,
}

impl Mirror {
    /// The object to create or update.
    pub fn object(&self, of: &Placement) -> ClusterResourcePlacementStatus {
        ClusterResourcePlacementStatus {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                owner_references: Some(vec![of.owner()]),
                ..ObjectMeta::default()
            },
            source_status: self.status.clone(),
            last_updated_time: Time(self.updated),
        }
    }
}

/// Why the placement may not go on: it selects another namespace than it began with.
pub fn inconsistency(placement: &Placement) -> Option<String> {
    let mut selected = placement.status.selected_resources.iter();
    let old = selected.find(|r| r.group.is_empty() && r.version == "v1" && r.kind == "Namespace");
    let old = &old?.name;
    match placement.named_namespace() {
        None => Some(NO_NAMESPACE.to_owned()),
        Some(new) if new != old => Some(format!(
            "namespace resource selector is choosing a different namespace '{new}' from what was originally picked '{old}'. This is not allowed for NamespaceAccessible ClusterResourcePlacement"
        )),
        Some(_) => None,
    }
}

/// Completes the status of a mirrored placement as if the copy succeeded, and says what
/// copy to write, if any.
pub fn reflect(
    placement: &Placement,
    status: &mut PlacementStatus,
    copied: Option<&PlacementStatus>,
    now: Timestamp,
) -> Option<Mirror> {
    let generation = Generation(placement.generation);
    let Some(namespace) = placement.named_namespace() else {
        // As if the verdict of this pass had never been there, or its time would move
        // with every pass.
        restore(status, placement, Step::Scheduled);
        messages::invalid_selectors(Scope::Cluster, NO_NAMESPACE.to_owned()).set(
            &mut status.conditions,
            generation,
            now,
        );
        return None;
    };
    let copy = without_word_of_copy(status);
    restore(status, placement, Step::StatusSynced);
    draft(Step::StatusSynced.on(Scope::Cluster))
        .is_true(reason::STATUS_SYNC_SUCCEEDED)
        .because(format!(
            "Successfully created or updated ClusterResourcePlacementStatus in namespace '{namespace}'"
        ))
        .set(&mut status.conditions, generation, now);
    if copied == Some(&copy) {
        return None;
    }
    let (namespace, name) = (namespace.to_owned(), placement.name.clone());
    Some(Mirror { namespace, name, status: copy, updated: now })
}

/// The status to write when the copy could not be written; `None` when it says so already.
pub fn after_failure(
    placement: &Placement,
    mirror: &Mirror,
    api_error: &str,
    now: Timestamp,
) -> Option<PlacementStatus> {
    let error = ErrorClass::ApiServer
        .message(format!("failed to create or update ClusterResourcePlacementStatus: {api_error}"));
    let mut status = mirror.status.clone();
    restore(&mut status, placement, Step::StatusSynced);
    draft(Step::StatusSynced.on(Scope::Cluster))
        .is_false(reason::STATUS_SYNC_FAILED)
        .because(format!("Failed to create or update ClusterResourcePlacementStatus: {error}"))
        .set(&mut status.conditions, Generation(placement.generation), now);
    (status != placement.status).then_some(status)
}

fn without_word_of_copy(status: &PlacementStatus) -> PlacementStatus {
    let mut copy = status.clone();
    remove(&mut copy.conditions, Step::StatusSynced.on(Scope::Cluster));
    copy
}

/// Puts a condition back as it was last written.
fn restore(status: &mut PlacementStatus, placement: &Placement, step: Step) {
    let kind = step.on(Scope::Cluster);
    let before: Option<&Condition> = placement.status.conditions.of_type(kind);
    let Some(before) = before else {
        remove(&mut status.conditions, kind);
        return;
    };
    match status.conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(condition) => condition.clone_from(before),
        None => status.conditions.push(before.clone()),
    }
}
