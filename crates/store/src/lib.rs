//! The objects of one logical cluster: revisions, compare-and-swap, snapshots and watches.
//!
//! [`Store`] is one cluster. Objects are kept as their encoded JSON, with the few
//! facts that selectors and controllers ask for beside it in [`Head`]. A commit
//! takes the next revision of the cluster, splices it into the bytes as
//! `metadata.resourceVersion`, remembers the event in a ring and hands it to the
//! watchers that asked for it, all under one short lock.
//!
//! With a backend there are two views. `read`, `read_list`, `list_at` and watches are for
//! whoever asks from outside and show only what is durable. `get` and `list` show the last
//! commit, for whoever is about to write: changes become durable in their order, so that no
//! write outlives what it was decided on.
//!
//! [`durable`] keeps it on disk, [`env`](mod@env) brings time, chance and faults. Knows nothing of HTTP, schemas or
//! kinds.

mod backend;
mod commit;
mod disturb;
pub mod durable;
mod encoded;
pub mod env;
mod follow;
mod head;
mod history;
mod labelled;
mod page;
mod serving;
mod size;
mod table;
#[cfg(test)]
mod tests;
mod uid;
mod waiting;
mod watch;
mod watchers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;

pub use backend::{Backend, BackendError, Committed, Past, PastEvent, Publisher, Restored};
pub use commit::{Change, CommitError, Expect, Write};
pub use encoded::{Encoded, without_revision};
pub use follow::{Followed, Follower};
pub use head::{Head, Iter as PairsIter, Pairs};
pub use page::PageError;
pub use size::Footprint;
pub use uid::Uid;
pub use watch::{Filter, OwnedScope, Selects, Subscription, WatchEnd, WatchEvent, WatchFrom};

use crate::env::Env;
use follow::Followers;
use page::Pages;
use serving::Unserved;
use table::Table;

/// A resource, as `plural` or `plural.group`: `pods`, `deployments.apps`.
pub type Resource = Arc<str>;

/// Where an object stands within its resource. Orders by namespace, then name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
}

/// One version of one object. Never changes once committed.
#[derive(Debug)]
pub struct Stored {
    /// Its place.
    pub key: ObjectKey,
    /// The cluster revision that wrote it.
    pub revision: u64,
    /// What selectors and controllers ask for without parsing.
    pub head: Head,
    /// The whole object as compact JSON, `resourceVersion` included. Do not clone it, use
    /// [`Stored::body`]: the first clone makes it cost 32 bytes more for good.
    pub json: Bytes,
}

/// The part of a resource that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// The whole resource.
    All,
    /// One namespace of it.
    Namespace(&'a str),
    /// One object.
    Object(&'a ObjectKey),
}

/// Objects as they stood at one revision, ordered by namespace and name.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The revision.
    pub revision: u64,
    /// The objects.
    pub items: Vec<Arc<Stored>>,
}

/// How much a store remembers and how long it waits for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Events kept for each resource.
    pub history: usize,
    /// Bytes of JSON kept in the events of each resource, and waiting for a slow watcher.
    pub history_bytes: usize,
    /// Bytes of memory for the events of all resources together.
    pub history_total: usize,
    /// Events that a backend keeps over a restart.
    pub log: usize,
    /// Bytes of JSON in them.
    pub log_bytes: usize,
    /// Whether readers see changes before they are durable. Only to measure what it costs
    /// not to: what they see may be gone after a power cut, and no event is kept over a
    /// restart.
    pub early_reads: bool,
    /// Events that may wait for a slow watcher before it is cut off.
    pub queue: usize,
    /// Snapshots kept for clients that read in pages.
    pub pages: usize,
    /// How long such a snapshot is kept.
    pub page_life: Duration,
    /// Objects of Kubernetes' kind Event that a server keeps. They are the one kind that a
    /// cluster makes more of the longer it is used.
    pub event_objects: usize,
}

/// The revision asked for is no longer known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct Expired {
    /// What was asked for.
    pub asked: u64,
    /// The oldest revision that could have been.
    pub oldest: u64,
}

/// One logical cluster.
pub struct Store {
    shared: Arc<Shared>,
    backend: Option<Arc<dyn Backend>>,
}

/// What a store shares with its subscriptions.
struct Shared {
    env: Env,
    limits: Limits,
    /// Everything up to this revision has reached the queues of its watchers.
    published: AtomicU64,
    state: RwLock<State>,
    pages: Pages,
}

struct State {
    /// The last revision handed out.
    last_commit: u64,
    /// The last revision that readers and watchers see.
    served: u64,
    /// What they do not see yet, oldest first.
    unserved: VecDeque<Unserved>,
    /// What the histories of all tables cost.
    history_cost: usize,
    /// History before this is forgotten for resources not yet written, too.
    floor: u64,
    next_watch: u64,
    /// Who follows all resources.
    followers: Followers,
    tables: BTreeMap<Resource, Table>,
}

impl Store {
    /// An empty cluster in memory.
    pub fn new(env: Env, limits: Limits) -> Arc<Self> {
        Self::build(env, limits, None, State::at(1))
    }

    /// A cluster as a backend kept it. `revision` must not be below any that was ever
    /// served.
    pub fn restore(
        env: Env,
        limits: Limits,
        backend: Arc<dyn Backend>,
        objects: impl IntoIterator<Item = Restored>,
        past: Past,
        revision: u64,
    ) -> Arc<Self> {
        let mut state = State::at(revision.max(1));
        for Restored { resource, key, revision, head, json } in objects {
            state.last_commit = state.last_commit.max(revision);
            let table = state.table(&resource);
            let key = table.shared(key);
            table.put(Arc::new(Stored::new(key, revision, head, &json)));
        }
        state.served = state.last_commit;
        state.remember(past, &limits);
        Self::build(env, limits, Some(backend), state)
    }

    fn build(
        env: Env,
        limits: Limits,
        backend: Option<Arc<dyn Backend>>,
        state: State,
    ) -> Arc<Self> {
        let published = AtomicU64::new(state.served);
        let pages = Pages::new(&env, &limits);
        let state = RwLock::new(state);
        let shared = Arc::new(Shared { env, limits, published, state, pages });
        if let Some(backend) = &backend {
            backend.publish_to(Publisher(Arc::downgrade(&shared)));
        }
        Arc::new(Self { shared, backend })
    }

    /// The last revision that readers see. A new cluster is at 1.
    pub fn revision(&self) -> u64 {
        // Under the lock: a watcher may hold an event whose commit is about to publish it,
        // and must not then find the store behind itself.
        self.shared.read().served
    }

    /// The last revision handed out, which may not be durable yet.
    pub fn last_commit(&self) -> u64 {
        self.shared.read().last_commit
    }

    /// The oldest revision from which a resource can be watched or listed.
    pub fn oldest(&self, resource: &str) -> u64 {
        self.shared.read().oldest(resource)
    }

    /// The last revision that touched any of these resources; 0 when none ever did.
    pub fn last_change(&self, resources: &[&str]) -> u64 {
        let state = self.shared.read();
        let changes = resources.iter().filter_map(|name| state.tables.get(*name));
        changes.map(|table| table.changed).max().unwrap_or_default()
    }

    /// The objects of a resource that were committed after a revision, and how many there are in
    /// all: fewer than are known means that some are gone.
    pub fn changed_since(&self, resource: &str, revision: u64) -> (Vec<Arc<Stored>>, usize) {
        let state = self.shared.read();
        let Some(table) = state.tables.get(resource) else { return (Vec::new(), 0) };
        if table.changed <= revision {
            return (Vec::new(), table.len());
        }
        let changed = table.walk(Scope::All).filter(|object| object.revision > revision);
        (changed.cloned().collect(), table.len())
    }

    /// One object as it was committed last, durable or not.
    pub fn get(&self, resource: &str, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.shared.read().tables.get(resource)?.get(key).cloned()
    }

    /// The objects of a scope as they were committed last, durable or not.
    pub fn list(&self, resource: &str, within: Scope<'_>) -> Snapshot {
        let state = self.shared.read();
        let table = state.tables.get(resource);
        let items = table.map(|table| table.walk(within).cloned().collect()).unwrap_or_default();
        Snapshot { revision: state.last_commit, items }
    }

    /// One object as readers see it.
    pub fn read(&self, resource: &str, key: &ObjectKey) -> Option<Arc<Stored>> {
        let state = self.shared.read();
        state.tables.get(resource)?.get_at(key, state.served).cloned()
    }

    /// The objects of a scope as readers see them.
    pub fn read_list(&self, resource: &str, within: Scope<'_>) -> Snapshot {
        let state = self.shared.read();
        let table = state.tables.get(resource);
        let items = table.map(|table| table.walk_at(within, state.served)).unwrap_or_default();
        Snapshot { revision: state.served, items }
    }

    /// As [`Store::read_list`], and need not hold objects whose label has another value: in a
    /// large table the cost is that of what is found. Whoever asks still judges each.
    pub fn read_labelled(
        &self,
        resource: &str,
        within: Scope<'_>,
        label: (&str, &str),
    ) -> Snapshot {
        let state = self.shared.read();
        let table = state.tables.get(resource);
        let items = table.map(|table| table.walk_labelled_at(within, label, state.served));
        Snapshot { revision: state.served, items: items.unwrap_or_default() }
    }

    /// The objects of a scope as they were. A revision in the future gives the present.
    pub fn list_at(
        &self,
        resource: &str,
        within: Scope<'_>,
        revision: u64,
    ) -> Result<Snapshot, Expired> {
        let state = self.shared.read();
        let revision = revision.min(state.served);
        state.reaches(resource, revision)?;
        let table = state.tables.get(resource);
        let items = table.map(|table| table.walk_at(within, revision)).unwrap_or_default();
        Ok(Snapshot { revision, items })
    }

    /// The resources that have objects, in alphabetical order.
    pub fn resources(&self) -> Vec<Resource> {
        let state = self.shared.read();
        let used = state.tables.iter().filter(|(_, table)| table.len() > 0);
        used.map(|(resource, _)| resource.clone()).collect()
    }

    /// Drops a resource whose definition was removed and closes its watches. What it was
    /// before cannot be watched or listed again.
    pub fn forget(&self, resource: &str) {
        let mut state = self.shared.write();
        let revision = state.last_commit;
        let Some((name, forgotten)) = state.tables.remove_entry(resource) else { return };
        // An empty table stays, for it knows that there was a past.
        let table = state.table(&name);
        table.history.compact(revision + 1);
        // Whoever watches still sees what went before.
        table.watchers = forgotten.watchers;
        state.history_cost -= forgotten.history.cost();
        state.unserved.push_back(Unserved::Forget(name, revision));
        let served = state.served;
        let wakers = state.serve(served, &self.shared.limits);
        if let Some(backend) = &self.backend {
            backend.forget(resource, revision);
        }
        drop(state);
        self.shared.pages.forget(resource);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Replaces the selectable fields of every object of a resource, where `fields` gives
    /// them. No revision is taken and nobody is told: the objects have not changed, only
    /// what may be asked of them.
    pub fn reselect(&self, resource: &str, fields: impl Fn(&Stored) -> Option<Pairs>) {
        let found: Vec<(Arc<Stored>, Pairs)> = self
            .list(resource, Scope::All)
            .items
            .into_iter()
            .filter_map(|stored| fields(&stored).map(|pairs| (stored, pairs)))
            .filter(|(stored, pairs)| stored.head.fields != *pairs)
            .collect();
        let mut state = self.shared.write();
        let Some(table) = state.tables.get_mut(resource) else { return };
        for (stored, fields) in found {
            // What was written meanwhile has its fields already.
            if table.get(&stored.key).is_some_and(|there| Arc::ptr_eq(there, &stored)) {
                let head = Head { fields, ..stored.head.clone() };
                let json = Bytes::copy_from_slice(&stored.json);
                let (key, revision) = (stored.key.clone(), stored.revision);
                table.put(Arc::new(Stored { key, revision, head, json }));
            }
        }
    }

    /// Forgets the history below a revision, of one resource or of all, so that watching
    /// or listing from before it is [`Expired`]. Open watches go on.
    pub fn compact(&self, resource: Option<&str>, below: u64) {
        self.shared.compact(resource, below);
    }

    /// Ends all watches, as when the cluster is removed. Also done when the store is dropped.
    pub fn close(&self) {
        let mut state = self.shared.write();
        let mut wakers = state.followers.close();
        let tables = state.tables.values_mut();
        wakers.extend(tables.flat_map(|table| table.watchers.close(WatchEnd::Closed)));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until everything up to `revision` is durable; at once without a backend.
    pub async fn settled(&self, revision: u64) -> Result<(), BackendError> {
        match &self.backend {
            Some(backend) => backend.settled(revision).await,
            None => Ok(()),
        }
    }

    /// Whether readers see a commit as soon as it is made.
    fn serves_at_once(&self) -> bool {
        self.backend.is_none() || self.shared.limits.early_reads
    }

    /// What a person should know about where changes are kept; `None` if all is well.
    pub fn trouble(&self) -> Option<String> {
        self.backend.as_ref()?.trouble()
    }

    /// Time, chance and failure, as this cluster sees them.
    pub fn env(&self) -> &Env {
        &self.shared.env
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    // A panic under the lock leaves the state whole: only a filter could panic there, and
    // filters run when the commit is done.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn compact(&self, resource: Option<&str>, below: u64) {
        let mut state = self.write();
        let below = below.min(state.served + 1);
        match resource {
            Some(resource) => {
                let resource = state.resource(resource);
                state.table(&resource).history.compact(below);
            }
            None => {
                state.floor = state.floor.max(below.saturating_sub(1));
                state.tables.values_mut().for_each(|table| table.history.compact(below));
            }
        }
        state.count_history();
        drop(state);
        self.pages.compact(resource, below);
    }
}

impl State {
    fn at(revision: u64) -> Self {
        let (unserved, tables) = (VecDeque::new(), BTreeMap::new());
        let (served, history_cost) = (revision, 0);
        Self {
            last_commit: revision,
            served,
            unserved,
            history_cost,
            floor: 0,
            next_watch: 0,
            followers: Followers::default(),
            tables,
        }
    }

    fn oldest(&self, resource: &str) -> u64 {
        let table = self.tables.get(resource);
        self.floor.max(table.map_or(0, |table| table.history.floor()))
    }

    /// Whether everything after a revision is still known.
    fn reaches(&self, resource: &str, revision: u64) -> Result<(), Expired> {
        let oldest = self.oldest(resource);
        if revision < oldest { Err(Expired { asked: revision, oldest }) } else { Ok(()) }
    }

    fn table(&mut self, resource: &Resource) -> &mut Table {
        if !self.tables.contains_key(resource) {
            self.tables.insert(resource.clone(), Table::default());
        }
        self.tables.get_mut(resource).expect("it was there or has just been inserted")
    }

    /// The shared text of a resource's name.
    fn resource(&self, resource: &str) -> Resource {
        let known = self.tables.get_key_value(resource);
        known.map_or_else(|| resource.into(), |(resource, _)| resource.clone())
    }
}

impl ObjectKey {
    /// `namespace` is empty for cluster-scoped objects.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl Stored {
    fn new(key: ObjectKey, revision: u64, head: Head, json: &Encoded) -> Self {
        Self { key, revision, head, json: json.at(revision) }
    }

    /// Its JSON to be sent, without a copy. Holds the whole object while it lives.
    pub fn body(self: &Arc<Self>) -> Bytes {
        struct Held(Arc<Stored>);
        impl AsRef<[u8]> for Held {
            fn as_ref(&self) -> &[u8] {
                &self.0.json
            }
        }
        Bytes::from_owner(Held(self.clone()))
    }

    /// The same object under another revision.
    fn moved_to(&self, revision: u64) -> Self {
        let json = encoded::respliced(&self.json, revision);
        Self { key: self.key.clone(), revision, head: self.head.clone(), json }
    }
}

impl Scope<'_> {
    /// The place before which nothing of it lies.
    fn first(&self) -> ObjectKey {
        match self {
            Self::All => ObjectKey::new("", ""),
            Self::Namespace(namespace) => ObjectKey::new(*namespace, ""),
            Self::Object(key) => (*key).clone(),
        }
    }

    /// Whether a place lies in it.
    pub fn covers(&self, key: &ObjectKey) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => *key.namespace == **namespace,
            Self::Object(only) => *only == key,
        }
    }
}

impl Default for Limits {
    /// For a cluster that people and many controllers use.
    fn default() -> Self {
        Self {
            history: 1024,
            history_bytes: 16 << 20,
            history_total: 64 << 20,
            log: 4096,
            log_bytes: 4 << 20,
            early_reads: false,
            queue: 1024,
            pages: 16,
            page_life: Duration::from_secs(300),
            event_objects: 5_000,
        }
    }
}

impl Limits {
    /// For one of thousands of members: little history, few pages.
    pub fn member() -> Self {
        Self {
            history: 128,
            history_bytes: 1 << 20,
            history_total: 2 << 20,
            log: 256,
            log_bytes: 256 << 10,
            queue: 256,
            pages: 2,
            event_objects: 500,
            ..Self::default()
        }
    }
}
