//! Following the changes of a resource.
//!
//! A [`Subscription`] first yields what was there (the current objects, or the events
//! since a revision), then what is committed from then on; between the two nothing is lost
//! or doubled, for both begin under one lock. Objects and old events are filtered when they
//! are read, new ones when they are committed.
//!
//! Who is told of a commit is decided in `watchers`.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::vec;

use futures::Stream;

use super::disturb::Disturbed;
use super::history::Event;
use super::waiting::{HasSize, WaitingLimits};
use super::watchers::WatchBuffer;
use super::{Expired, Head, ObjectKey, Resource, Scope, Shared, Store, Stored};
use crate::env::Call;

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFrom {
    /// With the next commit.
    Now,
    /// With the first event after this revision, which may also lie in the future.
    After(u64),
    /// With an [`WatchEvent::Added`] for every current object, then [`WatchEvent::InitialDone`].
    CurrentThenLive,
    /// The same, where "current" is never older than this revision, which has been reached.
    CurrentNotOlderThan(u64),
}

/// What a watch wants to see.
#[derive(Clone, Default)]
pub struct Filter {
    /// Where.
    pub scope: OwnedScope,
    /// Which of the objects there; all when `None`. Runs under the store's lock: it must
    /// be quick, must not call the store and must not panic.
    pub selects: Option<Selects>,
}

/// Decides on an object by its place and its facts.
pub type Selects = Arc<dyn Fn(&ObjectKey, &Head) -> bool + Send + Sync>;

/// A [`Scope`] that owns its names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OwnedScope {
    /// The whole resource.
    #[default]
    All,
    /// One namespace of it.
    Namespace(Arc<str>),
    /// One object.
    Object(ObjectKey),
}

/// What a watch yields.
#[derive(Debug, Clone)]
pub enum WatchEvent {
    /// The object was created, begins to match, or was there from the beginning.
    Added(Arc<Stored>),
    /// The object was changed.
    Modified(Arc<Stored>),
    /// The object was deleted or matches no longer. It is shown as it last matched, with
    /// the revision of the change that ended it.
    Deleted(Arc<Stored>),
    /// All current objects have been yielded, as they stood at this revision.
    InitialDone(u64),
}

/// Why a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    /// It was read too slowly. Resume after the last revision that was read.
    Lagged,
    /// A fault ended it.
    Dropped,
    /// The resource does not exist any more.
    Forgotten,
    /// The cluster does not exist any more.
    Closed,
}

impl Store {
    /// Begins a watch.
    pub fn watch(
        &self,
        resource: &str,
        from: WatchFrom,
        filter: Filter,
    ) -> Result<Subscription, Expired> {
        self.watch_back(resource, from, filter, 0)
    }

    /// Begins a watch for which "current" means some revisions ago.
    fn watch_back(
        &self,
        resource: &str,
        from: WatchFrom,
        filter: Filter,
        back: u64,
    ) -> Result<Subscription, Expired> {
        let shared = &self.shared;
        let mut guard = shared.write();
        let state = &mut *guard;
        // What is not served yet comes when it is.
        let revision = state.served;
        if let WatchFrom::After(after) = from {
            state.reaches(resource, after)?;
        }
        let bound = match from {
            WatchFrom::CurrentNotOlderThan(bound) => bound.min(revision),
            WatchFrom::Now | WatchFrom::After(_) | WatchFrom::CurrentThenLive => 0,
        };
        let then = revision.saturating_sub(back).max(state.oldest(resource)).max(bound);
        let id = state.next_watch;
        let resource = state.resource(resource);
        let table = state.table(&resource);
        let scope = filter.scope.borrow();
        let (initial, after, done) = match from {
            WatchFrom::Now => (Vec::new(), revision, None),
            WatchFrom::After(after) => (Vec::new(), after, None),
            WatchFrom::CurrentThenLive | WatchFrom::CurrentNotOlderThan(_) => {
                (table.walk_at(scope, then), then, Some(then))
            }
        };
        let missed = table.history.after(after).take_while(|event| event.revision() <= revision);
        let backlog = missed.filter(|event| scope.covers(&event.now.key)).cloned().collect();
        // While current objects are still to come, nothing can be promised.
        let read = if done.is_some() { 0 } else { after };
        let limits =
            WaitingLimits { events: shared.limits.queue, bytes: shared.limits.history_bytes };
        let buffer = Arc::new(WatchBuffer::new(id, filter, after, limits));
        table.watchers.add(buffer.clone());
        state.next_watch += 1;
        drop(guard);
        Ok(Subscription {
            shared: shared.clone(),
            resource,
            buffer,
            initial: initial.into_iter(),
            done,
            backlog,
            read,
            disturbed: None,
        })
    }

    /// Begins a watch that faults may disturb.
    pub fn watch_as(
        &self,
        resource: &str,
        from: WatchFrom,
        filter: Filter,
        call: &Call<'_>,
    ) -> Result<Subscription, Expired> {
        let faults = &self.shared.env.faults;
        if faults.is_quiet() {
            return self.watch(resource, from, filter);
        }
        let (from, back) = self.disturbed_start(resource, from, call);
        let mut subscription = self.watch_back(resource, from, filter, back)?;
        subscription.disturbed = Some(Box::new(Disturbed::new(faults.clone(), call)));
        Ok(subscription)
    }
}

/// A watch. Dropping it ends it.
pub struct Subscription {
    pub(super) shared: Arc<Shared>,
    pub(super) resource: Resource,
    pub(super) buffer: Arc<WatchBuffer>,
    /// Current objects still to be yielded.
    initial: vec::IntoIter<Arc<Stored>>,
    /// The revision of `initial`, until its end has been announced.
    done: Option<u64>,
    /// Old events still to be yielded.
    backlog: VecDeque<Event>,
    /// Everything up to this revision has been yielded.
    pub(super) read: u64,
    pub(super) disturbed: Option<Box<Disturbed>>,
}

impl Subscription {
    /// A revision that is safe to send in a bookmark: everything up to it that matches has
    /// been yielded. It is 0 until [`WatchEvent::InitialDone`] has been yielded.
    pub fn progress(&self) -> u64 {
        if let Some(stuck) = self.disturbed.as_ref().and_then(|disturbed| disturbed.stuck_at()) {
            return stuck;
        }
        if self.done.is_some() || !self.backlog.is_empty() {
            return self.read;
        }
        // Read before the queue is looked at: what was published by then is in the queue
        // or has been read.
        let published = self.shared.published.load(Ordering::Acquire);
        self.buffer.progress(self.read, published)
    }

    /// Why the watch ended; `None` while it is open.
    pub fn why_closed(&self) -> Option<WatchEnd> {
        self.buffer.closed()
    }

    pub(super) fn leave(&self) {
        let mut state = self.shared.write();
        if let Some(table) = state.tables.get_mut(&self.resource) {
            table.watchers.remove(&self.buffer);
        }
    }

    /// The next thing, before faults.
    pub(super) fn poll_true(&mut self, context: &Context<'_>) -> Poll<Option<WatchEvent>> {
        let filter = &self.buffer.filter;
        if let Some(object) = self.initial.find(|object| filter.admits(object)) {
            return Poll::Ready(Some(WatchEvent::Added(object)));
        }
        if let Some(revision) = self.done.take() {
            self.read = revision;
            return Poll::Ready(Some(WatchEvent::InitialDone(revision)));
        }
        while let Some(event) = self.backlog.pop_front() {
            self.read = self.read.max(event.revision());
            if let Some(seen) = Judge::new(&event).seen_through(filter) {
                return Poll::Ready(Some(seen));
            }
        }
        let next = self.buffer.poll(context);
        if let Poll::Ready(Some(seen)) = &next {
            self.read = self.read.max(seen.revision());
        }
        next
    }
}

impl Stream for Subscription {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        let this = self.get_mut();
        match this.disturbed {
            None => this.poll_true(context),
            Some(_) => this.poll_disturbed(context),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("resource", &self.resource)
            .field("scope", &self.buffer.filter.scope)
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}

impl WatchEvent {
    /// The revision of the event; for an object that was there from the beginning, the one
    /// that wrote it.
    pub fn revision(&self) -> u64 {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => object.revision,
            Self::InitialDone(revision) => *revision,
        }
    }

    /// The object, if there is one.
    pub fn object(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object),
            Self::InitialDone(_) => None,
        }
    }
}

impl HasSize for WatchEvent {
    fn bytes(&self) -> usize {
        self.object().map_or(0, |object| object.json.len())
    }
}

impl Filter {
    /// Everything in a scope.
    pub fn within(scope: OwnedScope) -> Self {
        Self { scope, selects: None }
    }

    /// Whether an object is wanted.
    pub fn admits(&self, object: &Stored) -> bool {
        self.scope.borrow().covers(&object.key) && self.selected(object)
    }

    fn selected(&self, object: &Stored) -> bool {
        self.selects.as_ref().is_none_or(|selects| selects(&object.key, &object.head))
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let selects = self.selects.is_some();
        f.debug_struct("Filter").field("scope", &self.scope).field("selects", &selects).finish()
    }
}

impl OwnedScope {
    /// The same, borrowed.
    pub fn borrow(&self) -> Scope<'_> {
        match self {
            Self::All => Scope::All,
            Self::Namespace(namespace) => Scope::Namespace(namespace),
            Self::Object(key) => Scope::Object(key),
        }
    }
}

/// Turns one event into what each filter sees of it.
///
/// | matched before | matches now | seen |
/// |---|---|---|
/// | no | yes | `Added` |
/// | yes | yes | `Modified` |
/// | yes | no | `Deleted`: the old object with the new revision |
/// | yes | deleted | `Deleted`: the final object |
/// | no | no or deleted | nothing |
pub(super) struct Judge<'a> {
    event: &'a Event,
    /// The old object with the new revision, made once for everyone who loses sight of it.
    left: Option<Arc<Stored>>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(event: &'a Event) -> Self {
        Self { event, left: None }
    }

    /// The scope has been checked already.
    pub(super) fn seen_through(&mut self, filter: &Filter) -> Option<WatchEvent> {
        let Event { now, before, gone } = self.event;
        let before = before.as_ref().filter(|before| filter.selected(before));
        let matches = !gone && filter.selected(now);
        match (before, matches) {
            (None, true) => Some(WatchEvent::Added(now.clone())),
            (Some(_), true) => Some(WatchEvent::Modified(now.clone())),
            (Some(_), false) if *gone => Some(WatchEvent::Deleted(now.clone())),
            (Some(before), false) => {
                let left = self.left.get_or_insert_with(|| Arc::new(before.moved_to(now.revision)));
                Some(WatchEvent::Deleted(left.clone()))
            }
            (None, false) => None,
        }
    }
}
