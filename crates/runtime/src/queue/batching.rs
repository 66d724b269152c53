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
//! change comes, and nothing waits.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Queue, later};

/// Spaces the passes of one queue out by what they cost.
#[derive(Debug, Default)]
pub struct BatchingWindow {
    /// End of the spans that are reserved, if any are.
    reserved_until: Mutex<Option<Instant>>,
}

impl BatchingWindow {
    /// Makes the key ready when the reserved spans are over, unless it is ready by then
    /// anyhow, and reserves `cost` for its pass.
    pub fn add<K: Ord + Clone, G: Ord + Clone>(&self, queue: &Queue<K, G>, key: K, cost: Duration) {
        let now = Instant::now();
        let mut until = self.reserved_until.lock().unwrap_or_else(PoisonError::into_inner);
        let start = until.map_or(now, |until| until.max(now));
        // A key that gets no pass by this addition must not keep other keys waiting.
        if queue.hastens(&key, start) {
            *until = Some(later(start, cost));
        }
        queue.add_after(key, start.duration_since(now));
    }
}
