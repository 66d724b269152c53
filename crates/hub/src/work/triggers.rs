//! Which change makes which binding worth a pass.

use std::sync::Arc;

use flagship_api::binding::ResourceBindingSpec;
use flagship_api::names::{ObjectKey, SnapshotIndex, cluster_of_namespace, master_snapshot};
use flagship_api::placement_status::NamespacedName;
use flagship_rules::model::Binding;
use flagship_rules::work::triggers::{
    binding_changed, placement_changed, work_appeared, work_changed,
};
use flagship_rules::work::{Placement as Says, Work};
use flagship_runtime::queue::Priority;
use flagship_runtime::reflector::{Change, Origin, Subscription};

use crate::mirrors::{
    Cluster, Mirrors, OverrideSnapshot, Placement, ResourceSnapshot, ScopeMirrors, Versioned,
};
use crate::per_placement::{PerPlacement, PlacedKey};
use crate::scope::Scoped;

/// Fills a queue from now on, and with every binding of the scope.
pub(super) fn listen<S: Scoped>(
    mirrors: &Mirrors,
    scope: Option<&ScopeMirrors>,
    queue: &PerPlacement,
) -> Vec<Subscription> {
    let Some(scope) = scope else { return Vec::new() };
    let waker = queue.clone();
    let bindings = scope.bindings.subscribe(move |change| binding(&waker, change));
    let (waker, of) = (queue.clone(), scope.clone());
    let works = mirrors.works.works.subscribe(move |change| work::<S>(&waker, &of, change));
    let (waker, of) = (queue.clone(), scope.clone());
    let clusters = mirrors.members.clusters.subscribe(move |change| cluster(&waker, &of, change));
    let (waker, of) = (queue.clone(), scope.clone());
    let snapshots = scope.resources.subscribe(move |change| snapshot(&waker, &of, change));
    let (waker, of) = (queue.clone(), scope.clone());
    let placements = scope.placements.subscribe(move |change| placement(&waker, &of, change));
    let overrides = &mirrors.overrides;
    let (waker, of) = (queue.clone(), scope.clone());
    let wide = overrides.cluster_wide.snapshots.subscribe(move |change| {
        overridden(&waker, &of, change, |spec, key| {
            spec.cluster_resource_override_snapshots.contains(&key.name)
        });
    });
    let (waker, of) = (queue.clone(), scope.clone());
    let narrow = overrides.in_namespaces.snapshots.subscribe(move |change| {
        overridden(&waker, &of, change, |spec, key| {
            let same = |named: &NamespacedName| {
                key.name == named.name && key.namespace.as_ref() == Some(&named.namespace)
            };
            spec.resource_override_snapshots.iter().any(same)
        });
    });
    vec![bindings, works, clusters, snapshots, placements, wide, narrow]
}

fn binding(queue: &PerPlacement, change: &Change<Binding>) {
    let Some(new) = &change.new else {
        // A Work may have been written for it since its last pass.
        change.old.iter().for_each(|old| queue.add(PlacedKey::from(&**old)));
        return;
    };
    if change.old.as_ref().is_none_or(|old| binding_changed(old, new)) {
        queue.add_with(PlacedKey::from(&**new), change.origin.priority());
    }
}

fn work<S: Scoped>(queue: &PerPlacement, scope: &ScopeMirrors, change: &Change<Versioned<Work>>) {
    let worth = match (&change.old, &change.new) {
        (Some(old), Some(new)) => work_changed(&old.value, &new.value),
        (None, Some(new)) => work_appeared(&new.value),
        (Some(_), None) => true,
        (None, None) => false,
    };
    let Some(work) = change.old.as_ref().or(change.new.as_ref()) else { return };
    let Some(owner) = work.value.owner().filter(|owner| owner.scope() == S::SCOPE) else { return };
    let name = work.value.placement.as_deref().unwrap_or_default();
    let placement = ObjectKey::new(owner.namespace.as_deref(), name);
    let lives = change.new.as_ref().is_some_and(|new| !new.value.deleting);
    // A Work of ours always names its placement.
    if lives && !name.is_empty() && scope.bindings.get(&owner).is_none() {
        // Written by a hub that did not know yet that the binding is gone.
        return queue.add(PlacedKey { placement, object: owner });
    }
    if !worth {
        return;
    }
    if change.new.is_none() {
        // Its name is free now: the binding that follows on the same cluster wants it.
        let cluster = change.key.namespace.as_deref().and_then(cluster_of_namespace);
        let heirs = scope.bindings_of(&placement).into_iter().filter(|binding| {
            cluster == Some(&binding.spec.target_cluster) && binding.key() != owner
        });
        heirs.for_each(|binding| queue.add(PlacedKey::from(&*binding)));
    }
    if let Some(binding) = scope.bindings.get(&owner) {
        // A member's answer is handled before further Works are written: else the status of a
        // binding waits behind a thousand Works of others. Answers in a list came long ago.
        let priority = match change.origin {
            Origin::Listed => Priority::Normal,
            Origin::Watched => Priority::High,
        };
        queue.add_with(PlacedKey::from(&*binding), priority);
    }
}

/// A cluster that is new, or whose labels overrides may ask for.
fn cluster(queue: &PerPlacement, scope: &ScopeMirrors, change: &Change<Cluster>) {
    let Some(new) = &change.new else { return };
    let relabelled = change.old.as_ref().is_none_or(|old| old.value.labels != new.value.labels);
    if relabelled {
        wake(queue, change.origin.priority(), scope.bindings_on(&new.value.name), |_| true);
    }
}

/// A snapshot may be seen after the binding that names it.
fn snapshot(queue: &PerPlacement, scope: &ScopeMirrors, change: &Change<ResourceSnapshot>) {
    let (None, Some(new)) = (&change.old, &change.new) else { return };
    let index = new.value.index.as_deref().and_then(|index| index.parse::<SnapshotIndex>().ok());
    let Some(index) = index else { return };
    let master = master_snapshot(&new.placement.name, index);
    let bindings = scope.bindings_of(&new.placement);
    let names = |binding: &Binding| binding.spec.resource_snapshot_name == master;
    wake(queue, change.origin.priority(), bindings, names);
}

/// An override that was deleted and made anew, perhaps under the name that bindings hold.
fn overridden<Spec>(
    queue: &PerPlacement,
    scope: &ScopeMirrors,
    change: &Change<OverrideSnapshot<Spec>>,
    names: impl Fn(&ResourceBindingSpec, &ObjectKey) -> bool,
) {
    let hash = |snapshot: &Arc<OverrideSnapshot<Spec>>| snapshot.value.hash.clone();
    let Some(new) = change.new.as_ref().map(hash) else { return };
    if change.old.as_ref().map(hash) != Some(new) {
        let bindings = scope.bindings.all().into_iter().map(|(_, binding)| binding).collect();
        let named = |binding: &Binding| names(&binding.spec, &change.key);
        wake(queue, change.origin.priority(), bindings, named);
    }
}

fn placement(queue: &PerPlacement, scope: &ScopeMirrors, change: &Change<Placement>) {
    let says = |kept: &Arc<Placement>| Says::read(kept.deleting, &kept.value.spec);
    let (old, new) = (change.old.as_ref().map(says), change.new.as_ref().map(says));
    let old = old.unwrap_or_default();
    if new.is_some_and(|new| placement_changed(&old, &new)) {
        wake(queue, change.origin.priority(), scope.bindings_of(&change.key), |_| true);
    }
}

fn wake(
    queue: &PerPlacement,
    priority: Priority,
    bindings: Vec<Arc<Binding>>,
    concerned: impl Fn(&Binding) -> bool,
) {
    for binding in bindings.iter().filter(|binding| concerned(binding)) {
        queue.add_with(PlacedKey::from(&**binding), priority);
    }
}
