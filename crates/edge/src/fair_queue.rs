//! A fair queue of users: how many requests of one user are worked on at a time, and whose is next.
//!
//! One user with many requests must not slow down everybody. A request that finds no free turn
//! waits behind the others of its own user, and users take turns one after the other: who sends
//! a single request waits for one turn of each of the others, not for all that they have sent.
//! Who has too many waiting is refused with 429, and clients try again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_base::machinery::status::ApiError;
use tokio::sync::oneshot;

/// The turns of one sort of requests.
pub(super) struct FairQueue {
    /// For all users together.
    most: usize,
    /// For one user.
    most_each: usize,
    /// How many requests of one user may wait.
    waiting_each: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: usize,
    users: BTreeMap<Arc<str>, Own>,
    /// Users with requests that wait, who is next first.
    order: VecDeque<Arc<str>>,
}

/// What one user has.
#[derive(Default)]
struct Own {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// A request's turn, until it is dropped.
pub(super) struct RequestSlot {
    queue: Arc<FairQueue>,
    user: Arc<str>,
}

/// A request that waits for its turn.
struct Waiter {
    queue: Arc<FairQueue>,
    user: Arc<str>,
    told: oneshot::Receiver<()>,
}

impl FairQueue {
    pub(super) fn new(most: usize, most_each: usize, waiting_each: usize) -> Arc<Self> {
        let (most, most_each) = (most.max(1), most_each.max(1));
        Arc::new(Self { most, most_each, waiting_each, state: Mutex::default() })
    }

    /// Waits for a turn of this user; 429 when too many of its requests wait already.
    pub(super) async fn take(self: &Arc<Self>, user: &Arc<str>) -> Result<RequestSlot, ApiError> {
        self.queue(user, self.waiting_each).await.ok_or_else(|| {
            let says = "too many requests of this user wait, please try again later";
            ApiError::new(429, "TooManyRequests", says).retry_after(1)
        })
    }

    /// The same for a request that was let in before, however many wait.
    pub(super) async fn take_another(self: &Arc<Self>, user: &Arc<str>) -> Option<RequestSlot> {
        self.queue(user, usize::MAX).await
    }

    async fn queue(self: &Arc<Self>, user: &Arc<str>, waiting_each: usize) -> Option<RequestSlot> {
        let waiter = {
            let mut state = self.lock();
            let State { taken, users, order } = &mut *state;
            let own = users.entry(user.clone()).or_default();
            if *taken < self.most && own.taken < self.most_each && own.waiting.is_empty() {
                *taken += 1;
                own.taken += 1;
                None
            } else if own.waiting.len() >= waiting_each {
                return None;
            } else {
                if own.waiting.is_empty() {
                    order.push_back(user.clone());
                }
                let (tell, told) = oneshot::channel();
                own.waiting.push_back(tell);
                Some(Waiter { queue: self.clone(), user: user.clone(), told })
            }
        };
        if let Some(mut waiter) = waiter {
            // Whoever tells is kept as long as the turns are.
            (&mut waiter.told).await.ok();
        }
        Some(RequestSlot { queue: self.clone(), user: user.clone() })
    }

    fn release(&self, user: &Arc<str>) {
        let mut state = self.lock();
        state.taken -= 1;
        if let Some(own) = state.users.get_mut(user) {
            own.taken -= 1;
        }
        state.hand_out(self.most, self.most_each);
        if state.users.get(user).is_some_and(|own| own.taken == 0 && own.waiting.is_empty()) {
            state.users.remove(user);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives free turns to those who wait, one user after the other.
    fn hand_out(&mut self, most: usize, most_each: usize) {
        let mut passed_over = 0;
        while self.taken < most && passed_over < self.order.len() {
            let Some(user) = self.order.pop_front() else { return };
            let Some(own) = self.users.get_mut(&user) else { continue };
            if own.taken >= most_each {
                self.order.push_back(user);
                passed_over += 1;
                continue;
            }
            // Who went away meanwhile does not hear, and the next one does.
            if own.waiting.pop_front().is_some_and(|tell| tell.send(()).is_ok()) {
                own.taken += 1;
                self.taken += 1;
            }
            if !own.waiting.is_empty() {
                self.order.push_back(user);
            } else if own.taken == 0 {
                self.users.remove(&user);
            }
        }
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.queue.release(&self.user);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.told.close();
        // It went away in the moment when its turn came.
        if self.told.try_recv().is_ok() {
            self.queue.release(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn take<'a>(
        queue: &'a Arc<FairQueue>,
        user: &str,
    ) -> impl Future<Output = Result<RequestSlot, ApiError>> + use<'a> {
        let user: Arc<str> = user.into();
        async move { queue.take(&user).await }
    }

    #[test]
    fn users_take_turns_however_much_one_of_them_sends() {
        let queue = FairQueue::new(1, 1, 100);
        let first = take(&queue, "eve").now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> = ["eve", "eve", "eve", "ann", "bob"]
            .map(|user| (user, Box::pin(take(&queue, user))))
            .into();
        for (_, wait) in &mut waiting {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        let mut served = Vec::new();
        let mut slot = Some(first);
        while !waiting.is_empty() {
            drop(slot.take());
            let mut ready = None;
            for (at, (user, wait)) in waiting.iter_mut().enumerate() {
                if let Some(got) = wait.as_mut().now_or_never() {
                    served.push(*user);
                    ready = Some((at, got.unwrap()));
                    break;
                }
            }
            let (at, got) = ready.expect("somebody is next");
            slot = Some(got);
            drop(waiting.remove(at));
        }
        assert_eq!(served, ["eve", "ann", "bob", "eve", "eve"]);
        drop(slot);
        let state = queue.lock();
        assert!(state.taken == 0 && state.users.is_empty() && state.order.is_empty());
    }

    #[test]
    fn one_user_cannot_take_all_turns_nor_wait_without_end() {
        let queue = FairQueue::new(3, 2, 1);
        let held: Vec<RequestSlot> =
            (0..2).map(|_| take(&queue, "eve").now_or_never().unwrap().unwrap()).collect();
        let mut third = Box::pin(take(&queue, "eve"));
        assert!(third.as_mut().now_or_never().is_none(), "it waits although there is a slot");
        let refused = take(&queue, "eve").now_or_never().unwrap().err().unwrap();
        assert_eq!((refused.code, refused.reason), (429, "TooManyRequests"));
        let other = take(&queue, "ann").now_or_never().unwrap().unwrap();
        drop(held);
        assert!(third.as_mut().now_or_never().unwrap().is_ok());
        drop(other);
    }

    #[test]
    fn who_goes_away_leaves_its_turn_to_others() {
        let queue = FairQueue::new(1, 1, 10);
        let first = take(&queue, "eve").now_or_never().unwrap().unwrap();
        let mut gone = Box::pin(take(&queue, "eve"));
        let mut told = Box::pin(take(&queue, "ann"));
        let mut last = Box::pin(take(&queue, "bob"));
        for wait in [&mut gone, &mut told, &mut last] {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        drop(gone);
        drop(first);
        // Ann was told, and goes away before she has heard it.
        drop(told);
        drop(last.as_mut().now_or_never().expect("it is bob's slot").unwrap());
        let state = queue.lock();
        assert!(state.taken == 0 && state.users.is_empty() && state.order.is_empty());
    }
}
