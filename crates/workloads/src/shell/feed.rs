//! Every change of every resource of a cluster, in the order of its revisions.
//!
//! One subscription a resource, polled in the order of their names, so that a
//! paused runtime replays exactly. A subscription that fell behind is begun again
//! and compared with what was known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Context, Poll};

use flagship_apiserver::rest::ClusterHandle;
use flagship_store::{
    Filter, ObjectKey, Store, Stored, Subscription, WatchEnd, WatchEvent, WatchFrom,
};
use futures::Stream;

/// Resources that no controller here looks at and that own nothing.
const IGNORED: [&str; 1] = ["events"];

/// One change.
#[derive(Debug)]
pub(super) struct Change {
    pub resource: Arc<str>,
    pub object: Arc<Stored>,
    pub gone: bool,
}

/// The subscriptions of one cluster.
pub(super) struct Feed {
    cluster: ClusterHandle,
    /// Made by the handle for every call to the store.
    store: Arc<Store>,
    open: BTreeMap<Arc<str>, Line>,
    /// Objects of resources that are no longer served, to be told as gone.
    pending: Vec<Change>,
}

struct Line {
    subscription: Subscription,
    /// What has been told of this resource and not taken back, by UID.
    told: BTreeMap<ObjectKey, Arc<Stored>>,
    /// While a list is being repeated: what it has shown so far.
    repeated: Option<BTreeSet<ObjectKey>>,
}

impl Feed {
    pub fn new(cluster: &ClusterHandle) -> Self {
        let store = Arc::clone(cluster.store());
        let mut feed =
            Self { cluster: cluster.clone(), store, open: BTreeMap::new(), pending: Vec::new() };
        feed.refresh();
        feed
    }

    /// Begins watching resources that are served since, and forgets those that are not.
    pub fn refresh(&mut self) {
        let kinds = self.cluster.registry().all();
        let served: BTreeSet<Arc<str>> = kinds
            .iter()
            .map(|kind| Arc::clone(&kind.resource))
            .filter(|resource| !IGNORED.contains(&&**resource))
            .collect();
        for (resource, line) in &mut self.open {
            if !served.contains(resource) {
                line.take_back(resource, &mut self.pending);
            }
        }
        self.open.retain(|resource, _| served.contains(resource));
        for resource in served {
            if !self.open.contains_key(&resource)
                && let Some(subscription) = self.begin(&resource)
            {
                let line = Line { subscription, told: BTreeMap::new(), repeated: None };
                self.open.insert(resource, line);
            }
        }
    }

    fn begin(&self, resource: &str) -> Option<Subscription> {
        let from = WatchFrom::CurrentThenLive;
        // Only a start in the past can have expired.
        self.store.watch(resource, from, Filter::default()).ok()
    }

    /// All changes that are there now, oldest first. `None` when the cluster is gone.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Option<Vec<Change>> {
        let mut changes = std::mem::take(&mut self.pending);
        let (mut behind, mut ended) = (Vec::new(), Vec::new());
        for (resource, line) in &mut self.open {
            loop {
                match std::pin::Pin::new(&mut line.subscription).poll_next(context) {
                    Poll::Ready(Some(seen)) => line.take(resource, seen, &mut changes),
                    Poll::Ready(None) => {
                        match line.subscription.why_closed() {
                            Some(WatchEnd::Closed) => return None,
                            Some(WatchEnd::Forgotten) => {
                                line.take_back(resource, &mut changes);
                                ended.push(Arc::clone(resource));
                            }
                            _ => behind.push(Arc::clone(resource)),
                        }
                        break;
                    }
                    Poll::Pending => break,
                }
            }
        }
        self.open.retain(|resource, _| !ended.contains(resource));
        for resource in &behind {
            let Some(subscription) = self.begin(resource) else { continue };
            if let Some(line) = self.open.get_mut(resource) {
                line.subscription = subscription;
                line.repeated = Some(BTreeSet::new());
            }
        }
        if !behind.is_empty() {
            // The new subscriptions have to be polled before anybody may sleep.
            changes.extend(self.poll(context)?);
        }
        changes.sort_by_key(|change| change.object.revision);
        Some(changes)
    }
}

impl Line {
    fn take(&mut self, resource: &Arc<str>, seen: WatchEvent, changes: &mut Vec<Change>) {
        let change = |object, gone| Change { resource: Arc::clone(resource), object, gone };
        match seen {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                if let Some(repeated) = &mut self.repeated {
                    repeated.insert(object.key.clone());
                }
                let known = self.told.insert(object.key.clone(), Arc::clone(&object));
                if let Some(known) = &known
                    && known.head.uid != object.head.uid
                {
                    changes.push(change(Arc::clone(known), true));
                }
                if known.is_none_or(|known| known.revision != object.revision) {
                    changes.push(change(object, false));
                }
            }
            WatchEvent::Deleted(object) => {
                self.told.remove(&object.key);
                changes.push(change(object, true));
            }
            WatchEvent::InitialDone(_) => {
                let Some(repeated) = self.repeated.take() else { return };
                let missed = |key: &&ObjectKey| !repeated.contains(*key);
                let gone: Vec<ObjectKey> = self.told.keys().filter(missed).cloned().collect();
                for key in gone {
                    changes.extend(self.told.remove(&key).map(|object| change(object, true)));
                }
            }
        }
    }

    fn take_back(&mut self, resource: &Arc<str>, changes: &mut Vec<Change>) {
        let told = std::mem::take(&mut self.told);
        let resource = || Arc::clone(resource);
        changes.extend(told.into_values().map(|object| Change {
            resource: resource(),
            object,
            gone: true,
        }));
    }
}
