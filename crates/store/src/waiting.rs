//! The events that wait for one reader, written by commits.
//!
//! A reader that is too slow is cut off and has to begin again: what waits for it is bounded.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::watch::WatchEnd;

/// Events that nobody has read yet.
pub(super) struct Waiting<T> {
    limits: WaitingLimits,
    state: Mutex<State<T>>,
}

/// How much may wait for one reader.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingLimits {
    pub(super) events: usize,
    /// Bytes of JSON; one event fits however large it is.
    pub(super) bytes: usize,
}

/// What has a size.
pub(super) trait HasSize {
    /// Bytes of JSON.
    fn bytes(&self) -> usize;
}

struct State<T> {
    queue: VecDeque<T>,
    /// Bytes of JSON in the queue.
    bytes: usize,
    waker: Option<Waker>,
    closed: Option<WatchEnd>,
}

impl<T: HasSize> Waiting<T> {
    pub(super) fn new(limits: WaitingLimits) -> Self {
        let state = State { queue: VecDeque::new(), bytes: 0, waker: None, closed: None };
        Self { limits, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False when there is too much: the reader is then cut off. What waits can still be
    /// read, for up to there nothing is missing.
    pub(super) fn push(&self, seen: T, wakers: &mut Vec<Waker>) -> bool {
        let mut state = self.lock();
        let bytes = state.bytes + seen.bytes();
        let fits = state.queue.is_empty()
            || (state.queue.len() < self.limits.events && bytes <= self.limits.bytes);
        if fits {
            state.bytes = bytes;
            state.queue.push_back(seen);
        } else {
            state.closed = Some(WatchEnd::Lagged);
        }
        wakers.extend(state.waker.take());
        fits
    }

    pub(super) fn close(&self, why: WatchEnd) -> Option<Waker> {
        let mut state = self.lock();
        state.closed.get_or_insert(why);
        state.waker.take()
    }

    /// Loses what has not been read.
    pub(super) fn clear(&self) {
        let mut state = self.lock();
        state.queue.clear();
        state.bytes = 0;
    }

    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Option<T>> {
        let mut state = self.lock();
        if let Some(seen) = state.queue.pop_front() {
            state.bytes -= seen.bytes();
            // A burst should not be paid for ever after.
            if state.queue.is_empty() && state.queue.capacity() > 64 {
                state.queue = VecDeque::new();
            }
            return Poll::Ready(Some(seen));
        }
        if state.closed.is_some() {
            return Poll::Ready(None);
        }
        let known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if !known {
            state.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    pub(super) fn closed(&self) -> Option<WatchEnd> {
        self.lock().closed
    }

    pub(super) fn len(&self) -> usize {
        self.lock().queue.len()
    }

    /// What is said of the next event, and of whether the reader was cut off.
    pub(super) fn look<A>(&self, say: impl FnOnce(Option<&T>, bool) -> A) -> A {
        let state = self.lock();
        say(state.queue.front(), state.closed.is_some())
    }
}
