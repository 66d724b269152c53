//! Which change makes which placement worth a pass.
//!
//! Nothing polls, so every change that can let a binding move is listened to. An override
//! that names no placement is the one exception, as in KubeFleet: it is noticed by the
//! next pass that has another reason.

use std::time::Duration;

use flagship_api::names::ObjectKey;
use flagship_rules::model::Binding;
use flagship_rules::rollout::triggers::{
    binding_changed, is_latest_master, placement_changed, placement_of,
};
use flagship_runtime::queue::{BatchingWindow, Queue};
use flagship_runtime::reflector::{Change, Origin, Subscription};

use crate::mirrors::{
    Cluster, Mirrors, Override, OverrideSnapshot, Placement, ResourceSnapshot, ScopeMirrors,
};
use crate::scope::{ClusterWide, InNamespace, Overriding, Scoped};

/// Reserved in the batching window for each binding that a pass has to list: some three
/// times what it takes.
const LISTED: Duration = Duration::from_micros(100);

/// Fills the queue of a scope from now on, and with everything that is there already.
pub(super) fn listen<S: Scoped>(
    mirrors: &Mirrors,
    scope: &ScopeMirrors,
    queue: &Queue<ObjectKey>,
) -> Vec<Subscription> {
    let waker = || queue.clone();
    let (resources, bindings, placements, clusters) = (waker(), waker(), waker(), waker());
    let (bound, counted, window) = (scope.clone(), scope.clone(), BatchingWindow::default());
    let overrides = mirrors.overrides_in_force();
    let mut subscriptions = vec![
        scope.resources.subscribe(move |change| resources_changed(&resources, change)),
        scope.bindings.subscribe(move |change| one_binding(&bindings, &counted, &window, change)),
        scope.placements.subscribe(move |change| one_placement(&placements, change)),
        mirrors.members.clusters.subscribe(move |change| {
            if relabelled(change) && overrides() {
                for binding in bound.bindings_on(&change.key.name) {
                    clusters.add(binding.placement_key());
                }
            }
        }),
    ];
    subscriptions.extend(overrides_of::<S, ClusterWide>(mirrors, queue));
    subscriptions.extend(overrides_of::<S, InNamespace>(mirrors, queue));
    subscriptions
}

/// Wakes placements of scope `S` by overrides of scope `O` that name them.
fn overrides_of<S: Scoped, O: Overriding>(
    mirrors: &Mirrors,
    queue: &Queue<ObjectKey>,
) -> [Subscription; 2] {
    let stores = O::stores(&mirrors.overrides);
    let (gone, frozen) = (queue.clone(), queue.clone());
    let wake = |queue: &Queue<ObjectKey>, key: &ObjectKey, spec: &O::Spec| {
        let named = placement_of(O::placement(spec), key.namespace.as_deref());
        if let Some(placement) = named.filter(|placement| placement.scope() == S::SCOPE) {
            queue.add(placement);
        }
    };
    [
        stores.overrides.subscribe(move |change: &Change<Override<O::Spec>>| {
            if let (Some(old), None) = (&change.old, &change.new) {
                wake(&gone, &change.key, &old.spec);
            }
        }),
        stores.snapshots.subscribe(move |change: &Change<OverrideSnapshot<O::Spec>>| {
            let latest = change.new.as_ref().filter(|new| new.value.latest);
            let before = change.old.as_ref().filter(|old| old.value.latest);
            // One that is gone is a change too, and may be seen after its override is gone.
            match (before, latest) {
                (None, Some(new)) => wake(&frozen, &change.key, &new.spec),
                (Some(old), None) if change.new.is_none() => {
                    wake(&frozen, &change.key, &old.spec);
                }
                _ => {}
            }
        }),
    ]
}

fn resources_changed(queue: &Queue<ObjectKey>, change: &Change<ResourceSnapshot>) {
    let was = change.old.as_ref().is_some_and(|old| is_latest_master(&old.value));
    if let Some(new) = change.new.as_ref().filter(|new| !was && is_latest_master(&new.value)) {
        queue.add_with(new.placement.clone(), change.origin.priority());
    }
}

fn one_binding(
    queue: &Queue<ObjectKey>,
    scope: &ScopeMirrors,
    window: &BatchingWindow<ObjectKey>,
    change: &Change<Binding>,
) {
    let worth = match (&change.old, &change.new) {
        (Some(old), Some(new)) => binding_changed(old, new),
        // One that is gone may have kept another on its cluster waiting.
        (Some(_), None) | (None, Some(_)) => true,
        (None, None) => false,
    };
    let Some(binding) = change.new.as_ref().or(change.old.as_ref()).filter(|_| worth) else {
        return;
    };
    let placement = binding.placement_key();
    match change.origin {
        // Many at once: one pass will do for all.
        Origin::Listed => queue.add_with(placement, change.origin.priority()),
        Origin::Watched => {
            let cost = LISTED * scope.count_bindings_of(&placement);
            window.add(queue, placement, cost, Duration::ZERO);
        }
    }
}

fn one_placement(queue: &Queue<ObjectKey>, change: &Change<Placement>) {
    let worth = match (&change.old, &change.new) {
        (Some(old), Some(new)) => placement_changed(&old.value, &new.value),
        // What belongs to it may have been seen before it.
        (None, Some(_)) => true,
        (_, None) => false,
    };
    if worth {
        queue.add_with((*change.key).clone(), change.origin.priority());
    }
}

/// Whether overrides may fit a cluster now that did not before, or the other way round.
fn relabelled(change: &Change<Cluster>) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.value.labels != new.value.labels,
        // Bindings may have been waiting for it.
        (None, Some(_)) => true,
        (_, None) => false,
    }
}
