//! The ClusterProfile controller: `flagship_rules::inventory`, kept in step with members.
//!
//! A hub that publishes no profiles still takes its finalizer off members that leave: they
//! may have got it while it did.

mod shell;

use std::sync::Arc;

use flagship_api::keys::finalizer;
use flagship_api::names::ObjectKey;
use flagship_rules::membership::Member;
use flagship_runtime::controller::Controller;
use flagship_runtime::queue::{Queue, QueueConfig};
use flagship_runtime::reflector::Change;

use crate::hub::Context;
use crate::mirrors::{Cluster, Mirrors};
use shell::Shell;

/// Starts listening to the mirrors, which are filled already.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    let queue: Queue<ObjectKey> =
        Queue::new(QueueConfig::named("clusterprofile-controller"), &cx.metrics);
    let (waker, publishes) = (queue.clone(), mirrors.profiles.is_some());
    let members = mirrors.members.clusters.subscribe(move |change| {
        if is_worth_a_look(change, publishes) {
            waker.add_with((*change.key).clone(), change.origin.priority());
        }
    });
    let waker = queue.clone();
    let profiles = mirrors.profiles.as_ref().map(|profiles| {
        profiles.subscribe(move |change| {
            let (old, new) = (change.old.as_ref(), change.new.as_ref());
            if old.map(|old| &old.value) != new.map(|new| &new.value) {
                waker.add_with(ObjectKey::cluster(&change.key.name), change.origin.priority());
            }
        })
    });
    let shell = Arc::new(Shell::new(cx, mirrors.clone()));
    let workers = cx.options.membership_workers();
    let controller =
        Controller::new(&queue, workers, &cx.metrics, shell, |shell, key| async move {
            shell.pass(&key).await
        });
    vec![controller.listening([members].into_iter().chain(profiles))]
}

/// Every heartbeat is, where profiles are published. A change of metadata alone is not: who
/// takes the finalizer off a member and deletes it gets what they asked for.
fn is_worth_a_look(change: &Change<Cluster>, publishes: bool) -> bool {
    let Some(new) = &change.new else { return publishes };
    if !publishes {
        return new.member.leaving_since.is_some() && has_finalizer(new);
    }
    let (new, old) = (&new.member, change.old.as_ref().map(|old| &old.member));
    old.is_none_or(|old| {
        let asked = |m: &Member| (m.uid.clone(), m.generation, m.leaving_since);
        asked(old) != asked(new) || old.status != new.status
    })
}

/// Whether the member waits for its profile to go.
fn has_finalizer(cluster: &Cluster) -> bool {
    cluster.finalizers.iter().any(|one| one == finalizer::CLUSTER_PROFILE)
}
