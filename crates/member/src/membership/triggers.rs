//! Which change makes the InternalMemberCluster worth a pass. Heartbeats come by the clock.

use std::sync::Arc;

use flagship_api::cluster::InternalMemberCluster;
use flagship_api::names::ObjectKey;
use flagship_runtime::queue::Queue;
use flagship_runtime::reflector::{Change, Store, Subscription};

/// Fills the queue from now on.
pub(super) fn listen(
    mirror: &Store<InternalMemberCluster>,
    queue: &Queue<ObjectKey>,
) -> Subscription {
    let waker = queue.clone();
    mirror.subscribe(move |change| {
        if is_asked_anew(change) {
            waker.add((*change.key).clone());
        }
    })
}

/// What the hub asks for wakes us; what agents report does not.
fn is_asked_anew(change: &Change<InternalMemberCluster>) -> bool {
    let asked = |internal: &Arc<InternalMemberCluster>| {
        (internal.metadata.uid.clone(), internal.metadata.generation)
    };
    change.old.as_ref().map(asked) != change.new.as_ref().map(asked)
}
