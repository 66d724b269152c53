//! Every change of every resource of a cluster, in the order of its revisions.
//!
//! One follower of the store sees them all; a resource that begins to be served is listed. A
//! follower that fell behind is begun again, and what is there compared with what was known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Context, Poll};

use flagship_apiserver::rest::ClusterHandle;
use flagship_store::{Followed, Follower, ObjectKey, Scope, Store, Stored, WatchEnd};

/// Resources that no controller here looks at and that own nothing.
const IGNORED: [&str; 1] = ["events"];

/// One change.
#[derive(Debug)]
pub(super) struct Change {
    pub resource: Arc<str>,
    pub object: Arc<Stored>,
    pub gone: bool,
}

/// What is known of one cluster.
pub(super) struct Feed {
    cluster: ClusterHandle,
    /// Made by the handle for every call to the store.
    store: Arc<Store>,
    follower: Follower,
    known: BTreeMap<Arc<str>, Known>,
    /// What lists have shown, to be told with the next changes.
    pending: Vec<Change>,
}

/// What has been told of one resource and not taken back.
#[derive(Default)]
struct Known {
    objects: BTreeMap<ObjectKey, Arc<Stored>>,
    /// Revision of the last list; changes up to it are in the list.
    listed: u64,
}

impl Feed {
    pub fn new(cluster: &ClusterHandle) -> Self {
        let store = Arc::clone(cluster.store());
        let (follower, known) = (store.follow(), BTreeMap::new());
        let mut feed =
            Self { cluster: cluster.clone(), store, follower, known, pending: Vec::new() };
        feed.refresh();
        feed
    }

    /// Takes in resources that are served since, and forgets those that are not.
    pub fn refresh(&mut self) {
        let kinds = self.cluster.registry().all();
        let served: BTreeSet<Arc<str>> = kinds
            .iter()
            .map(|kind| Arc::clone(&kind.resource))
            .filter(|resource| !IGNORED.contains(&&**resource))
            .collect();
        for (resource, known) in &mut self.known {
            if !served.contains(resource) {
                known.take_back(resource, &mut self.pending);
            }
        }
        self.known.retain(|resource, _| served.contains(resource));
        for resource in served {
            if !self.known.contains_key(&resource) {
                let mut known = Known::default();
                known.list(&resource, &self.store, &mut self.pending);
                self.known.insert(resource, known);
            }
        }
    }

    /// All changes that are there now, oldest first. `None` when the cluster is gone.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Option<Vec<Change>> {
        let mut changes = std::mem::take(&mut self.pending);
        loop {
            match self.follower.poll(context) {
                Poll::Ready(Some(Followed::Changed { resource, object, gone })) => {
                    if let Some(known) = self.known.get_mut(&resource) {
                        known.take(Change { resource, object, gone }, &mut changes);
                    }
                }
                Poll::Ready(Some(Followed::Forgotten { resource, revision })) => {
                    let is_older = |known: &Known| known.listed <= revision;
                    if self.known.get(&resource).is_some_and(is_older)
                        && let Some(mut known) = self.known.remove(&resource)
                    {
                        known.take_back(&resource, &mut changes);
                    }
                }
                Poll::Ready(None) if self.follower.why_closed() == Some(WatchEnd::Closed) => {
                    return None;
                }
                // It fell behind. Its successor must be polled before this returns, or nobody
                // would be woken.
                Poll::Ready(None) => {
                    self.follower = self.store.follow();
                    for (resource, known) in &mut self.known {
                        known.list(resource, &self.store, &mut changes);
                    }
                }
                Poll::Pending => break,
            }
        }
        changes.sort_by_key(|change| change.object.revision);
        Some(changes)
    }
}

impl Known {
    fn take(&mut self, change: Change, changes: &mut Vec<Change>) {
        let Change { resource, object, gone } = change;
        if object.revision <= self.listed {
            return;
        }
        match gone {
            true => {
                let was_told = self.objects.remove(&object.key).is_some();
                changes.extend(was_told.then_some(Change { resource, object, gone }));
            }
            false => self.show(&resource, object, changes),
        }
    }

    /// Tells of an object, if it is not known as it is.
    fn show(&mut self, resource: &Arc<str>, object: Arc<Stored>, changes: &mut Vec<Change>) {
        let change = |object, gone| Change { resource: Arc::clone(resource), object, gone };
        let known = self.objects.insert(object.key.clone(), Arc::clone(&object));
        if let Some(known) = &known
            && known.head.uid != object.head.uid
        {
            changes.push(change(Arc::clone(known), true));
        }
        if known.is_none_or(|known| known.revision != object.revision) {
            changes.push(change(object, false));
        }
    }

    /// Compares what is there with what is known.
    fn list(&mut self, resource: &Arc<str>, store: &Store, changes: &mut Vec<Change>) {
        let there = store.read_list(resource, Scope::All);
        self.listed = there.revision;
        let mut before = std::mem::take(&mut self.objects);
        for object in there.items {
            if let Some((key, known)) = before.remove_entry(&object.key) {
                self.objects.insert(key, known);
            }
            self.show(resource, object, changes);
        }
        tell_gone(resource, before, changes);
    }

    fn take_back(&mut self, resource: &Arc<str>, changes: &mut Vec<Change>) {
        tell_gone(resource, std::mem::take(&mut self.objects), changes);
    }
}

fn tell_gone(
    resource: &Arc<str>,
    objects: BTreeMap<ObjectKey, Arc<Stored>>,
    changes: &mut Vec<Change>,
) {
    let resource = || Arc::clone(resource);
    let gone = objects.into_values();
    changes.extend(gone.map(|object| Change { resource: resource(), object, gone: true }));
}
