//! What is known of a server's types, and where their objects are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::core::GroupVersionKind;
use tokio::sync::Notify;

use super::{Discovered, ServedType};
use crate::client::ResourceType;
use crate::reflector::{Change, Store, Subscription};
use crate::watched::Watched;

/// The types of one server. Clones share them.
pub struct Registry<V>(Arc<Shared<V>>);

impl<V> Clone for Registry<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Shared<V> {
    state: Mutex<State<V>>,
    /// Apart from the state, so that handlers may read the registry.
    handlers: Mutex<Vec<Handler<V>>>,
    looks: Watched<u64>,
    ask: Notify,
}

struct State<V> {
    types: BTreeMap<ResourceType, ServedType>,
    mirrors: BTreeMap<ResourceType, (ServedType, Store<V>)>,
}

type Handle<V> = dyn Fn(&ServedType, &Change<V>) + Send + Sync;

struct Handler<V> {
    handle: Arc<Handle<V>>,
    wanted: Arc<AtomicBool>,
    /// One for each type.
    subscriptions: BTreeMap<ResourceType, Subscription>,
}

/// Keeps a handler registered for all types until it is dropped.
#[must_use = "dropping it ends the subscription"]
pub struct DynamicSubscription {
    wanted: Arc<AtomicBool>,
    /// Lets the registry forget handlers that nobody wants.
    sweep: Box<dyn Fn() + Send + Sync>,
}

impl Drop for DynamicSubscription {
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::Release);
        // Now, for the reason that a `Subscription` has.
        (self.sweep)();
    }
}

/// Whether the mirrors can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// All mirrored types are synced.
    Ready,
    /// No type is mirrored yet.
    NothingRegistered,
    /// Some types are not synced yet.
    NotSynced {
        /// How many.
        unsynced: usize,
        /// Of how many.
        of: usize,
    },
}

impl fmt::Display for Readiness {
    /// The words of KubeFleet's readiness probe.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => write!(out, "ready"),
            Self::NothingRegistered => {
                write!(out, "resource informer not ready: no resources registered")
            }
            Self::NotSynced { unsynced, of } => {
                write!(out, "resource informer not ready: {unsynced}/{of} informers not synced yet")
            }
        }
    }
}

impl<V> Registry<V> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State { types: BTreeMap::new(), mirrors: BTreeMap::new() }),
            handlers: Mutex::new(Vec::new()),
            looks: Watched::default(),
            ask: Notify::new(),
        }))
    }

    /// The resource of a kind, in any version that is served.
    pub fn find(&self, gvk: &GroupVersionKind) -> Option<ServedType> {
        let state = self.state();
        let same = |found: &&ServedType| {
            let ResourceType { group, version, kind, .. } = &found.resource;
            (group, version, kind) == (&gvk.group, &gvk.version, &gvk.kind)
        };
        state.types.values().find(same).cloned()
    }

    /// The mirror of a kind, in the version that is mirrored.
    pub fn store(&self, gvk: &GroupVersionKind) -> Option<Store<V>> {
        let found = self.find(gvk)?;
        self.state().mirrors.get(&found.resource).map(|(_, store)| store.clone())
    }

    /// All mirrored types with their objects, ordered by group, version and plural. What
    /// they say of the server's preference is what the last look found.
    pub fn mirrors(&self) -> Vec<(ServedType, Store<V>)> {
        self.state().mirrors.values().cloned().collect()
    }

    /// Whether the mirrors can be relied on.
    pub fn readiness(&self) -> Readiness {
        let mirrors = self.mirrors();
        let unsynced = mirrors.iter().filter(|(_, store)| !store.is_synced()).count();
        match (unsynced, mirrors.len()) {
            (_, 0) => Readiness::NothingRegistered,
            (0, _) => Readiness::Ready,
            (unsynced, of) => Readiness::NotSynced { unsynced, of },
        }
    }

    /// Waits until types were looked for once, and all that were found are synced.
    pub async fn synced(&self) {
        // The sender lives in `self`, so the channel cannot be closed.
        self.0.looks.wait_for(|looks| looks > 0).await;
        for (_, store) in self.mirrors() {
            store.synced().await;
        }
    }

    /// Looks for types now instead of at the next regular time.
    pub fn look_now(&self) {
        self.0.ask.notify_one();
    }

    /// How often types were looked for.
    pub fn looks(&self) -> u64 {
        self.0.looks.get()
    }

    /// Waits until types were looked for more often than that.
    pub async fn looked_beyond(&self, looks: u64) {
        // The sender lives in `self`, so the channel cannot be closed.
        self.0.looks.wait_for(|now| now > looks).await;
    }

    /// Waits for the next look; whether somebody asked for it.
    pub(super) async fn asked_within(&self, pause: Duration) -> bool {
        tokio::time::timeout(pause, self.0.ask.notified()).await.is_ok()
    }

    /// Notes a look, and what it found if that is not what the one before found.
    pub(super) fn discovered(&self, found: Option<&Discovered>) {
        if let Some(found) = found {
            self.learn(found);
        }
        self.0.looks.change_if(|looks| {
            *looks += 1;
            true
        });
    }

    fn learn(&self, found: &Discovered) {
        let mut state = self.state();
        // What a failed group had stays known; it may well be there still.
        state.types.retain(|resource, _| !found.is_sure_about(&resource.group));
        let types = found.types.iter().map(|(resource, found)| (resource.clone(), found.clone()));
        state.types.extend(types);
        let State { types, mirrors } = &mut *state;
        for (resource, (served, _)) in mirrors {
            // One that was not found is on its way out; another version may be preferred.
            served.preferred = types.get(resource).is_some_and(|found| found.preferred);
        }
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Handler<V>>> {
        self.0.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: Send + Sync + 'static> Registry<V> {
    /// Calls `handle` for every object of every mirrored type and for every change
    /// from now on, of types that come later too, until the subscription is dropped.
    /// The rules for handlers of a [`Store`] hold; it may not subscribe here either.
    pub fn subscribe(
        &self,
        handle: impl Fn(&ServedType, &Change<V>) + Send + Sync + 'static,
    ) -> DynamicSubscription {
        let wanted = Arc::new(AtomicBool::new(true));
        let mut handler = Handler {
            handle: Arc::new(handle),
            wanted: wanted.clone(),
            subscriptions: BTreeMap::new(),
        };
        // Types are added under this lock, so each is subscribed to once.
        let mut handlers = self.handlers();
        for (served, store) in self.mirrors() {
            handler.attach(&served, &store);
        }
        handlers.push(handler);
        let shared = Arc::downgrade(&self.0);
        let sweep = move || {
            let Some(shared) = shared.upgrade() else { return };
            let Ok(mut handlers) = shared.handlers.try_lock() else { return };
            let gone = unwanted(&mut handlers);
            drop(handlers);
            drop(gone);
        };
        DynamicSubscription { wanted, sweep: Box::new(sweep) }
    }

    pub(super) fn insert(&self, served: &ServedType, store: Store<V>) {
        let mut handlers = self.handlers();
        drop(unwanted(&mut handlers));
        for handler in handlers.iter_mut() {
            handler.attach(served, &store);
        }
        self.state().mirrors.insert(served.resource.clone(), (served.clone(), store));
    }

    /// The type is gone, and its objects with it.
    pub(super) fn remove(&self, resource: &ResourceType) {
        let removed = self.state().mirrors.remove(resource);
        if let Some((_, store)) = removed {
            store.clear();
        }
        for handler in self.handlers().iter_mut() {
            handler.subscriptions.remove(resource);
        }
    }
}

/// Takes the handlers out that nobody wants any more.
fn unwanted<V>(handlers: &mut Vec<Handler<V>>) -> Vec<Handler<V>> {
    handlers.extract_if(.., |handler| !handler.wanted.load(Ordering::Acquire)).collect()
}

impl<V: Send + Sync + 'static> Handler<V> {
    fn attach(&mut self, served: &ServedType, store: &Store<V>) {
        let (handle, wanted, of) = (self.handle.clone(), self.wanted.clone(), served.clone());
        let subscription = store.subscribe(move |change| {
            if wanted.load(Ordering::Acquire) {
                handle(&of, change);
            }
        });
        self.subscriptions.insert(served.resource.clone(), subscription);
    }
}
