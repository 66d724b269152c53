//! Follows the changes of all resources of a cluster at once.
//!
//! A watch of each would cost a cluster, which knows some seventy resources and has objects of
//! a dozen, more memory than its objects. [`Follower`] yields changes from its beginning on;
//! what was there before, its reader lists. It begins first and lists then, so that nothing is
//! lost between, and leaves out what a list has shown.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use super::history::Event;
use super::waiting::{HasSize, Waiting, WaitingLimits};
use super::watch::WatchEnd;
use super::{Resource, Shared, Store, Stored};

/// How many times as much may wait for a follower as for a watch of one resource, so that one
/// busy resource does not cut it off.
const RESOURCES_AT_ONCE: usize = 8;

/// A change of any resource.
#[derive(Debug, Clone)]
pub enum Followed {
    /// An object was created, changed or deleted.
    Changed {
        /// Its resource.
        resource: Resource,
        /// As written; as it was last, when it is gone.
        object: Arc<Stored>,
        /// Whether it was deleted.
        gone: bool,
    },
    /// The resource does not exist any more, and none of its objects do.
    Forgotten {
        /// Which one.
        resource: Resource,
        /// The cluster's revision then: a later list may show a namesake.
        revision: u64,
    },
}

/// Those who follow a cluster.
#[derive(Default)]
pub(super) struct Followers {
    open: Vec<Weak<Waiting<Followed>>>,
    /// Whether there will be no more changes.
    closed: bool,
}

/// Yields the changes of all resources. Dropping it ends it.
pub struct Follower(Arc<Waiting<Followed>>);

impl Store {
    /// Begins to follow all resources.
    pub fn follow(&self) -> Follower {
        let Shared { limits, .. } = &*self.shared;
        let events = limits.queue.saturating_mul(RESOURCES_AT_ONCE);
        let bytes = limits.history_bytes.saturating_mul(RESOURCES_AT_ONCE);
        let waiting = Arc::new(Waiting::new(WaitingLimits { events, bytes }));
        let followers = &mut self.shared.write().followers;
        match followers.closed {
            true => drop(waiting.close(WatchEnd::Closed)),
            false => followers.open.push(Arc::downgrade(&waiting)),
        }
        Follower(waiting)
    }
}

impl Follower {
    /// The next change, in the order of revisions. `None` when there will be no more.
    pub fn poll(&self, context: &Context<'_>) -> Poll<Option<Followed>> {
        self.0.poll(context)
    }

    /// Why it ended; `None` while it goes on.
    pub fn why_closed(&self) -> Option<WatchEnd> {
        self.0.closed()
    }
}

impl Followers {
    pub(super) fn deliver(&mut self, resource: &Resource, event: &Event) -> Vec<Waker> {
        let (resource, object) = (resource.clone(), event.now.clone());
        self.tell(&Followed::Changed { resource, object, gone: event.gone })
    }

    pub(super) fn forget(&mut self, resource: &Resource, revision: u64) -> Vec<Waker> {
        self.tell(&Followed::Forgotten { resource: resource.clone(), revision })
    }

    fn tell(&mut self, change: &Followed) -> Vec<Waker> {
        let mut wakers = Vec::new();
        self.open.retain(|follower| {
            follower.upgrade().is_some_and(|follower| follower.push(change.clone(), &mut wakers))
        });
        wakers
    }

    pub(super) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        let followers = std::mem::take(&mut self.open).into_iter();
        let open = followers.filter_map(|follower| follower.upgrade());
        open.filter_map(|follower| follower.close(WatchEnd::Closed)).collect()
    }
}

impl HasSize for Followed {
    fn bytes(&self) -> usize {
        match self {
            Self::Changed { object, .. } => object.json.len(),
            Self::Forgotten { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use futures::task::noop_waker_ref;

    use super::*;
    use crate::env::Env;
    use crate::{Change, Encoded, Expect, Head, Limits, ObjectKey, Write};

    fn put(store: &Store, resource: &str, name: &str, expect: Expect) -> u64 {
        let change =
            Change::Put { head: Head::default(), json: Encoded::new(&serde_json::json!({})) };
        let key = ObjectKey::new("", name);
        let resource = resource.into();
        store.commit(Write { resource: &resource, key, expect, change }).unwrap().revision
    }

    fn next(follower: &Follower) -> Option<(String, String, bool)> {
        match follower.poll(&Context::from_waker(noop_waker_ref())) {
            Poll::Ready(Some(Followed::Changed { resource, object, gone })) => {
                Some((resource.to_string(), object.key.name.to_string(), gone))
            }
            Poll::Ready(Some(Followed::Forgotten { resource, .. })) => {
                Some((resource.to_string(), "*".to_owned(), true))
            }
            Poll::Ready(None) => None,
            Poll::Pending => Some(("pending".to_owned(), String::new(), false)),
        }
    }

    fn seen(resource: &str, name: &str, gone: bool) -> Option<(String, String, bool)> {
        Some((resource.to_owned(), name.to_owned(), gone))
    }

    #[test]
    fn changes_of_all_resources_come_in_their_order() {
        let store = Store::new(Env::simulated(1), Limits::default());
        put(&store, "pods", "before", Expect::Absent);
        let follower = store.follow();
        let first = put(&store, "pods", "a", Expect::Absent);
        put(&store, "nodes", "b", Expect::Absent);
        put(&store, "pods", "a", Expect::At(first));
        store.forget("nodes");
        assert_eq!(next(&follower), seen("pods", "a", false));
        assert_eq!(next(&follower), seen("nodes", "b", false));
        assert_eq!(next(&follower), seen("pods", "a", false));
        assert_eq!(next(&follower), seen("nodes", "*", true));
        assert_eq!(next(&follower), seen("pending", "", false));
        store.close();
        assert_eq!(next(&follower), None);
        assert_eq!(follower.why_closed(), Some(WatchEnd::Closed));
    }

    #[test]
    fn one_who_reads_too_slowly_is_cut_off_and_one_who_left_is_forgotten() {
        let limits = Limits { queue: 1, ..Limits::default() };
        let store = Store::new(Env::simulated(1), limits);
        let (slow, gone) = (store.follow(), store.follow());
        drop(gone);
        for number in 0..=RESOURCES_AT_ONCE {
            put(&store, "pods", &number.to_string(), Expect::Absent);
        }
        for number in 0..RESOURCES_AT_ONCE {
            assert_eq!(next(&slow), seen("pods", &number.to_string(), false));
        }
        assert_eq!(next(&slow), None);
        assert_eq!(slow.why_closed(), Some(WatchEnd::Lagged));
        assert!(store.shared.read().followers.open.is_empty());
        // A closed store is followed to its end at once.
        store.close();
        let late = store.follow();
        assert_eq!(next(&late), None);
        assert_eq!(late.why_closed(), Some(WatchEnd::Closed));
    }
}
