//! Work to be done, each key once, in the order it falls due.
//!
//! What is due at the same moment comes out in an order that depends on the seed,
//! so that simulation explores orders and still replays them.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// A queue of keys with the moments they fall due.
#[derive(Debug)]
pub struct Queue<K> {
    due: BTreeMap<K, (Timestamp, u64)>,
    order: BTreeMap<(Timestamp, u64, K), ()>,
    seed: u64,
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue whose ties are broken by `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self { due: BTreeMap::new(), order: BTreeMap::new(), seed: seed | 1 }
    }

    /// Looks at `key` at `moment`, or earlier if that was already asked for.
    pub fn push(&mut self, key: K, moment: Timestamp) {
        if let Some((known, tie)) = self.due.get(&key) {
            if *known <= moment {
                return;
            }
            self.order.remove(&(*known, *tie, key.clone()));
        }
        let tie = self.draw();
        self.order.insert((moment, tie, key.clone()), ());
        self.due.insert(key, (moment, tie));
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: &K) {
        if let Some((moment, tie)) = self.due.remove(key) {
            self.order.remove(&(moment, tie, key.clone()));
        }
    }

    /// The first key that is due at `now`.
    pub fn pop(&mut self, now: Timestamp) -> Option<K> {
        let ((moment, ..), ()) = self.order.first_key_value()?;
        if *moment > now {
            return None;
        }
        let ((.., key), ()) = self.order.pop_first()?;
        self.due.remove(&key);
        Some(key)
    }

    /// When the next key falls due.
    pub fn next(&self) -> Option<Timestamp> {
        self.order.first_key_value().map(|((moment, ..), ())| *moment)
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Xorshift: small, and good enough to shuffle ties.
    fn draw(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn keys_come_once_at_their_earliest_moment() {
        let mut queue = Queue::seeded(7);
        queue.push("a", at(30));
        queue.push("b", at(20));
        queue.push("a", at(10));
        queue.push("a", at(40));
        assert_eq!(queue.next(), Some(at(10)));
        assert_eq!(queue.pop(at(9)), None);
        assert_eq!(queue.pop(at(25)), Some("a"));
        assert_eq!(queue.pop(at(25)), Some("b"));
        assert!(queue.is_empty());
    }

    #[test]
    fn ties_are_shuffled_by_the_seed_alone() {
        let order = |seed| {
            let mut queue = Queue::seeded(seed);
            (0..20).for_each(|n| queue.push(n, at(0)));
            std::iter::from_fn(|| queue.pop(at(0))).collect::<Vec<i32>>()
        };
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(5));
    }
}
