//! Which change makes which override worth a pass: its own, and whatever somebody else
//! does to its snapshots.

use std::fmt::Debug;

use flagship_api::names::ObjectKey;
use flagship_runtime::queue::Queue;
use flagship_runtime::reflector::{Change, Subscription};

use crate::mirrors::{Override, OverrideSnapshot, OverrideStores};

/// Fills the queue from now on, and with every override that is there already.
pub(super) fn listen<Spec>(
    stores: &OverrideStores<Spec>,
    queue: &Queue<ObjectKey>,
) -> Vec<Subscription>
where
    Spec: Debug + Send + Sync + 'static,
{
    let (own, frozen) = (queue.clone(), queue.clone());
    vec![
        stores.overrides.subscribe(move |change| override_changed(&own, change)),
        stores.snapshots.subscribe(move |change| snapshot_changed(&frozen, change)),
    ]
}

fn override_changed<Spec>(queue: &Queue<ObjectKey>, change: &Change<Override<Spec>>) {
    let worth = match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.generation != new.generation || old.deleting != new.deleting,
        (None, Some(_)) => true,
        (_, None) => false,
    };
    if worth {
        queue.add_with((*change.key).clone(), change.origin.priority());
    }
}

fn snapshot_changed<Spec>(queue: &Queue<ObjectKey>, change: &Change<OverrideSnapshot<Spec>>) {
    let worth = match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.value != new.value,
        (Some(_), None) => true,
        // Its override looks at the start anyway.
        (None, _) => false,
    };
    if worth && let Some(snapshot) = change.new.as_ref().or(change.old.as_ref()) {
        queue.add(snapshot.of.clone());
    }
}
