//! The batching window: many changed bindings of a placement, few passes over it.
//!
//! A pass over a placement costs time for each of its bindings, and each binding changes on
//! its own. A pass for every change would cost the square of the number of bindings, and
//! leave no time for the deliveries that the changes are about.
//!
//! So every pass that is asked for here reserves a span of time in proportion to its cost,
//! and the next one starts when that span is over. What changes in the meantime is covered
//! by the pass that waits. One window serves all keys of a queue: together such passes get a
//! fixed share of the time. While few bindings change, each span is over before the next
//! change comes, and nothing waits. When many passes wait, each reserves half as much again: a
//! change then waits long anyhow, and a pass that comes later covers more of them.
//!
//! Two passes over the same key may have to stay further apart, since each writes a large
//! status. That keeps nobody but this key waiting: reserved for all, it would make a hundred
//! keys wait for each other's statuses.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Queue, later};

/// Keys whose time has come are forgotten when there are as many.
const REMEMBERED: usize = 64;

/// Passes that wait when spans grow: so many seldom wait for another reason than that there is
/// more to do than time.
const MANY: u32 = 16;

/// Spaces the passes of one queue out by what they cost.
#[derive(Debug)]
pub struct BatchingWindow<K> {
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    /// End of the spans that are reserved, if any are.
    reserved_until: Option<Instant>,
    /// When the next pass over a key may start.
    next: BTreeMap<K, Instant>,
}

impl<K> Default for BatchingWindow<K> {
    fn default() -> Self {
        Self { state: Mutex::new(State { reserved_until: None, next: BTreeMap::new() }) }
    }
}

impl<K: Ord + Clone> BatchingWindow<K> {
    /// Makes the key ready when the reserved spans are over and its last pass is `apart` ago,
    /// unless it is ready by then anyhow, and reserves `cost` for its pass.
    pub fn add<G: Ord + Clone>(
        &self,
        queue: &Queue<K, G>,
        key: K,
        cost: Duration,
        apart: Duration,
    ) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let free = state.reserved_until.map_or(now, |until| until.max(now));
        let start = state.next.get(&key).map_or(free, |next| free.max(*next));
        // A key that gets no pass by this addition must not keep other keys waiting.
        if queue.hastens(&key, start) {
            let many_wait = free.duration_since(now) >= cost.saturating_mul(MANY);
            let span = if many_wait { cost.saturating_mul(3) / 2 } else { cost };
            state.reserved_until = Some(later(free, span));
            if state.next.len() >= REMEMBERED {
                state.next.retain(|_, next| *next > now);
            }
            state.next.insert(key.clone(), later(start, apart));
        }
        queue.add_after(key, start.duration_since(now));
    }
}
