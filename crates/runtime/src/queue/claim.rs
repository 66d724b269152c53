//! The right to work on a key, which cannot be lost by accident.

use std::time::Duration;

use super::{Next, Queue};

/// A key that one worker has. Nobody else gets it until the claim ends.
pub struct Claim<K: Ord + Clone, G: Ord + Clone> {
    queue: Queue<K, G>,
    /// Taken when the claim ends.
    key: Option<K>,
    group: G,
}

impl<K: Ord + Clone, G: Ord + Clone> Claim<K, G> {
    pub(super) fn new(queue: Queue<K, G>, key: K, group: G) -> Self {
        Self { queue, key: Some(key), group }
    }

    /// The key.
    pub fn key(&self) -> &K {
        self.key.as_ref().expect("only finish and drop take the key, and both end the claim")
    }

    /// Ends the claim.
    pub fn finish(mut self, next: Next) {
        if let Some(key) = self.key.take() {
            self.queue.finish(key, &self.group, next);
        }
    }
}

impl<K: Ord + Clone, G: Ord + Clone> Drop for Claim<K, G> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.queue.finish(key, &self.group, Next::BackOff { at_least: Duration::ZERO });
        }
    }
}
