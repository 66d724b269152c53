//! What faults do to reads and watches.
//!
//! A delayed event holds back everything behind it, and what has queued up by then comes
//! out with it: the watcher sees nothing for a while and then catches up. The order of
//! events never changes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;

use super::watch::{Subscription, WatchEnd, WatchEvent, WatchFrom};
use super::{ObjectKey, Scope, Snapshot, Store, Stored};
use crate::env::{Call, FaultOutcome, Faults, Point};

/// The part of a subscription that exists only when something may go wrong.
pub(super) struct Disturbed {
    faults: Arc<dyn Faults>,
    cluster: Box<str>,
    who: Box<str>,
    resource: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
    held: Option<Held>,
    /// Events that queued up behind a delayed one and come out without being asked about.
    free: usize,
}

/// An event that waits.
struct Held {
    seen: WatchEvent,
    until: Pin<Box<Sleep>>,
    /// Everything up to here has been yielded.
    read: u64,
}

impl Disturbed {
    pub(super) fn new(faults: Arc<dyn Faults>, call: &Call<'_>) -> Self {
        Self {
            faults,
            cluster: call.cluster.into(),
            who: call.who.into(),
            resource: call.resource.into(),
            namespace: call.namespace.into(),
            name: call.name.into(),
            held: None,
            free: 0,
        }
    }

    /// How far the watch is while it holds an event back.
    pub(super) fn stuck_at(&self) -> Option<u64> {
        self.held.as_ref().map(|held| held.read)
    }

    fn at(&self, point: Point) -> FaultOutcome {
        let call = Call {
            cluster: &self.cluster,
            who: &self.who,
            verb: "watch",
            resource: &self.resource,
            namespace: &self.namespace,
            name: &self.name,
        };
        self.faults.at(point, &call)
    }
}

impl Subscription {
    pub(super) fn poll_disturbed(&mut self, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        let Some(disturbed) = &mut self.disturbed else { return self.poll_true(context) };
        if let Some(held) = &mut disturbed.held {
            ready!(held.until.as_mut().poll(context));
            disturbed.free = self.buffer.queued();
            return Poll::Ready(disturbed.held.take().map(|held| held.seen));
        }
        if self.why_closed() == Some(WatchEnd::Dropped) {
            return Poll::Ready(None);
        }
        let read = self.read;
        let Some(seen) = ready!(self.poll_true(context)) else { return Poll::Ready(None) };
        let Some(disturbed) = &mut self.disturbed else { return Poll::Ready(Some(seen)) };
        if disturbed.free > 0 {
            disturbed.free -= 1;
            return Poll::Ready(Some(seen));
        }
        match disturbed.at(Point::WatchEvent) {
            FaultOutcome::Delay(span) => {
                let until = Box::pin(tokio::time::sleep(span));
                disturbed.held = Some(Held { seen, until, read });
                self.poll_disturbed(context)
            }
            verdict @ (FaultOutcome::Drop | FaultOutcome::Expire | FaultOutcome::Sever) => {
                self.read = read;
                self.cut(verdict == FaultOutcome::Expire);
                Poll::Ready(None)
            }
            _ => Poll::Ready(Some(seen)),
        }
    }

    /// A revision to send in a bookmark now; `None` when none is due: nothing can be
    /// promised yet, or a fault withholds it.
    pub fn bookmark(&mut self) -> Option<u64> {
        if let Some(disturbed) = &self.disturbed {
            match disturbed.at(Point::Bookmark) {
                FaultOutcome::Starve => return None,
                verdict @ (FaultOutcome::Drop | FaultOutcome::Expire | FaultOutcome::Sever) => {
                    self.cut(verdict == FaultOutcome::Expire);
                    return None;
                }
                _ => {}
            }
        }
        Some(self.progress()).filter(|revision| *revision > 0)
    }

    fn cut(&mut self, compact: bool) {
        if compact {
            self.shared.compact(Some(&self.resource), u64::MAX);
        }
        self.leave();
        if let Some(waker) = self.buffer.cut() {
            waker.wake();
        }
    }
}

impl Store {
    /// Applies [`Point::WatchStart`]: where to begin instead, and how old "current" is.
    pub(super) fn disturbed_start(
        &self,
        resource: &str,
        from: WatchFrom,
        call: &Call<'_>,
    ) -> (WatchFrom, u64) {
        match (self.shared.env.faults.at(Point::WatchStart, call), from) {
            (FaultOutcome::Replay(revisions), WatchFrom::After(after)) => {
                let earlier = after.saturating_sub(revisions).max(self.oldest(resource));
                (WatchFrom::After(after.min(earlier)), 0)
            }
            (FaultOutcome::Stale(revisions), from) => (from, revisions),
            (FaultOutcome::Expire, from) => {
                self.compact(Some(resource), u64::MAX);
                (from, 0)
            }
            (_, from) => (from, 0),
        }
    }

    /// A list as it was some revisions ago, or as long ago as is known.
    pub fn list_back(&self, resource: &str, within: Scope<'_>, revisions: u64) -> Snapshot {
        let then = self.revision().saturating_sub(revisions).max(self.oldest(resource));
        // Only a compaction in between can make this fail; then the present will do.
        self.list_at(resource, within, then).unwrap_or_else(|_| self.read_list(resource, within))
    }

    /// An object as it was some revisions ago, or as long ago as is known.
    pub fn get_back(&self, resource: &str, key: &ObjectKey, back: u64) -> Option<Arc<Stored>> {
        self.list_back(resource, Scope::Object(key), back).items.pop()
    }
}
