//! Which change of what is mirrored makes which placement worth a pass.
//!
//! Objects that are selected, or might be, are `changes`' business.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flagship_api::names::ObjectKey;
use flagship_api::placement_status::PlacementStatus;
use flagship_rules::model::Binding;
use flagship_rules::placement::selection::Kind;
use flagship_rules::placement::triggers::{
    BindingChange, binding_appeared, binding_change, binding_gone, misses_mirror,
    placement_changed, policy_appeared, waits_for_kind,
};
use flagship_runtime::queue::{BatchingWindow, Queue};
use flagship_runtime::reflector::{Change, Store, Subscription};

use tokio::task::JoinSet;

use super::selectable::{Selectable, kind_served};
use super::{Queues, ScopeMirrors, placements};
use crate::mirrors::{Mirrors, Placement, Policy, ResourceSnapshot, Run, Versioned};
use crate::status_cost::StatusCost;

/// Between two passes that only repeat another wording.
const WORDING: Duration = Duration::from_secs(1);
/// Reserved in the batching window for each cluster in a status that is rewritten, at least:
/// some five times what it takes on the embedded server.
pub(super) const ROW: Duration = Duration::from_micros(500);

/// Fills a queue from now on, and with every placement of the scope.
pub(super) fn listen(
    mirrors: &ScopeMirrors,
    queue: &Queue<ObjectKey>,
    cost: &StatusCost,
) -> Vec<Subscription> {
    let waker = queue.clone();
    let placements = mirrors.placements.subscribe(move |change| placement(&waker, change));
    let waker = queue.clone();
    let policies = mirrors.policies.subscribe(move |change| policy(&waker, change));
    let (waker, placements_of) = (queue.clone(), mirrors.placements.clone());
    let snapshots = mirrors.resources.subscribe(move |c| snapshot(&waker, &placements_of, c));
    let (waker, scope, window) = (queue.clone(), mirrors.clone(), BatchingWindow::default());
    let cost = cost.clone();
    let bindings =
        mirrors.bindings.subscribe(move |change| binding(&waker, &scope, &window, &cost, change));
    let waker = queue.clone();
    let runs = mirrors.runs.runs.subscribe(move |change| run(&waker, change));
    vec![placements, policies, snapshots, bindings, runs]
}

/// Wakes placements whose copy of the status is gone.
pub(super) fn copies_go(mirrors: &Mirrors, queue: &Queue<ObjectKey>) -> Subscription {
    let (waker, placements) = (queue.clone(), mirrors.cluster_wide.placements.clone());
    mirrors.copies.subscribe(move |change| copy(&waker, &placements, change))
}

fn placement(queue: &Queue<ObjectKey>, change: &Change<Placement>) {
    let worth = match (&change.old, &change.new) {
        (Some(old), Some(new)) => placement_changed(old.value.generation, new.value.generation),
        // One that is gone leaves metrics behind.
        (None, Some(_)) | (Some(_), None) => true,
        (None, None) => false,
    };
    // One that cannot be read is told so.
    if worth || change.malformed.is_some() {
        queue.add_with((*change.key).clone(), change.origin.priority());
    }
}

fn policy(queue: &Queue<ObjectKey>, change: &Change<Policy>) {
    let Some(new) = &change.new else { return };
    // One that nobody has decided on is our own doing; a list may show it when somebody has.
    if change.old.is_some() || policy_appeared(&new.value) {
        queue.add_with(new.placement.clone(), change.origin.priority());
    }
}

/// The status of a placement that is left to update runs says what is in the snapshot that a
/// binding names, and a mirror may show the snapshot after the binding. Snapshots of other
/// placements are our own doing.
fn snapshot(
    queue: &Queue<ObjectKey>,
    placements: &Store<Placement>,
    change: &Change<ResourceSnapshot>,
) {
    let value = |kept: &Arc<ResourceSnapshot>| kept.value.clone();
    let Some(told) = change.new.as_ref().or(change.old.as_ref()) else { return };
    let is_external = |placement: &Arc<Placement>| placement.value.is_external();
    if change.old.as_ref().map(value) != change.new.as_ref().map(value)
        && placements.get(&told.placement).as_ref().is_some_and(is_external)
    {
        queue.add_with(told.placement.clone(), change.origin.priority());
    }
}

fn binding(
    queue: &Queue<ObjectKey>,
    scope: &ScopeMirrors,
    window: &BatchingWindow<ObjectKey>,
    cost: &StatusCost,
    change: &Change<Binding>,
) {
    let (told, worth) = match (&change.old, &change.new) {
        (Some(old), Some(new)) => (new, binding_change(old, new)),
        (None, Some(new)) => (new, binding_appeared(new)),
        (Some(old), None) => (old, binding_gone(old)),
        (None, None) => return,
    };
    let placement = told.placement_key();
    match worth {
        BindingChange::Nothing => {}
        BindingChange::Wording => queue.add_after(placement, WORDING),
        BindingChange::Status if change.old.is_none() => {
            queue.add_with(placement, change.origin.priority());
        }
        BindingChange::Status => {
            // The end of a rollout is told at once: somebody waits for it. Between two clusters
            // of a run nothing moves either, and there is more to come.
            let has_run = scope.runs.open(&placement).next().is_some();
            if scope.count_moving_of(&placement) == 0 && !has_run {
                queue.add(placement);
            } else {
                let rows = scope.count_bindings_of(&placement);
                window.add(queue, placement, cost.pass(rows), cost.window(rows));
            }
        }
    }
}

/// What the last clusters of a run brought may still wait when the run has ended.
fn run(queue: &Queue<ObjectKey>, change: &Change<Run>) {
    let Some(old) = change.old.as_ref().filter(|old| !old.rival.ended) else { return };
    if change.new.as_ref().is_none_or(|new| new.rival.ended) {
        queue.add(old.placement.clone());
    }
}

fn copy(
    queue: &Queue<ObjectKey>,
    placements: &Store<Placement>,
    change: &Change<Versioned<PlacementStatus>>,
) {
    if change.old.is_none() || change.new.is_some() {
        return;
    }
    let key = ObjectKey::cluster(&change.key.name);
    if placements.get(&key).is_some_and(|placement| misses_mirror(&placement.value)) {
        queue.add(key);
    }
}

/// Kinds all of whose objects can be seen.
pub(super) fn caught_up(selectable: &Selectable) -> BTreeSet<Kind> {
    let mirrors = selectable.registry().mirrors().into_iter();
    mirrors.filter(|(_, store)| store.is_synced()).map(|(served, _)| kind_served(&served)).collect()
}

/// Wakes placements that select a kind as soon as all its objects can be seen, and
/// when it is gone. What is `known` already wakes nothing.
pub(super) async fn kinds_come_and_go(
    selectable: Arc<Selectable>,
    mirrors: Arc<Mirrors>,
    queues: Queues,
    mut known: BTreeSet<Kind>,
) {
    let registry = selectable.registry();
    let mut arriving = JoinSet::new();
    loop {
        let looks = registry.looks();
        let mut present = BTreeSet::new();
        for (served, store) in registry.mirrors() {
            let kind = kind_served(&served);
            present.insert(kind.clone());
            if !known.contains(&kind) {
                let (mirrors, queues) = (mirrors.clone(), queues.clone());
                arriving.spawn(async move {
                    store.synced().await;
                    wake(&mirrors, &queues, &kind);
                });
            }
        }
        known.difference(&present).for_each(|gone| wake(&mirrors, &queues, gone));
        known = present;
        while arriving.try_join_next().is_some() {}
        registry.looked_beyond(looks).await;
    }
}

fn wake(mirrors: &Mirrors, queues: &Queues, selecting: &Kind) {
    for (key, placement) in placements(mirrors) {
        if waits_for_kind(&placement.value, selecting) {
            queues.add((*key).clone());
        }
    }
}
