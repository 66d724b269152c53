//! The work queue: which key is looked at next, and never by two workers at once.
//!
//! A key is in one place only: waiting for its time, ready, or with a worker. A
//! key that is added while a worker has it runs once more afterwards, however
//! often it was added. Nothing is lost: a [`Claim`] that is dropped unfinished
//! (a cancelled task) puts its key back with a back-off.
//!
//! The order is decided by ready time, priority, round of the group and sequence
//! number, never by hashing or chance. `lanes` decides among ready keys,
//! [`RateLimit`] how long a failed key waits, [`BatchingWindow`] how long a key waits so
//! that one pass covers several changes. [`Workers`] runs passes.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::{Counter, Gauge, Histogram, Metrics, SECONDS};
use lanes::{Lanes, Seq};
use limit::Bucket;

mod batching;
mod claim;
mod lanes;
mod limit;
#[cfg(test)]
mod tests;
mod workers;

pub use batching::BatchingWindow;
pub use claim::Claim;
pub use lanes::Priority;
pub use limit::RateLimit;
pub use workers::{About, Outcome, Workers};

/// First pause of a key whose pass panicked; doubles with each panic.
pub const QUARANTINE: Duration = Duration::from_secs(1);
/// Longest pause of a key whose pass panicked.
pub const LONGEST_QUARANTINE: Duration = Duration::from_secs(300);

/// Longest pause of a key whose pass lost a race.
pub const LONGEST_START_OVER: Duration = Duration::from_secs(1);

/// How a queue behaves.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Name of its controller, as metrics and logs say it.
    pub name: String,
    /// How long failed keys wait.
    pub limit: RateLimit,
    /// Most keys of one group that may be with workers at once.
    pub group_cap: usize,
}

impl QueueConfig {
    /// The default limits under a name.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), limit: RateLimit::DEFAULT, group_cap: usize::MAX }
    }
}

/// What becomes of a key after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing to do until somebody adds it; its back-off starts afresh.
    Forget,
    /// Look again after this span; its back-off starts afresh.
    After(Duration),
    /// Look again after its back-off, and not before `at_least`.
    BackOff {
        /// Such as a server's `Retry-After`.
        at_least: Duration,
    },
    /// The pass lost a race: look again after a back-off of its own, which stays short.
    StartOver,
    /// The pass was refused a write: look again after [`RateLimit::refused`].
    Refused,
    /// The pass panicked: keep away from it for a while, whatever happens.
    Quarantine,
}

/// How many keys are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// May be claimed now.
    pub ready: usize,
    /// Wait for their time.
    pub waiting: usize,
    /// Are with workers.
    pub active: usize,
}

/// A queue of keys `K`, fair between groups `G`. Clones share the queue.
pub struct Queue<K, G = ()>(Arc<Shared<K, G>>);

struct Shared<K, G> {
    config: QueueConfig,
    group: Box<dyn Fn(&K) -> G + Send + Sync>,
    state: Mutex<State<K, G>>,
    woken: Notify,
    gauges: Instruments,
}

struct State<K, G> {
    slots: BTreeMap<K, Slot>,
    lanes: Lanes<K, G>,
    waiting: BTreeMap<(Instant, Seq), K>,
    bucket: Bucket,
    seq: Seq,
    active: usize,
    closed: bool,
}

/// What is known of one key. Exists as long as the key is somewhere.
struct Slot {
    place: Place,
    /// Priority it will have when it becomes ready.
    priority: Priority,
    /// Back-offs since it was last forgotten.
    failures: u32,
    /// Lost races since it was last forgotten. They are not among the failures: a mirror that
    /// lags for minutes loses hundreds of races, and the first answer of a busy server after
    /// them would keep the key away for a quarter of an hour.
    races: u32,
    /// Panics since the last pass that did not.
    panics: u32,
    /// End of its quarantine.
    not_before: Option<Instant>,
}

#[derive(Clone, Copy)]
enum Place {
    Waiting(Instant, Seq),
    Ready {
        since: Instant,
        seq: Seq,
    },
    /// With a worker; `again` is when it was asked for in the meantime.
    Active {
        again: Option<Instant>,
    },
}

struct Instruments {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    latency: Histogram,
}

impl<K, G> Clone for Queue<K, G> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// A queue in which all keys are one group.
    pub fn new(config: QueueConfig, metrics: &Metrics) -> Self {
        Self::grouped(config, metrics, |_| ())
    }
}

impl<K: Ord + Clone, G: Ord + Clone> Queue<K, G> {
    /// A queue that serves its groups in rounds, so that no group starves another.
    pub fn grouped(
        config: QueueConfig,
        metrics: &Metrics,
        group: impl Fn(&K) -> G + Send + Sync + 'static,
    ) -> Self {
        let state = State {
            slots: BTreeMap::new(),
            lanes: Lanes::new(config.group_cap),
            waiting: BTreeMap::new(),
            bucket: Bucket::full(&config.limit, Instant::now()),
            seq: 0,
            active: 0,
            closed: false,
        };
        let gauges = Instruments::new(metrics, &config.name);
        let (group, state) = (Box::new(group), Mutex::new(state));
        Self(Arc::new(Shared { config, group, state, woken: Notify::new(), gauges }))
    }

    /// Name of its controller.
    pub fn name(&self) -> &str {
        &self.0.config.name
    }

    /// Makes the key ready now, at the usual priority. Ends its wait, if it waits.
    pub fn add(&self, key: K) {
        self.add_with(key, Priority::Normal);
    }

    /// Makes the key ready now. A key that is ready already takes the higher priority.
    pub fn add_with(&self, key: K, priority: Priority) {
        self.0.gauges.adds.inc();
        self.put(key, Instant::now(), priority);
    }

    /// Makes the key ready after `span`, unless it is ready earlier anyhow.
    pub fn add_after(&self, key: K, span: Duration) {
        self.add_after_with(key, span, Priority::Normal);
    }

    /// Makes the key ready after `span` with a priority of its own.
    pub fn add_after_with(&self, key: K, span: Duration, priority: Priority) {
        self.0.gauges.adds.inc();
        self.put(key, later(Instant::now(), span), priority);
    }

    /// Makes the key ready after its back-off, which grows.
    pub fn add_rate_limited(&self, key: K) {
        self.0.gauges.adds.inc();
        let now = Instant::now();
        let wait = self.lock().back_off(&key, &self.0.config.limit, now);
        self.put(key.clone(), later(now, wait), Priority::Normal);
        if let Some(slot) = self.lock().slots.get_mut(&key) {
            slot.failures = slot.failures.saturating_add(1);
        }
    }

    /// Starts the key's back-off afresh.
    pub fn forget(&self, key: &K) {
        if let Some(slot) = self.lock().slots.get_mut(key) {
            slot.forget();
        }
    }

    /// Whether the key would be looked at earlier if it were added for that time.
    fn hastens(&self, key: &K, at: Instant) -> bool {
        let state = self.lock();
        let Some(slot) = state.slots.get(key) else { return true };
        let at = slot.not_before.map_or(at, |end| at.max(end));
        match slot.place {
            Place::Waiting(due, _) => at < due,
            Place::Ready { .. } => false,
            Place::Active { again } => again.is_none_or(|due| at < due),
        }
    }

    /// How many keys are where.
    pub fn depth(&self) -> Depth {
        let state = self.lock();
        Depth { ready: state.lanes.len(), waiting: state.waiting.len(), active: state.active }
    }

    /// When the next waiting key gets ready.
    pub fn next_due(&self) -> Option<Instant> {
        self.lock().waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes no more keys; what is ready is still handed out, timers are dropped.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for key in std::mem::take(&mut state.waiting).into_values() {
            state.slots.remove(&key);
        }
        drop(state);
        self.0.woken.notify_waiters();
    }

    /// Like [`Queue::close`], and drops what is ready too: for a leader that lost.
    pub fn abandon(&self) {
        self.close();
        let mut state = self.lock();
        for key in state.lanes.clear() {
            state.slots.remove(&key);
        }
        // Only keys with workers are left; they end where they are.
        for slot in state.slots.values_mut() {
            slot.place = Place::Active { again: None };
        }
        self.measure(&state);
        drop(state);
        self.0.woken.notify_waiters();
    }

    /// The next key, as soon as there is one. `None` once closed, drained, and all
    /// claims ended.
    pub async fn next(&self) -> Option<Claim<K, G>> {
        loop {
            // Listening begins before looking, so that no wake-up falls in between.
            let mut woken = pin!(self.0.woken.notified());
            woken.as_mut().enable();
            let due = {
                let mut state = self.lock();
                let now = Instant::now();
                self.promote(&mut state, now);
                if let Some(claim) = self.claim(&mut state, now) {
                    return Some(claim);
                }
                if state.closed && state.lanes.is_empty() && state.active == 0 {
                    return None;
                }
                state.waiting.first_key_value().map(|((at, _), _)| *at)
            };
            match due {
                // Timer or wake-up: either way the next round looks again.
                Some(at) => drop(tokio::time::timeout_at(at, woken).await),
                None => woken.await,
            }
        }
    }

    fn claim(&self, state: &mut State<K, G>, now: Instant) -> Option<Claim<K, G>> {
        let (group, key) = state.lanes.pop()?;
        if let Some(slot) = state.slots.get_mut(&key) {
            if let Place::Ready { since, .. } = slot.place {
                let waited = now.saturating_duration_since(since);
                self.0.gauges.latency.observe(waited.as_secs_f64());
            }
            slot.place = Place::Active { again: None };
        }
        state.active += 1;
        self.measure(state);
        if !state.lanes.is_empty() {
            // One wake-up may stand for several keys.
            self.0.woken.notify_one();
        }
        Some(Claim::new(self.clone(), key, group))
    }

    /// Moves keys whose time has come into the lanes.
    fn promote(&self, state: &mut State<K, G>, now: Instant) {
        while let Some(first) = state.waiting.first_entry() {
            let (at, _) = *first.key();
            if at > now {
                break;
            }
            let key = first.remove();
            self.make_ready(state, key, at);
        }
    }

    fn make_ready(&self, state: &mut State<K, G>, key: K, since: Instant) {
        let Some(slot) = state.slots.get_mut(&key) else { return };
        let group = (self.0.group)(&key);
        let seq = state.lanes.push(slot.priority, group, key);
        slot.place = Place::Ready { since, seq };
        self.measure(state);
        self.0.woken.notify_one();
    }

    /// The one way into the queue: ready at `at`, or earlier if it was already.
    fn put(&self, key: K, at: Instant, priority: Priority) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let now = Instant::now();
        let Some(slot) = state.slots.get_mut(&key) else {
            state.slots.insert(key.clone(), Slot::new(priority));
            self.place(&mut state, key, at, now);
            return;
        };
        let at = slot.not_before.map_or(at, |end| at.max(end));
        match slot.place {
            Place::Active { again } => {
                slot.priority = slot.priority_if_again(again, priority);
                slot.place = Place::Active { again: Some(again.map_or(at, |old| old.min(at))) };
            }
            Place::Ready { since, seq } => {
                // Only an addition that means now may hurry a ready key.
                if priority < slot.priority && at <= now {
                    let group = (self.0.group)(&key);
                    let old = std::mem::replace(&mut slot.priority, priority);
                    state.lanes.remove(old, &group, seq);
                    self.make_ready(&mut state, key, since);
                }
            }
            Place::Waiting(old, seq) => {
                if at < old {
                    slot.priority = priority;
                    state.waiting.remove(&(old, seq));
                    self.place(&mut state, key, at, now);
                } else {
                    slot.priority = slot.priority.min(priority);
                }
            }
        }
    }

    /// Puts a key that is nowhere where it belongs. Its slot exists.
    fn place(&self, state: &mut State<K, G>, key: K, at: Instant, now: Instant) {
        if at <= now {
            self.make_ready(state, key, now);
            return;
        }
        state.seq += 1;
        let seq = state.seq;
        if let Some(slot) = state.slots.get_mut(&key) {
            slot.place = Place::Waiting(at, seq);
        }
        state.waiting.insert((at, seq), key);
        // A sleeper may have to get up earlier than it planned.
        self.0.woken.notify_one();
    }

    fn finish(&self, key: K, group: &G, next: Next) {
        let mut state = self.lock();
        let now = Instant::now();
        state.lanes.release(group);
        state.active = state.active.saturating_sub(1);
        let limited = match next {
            Next::BackOff { at_least } => {
                self.0.gauges.retries.inc();
                Some(state.back_off(&key, &self.0.config.limit, now).max(at_least))
            }
            // A conflict is no sign of an overloaded server, so it takes no token of the bucket
            // that all keys share: a thousand conflicts would keep the last key waiting for
            // more than a minute although nothing is wrong.
            Next::StartOver => {
                self.0.gauges.retries.inc();
                let races = state.slots.get(&key).map_or(0, |slot| slot.races);
                Some(self.0.config.limit.backoff(races).min(LONGEST_START_OVER))
            }
            Next::Refused => {
                self.0.gauges.retries.inc();
                let failures = state.slots.get(&key).map_or(0, |slot| slot.failures);
                Some(self.0.config.limit.refused(failures))
            }
            Next::Forget | Next::After(_) | Next::Quarantine => None,
        };
        let closed = state.closed;
        if let Some(slot) = state.slots.get_mut(&key) {
            let again = match slot.place {
                Place::Active { again } => again,
                Place::Waiting(..) | Place::Ready { .. } => None,
            };
            let own = slot.after(next, limited, now);
            let at = match (again, own) {
                (Some(one), Some(two)) => Some(one.min(two)),
                (one, two) => one.or(two),
            };
            // What failed is as urgent as it was; what only time asks for is not.
            if again.is_none() && limited.is_none() {
                slot.priority = Priority::Normal;
            }
            match at.map(|at| slot.not_before.map_or(at, |end| at.max(end))) {
                // A closed queue still owes the passes that were asked for before.
                Some(at) if !closed || (again.is_some() && at <= now) => {
                    self.place(&mut state, key, at, now);
                }
                _ => drop(state.slots.remove(&key)),
            }
        }
        self.measure(&state);
        let (more, over) = (!state.lanes.is_empty(), state.closed);
        drop(state);
        if more {
            // The release may have opened a group that was at its cap.
            self.0.woken.notify_one();
        }
        if over {
            self.0.woken.notify_waiters();
        }
    }

    fn measure(&self, state: &State<K, G>) {
        self.0.gauges.depth.set(state.lanes.len() as f64);
    }

    fn lock(&self) -> MutexGuard<'_, State<K, G>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone, G> State<K, G> {
    /// How long the key waits for its next try. Costs a token.
    fn back_off(&mut self, key: &K, limit: &RateLimit, now: Instant) -> Duration {
        let failures = self.slots.get(key).map_or(0, |slot| slot.failures);
        limit.backoff(failures).max(self.bucket.take(limit, now))
    }
}

impl Slot {
    fn new(priority: Priority) -> Self {
        let place = Place::Active { again: None };
        Self { place, priority, failures: 0, races: 0, panics: 0, not_before: None }
    }

    fn priority_if_again(&self, again: Option<Instant>, priority: Priority) -> Priority {
        if again.is_some() { self.priority.min(priority) } else { priority }
    }

    /// Starts its back-offs afresh.
    fn forget(&mut self) {
        (self.failures, self.races) = (0, 0);
    }

    /// When the pass itself wants the key to be looked at again.
    fn after(&mut self, next: Next, limited: Option<Duration>, now: Instant) -> Option<Instant> {
        if next != Next::Quarantine {
            self.panics = 0;
            self.not_before = None;
        }
        match next {
            Next::Forget => {
                self.forget();
                None
            }
            Next::After(span) => {
                self.forget();
                Some(later(now, span))
            }
            Next::BackOff { .. } | Next::Refused => {
                self.failures = self.failures.saturating_add(1);
                limited.map(|wait| later(now, wait))
            }
            Next::StartOver => {
                self.races = self.races.saturating_add(1);
                limited.map(|wait| later(now, wait))
            }
            Next::Quarantine => {
                let factor = 2u32.saturating_pow(self.panics.min(31));
                self.panics = self.panics.saturating_add(1);
                let pause = QUARANTINE.saturating_mul(factor).min(LONGEST_QUARANTINE);
                self.not_before = Some(later(now, pause));
                self.not_before
            }
        }
    }
}

/// A far future instead of an overflow, for spans that somebody typed.
fn later(now: Instant, span: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    now.checked_add(span).unwrap_or(now + FAR)
}

impl Instruments {
    fn new(metrics: &Metrics, name: &str) -> Self {
        let labels: &[(&str, &str)] = &[("name", name)];
        Self {
            depth: metrics.gauge("workqueue_depth", "Keys that are ready.", labels),
            adds: metrics.counter("workqueue_adds_total", "Keys added.", labels),
            retries: metrics.counter("workqueue_retries_total", "Keys retried.", labels),
            latency: metrics.histogram(
                "workqueue_queue_duration_seconds",
                "How long keys were ready before a worker took them.",
                SECONDS,
                labels,
            ),
        }
    }
}
