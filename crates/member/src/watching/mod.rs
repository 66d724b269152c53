//! Watches what Works brought to the member, so that a change shows on the hub at once.
//!
//! One watch per kind, shared by all Works that have an object of it, and ended with the
//! last of them. Only our objects are kept, and of each only a [`Mark`]. A watch decides
//! nothing: it makes the Work be looked at. Where a member does not let us watch, looks
//! come by the clock alone.
//!
//! While a Work is being processed its own writes come back here; so a change counts only
//! if it is newer than what the pass saw, and that is settled when the pass ends.

mod contention;
mod mark;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use flagship_api::names::ObjectKey;
use flagship_runtime::client::{ResourceType, Selection};
use flagship_runtime::queue::Queue;
use flagship_runtime::reflector::{Change, Reflector, Store, Subscription};
use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::member::Context;
use contention::ContentionBackOff;
pub(crate) use mark::Mark;

/// An object on the member.
pub(crate) type Place = (ResourceType, ObjectKey);

/// What is watched, and for whom. Clones share it.
#[derive(Clone)]
pub(crate) struct Watches(Arc<Shared>);

struct Shared {
    cx: Context,
    queue: Queue<ObjectKey>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kinds: BTreeMap<ResourceType, Watched>,
    works: BTreeMap<ObjectKey, Interest>,
    tasks: JoinSet<()>,
}

/// The watch of one kind.
struct Watched {
    task: AbortHandle,
    store: Store<Mark>,
    objects: BTreeMap<ObjectKey, Object>,
    _subscription: Subscription,
}

/// An object that Works care about.
#[derive(Default)]
struct Object {
    works: BTreeSet<ObjectKey>,
    /// As the last pass saw it; `None` if it was not there.
    known: Option<Mark>,
    /// It went after the last pass began.
    gone: bool,
}

/// What a Work cares about.
#[derive(Default)]
struct Interest {
    places: BTreeSet<Place>,
    /// It is being processed.
    busy: bool,
    /// Every change matters, even one of a mere status.
    every: bool,
    /// Of the Work that was last processed.
    generation: i64,
    back_off: ContentionBackOff,
}

impl Watches {
    pub fn new(cx: &Context, queue: &Queue<ObjectKey>) -> Self {
        let (cx, queue, state) = (cx.clone(), queue.clone(), Mutex::default());
        Self(Arc::new(Shared { cx, queue, state }))
    }

    /// A pass over a Work begins that will look at these objects. `generation` is that of
    /// the Work: what follows an edit is its effect, not a fight.
    pub fn begin(
        &self,
        work: &ObjectKey,
        generation: i64,
        places: impl IntoIterator<Item = Place>,
        every: bool,
    ) {
        if !self.0.cx.options.watch_applied {
            return;
        }
        let places: Vec<Place> = places.into_iter().collect();
        let missing: BTreeSet<ResourceType> = {
            let state = self.0.state();
            let kinds = places.iter().map(|(kind, _)| kind);
            kinds.filter(|kind| !state.kinds.contains_key(kind)).cloned().collect()
        };
        for kind in missing {
            self.watch(kind);
        }
        let mut state = self.0.state();
        let interest = state.works.entry(work.clone()).or_default();
        interest.busy = true;
        interest.every = every;
        if interest.generation != generation {
            interest.generation = generation;
            interest.back_off = ContentionBackOff::default();
        }
        interest.places.extend(places.iter().cloned());
        for (kind, key) in places {
            if let Some(watched) = state.kinds.get_mut(&kind) {
                let object = watched.objects.entry(key).or_default();
                object.gone = false;
                object.works.insert(work.clone());
            }
        }
    }

    /// A pass ended. What it saw is known, and what it no longer asks for is let go.
    pub fn end(&self, work: &ObjectKey, saw: Vec<(Place, Option<Mark>)>) {
        let mut state = self.0.state();
        let wanted: BTreeSet<Place> = saw.iter().map(|(place, _)| place.clone()).collect();
        state.release(work, |place| !wanted.contains(place));
        let Some(interest) = state.works.get_mut(work) else { return };
        interest.busy = false;
        let every = interest.every;
        let mut overtaken = false;
        for ((kind, key), mark) in saw {
            let Some(watched) = state.kinds.get_mut(&kind) else { continue };
            let shown = watched.store.get(&key);
            let object = watched.objects.entry(key).or_default();
            // One that is not shown may only be on its way to us, unless we saw it go.
            let tells = shown.is_some() || object.gone;
            overtaken |= tells && is_change(mark.as_ref(), shown.as_deref(), every);
            object.known = mark;
        }
        if overtaken {
            self.0.wake(&mut state, work);
        }
    }

    /// A pass ended before it saw anything; whatever changes from now on counts.
    pub fn abandon(&self, work: &ObjectKey) {
        if let Some(interest) = self.0.state().works.get_mut(work) {
            interest.busy = false;
        }
    }

    /// The Work is gone.
    pub fn forget(&self, work: &ObjectKey) {
        let mut state = self.0.state();
        state.release(work, |_| true);
        state.works.remove(work);
    }

    fn watch(&self, kind: ResourceType) {
        let shared = &self.0;
        let (ours, watched) = (Arc::downgrade(shared), kind.clone());
        let is_wanted = move |key: &ObjectKey| {
            ours.upgrade().is_some_and(|shared| shared.state().is_wanted(&watched, key))
        };
        let (env, client) = (&shared.cx.env, &shared.cx.member);
        if mark::needs_whole(&kind) {
            let of = kind.clone();
            let read = move |object: DynamicObject| Mark::of_whole(&of, object);
            let objects = client.of_type(kind.clone());
            self.start(kind, Reflector::new(env, objects, Selection::all(), kept(is_wanted, read)));
        } else {
            let read = |object: PartialObjectMeta<DynamicObject>| Mark::of_meta(&object.metadata);
            let objects = client.of_type(kind.clone()).metadata_only();
            self.start(kind, Reflector::new(env, objects, Selection::all(), kept(is_wanted, read)));
        }
    }

    fn start<K>(&self, kind: ResourceType, reflector: Reflector<K, Mark>)
    where
        K: kube_core::Resource + serde::de::DeserializeOwned + Send + 'static,
    {
        // An object may have been listed before a Work asked for it.
        let reflector = reflector.with_deletes_of_unkept();
        let store = reflector.store();
        let (ours, of) = (Arc::downgrade(&self.0), kind.clone());
        let subscription = store.subscribe(move |change| changed(&ours, &of, change));
        let mut state = self.0.state();
        if state.kinds.contains_key(&kind) {
            return; // another pass was faster
        }
        while state.tasks.try_join_next().is_some() {}
        let task = state.tasks.spawn(reflector.run());
        let objects = BTreeMap::new();
        let watched = Watched { task, store, objects, _subscription: subscription };
        state.kinds.insert(kind, watched);
    }
}

/// Keeps marks of the objects that somebody cares about.
fn kept<K: kube_core::Resource>(
    is_wanted: impl Fn(&ObjectKey) -> bool + Send + Sync,
    read: impl Fn(K) -> Option<Mark> + Send + Sync,
) -> impl Fn(K) -> Option<Mark> + Send + Sync {
    move |object| {
        let wanted = flagship_runtime::client::key_of(&object).is_some_and(|key| is_wanted(&key));
        if wanted { read(object) } else { None }
    }
}

fn changed(shared: &Weak<Shared>, kind: &ResourceType, change: &Change<Mark>) {
    let Some(shared) = shared.upgrade() else { return };
    let mut guard = shared.state();
    let state = &mut *guard;
    let watched = state.kinds.get_mut(kind);
    let object = watched.and_then(|watched| watched.objects.get_mut(&change.key));
    let Some(object) = object else { return };
    object.gone = change.new.is_none();
    let mut concerned = Vec::new();
    for work in &object.works {
        let Some(interest) = state.works.get(work) else { continue };
        let changed = is_change(object.known.as_ref(), change.new.as_deref(), interest.every);
        if changed && !interest.busy {
            concerned.push(work.clone());
        }
    }
    for work in concerned {
        shared.wake(state, &work);
    }
}

/// Whether what is shown is newer than what is known, and says something else.
fn is_change(known: Option<&Mark>, shown: Option<&Mark>, every: bool) -> bool {
    match (known, shown) {
        (Some(known), Some(shown)) => {
            shown.revision > known.revision && (every || !shown.says_the_same(known))
        }
        (None, None) => false,
        (Some(_), None) | (None, Some(_)) => true,
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, state: &mut State, work: &ObjectKey) {
        if let Some(interest) = state.works.get_mut(work) {
            let pause = interest.back_off.pause(Instant::now());
            self.queue.add_after(work.clone(), pause);
        }
    }
}

impl State {
    fn is_wanted(&self, kind: &ResourceType, key: &ObjectKey) -> bool {
        self.kinds.get(kind).is_some_and(|watched| watched.objects.contains_key(key))
    }

    /// Ends the interest of a Work in some of its objects, and watches with nothing left.
    fn release(&mut self, work: &ObjectKey, which: impl Fn(&Place) -> bool) {
        let Some(interest) = self.works.get_mut(work) else { return };
        let gone: Vec<Place> = interest.places.iter().filter(|p| which(p)).cloned().collect();
        interest.places.retain(|place| !which(place));
        for (kind, key) in gone {
            let Some(watched) = self.kinds.get_mut(&kind) else { continue };
            if let Some(object) = watched.objects.get_mut(&key) {
                object.works.remove(work);
                if object.works.is_empty() {
                    watched.objects.remove(&key);
                }
            }
            if watched.objects.is_empty() {
                watched.task.abort();
                self.kinds.remove(&kind);
            }
        }
    }
}
