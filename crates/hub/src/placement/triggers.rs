//! Which change makes which placement worth a pass.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flagship_api::names::ObjectKey;
use flagship_rules::placement::selection::Kind;
use flagship_rules::placement::triggers::{
    BindingChange, Changed, binding_change, concerns, misses_mirror, placement_changed,
    waits_for_kind,
};
use flagship_runtime::dynamic::{DynamicSubscription, ServedType};
use flagship_runtime::reflector::{Change, Subscription};

use super::Queues;
use super::content::{Content, Object, kind};
use crate::mirrors::{Binding, Mirrors, Placement, Policy};

/// A mere change of wording is shown after so long, together with others.
const WORDING: Duration = Duration::from_secs(1);
/// How often newly mirrored kinds are looked for.
const NEW_KINDS: Duration = Duration::from_secs(5);

/// Keeps the triggers alive.
pub(super) struct Listening {
    _mirrors: Vec<Subscription>,
    _content: DynamicSubscription,
}

/// Fills the queues from now on, and with every placement that is there already.
pub(super) fn listen(mirrors: &Arc<Mirrors>, content: &Arc<Content>, queues: &Queues) -> Listening {
    let mut subscriptions = Vec::new();
    // Every placement looks once at the start; what it then sees is no news.
    let begun = Arc::new(AtomicBool::new(false));
    for scope in mirrors.scopes() {
        let waker = queues.clone();
        subscriptions.push(scope.placements.subscribe(move |change| {
            if is_news(change) {
                waker.add((*change.key).clone());
            }
        }));
        let waker = queues.clone();
        subscriptions.push(scope.policies.subscribe(move |change| policy_changed(&waker, change)));
        let (waker, started) = (queues.clone(), begun.clone());
        subscriptions.push(scope.bindings.subscribe(move |change| {
            if started.load(Ordering::Acquire) {
                binding_changed(&waker, change);
            }
        }));
    }
    let (waker, all) = (queues.clone(), mirrors.clone());
    subscriptions.push(mirrors.copies.subscribe(move |change| {
        let key = ObjectKey::cluster(&change.key.name);
        let placement = all.cluster_wide.placements.get(&key);
        if change.new.is_none() && placement.is_some_and(|found| misses_mirror(&found.value)) {
            waker.add(key);
        }
    }));
    let (waker, all, hub, started) =
        (queues.clone(), mirrors.clone(), content.clone(), begun.clone());
    let watched = content.registry.subscribe(move |served, change| {
        if started.load(Ordering::Acquire) {
            content_changed(&waker, &all, &hub, served, change);
        }
    });
    begun.store(true, Ordering::Release);
    Listening { _mirrors: subscriptions, _content: watched }
}

fn is_news(change: &Change<Placement>) -> bool {
    match (&change.old, &change.new) {
        (None, Some(_)) => true,
        (Some(old), Some(new)) => {
            placement_changed(old.value.generation, new.value.generation)
                || old.deleting != new.deleting
        }
        (_, None) => false,
    }
}

/// Our own writing comes back here too, and finds nothing to do.
fn policy_changed(queues: &Queues, change: &Change<Policy>) {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && old.value != new.value
    {
        queues.add(new.placement.clone());
    }
}

fn binding_changed(queues: &Queues, change: &Change<Binding>) {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => match binding_change(&old.value, &new.value) {
            BindingChange::Nothing => {}
            BindingChange::Wording => {
                queues.of(&new.placement).add_after(new.placement.clone(), WORDING);
            }
            BindingChange::News => queues.add(new.placement.clone()),
        },
        // The scheduler's word about it may have been seen before it.
        (one, other) => {
            if let Some(binding) = one.as_ref().or(other.as_ref()) {
                queues.add(binding.placement.clone());
            }
        }
    }
}

fn content_changed(
    queues: &Queues,
    mirrors: &Mirrors,
    content: &Content,
    served: &ServedType,
    change: &Change<Object>,
) {
    let kind = kind(served);
    let namespace = change.key.namespace.as_deref();
    let namespace_labels = namespace.and_then(|name| content.namespace_labels(name));
    let changed = Changed {
        kind: &kind,
        namespace,
        name: &change.key.name,
        labels: change.new.as_ref().map(|object| &object.labels),
        namespace_labels: namespace_labels.as_ref(),
    };
    let mut found = mirrors.cluster_wide.placements.all();
    if let (Some(scope), Some(namespace)) = (&mirrors.in_namespaces, namespace) {
        found.extend(scope.placements.in_namespace(namespace));
    }
    for (key, placement) in found {
        if concerns(&placement.value, &changed) {
            queues.add((*key).clone());
        }
    }
}

/// Wakes placements that wait for a kind when it can be seen.
pub(super) async fn watch_kinds(mirrors: Arc<Mirrors>, content: Arc<Content>, queues: Queues) {
    let visible = || -> BTreeSet<Kind> {
        let mirrored = content.registry.mirrors().into_iter();
        mirrored.filter(|(_, store)| store.is_synced()).map(|(served, _)| kind(&served)).collect()
    };
    let mut known = visible();
    loop {
        tokio::time::sleep(NEW_KINDS).await;
        let now = visible();
        for kind in now.difference(&known) {
            for scope in mirrors.scopes() {
                for (key, placement) in scope.placements.all() {
                    if waits_for_kind(&placement.value, kind) {
                        queues.add((*key).clone());
                    }
                }
            }
        }
        known = now;
    }
}
