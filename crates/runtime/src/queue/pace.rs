//! Turns for passes over much that little has changed in.
//!
//! A pass over a placement costs so much for each of its clusters, and every cluster sends
//! news of its own: one pass for each would cost the square of their number, and leave no
//! time for the work the news is about. So each pass of this sort keeps the next one away
//! for as long as it is worth, whatever its key: together they have a fixed part of the
//! time. While there is little news, nothing waits.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Queue, later};

/// Hands out turns.
#[derive(Debug, Default)]
pub struct Pace {
    /// When the next turn is free, if not now.
    free: Mutex<Option<Instant>>,
}

impl Pace {
    /// Makes the key ready at the next free turn, unless it is ready by then anyhow. The turn
    /// takes `cost` from those that follow.
    pub fn add<K: Ord + Clone, G: Ord + Clone>(&self, queue: &Queue<K, G>, key: K, cost: Duration) {
        let now = Instant::now();
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = free.map_or(now, |free| free.max(now));
        // Who is looked at by then anyhow, or not even then, takes no turn from the others.
        if queue.hastens(&key, turn) {
            *free = Some(later(turn, cost));
        }
        queue.add_after(key, turn.duration_since(now));
    }
}
