//! Which connection of a full step is evicted.
//!
//! The oldest connection of the address that has the most: a client that opens connections
//! without end evicts its own. Where all come from one address, a new connection is safe until
//! as many others as the step has slots have come after it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use tokio::sync::Notify;

/// Where a connection comes from. Addresses of one IPv6 network of 64 bits count as one: they
/// belong to one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin(IpAddr);

/// The unauthenticated connections at one step.
pub(super) struct EvictionQueue {
    /// How many there may be.
    most: usize,
    count: usize,
    /// Connections of one origin in the order in which they came, with what notifies the
    /// evicted one.
    from: BTreeMap<Origin, BTreeMap<u64, Arc<Notify>>>,
    /// The origins by how many come from there; of equal ones the last is the one whose first
    /// has been here longest.
    ranked: BTreeSet<(usize, Reverse<u64>, Origin)>,
}

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            address => address,
        })
    }
}

impl EvictionQueue {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), count: 0, from: BTreeMap::new(), ranked: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds a connection, with a number higher than all before. Evicts another one if there are
    /// too many.
    pub(super) fn insert(&mut self, number: u64, origin: Origin, told: Arc<Notify>) {
        self.change(origin, |those| those.insert(number, told));
        self.count += 1;
        if self.count > self.most {
            self.evict_one();
        }
    }

    /// Removes a connection that ended, unless it was evicted already.
    pub(super) fn remove(&mut self, number: u64, origin: Origin) {
        let removed = self.change(origin, |those| those.remove(&number));
        self.count -= usize::from(removed.is_some());
    }

    pub(super) fn contains(&self, number: u64, origin: Origin) -> bool {
        self.from.get(&origin).is_some_and(|those| those.contains_key(&number))
    }

    /// Evicts one connection, if there is any.
    pub(super) fn evict_one(&mut self) {
        let Some((_, _, origin)) = self.ranked.last() else { return };
        if let Some((_, told)) = self.change(*origin, BTreeMap::pop_first) {
            told.notify_one();
            self.count -= 1;
        }
    }

    fn change<T>(
        &mut self,
        origin: Origin,
        change: impl FnOnce(&mut BTreeMap<u64, Arc<Notify>>) -> T,
    ) -> T {
        let those = self.from.entry(origin).or_default();
        if let Some((first, _)) = those.first_key_value() {
            self.ranked.remove(&(those.len(), Reverse(*first), origin));
        }
        let changed = change(those);
        match those.first_key_value() {
            Some((first, _)) => {
                self.ranked.insert((those.len(), Reverse(*first), origin));
            }
            None => {
                self.from.remove(&origin);
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(address: &str) -> Origin {
        address.parse::<IpAddr>().unwrap().into()
    }

    /// Opens connections from these addresses; which of them stay.
    fn stay(most: usize, addresses: &[&str]) -> Vec<usize> {
        let mut queue = EvictionQueue::new(most);
        for (number, address) in addresses.iter().enumerate() {
            queue.insert(number as u64, origin(address), Arc::default());
        }
        let stays = |number: &usize| queue.contains(*number as u64, origin(addresses[*number]));
        (0..addresses.len()).filter(stays).collect()
    }

    #[test]
    fn who_leaves_is_the_first_of_the_address_with_the_most() {
        let (a, b, c) = ("10.0.0.1", "10.0.0.2", "10.0.0.3");
        for (comes, stays, why) in [
            (&[a, a, a][..], &[0, 1, 2][..], "there is room"),
            (&[a, a, a, a], &[1, 2, 3], "of one address the first"),
            (&[b, a, a, a, a], &[0, 3, 4], "however long others have been there"),
            (&[a, b, b, b, a], &[2, 3, 4], "of equal ones as well who came first"),
            (&[c, b, a, a], &[0, 1, 3], "whoever brings one too many pays for it"),
            (&[a, b, c, "10.0.0.4"], &[1, 2, 3], "of single ones, too"),
            (&["10.0.0.9", b, c, a], &[1, 2, 3], "whatever their addresses are"),
        ] {
            assert_eq!(stay(3, comes), stays, "{why}");
        }
        assert_eq!(stay(0, &[a, b]), [1], "one has room always");
    }

    #[test]
    fn a_network_of_one_person_is_one_origin() {
        let (ours, theirs) = ("2001:db8:0:1::1", "2001:db8:0:2::1");
        assert_eq!(origin(ours), origin("2001:db8:0:1:ffff::9"));
        assert_ne!(origin(ours), origin(theirs));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_eq!(stay(2, &[theirs, ours, "2001:db8:0:1::2"]), [0, 2]);
    }

    #[test]
    fn who_left_is_forgotten() {
        let mut queue = EvictionQueue::new(2);
        queue.insert(0, origin("10.0.0.1"), Arc::default());
        queue.insert(1, origin("10.0.0.1"), Arc::default());
        queue.insert(2, origin("10.0.0.2"), Arc::default());
        // The first lost their place, and does not leave twice.
        queue.remove(0, origin("10.0.0.1"));
        assert_eq!(queue.len(), 2);
        queue.remove(1, origin("10.0.0.1"));
        queue.evict_one();
        queue.evict_one();
        assert!(queue.len() == 0 && queue.from.is_empty() && queue.ranked.is_empty());
    }
}
