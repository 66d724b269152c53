//! Read your own writes: a key waits until the caches show what its last pass wrote.
//!
//! A cache lags behind the server. A pass that reads a cache from before its own
//! last write would decide the same thing again. So each pass key remembers its
//! writes, and the next pass over the key waits until the caches show them, or
//! until it has waited long enough: writes have preconditions, so acting on a stale cache
//! costs a conflict, never damage, and waiting forever would cost liveness. A pass that went
//! on like that may have seen nothing to do because the cache showed what was before its own
//! write, and no later event says otherwise: it looks again until the caches show everything
//! ([`Outcome::having_caught_up`](crate::queue::Outcome::having_caught_up)).

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flagship_api::names::ObjectKey;
use futures::future::select_all;
use tokio::time::Instant;

use crate::client::{Deleted, Precondition, ResourceType};
use crate::reflector::{Progress, Revision, Store};
use crate::watched::Watcher;

/// How long a write is waited for, unless told otherwise.
const EXPIRY: Duration = Duration::from_secs(10);

/// Writes by pass key `O` that the caches do not show yet. Clones share them.
pub struct PendingWrites<O>(Arc<Inner<O>>);

impl<O> Clone for PendingWrites<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Inner<O> {
    expiry: Duration,
    caches: Mutex<BTreeMap<ResourceType, Arc<dyn Cache>>>,
    writes: Mutex<BTreeMap<O, BTreeMap<Written, Expected>>>,
}

/// Which object was written.
type Written = (ResourceType, ObjectKey);

struct Expected {
    what: What,
    at: Instant,
    /// Whether it was waited for in vain.
    overdue: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// The cache must have come this far.
    Reached(Revision),
    /// This very object must be gone from the cache.
    Gone { uid: String },
}

/// What is asked of a reflector's store, whatever it holds.
trait Cache: Send + Sync {
    fn revision(&self) -> Revision;
    fn holds(&self, key: &ObjectKey, uid: &str) -> bool;
    fn progress(&self) -> Watcher<Progress>;
}

impl<V: Send + Sync> Cache for Store<V> {
    fn revision(&self) -> Revision {
        Store::revision(self)
    }

    fn holds(&self, key: &ObjectKey, uid: &str) -> bool {
        Store::holds(self, key, uid)
    }

    fn progress(&self) -> Watcher<Progress> {
        Store::progress(self)
    }
}

/// A write that its cache does not show yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Of which resource.
    pub resource: ResourceType,
    /// Which object.
    pub key: ObjectKey,
    /// When the wait is given up.
    pub until: Instant,
}

impl<O: Ord + Clone + Debug> Default for PendingWrites<O> {
    fn default() -> Self {
        Self::with_expiry(EXPIRY)
    }
}

impl<O: Ord + Clone + Debug> PendingWrites<O> {
    /// Remembers writes for so long at most.
    pub fn with_expiry(expiry: Duration) -> Self {
        let (caches, writes) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { expiry, caches, writes }))
    }

    /// Names the cache that shows writes to a resource. Writes to resources without
    /// a cache are not waited for.
    pub fn shown_by<V: Send + Sync + 'static>(&self, resource: ResourceType, cache: &Store<V>) {
        self.caches().insert(resource, Arc::new(cache.clone()));
    }

    /// Notes an object as the server returned it from a write.
    pub fn wrote<K: kube::Resource>(&self, pass: &O, resource: &ResourceType, object: &K) {
        let meta = object.meta();
        let (Some(key), Some(version)) = (crate::client::key_of(object), &meta.resource_version)
        else {
            return;
        };
        self.expect_version(pass, resource, key, version);
    }

    /// Notes a delete.
    pub fn deleted(
        &self,
        pass: &O,
        resource: &ResourceType,
        precondition: &Precondition,
        deleted: &Deleted,
    ) {
        match deleted {
            Deleted::Gone => {
                let what = What::Gone { uid: precondition.uid.clone() };
                self.expect(pass, resource, precondition.key.clone(), what);
            }
            Deleted::Terminating { resource_version } => {
                self.expect_version(pass, resource, precondition.key.clone(), resource_version);
            }
        }
    }

    /// The first write of the pass key that its cache does not show yet and that is still
    /// waited for, if any.
    pub fn waiting(&self, pass: &O) -> Option<Waiting> {
        let caches = self.caches().clone();
        let mut writes = self.writes();
        let expected = writes.get_mut(pass)?;
        let now = Instant::now();
        expected.retain(|(resource, key), expected| {
            let shown = caches.get(resource).is_none_or(|cache| match &expected.what {
                What::Reached(revision) => cache.revision() >= *revision,
                What::Gone { uid } => !cache.holds(key, uid),
            });
            if !shown && !expected.overdue && now >= expected.at + self.0.expiry {
                expected.overdue = true;
                tracing::warn!(?pass, %resource, %key, "a cache did not show our write in time");
            }
            !shown
        });
        let mut awaited = expected.iter().filter(|(_, expected)| !expected.overdue);
        let waiting = awaited.next().map(|((resource, key), expected)| Waiting {
            resource: resource.clone(),
            key: key.clone(),
            until: expected.at + self.0.expiry,
        });
        if expected.is_empty() {
            writes.remove(pass);
        }
        waiting
    }

    /// Whether a write of the pass key was waited for in vain and is not shown yet.
    fn is_behind(&self, pass: &O) -> bool {
        self.writes().contains_key(pass)
    }

    /// Waits until the caches show all writes of the pass key, or it took too long. Whether
    /// they show them: a pass that must not act on less than its own writes asks the server.
    pub async fn caught_up(&self, pass: &O) -> bool {
        loop {
            // Listening begins before looking, so that no step falls in between.
            let mut steps: Vec<_> = self.caches().values().map(|cache| cache.progress()).collect();
            let Some(waiting) = self.waiting(pass) else { return !self.is_behind(pass) };
            // `waiting` names a cache, so there is at least one to listen to.
            let any_step = select_all(steps.iter_mut().map(|step| Box::pin(step.changed())));
            // A step or the expiry: either way the next round looks again.
            drop(tokio::time::timeout_at(waiting.until, any_step).await);
        }
    }

    fn expect_version(&self, pass: &O, resource: &ResourceType, key: ObjectKey, version: &str) {
        // A version that cannot be compared cannot be waited for.
        if let Some(revision) = Revision::read(version) {
            self.expect(pass, resource, key, What::Reached(revision));
        }
    }

    fn expect(&self, pass: &O, resource: &ResourceType, key: ObjectKey, what: What) {
        if !self.caches().contains_key(resource) {
            return;
        }
        let expected = Expected { what, at: Instant::now(), overdue: false };
        let mut writes = self.writes();
        writes.entry(pass.clone()).or_default().insert((resource.clone(), key), expected);
    }

    fn caches(&self) -> MutexGuard<'_, BTreeMap<ResourceType, Arc<dyn Cache>>> {
        self.0.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writes(&self) -> MutexGuard<'_, BTreeMap<O, BTreeMap<Written, Expected>>> {
        self.0.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
