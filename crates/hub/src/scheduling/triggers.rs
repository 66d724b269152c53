//! Which change makes which placement worth a pass.
//!
//! Policies, placements and bindings wake their own placement at once. Changes of
//! clusters concern many placements, so they are gathered for a moment and told
//! together. One slow sweep stands behind all of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::keys::finalizer;
use flagship_api::names::ObjectKey;
use flagship_rules::model::Binding;
use flagship_rules::scheduling::{
    ClusterChange, becomes_surplus, cluster_change, concerns, ineligible,
};
use flagship_runtime::queue::{Priority, Queue};
use flagship_runtime::reflector::{Change, Subscription};
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::hub::Context;
use crate::mirrors::{Cluster, Mirrors, Placement, Policy, ScopeMirrors};

/// Part of a sweep's span that chance may add, so that hubs do not sweep in step.
const SWEEP_JITTER: f64 = 0.1;

/// Changes of clusters that placements have not been told of yet.
#[derive(Default)]
pub(super) struct ClusterTriggers {
    gathered: Mutex<Option<ClusterTrigger>>,
    woken: Notify,
}

/// What happened to clusters, the farthest-reaching change first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClusterTrigger {
    /// One changed.
    Changed(ClusterChange),
    /// One is gone: every placement has to look.
    Gone,
}

/// Fills the queue from now on, and with everything that is there already.
pub(super) fn listen(
    cx: &Context,
    mirrors: &Mirrors,
    queue: &Queue<ObjectKey>,
    cluster_triggers: &Arc<ClusterTriggers>,
) -> Vec<Subscription> {
    let mut subscriptions = Vec::new();
    for scope in mirrors.scopes() {
        let ScopeMirrors { policies, placements, bindings, .. } = scope;
        let waker = queue.clone();
        subscriptions.push(policies.subscribe(move |change| policy_changed(&waker, change)));
        let waker = queue.clone();
        subscriptions.push(placements.subscribe(move |change| placement_changed(&waker, change)));
        let (waker, of) = (queue.clone(), scope.clone());
        subscriptions.push(bindings.subscribe(move |change| binding_changed(&waker, &of, change)));
    }
    let (gathering, env) = (cluster_triggers.clone(), cx.env.clone());
    subscriptions.push(mirrors.members.clusters.subscribe(move |change| {
        if let Some(trigger) = cluster_trigger(change, env.now()) {
            gathering.add(trigger);
        }
    }));
    // Every placement looks once at the start; the clusters it then sees wake nothing.
    cluster_triggers.take();
    subscriptions
}

fn policy_changed(queue: &Queue<ObjectKey>, change: &Change<Policy>) {
    let in_force = |policy: &Option<Arc<Policy>>| policy.clone().filter(|policy| policy.latest);
    let (old, new) = (in_force(&change.old), in_force(&change.new));
    let same = match (&old, &new) {
        (Some(old), Some(new)) => new.asks_the_same_as(old),
        // One that is gone or no longer the latest may leave a single other.
        (old, new) => old.is_none() && new.is_none(),
    };
    if !same && let Some(policy) = new.or(old) {
        queue.add_with(policy.placement.clone(), change.origin.priority());
    }
}

fn placement_changed(queue: &Queue<ObjectKey>, change: &Change<Placement>) {
    match (&change.old, &change.new) {
        // Its policy may have become known before it.
        (None, Some(_)) => queue.add_with((*change.key).clone(), change.origin.priority()),
        (Some(old), Some(new)) if new.awaits_scheduler() && !old.awaits_scheduler() => {
            queue.add_rate_limited((*change.key).clone());
        }
        _ => {}
    }
}

fn binding_changed(queue: &Queue<ObjectKey>, scope: &ScopeMirrors, change: &Change<Binding>) {
    let Some(new) = &change.new else { return };
    let old = change.old.as_deref();
    let placement = new.placement_key();
    if awaits_scheduler(new) && !old.is_some_and(awaits_scheduler) {
        queue.add_rate_limited(placement);
    } else if becomes_surplus(old, new, || scope.bindings_for(&placement, new.cluster())) {
        queue.add_with(placement, change.origin.priority());
    }
}

/// Whether a binding is being deleted and waits for the scheduler to let it go.
fn awaits_scheduler(binding: &Binding) -> bool {
    binding.deleting && binding.has_finalizer(finalizer::SCHEDULER_BINDING)
}

fn cluster_trigger(change: &Change<Cluster>, now: Timestamp) -> Option<ClusterTrigger> {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => match cluster_change(&old.value, &new.value, now) {
            ClusterChange::Nothing => None,
            change => Some(ClusterTrigger::Changed(change)),
        },
        // Usually a new cluster is not ready; a list may show it when it already is.
        (None, Some(new)) if ineligible(&new.value, now).is_none() => {
            Some(ClusterTrigger::Changed(ClusterChange::Nature))
        }
        (None, Some(_)) => None,
        // The last version may have been unreadable; that it is gone still matters.
        (_, None) => change.malformed.is_none().then_some(ClusterTrigger::Gone),
    }
}

impl ClusterTriggers {
    fn add(&self, trigger: ClusterTrigger) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        *gathered = (*gathered).max(Some(trigger));
        drop(gathered);
        self.woken.notify_one();
    }

    fn take(&self) -> Option<ClusterTrigger> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Tells placements of changed clusters, once for all changes of a window.
pub(super) async fn wake_for_clusters(
    cx: Context,
    mirrors: Arc<Mirrors>,
    queue: Queue<ObjectKey>,
    cluster_triggers: Arc<ClusterTriggers>,
) {
    loop {
        cluster_triggers.woken.notified().await;
        tokio::time::sleep(cx.options.cluster_window).await;
        let Some(trigger) = cluster_triggers.take() else { continue };
        for (scope, policy) in policies(&mirrors) {
            let concerned = match trigger {
                ClusterTrigger::Gone => true,
                ClusterTrigger::Changed(change) => {
                    // Both may lag; a pass too many is cheap, one too few is not.
                    let placement = scope.placements.get(&policy.placement);
                    let told = placement.is_some_and(|placement| placement.scheduled);
                    let content = told && policy.fulfilled;
                    concerns(change, policy.value.policy.as_ref(), content)
                }
            };
            if concerned {
                queue.add(policy.placement.clone());
            }
        }
    }
}

/// Lets placements that lack clusters look again although nothing happened: a
/// cluster's time may have come without a word.
pub(super) async fn sweep(cx: Context, mirrors: Arc<Mirrors>, queue: Queue<ObjectKey>) {
    loop {
        let span: Duration = cx.env.entropy.jittered(cx.options.unfulfilled_sweep, SWEEP_JITTER);
        tokio::time::sleep(span).await;
        for (_, policy) in policies(&mirrors) {
            if !policy.fulfilled {
                queue.add_with(policy.placement.clone(), Priority::Low);
            }
        }
    }
}

fn policies(mirrors: &Mirrors) -> impl Iterator<Item = (&ScopeMirrors, Arc<Policy>)> {
    let scopes = mirrors.scopes();
    scopes.flat_map(|scope| {
        let latest = scope.policies.all().into_iter().filter(|(_, policy)| policy.latest);
        latest.map(move |(_, policy)| (scope, policy))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_gone_outweighs_every_change() {
        let cluster_triggers = ClusterTriggers::default();
        cluster_triggers.add(ClusterTrigger::Gone);
        cluster_triggers.add(ClusterTrigger::Changed(ClusterChange::Nature));
        cluster_triggers.add(ClusterTrigger::Changed(ClusterChange::Numbers));
        assert_eq!(cluster_triggers.take(), Some(ClusterTrigger::Gone));
        cluster_triggers.add(ClusterTrigger::Changed(ClusterChange::Nature));
        cluster_triggers.add(ClusterTrigger::Changed(ClusterChange::Numbers));
        assert_eq!(cluster_triggers.take(), Some(ClusterTrigger::Changed(ClusterChange::Nature)));
        assert_eq!(cluster_triggers.take(), None);
    }
}
