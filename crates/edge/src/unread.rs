//! How much of watches is held for clients that do not read.
//!
//! What was given to a connection and not sent yet is memory of the server. One watch holds
//! little, but there may be thousands, and events may be large. So it is counted for each user;
//! past the bound the watch that would hold more ends with 410, and its client lists again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is held now.
pub(super) struct Unread {
    most_each: usize,
    by_user: Mutex<BTreeMap<Arc<str>, usize>>,
}

/// What one watch holds.
pub(super) struct Held {
    unread: Arc<Unread>,
    user: Arc<str>,
    bytes: usize,
}

impl Unread {
    pub(super) fn new(most_each: usize) -> Arc<Self> {
        Arc::new(Self { most_each, by_user: Mutex::default() })
    }

    /// A watch of this user, which holds nothing so far.
    pub(super) fn watch(self: &Arc<Self>, user: &Arc<str>) -> Held {
        Held { unread: self.clone(), user: user.clone(), bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, usize>> {
        self.by_user.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The connection takes more, so it has sent what it had.
    pub(super) fn sent(&mut self) {
        self.count(0);
    }

    /// The connection is given so many bytes; whether there is room for them.
    pub(super) fn give(&mut self, bytes: usize) -> bool {
        let held = self.unread.lock().get(&self.user).copied().unwrap_or_default();
        let fits = held - self.bytes.min(held) + bytes <= self.unread.most_each;
        if fits {
            self.count(bytes);
        }
        fits
    }

    fn count(&mut self, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        let mut by_user = self.unread.lock();
        let held = by_user.get(&self.user).copied().unwrap_or_default();
        match held.saturating_sub(self.bytes) + bytes {
            0 => by_user.remove(&self.user),
            held => by_user.insert(self.user.clone(), held),
        };
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_user_leaves_unread_is_bounded() {
        let unread = Unread::new(100);
        let watch = |user: &str| unread.watch(&user.into());
        let (mut first, mut second, mut other) = (watch("eve"), watch("eve"), watch("ann"));
        assert!(first.give(80));
        assert!(!second.give(30), "both are one user's");
        assert!(second.give(20) && other.give(100));
        assert!(first.give(10), "a connection that takes more has sent what it had");
        assert!(second.give(90));
        first.sent();
        drop((second, other));
        assert!(first.give(100));
        drop(first);
        assert!(unread.lock().is_empty());
    }
}
