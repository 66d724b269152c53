//! Which change makes which member worth a pass.

use std::collections::BTreeMap;
use std::time::Duration;

use flagship_api::names::{ObjectKey, cluster_of_namespace};
use flagship_rules::membership::{Internal, Member, StatusRateLimit};
use flagship_runtime::env::Env;
use flagship_runtime::queue::Queue;
use flagship_runtime::reflector::{Change, Store, Subscription};

use crate::mirrors::{Cluster, Mirrors, Versioned};

/// Fills the queue from now on, and with everything that is there already.
pub(super) fn listen(env: &Env, mirrors: &Mirrors, queue: &Queue<ObjectKey>) -> Vec<Subscription> {
    let waker = queue.clone();
    vec![
        mirrors.members.clusters.subscribe(move |change| cluster_changed(&waker, change)),
        words(&mirrors.members.internals, queue, env),
        inside(&mirrors.members.roles, queue),
        inside(&mirrors.members.role_bindings, queue),
        own(&mirrors.members.namespaces, queue),
    ]
}

/// Our own status wakes nothing, nor does a change of metadata alone: who takes our finalizer off
/// and deletes the member gets what they asked for. The next heartbeat puts right what stays.
fn cluster_changed(queue: &Queue<ObjectKey>, change: &Change<Cluster>) {
    let same = match (&change.old, &change.new) {
        (Some(old), Some(new)) => is_asked_the_same(&old.member, &new.member),
        _ => false,
    };
    if !same {
        queue.add_with((*change.key).clone(), change.origin.priority());
    }
}

fn is_asked_the_same(old: &Member, new: &Member) -> bool {
    let asked = |m: &Member| (m.uid.clone(), m.generation, m.leaving_since);
    asked(old) == asked(new)
}

/// What a member says of itself is heard as often as its allowance says: the rest waits and
/// is one pass then.
fn words(store: &Store<Versioned<Internal>>, queue: &Queue<ObjectKey>, env: &Env) -> Subscription {
    let (queue, env) = (queue.clone(), env.clone());
    let mut allowances: BTreeMap<ObjectKey, StatusRateLimit> = BTreeMap::new();
    store.subscribe(move |change| {
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        if old.map(|old| &old.value) == new.map(|new| &new.value) {
            return;
        }
        let Some(cluster) = change.key.namespace.as_deref().and_then(cluster_of_namespace) else {
            return;
        };
        let (member, now) = (ObjectKey::cluster(cluster), env.now());
        let allowance =
            allowances.entry(member.clone()).or_insert_with(|| StatusRateLimit::new(now));
        let wait = Duration::try_from(allowance.take(now)).unwrap_or_default();
        if new.is_none() {
            allowances.remove(&member);
        }
        queue.add_after_with(member, wait, change.origin.priority());
    })
}

/// Anything in a member's namespace is a matter of that member.
fn inside<V: Send + Sync + PartialEq + 'static>(
    store: &Store<Versioned<V>>,
    queue: &Queue<ObjectKey>,
) -> Subscription {
    watched(store, queue, |key| key.namespace.as_deref())
}

/// The namespace itself, too.
fn own<V: Send + Sync + PartialEq + 'static>(
    store: &Store<Versioned<V>>,
    queue: &Queue<ObjectKey>,
) -> Subscription {
    watched(store, queue, |key| Some(&key.name))
}

fn watched<V: Send + Sync + PartialEq + 'static>(
    store: &Store<Versioned<V>>,
    queue: &Queue<ObjectKey>,
    namespace: impl Fn(&ObjectKey) -> Option<&str> + Send + 'static,
) -> Subscription {
    let queue = queue.clone();
    store.subscribe(move |change| {
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        if old.map(|old| &old.value) == new.map(|new| &new.value) {
            return;
        }
        if let Some(cluster) = namespace(&change.key).and_then(cluster_of_namespace) {
            queue.add_with(ObjectKey::cluster(cluster), change.origin.priority());
        }
    })
}
