//! What a reflector has seen: projections by key, indexes over them, and who wants
//! to know of changes.
//!
//! Keys are shared between the map and its indexes, values are behind `Arc`, and
//! nothing else of the object is kept beside the projection. Handlers run on
//! the reflector's task, one change at a time, after the store shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_api::names::ObjectKey;
use tokio::sync::mpsc;

use crate::client::Malformed;
use crate::queue::Priority;
use crate::watched::{Watched, Watcher};

/// A resourceVersion as a number; versions of one server can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl Revision {
    /// `None` for a version that is no number, which no known server writes.
    pub fn read(version: &str) -> Option<Self> {
        version.parse().ok().map(Self)
    }
}

/// How a change became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By a list: at the start, after an outage, or because somebody subscribed late.
    Listed,
    /// By a watch, as it happened.
    Watched,
}

impl Origin {
    /// What happens now overtakes what is merely looked at again.
    pub fn priority(self) -> Priority {
        match self {
            Self::Listed => Priority::Low,
            Self::Watched => Priority::Normal,
        }
    }
}

/// One object came, changed, went, or can no longer be read.
#[derive(Debug)]
pub struct Change<V> {
    /// Which object.
    pub key: Arc<ObjectKey>,
    /// What the store held before.
    pub old: Option<Arc<V>>,
    /// What the store holds now.
    pub new: Option<Arc<V>>,
    /// Set if the newest version cannot be read; `new` is then the last good one.
    pub malformed: Option<Arc<Malformed>>,
    /// How it became known.
    pub origin: Origin,
}

impl<V> Clone for Change<V> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            old: self.old.clone(),
            new: self.new.clone(),
            malformed: self.malformed.clone(),
            origin: self.origin,
        }
    }
}

/// Names an index of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexId(usize);

/// An object of a store.
pub type Entry<V> = (Arc<ObjectKey>, Arc<V>);

/// The objects a reflector has seen. Clones share them.
pub struct Store<V>(Arc<Shared<V>>);

impl<V> Clone for Store<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Shared<V> {
    state: Mutex<State<V>>,
    handlers: Mutex<Vec<Registered<V>>>,
    progress: Watched<Progress>,
    /// Why the mirror does not move on.
    trouble: Mutex<Option<String>>,
    /// Whether the end of objects that were never kept is told, too.
    strangers: AtomicBool,
}

/// How far a store has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    synced: bool,
    revision: Revision,
}

struct State<V> {
    objects: BTreeMap<Arc<ObjectKey>, Held<V>>,
    indexes: Vec<Index<V>>,
    malformed: BTreeMap<ObjectKey, Arc<Malformed>>,
}

struct Held<V> {
    value: Arc<V>,
    uid: Box<str>,
    version: Box<str>,
}

type IndexKeys<V> = dyn Fn(&ObjectKey, &V) -> Vec<String> + Send + Sync;

struct Index<V> {
    keys: Box<IndexKeys<V>>,
    entries: BTreeMap<Box<str>, Keys>,
}

/// The objects under a key of an index. Where it is one, as with the Work of a binding, a set
/// would take a hundred bytes more.
enum Keys {
    One(Arc<ObjectKey>),
    Many(BTreeSet<Arc<ObjectKey>>),
}

type Handle<V> = dyn FnMut(&Change<V>) + Send;

struct Registered<V> {
    handle: Box<Handle<V>>,
    wanted: Arc<AtomicBool>,
}

/// Keeps a handler registered until it is dropped.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    wanted: Arc<AtomicBool>,
    /// Lets the store forget handlers that nobody wants.
    sweep: Box<dyn Fn() + Send + Sync>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::Release);
        // Now, not with the next change: a handler may hold the very store it listens to, and
        // in a store that nobody fills any more the two would keep each other for good.
        (self.sweep)();
    }
}

/// One object as a list or watch showed it.
pub(super) struct Shown<V> {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    pub(super) version: String,
    /// `None` if the projection does not keep it.
    pub(super) value: Option<V>,
}

impl<V> Store<V> {
    pub(super) fn new() -> Self {
        let state =
            State { objects: BTreeMap::new(), indexes: Vec::new(), malformed: BTreeMap::new() };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            handlers: Mutex::new(Vec::new()),
            progress: Watched::default(),
            trouble: Mutex::default(),
            strangers: AtomicBool::new(false),
        }))
    }

    pub(super) fn tell_deletes_of_unkept(&self) {
        self.0.strangers.store(true, Ordering::Release);
    }

    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.state().objects.get(key).map(|held| held.value.clone())
    }

    /// Whether that very object is there, not a namesake that came later.
    pub fn holds(&self, key: &ObjectKey, uid: &str) -> bool {
        self.state().objects.get(key).is_some_and(|held| *held.uid == *uid)
    }

    /// All objects, ordered by namespace and name.
    pub fn all(&self) -> Vec<Entry<V>> {
        self.state().objects.iter().map(entry).collect()
    }

    /// The objects of one namespace, ordered by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Entry<V>> {
        let first = ObjectKey::namespaced(namespace, "");
        let state = self.state();
        let there = state.objects.range::<ObjectKey, _>(first..);
        there
            .take_while(|(key, _)| key.namespace.as_deref() == Some(namespace))
            .map(entry)
            .collect()
    }

    /// The objects under a key of an index, ordered by namespace and name.
    pub fn by(&self, index: IndexId, key: &str) -> Vec<Entry<V>> {
        let state = self.state();
        let found = state.indexes.get(index.0).and_then(|index| index.entries.get(key));
        let keys = found.into_iter().flat_map(Keys::iter);
        keys.filter_map(|key| state.objects.get_key_value(&**key).map(entry)).collect()
    }

    /// How many objects there are under a key of an index.
    pub fn count(&self, index: IndexId, key: &str) -> usize {
        let state = self.state();
        let found = state.indexes.get(index.0).and_then(|index| index.entries.get(key));
        found.map_or(0, Keys::len)
    }

    /// How many objects.
    pub fn len(&self) -> usize {
        self.state().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.state().objects.is_empty()
    }

    /// Why the newest version of the object cannot be read, if so.
    pub fn malformed(&self, key: &ObjectKey) -> Option<Arc<Malformed>> {
        self.state().malformed.get(key).cloned()
    }

    /// All objects whose newest version cannot be read.
    pub fn all_malformed(&self) -> Vec<Arc<Malformed>> {
        self.state().malformed.values().cloned().collect()
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        self.0.progress.get().synced
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        // The sender lives in `self`, so the channel cannot be closed.
        self.0.progress.wait_for(|progress| progress.synced).await;
    }

    /// What keeps the mirror from moving on, since it was last told; `None` if all is well.
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_trouble(&self, trouble: Option<String>) {
        *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// Everything up to this revision has been seen.
    pub fn revision(&self) -> Revision {
        self.0.progress.get().revision
    }

    /// Waits until everything up to that revision has been seen.
    pub async fn reached(&self, revision: Revision) {
        self.0.progress.wait_for(|progress| progress.revision >= revision).await;
    }

    /// Tells of every step forward.
    pub(crate) fn progress(&self) -> Watcher<Progress> {
        self.0.progress.watcher()
    }

    /// Calls `handle` for every object there is and for every change from now on,
    /// until the subscription is dropped. It runs on the reflector's task: it may
    /// read the store and fill queues, but not subscribe, and must not dwell.
    pub fn subscribe(&self, mut handle: impl FnMut(&Change<V>) + Send + 'static) -> Subscription
    where
        V: Send + Sync + 'static,
    {
        // Changes are dispatched under this lock, so none is missed or told twice.
        let mut handlers = self.handlers();
        let wanted = Arc::new(AtomicBool::new(true));
        let malformed = self.state().malformed.clone();
        for (key, value) in self.all() {
            let malformed = malformed.get(&*key).cloned();
            let (old, new) = (None, Some(value));
            handle(&Change { key, old, new, malformed, origin: Origin::Listed });
        }
        for (key, problem) in malformed {
            if self.get(&key).is_none() {
                let key = Arc::new(key);
                let malformed = Some(problem);
                handle(&Change { key, old: None, new: None, malformed, origin: Origin::Listed });
            }
        }
        handlers.push(Registered { handle: Box::new(handle), wanted: wanted.clone() });
        let shared = Arc::downgrade(&self.0);
        let sweep = move || {
            // A handler may drop its own, while changes are dispatched; then that sweeps.
            let Some(shared) = shared.upgrade() else { return };
            let Ok(mut handlers) = shared.handlers.try_lock() else { return };
            let gone = unwanted(&mut handlers);
            // What handlers hold goes when the list can be locked again.
            drop(handlers);
            drop(gone);
        };
        Subscription { wanted, sweep: Box::new(sweep) }
    }

    /// The same as a stream. It holds what the reader has not taken yet.
    pub fn changes(&self) -> (mpsc::UnboundedReceiver<Change<V>>, Subscription)
    where
        V: Send + Sync + 'static,
    {
        let (sender, receiver) = mpsc::unbounded_channel();
        // A reader that went away needs no changes.
        let subscription = self.subscribe(move |change| drop(sender.send(change.clone())));
        (receiver, subscription)
    }

    pub(super) fn add_index(
        &self,
        keys: impl Fn(&ObjectKey, &V) -> Vec<String> + Send + Sync + 'static,
    ) -> IndexId {
        let mut state = self.state();
        let mut index = Index { keys: Box::new(keys), entries: BTreeMap::new() };
        for (key, held) in &state.objects {
            index.insert(key, &held.value);
        }
        state.indexes.push(index);
        IndexId(state.indexes.len() - 1)
    }

    /// Takes an object in. A watch may replay older versions, a list is believed.
    pub(super) fn show(&self, shown: Shown<V>, origin: Origin) {
        let mut handlers = self.handlers();
        let mut state = self.state();
        state.malformed.remove(&shown.key);
        let held = state.objects.get(&shown.key);
        if let Some(held) = held.filter(|held| *held.uid == *shown.uid) {
            if *held.version == *shown.version {
                return;
            }
            let versions = (Revision::read(&held.version), Revision::read(&shown.version));
            if let (Origin::Watched, (Some(held), Some(shown))) = (origin, versions)
                && shown < held
            {
                return;
            }
        }
        // A namesake of an object that went unseen is told as two changes.
        let replaced = held.is_some_and(|held| *held.uid != *shown.uid);
        if replaced || shown.value.is_none() {
            let gone = state.remove(&shown.key);
            if let Some((key, old)) = gone {
                drop(state);
                let change = Change { key, old: Some(old), new: None, malformed: None, origin };
                dispatch(&mut handlers, &change);
                state = self.state();
            }
        }
        let Some(value) = shown.value else { return };
        let key = Arc::new(shown.key);
        let new = Arc::new(value);
        let held =
            Held { value: new.clone(), uid: shown.uid.into(), version: shown.version.into() };
        let (key, old) = state.insert(key, held);
        drop(state);
        dispatch(&mut handlers, &Change { key, old, new: Some(new), malformed: None, origin });
    }

    /// Takes an object out, unless a newer one stands there.
    pub(super) fn gone(&self, key: &ObjectKey, version: Option<&str>, origin: Origin) {
        let mut handlers = self.handlers();
        let mut state = self.state();
        let held = state.objects.get(key).and_then(|held| Revision::read(&held.version));
        let gone = version.and_then(Revision::read);
        if let (Some(held), Some(gone)) = (held, gone)
            && gone < held
        {
            return;
        }
        let was_malformed = state.malformed.remove(key).is_some();
        let removed = state.remove(key);
        drop(state);
        let (key, old) = match removed {
            Some((key, old)) => (key, Some(old)),
            None if was_malformed || self.0.strangers.load(Ordering::Acquire) => {
                (Arc::new(key.clone()), None)
            }
            None => return,
        };
        dispatch(&mut handlers, &Change { key, old, new: None, malformed: None, origin });
    }

    /// Notes that the newest version cannot be read. The last good one stays: a
    /// typo must not look like a deletion.
    pub(super) fn unreadable(&self, key: ObjectKey, problem: Malformed, origin: Origin) {
        let mut handlers = self.handlers();
        let mut state = self.state();
        let problem = Arc::new(problem);
        let before = state.malformed.insert(key.clone(), problem.clone());
        if before.is_some_and(|before| before == problem) {
            return;
        }
        let old = state.objects.get(&key).map(|held| held.value.clone());
        drop(state);
        let (key, new, malformed) = (Arc::new(key), old.clone(), Some(problem));
        dispatch(&mut handlers, &Change { key, old, new, malformed, origin });
    }

    /// A list is complete: what it did not show is gone.
    pub(super) fn keep_only(&self, shown: &BTreeSet<ObjectKey>) {
        let state = self.state();
        let held = state.objects.keys().map(|key| &**key).chain(state.malformed.keys());
        let lost: BTreeSet<ObjectKey> = held.filter(|key| !shown.contains(key)).cloned().collect();
        drop(state);
        for key in lost {
            self.gone(&key, None, Origin::Listed);
        }
    }

    /// All objects are gone, because their type is.
    pub(crate) fn clear(&self) {
        self.keep_only(&BTreeSet::new());
    }

    pub(super) fn set_synced(&self) {
        self.0.progress.change_if(|progress| !std::mem::replace(&mut progress.synced, true));
    }

    /// Everything up to this version has been shown. A list may start lower again,
    /// if the server was set back to a backup.
    pub(super) fn advance(&self, version: &str, origin: Origin) {
        let Some(revision) = Revision::read(version) else { return };
        self.0.progress.change_if(|progress| {
            let moves = match origin {
                Origin::Listed => revision != progress.revision,
                Origin::Watched => revision > progress.revision,
            };
            if moves {
                progress.revision = revision;
            }
            moves
        });
    }

    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Registered<V>>> {
        self.0.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry<V>((key, held): (&Arc<ObjectKey>, &Held<V>)) -> Entry<V> {
    (key.clone(), held.value.clone())
}

/// Takes the handlers out that nobody wants any more.
fn unwanted<V>(handlers: &mut Vec<Registered<V>>) -> Vec<Registered<V>> {
    handlers.extract_if(.., |registered| !registered.wanted.load(Ordering::Acquire)).collect()
}

fn dispatch<V>(handlers: &mut Vec<Registered<V>>, change: &Change<V>) {
    drop(unwanted(handlers));
    for registered in handlers.iter_mut() {
        // A handler that panics must not take the cache of everybody else with it.
        if catch_unwind(AssertUnwindSafe(|| (registered.handle)(change))).is_err() {
            tracing::error!(key = %change.key, "a handler of changes panicked");
        }
    }
    // Some may have been dropped meanwhile.
    drop(unwanted(handlers));
}

impl<V> State<V> {
    fn insert(&mut self, key: Arc<ObjectKey>, held: Held<V>) -> (Arc<ObjectKey>, Option<Arc<V>>) {
        let old = self.remove(&key);
        // The key that is there already is shared with others; keep it.
        let (key, old) = match old {
            Some((key, old)) => (key, Some(old)),
            None => (key, None),
        };
        for index in &mut self.indexes {
            index.insert(&key, &held.value);
        }
        self.objects.insert(key.clone(), held);
        (key, old)
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<(Arc<ObjectKey>, Arc<V>)> {
        let (key, held) = self.objects.remove_entry(key)?;
        for index in &mut self.indexes {
            index.remove(&key, &held.value);
        }
        Some((key, held.value))
    }
}

impl<V> Index<V> {
    fn insert(&mut self, key: &Arc<ObjectKey>, value: &V) {
        for entry in (self.keys)(key, value) {
            match self.entries.get_mut(&*entry) {
                Some(keys) => keys.insert(key),
                None => drop(self.entries.insert(entry.into(), Keys::One(key.clone()))),
            }
        }
    }

    fn remove(&mut self, key: &Arc<ObjectKey>, value: &V) {
        for entry in (self.keys)(key, value) {
            if self.entries.get_mut(&*entry).is_some_and(|keys| keys.remove(key)) {
                self.entries.remove(&*entry);
            }
        }
    }
}

impl Keys {
    fn iter(&self) -> impl Iterator<Item = &Arc<ObjectKey>> {
        let (one, many) = match self {
            Self::One(key) => (Some(key), None),
            Self::Many(keys) => (None, Some(keys)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(keys) => keys.len(),
        }
    }

    fn insert(&mut self, key: &Arc<ObjectKey>) {
        match self {
            Self::One(first) if first == key => {}
            Self::One(first) => *self = Self::Many([first.clone(), key.clone()].into()),
            Self::Many(keys) => drop(keys.insert(key.clone())),
        }
    }

    /// Whether none is left.
    fn remove(&mut self, key: &ObjectKey) -> bool {
        match self {
            Self::One(only) => **only == *key,
            Self::Many(keys) => {
                keys.remove(key);
                keys.is_empty()
            }
        }
    }
}
