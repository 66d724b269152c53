//! The bindings of a placement, for passes that count them.
//!
//! They come from the mirror, which each tenure fills after it has begun to lead, and which shows
//! everything that earlier passes over the placement have written: a pass waits for that. Where
//! the mirror is late, holds a binding that cannot be read, or an answer was lost, the server
//! itself is asked.

use std::sync::Arc;

use flagship_api::keys::label;
use flagship_api::names::ObjectKey;
use flagship_rules::model::Binding;
use flagship_runtime::client::{ClientError, Listed, Malformed, ResourceType, Selection};
use flagship_runtime::effects::PendingWrites;

use crate::hub::Context;
use crate::mirrors::ScopeMirrors;
use crate::scope::{Scoped, binding};

/// Why the bindings of a placement cannot be counted.
pub(crate) enum Uncounted {
    /// The server did not tell.
    Failed(ClientError),
    /// One cannot be read, so nobody knows what it counts as.
    Malformed(Malformed),
}

/// All bindings of a placement. `is_shown` says whether the mirror shows the own writes of the
/// placement's last pass.
pub(crate) async fn bindings_of<S: Scoped>(
    cx: &Context,
    scope: &ScopeMirrors,
    key: &ObjectKey,
    is_shown: bool,
    seen: &PendingWrites<ObjectKey>,
) -> Result<Vec<Binding>, Uncounted> {
    if is_shown && scope.bindings.all_malformed().is_empty() {
        return Ok(scope.bindings_of(key).into_iter().map(Arc::unwrap_or_clone).collect());
    }
    let listed: Listed<S::Binding> =
        cx.client.of().list(&selection(key)).await.map_err(Uncounted::Failed)?;
    // The next pass must not see less than this one.
    let resource = ResourceType::of::<S::Binding>();
    listed.items.iter().for_each(|one| seen.wrote(key, &resource, one));
    match listed.malformed.into_iter().next() {
        Some(problem) => Err(Uncounted::Malformed(problem)),
        None => Ok(listed.items.into_iter().map(binding).collect()),
    }
}

/// Selects the bindings of a placement.
pub(crate) fn selection(key: &ObjectKey) -> Selection {
    let labels = format!("{}={}", label::PARENT_PLACEMENT, key.name);
    Selection { namespace: key.namespace.clone(), labels, ..Selection::all() }
}
