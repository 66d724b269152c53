//! Which ready key comes next.
//!
//! Three lanes by priority. Within a lane groups are served in rounds, one key of each
//! group a round, and within a group keys stand in line. A lower lane is passed over at
//! most [`PATIENCE`] times in a row, so a flood of urgent keys slows the others down but
//! never stops them.
//!
//! Pure bookkeeping: no time, no locks. Timers are in the queue itself.

use std::collections::BTreeMap;

/// How urgent a key is. The first is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A person waits for it, or a member has answered.
    High,
    /// Ordinary events and retries.
    Normal,
    /// Nobody waits for it: resyncs, relists, the first list after a start.
    Low,
}

/// How often in a row a lane with ready keys may be passed over.
pub(super) const PATIENCE: u32 = 8;

/// Position of a ready key within its group.
pub(super) type Seq = u64;

pub(super) struct Lanes<K, G> {
    lanes: [Lane<K, G>; 3],
    /// Keys of each group that are with workers.
    busy: BTreeMap<G, usize>,
    /// Most keys of one group that may be with workers.
    cap: usize,
    ready: usize,
    next: u64,
}

struct Lane<K, G> {
    groups: BTreeMap<G, Line<K>>,
    /// Which group is served next: lowest first.
    rounds: BTreeMap<u64, G>,
    passed_over: u32,
}

struct Line<K> {
    round: u64,
    keys: BTreeMap<Seq, K>,
}

impl<K, G: Ord + Clone> Lanes<K, G> {
    /// `cap` is the most keys of one group that may be with workers at once.
    pub(super) fn new(cap: usize) -> Self {
        let lane = || Lane { groups: BTreeMap::new(), rounds: BTreeMap::new(), passed_over: 0 };
        let lanes = [lane(), lane(), lane()];
        Self { lanes, busy: BTreeMap::new(), cap: cap.max(1), ready: 0, next: 0 }
    }

    /// Puts a key at the end of its group's line.
    pub(super) fn push(&mut self, priority: Priority, group: G, key: K) -> Seq {
        let seq = self.number();
        let round = self.number();
        let lane = &mut self.lanes[priority as usize];
        let line = lane.groups.entry(group.clone()).or_insert_with(|| {
            lane.rounds.insert(round, group);
            Line { round, keys: BTreeMap::new() }
        });
        line.keys.insert(seq, key);
        self.ready += 1;
        seq
    }

    /// Takes a key out of its line.
    pub(super) fn remove(&mut self, priority: Priority, group: &G, seq: Seq) -> Option<K> {
        let lane = &mut self.lanes[priority as usize];
        let line = lane.groups.get_mut(group)?;
        let key = line.keys.remove(&seq)?;
        self.ready -= 1;
        if line.keys.is_empty() {
            let round = line.round;
            lane.rounds.remove(&round);
            lane.groups.remove(group);
        }
        Some(key)
    }

    /// Takes the next key and counts it as busy until [`Self::release`].
    pub(super) fn pop(&mut self) -> Option<(G, K)> {
        let open: Vec<Option<G>> = self.lanes.iter().map(|lane| self.first_open(lane)).collect();
        let patience_ended = (0..self.lanes.len())
            .rev()
            .find(|&lane| open[lane].is_some() && self.lanes[lane].passed_over >= PATIENCE);
        let chosen = patience_ended.or_else(|| open.iter().position(Option::is_some))?;
        for (lane, open) in self.lanes.iter_mut().zip(&open).skip(chosen + 1) {
            lane.passed_over += u32::from(open.is_some());
        }
        let round = self.number();
        let group = open.into_iter().nth(chosen).flatten()?;
        let lane = &mut self.lanes[chosen];
        lane.passed_over = 0;
        let line = lane.groups.get_mut(&group)?;
        let (_, key) = line.keys.pop_first()?;
        self.ready -= 1;
        lane.rounds.remove(&line.round);
        if line.keys.is_empty() {
            lane.groups.remove(&group);
        } else {
            line.round = round;
            lane.rounds.insert(round, group.clone());
        }
        *self.busy.entry(group.clone()).or_default() += 1;
        Some((group, key))
    }

    /// A worker is done with a key of this group.
    pub(super) fn release(&mut self, group: &G) {
        if let Some(busy) = self.busy.get_mut(group) {
            *busy -= 1;
            if *busy == 0 {
                self.busy.remove(group);
            }
        }
    }

    /// Keys that are ready.
    pub(super) fn len(&self) -> usize {
        self.ready
    }

    /// Whether no key is ready.
    pub(super) fn is_empty(&self) -> bool {
        self.ready == 0
    }

    /// Takes all ready keys out.
    pub(super) fn clear(&mut self) -> Vec<K> {
        let mut keys = Vec::with_capacity(std::mem::take(&mut self.ready));
        for lane in &mut self.lanes {
            lane.rounds.clear();
            let groups = std::mem::take(&mut lane.groups);
            keys.extend(groups.into_values().flat_map(|line| line.keys.into_values()));
        }
        keys
    }

    fn first_open(&self, lane: &Lane<K, G>) -> Option<G> {
        let free = |group: &&G| self.busy.get(group).is_none_or(|busy| *busy < self.cap);
        lane.rounds.values().find(free).cloned()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(lanes: &mut Lanes<&'static str, char>) -> String {
        let mut order = Vec::new();
        while let Some((group, key)) = lanes.pop() {
            lanes.release(&group);
            order.push(key);
        }
        order.join(" ")
    }

    fn filled(cap: usize, keys: &[(Priority, &'static str)]) -> Lanes<&'static str, char> {
        let mut lanes = Lanes::new(cap);
        for (priority, key) in keys {
            lanes.push(*priority, key.chars().next().unwrap(), *key);
        }
        lanes
    }

    #[test]
    fn groups_take_turns_and_keys_stand_in_line() {
        use Priority::Normal;
        let keys = ["a1", "a2", "a3", "a4", "b1", "c1", "b2"].map(|key| (Normal, key));
        assert_eq!(order(&mut filled(9, &keys)), "a1 b1 c1 a2 b2 a3 a4");
    }

    #[test]
    fn urgent_keys_overtake() {
        use Priority::{High, Low, Normal};
        let keys = [(Low, "a1"), (Normal, "b1"), (High, "c1"), (Low, "a2"), (High, "c2")];
        assert_eq!(order(&mut filled(9, &keys)), "c1 c2 b1 a1 a2");
    }

    #[test]
    fn a_flood_of_urgent_keys_does_not_stop_the_others() {
        let mut lanes = filled(9, &[(Priority::Low, "a"), (Priority::Normal, "b")]);
        let mut popped = Vec::new();
        for _ in 0..2 * PATIENCE + 2 {
            lanes.push(Priority::High, 'h', "h");
            let (group, key) = lanes.pop().unwrap();
            lanes.release(&group);
            popped.push(key);
        }
        let at = |key| popped.iter().position(|popped| *popped == key).unwrap() as u32;
        assert_eq!((at("a"), at("b")), (PATIENCE, PATIENCE + 1));
    }

    #[test]
    fn a_group_at_its_cap_waits_for_a_release() {
        use Priority::Normal;
        let mut lanes = filled(1, &[(Normal, "a1"), (Normal, "a2"), (Normal, "b1")]);
        assert_eq!(lanes.pop(), Some(('a', "a1")));
        assert_eq!(lanes.pop(), Some(('b', "b1")));
        assert_eq!(lanes.pop(), None);
        assert!(!lanes.is_empty());
        lanes.release(&'a');
        assert_eq!(lanes.pop(), Some(('a', "a2")));
    }

    #[test]
    fn a_removed_key_leaves_no_empty_group_behind() {
        let mut lanes = Lanes::new(1);
        let seq = lanes.push(Priority::Normal, 'a', "a1");
        assert_eq!(lanes.remove(Priority::Normal, &'a', seq), Some("a1"));
        assert_eq!(lanes.pop(), None);
        assert!(lanes.is_empty());
    }
}
