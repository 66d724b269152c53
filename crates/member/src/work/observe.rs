//! What a pass over a Work starts from: the Work on the hub and its AppliedWork on the member,
//! both from mirrors.

use std::sync::Arc;
use std::time::Duration;

use flagship_api::names::ObjectKey;
use flagship_api::work::{AppliedWork, Work};
use flagship_runtime::error_action::Failure;
use flagship_runtime::reflector::Store;

use crate::member::Context;

/// How long a pass waits for the first list of AppliedWorks.
const FIRST_LIST: Duration = Duration::from_secs(10);

/// What is mirrored for passes over Works.
pub(super) struct Mirrors {
    /// All Works of the member, as the hub has them.
    pub works: Store<Work>,
    /// All AppliedWorks, as the member has them.
    pub applied: Store<AppliedWork>,
}

/// What is to be done about a Work.
pub(super) enum WorkState {
    /// It is gone.
    Gone,
    /// Nothing: the member is not part of the fleet. Joining brings all Works back.
    NotJoined,
    /// It is being deleted, and this AppliedWork of it is left.
    Deleted(Arc<Work>, Option<Arc<AppliedWork>>),
    /// Its manifests are wanted on the member.
    Wanted(Arc<Work>),
}

/// Reads what there is.
pub(super) async fn observe(
    cx: &Context,
    mirrors: &Mirrors,
    key: &ObjectKey,
) -> Result<WorkState, Failure> {
    let Some(work) = mirrors.works.get(key) else { return Ok(WorkState::Gone) };
    if !cx.participation.is_on() {
        return Ok(WorkState::NotJoined);
    }
    if tokio::time::timeout(FIRST_LIST, mirrors.applied.synced()).await.is_err() {
        return Err(Failure::back_off("the member does not list its AppliedWorks"));
    }
    if work.metadata.deletion_timestamp.is_none() {
        return Ok(WorkState::Wanted(work));
    }
    let applied = mirrors.applied.get(&ObjectKey::cluster(&key.name));
    Ok(WorkState::Deleted(work, applied))
}
