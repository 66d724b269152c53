//! Limits on connections, so that unauthenticated clients cannot keep out authenticated ones.
//!
//! A client is unauthenticated until it has shown a certificate or a token. No connection
//! waits in a queue to be accepted: behind an attacker with thousands of connections a place in
//! it would be worth nothing. Instead an unauthenticated connection passes through steps (see
//! [`Step`]), each step has a limit of its own, and where a step is full a connection of the
//! same step is evicted (see `eviction`). A client that is slow at one step therefore takes no
//! slot from clients at another step, and a client that goes on as fast as the network allows
//! has left a step before that many others could follow it there. Each step costs an attacker
//! more than the last, and steps that cost the server more have fewer slots. An evicted
//! connection is closed unless it can take the next step at once: the bytes for that may have
//! arrived without having been read.
//!
//! An authenticated connection keeps its slot. There is a limit for those, too, and one for each
//! user, so that no user can hold all slots; a connection beyond either is served, but can be
//! evicted like an unauthenticated one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_metrics::Metrics;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Limits;
use super::busy_users::Meter;
use super::eviction::{EvictionQueue, Origin};

/// How far an unauthenticated connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The connection is open, and TLS has not begun.
    Connected,
    /// The TLS handshake has begun.
    Greeted,
    /// The TLS handshake is done, and no request has come.
    Secured,
    /// A request has come, and it was anonymous.
    Asked,
}

const STEPS: usize = Step::Asked as usize + 1;

/// What part of all unauthenticated connections is evicted when the machine has no file
/// descriptor left, one in so many.
const RELIEF: usize = 8;

/// The connection slots of a server.
pub(super) struct ConnectionLimit {
    /// One permit for every authenticated connection.
    permits: Arc<Semaphore>,
    all_permits: usize,
    /// How many of them one user may hold.
    most_each: usize,
    by_user: Mutex<BTreeMap<Arc<str>, usize>>,
    unauthenticated: Mutex<Unauthenticated>,
}

struct Unauthenticated {
    steps: [EvictionQueue; STEPS],
    next: u64,
}

/// The slot of one connection.
pub(super) struct ConnectionSlot {
    limit: Arc<ConnectionLimit>,
    /// Where the connection comes from.
    pub(super) address: IpAddr,
    origin: Origin,
    state: Mutex<SlotState>,
    /// Notified when the connection is evicted.
    told: Arc<Notify>,
    /// Cancelled when the first request has come.
    pub(super) spoken: CancellationToken,
    /// Whose time it takes.
    pub(super) meter: Meter,
}

enum SlotState {
    Unauthenticated { step: Step, number: u64 },
    Authenticated { user: Arc<str>, _permit: OwnedSemaphorePermit },
}

impl ConnectionLimit {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let permits = limits.connections.min(Semaphore::MAX_PERMITS);
        let files = open_files().unwrap_or(usize::MAX) / 4;
        let steps = [limits.silent.min(files), limits.handshakes.min(files)];
        let [connected, greeted] = steps.map(EvictionQueue::new);
        let [secured, asked] = [limits.unauthenticated; 2].map(EvictionQueue::new);
        let steps = [connected, greeted, secured, asked];
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(permits)),
            all_permits: permits,
            most_each: limits.connections_each,
            by_user: Mutex::default(),
            unauthenticated: Mutex::new(Unauthenticated { steps, next: 0 }),
        })
    }

    /// A slot for a connection that was just accepted.
    pub(super) fn slot(self: &Arc<Self>, from: IpAddr) -> ConnectionSlot {
        let (origin, told) = (Origin::from(from), Arc::<Notify>::default());
        let number = self.lock().insert(Step::Connected, origin, told.clone());
        let state = SlotState::Unauthenticated { step: Step::Connected, number };
        ConnectionSlot {
            limit: self.clone(),
            address: from,
            origin,
            state: Mutex::new(state),
            told,
            spoken: CancellationToken::new(),
            meter: Meter::default(),
        }
    }

    /// How many connections there are, for Prometheus.
    pub(super) fn metrics(&self) -> Metrics {
        let metrics = Metrics::default();
        let help = "Connections, by how far those who opened them have come.";
        let set = |step: &str, count: usize| {
            metrics.gauge("flagship_edge_connections", help, &[("step", step)]).set(count as f64);
        };
        let names = ["connected", "greeted", "secured", "asked"];
        let lengths = self.lock().steps.each_ref().map(EvictionQueue::len);
        names.into_iter().zip(lengths).for_each(|(step, count)| set(step, count));
        set("known", self.all_permits - self.permits.available_permits());
        metrics
    }

    /// Evicts some connections, from the step with the most: the machine has no file descriptor
    /// for another.
    pub(super) fn evict_some(&self) {
        let mut unauthenticated = self.lock();
        let all: usize = unauthenticated.steps.iter().map(EvictionQueue::len).sum();
        for _ in 0..all.div_ceil(RELIEF) {
            if let Some(fullest) = unauthenticated.steps.iter_mut().max_by_key(|step| step.len()) {
                fullest.evict_one();
            }
        }
    }

    fn by_user(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, usize>> {
        self.by_user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Unauthenticated> {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many files this process may have open, where that can be read.
fn open_files() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Unauthenticated {
    fn insert(&mut self, step: Step, origin: Origin, told: Arc<Notify>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.steps[step as usize].insert(number, origin, told);
        number
    }
}

impl ConnectionSlot {
    /// The connection has come to this step. Does nothing for an authenticated connection, or
    /// one that has come further already.
    pub(super) fn reached(&self, next: Step) {
        let mut state = self.state();
        let SlotState::Unauthenticated { step, number } = &mut *state else { return };
        if *step >= next {
            return;
        }
        let mut unauthenticated = self.limit.lock();
        unauthenticated.steps[*step as usize].remove(*number, self.origin);
        *number = unauthenticated.insert(next, self.origin, self.told.clone());
        *step = next;
    }

    /// The client has shown who it is, and keeps the slot if the limits, for all users and for
    /// this one, allow one more.
    pub(super) fn authenticated(&self, user: &Arc<str>) {
        let mut state = self.state();
        let SlotState::Unauthenticated { step, number } = *state else { return };
        let mut by_user = self.limit.by_user();
        let own = by_user.get(user).copied().unwrap_or_default();
        if own >= self.limit.most_each {
            return;
        }
        if let Ok(permit) = self.limit.permits.clone().try_acquire_owned() {
            by_user.insert(user.clone(), own + 1);
            self.limit.lock().steps[step as usize].remove(number, self.origin);
            *state = SlotState::Authenticated { user: user.clone(), _permit: permit };
        }
    }

    /// Whether the connection was not evicted.
    pub(super) fn is_held(&self) -> bool {
        match *self.state() {
            SlotState::Authenticated { .. } => true,
            SlotState::Unauthenticated { step, number } => {
                self.limit.lock().steps[step as usize].contains(number, self.origin)
            }
        }
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        while self.is_held() {
            self.told.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        match &*self.state() {
            SlotState::Unauthenticated { step, number } => {
                self.limit.lock().steps[*step as usize].remove(*number, self.origin);
            }
            SlotState::Authenticated { user, .. } => {
                let mut by_user = self.limit.by_user();
                match by_user.get_mut(user) {
                    Some(own) if *own > 1 => *own -= 1,
                    _ => drop(by_user.remove(user)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const ATTACKER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    /// How long the network takes, there and back.
    const TRIP: Duration = Duration::from_millis(15);

    fn limit(connections: usize, unauthenticated: usize) -> Arc<ConnectionLimit> {
        let (silent, handshakes) = (unauthenticated, unauthenticated);
        ConnectionLimit::new(&Limits {
            connections,
            silent,
            handshakes,
            unauthenticated,
            ..Limits::default()
        })
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        !slot.is_held()
    }

    fn waiting(limit: &ConnectionLimit) -> [usize; STEPS] {
        limit.lock().steps.each_ref().map(EvictionQueue::len)
    }

    #[test]
    fn only_those_at_the_same_step_push_each_other_out() {
        let limit = limit(10, 1);
        let [first, second, third] = [(); 3].map(|()| limit.slot(CLIENT));
        assert_eq!([&first, &second, &third].map(is_evicted), [true, true, false]);
        third.reached(Step::Greeted);
        let fourth = limit.slot(CLIENT);
        assert_eq!([&third, &fourth].map(is_evicted), [false, false]);
        fourth.reached(Step::Secured);
        // No connection goes back, and one that can go on at once is not closed.
        fourth.reached(Step::Greeted);
        first.reached(Step::Asked);
        assert_eq!(waiting(&limit), [0, 1, 1, 1]);
        assert_eq!([&first, &second].map(is_evicted), [false, true]);
        third.reached(Step::Secured);
        assert_eq!([&third, &fourth].map(is_evicted), [false, true]);
        drop((first, second, third, fourth));
        assert_eq!(waiting(&limit), [0; STEPS], "a closed connection is forgotten");
    }

    #[test]
    fn who_is_known_stays_while_there_are_seats_for_those() {
        let limit = limit(1, 1);
        let known = limit.slot(CLIENT);
        known.authenticated(&"ann".into());
        let late = limit.slot(CLIENT);
        late.authenticated(&"ann".into());
        late.reached(Step::Asked);
        assert_eq!(waiting(&limit), [0, 0, 0, 1], "it has no slot, and is served nevertheless");
        let other = limit.slot(CLIENT);
        other.reached(Step::Asked);
        assert_eq!([&known, &late, &other].map(is_evicted), [false, true, false]);
        drop(known);
        other.authenticated(&"ann".into());
        assert_eq!(waiting(&limit), [0; STEPS], "a slot was free");
    }

    #[test]
    fn one_user_cannot_hold_all_slots() {
        let limit = ConnectionLimit::new(&Limits {
            connections: 3,
            connections_each: 2,
            unauthenticated: 1,
            ..Limits::default()
        });
        let slots: Vec<ConnectionSlot> = (0..3).map(|_| limit.slot(ATTACKER)).collect();
        slots.iter().for_each(|slot| slot.authenticated(&"eve".into()));
        slots[2].reached(Step::Asked);
        assert_eq!(waiting(&limit), [0, 0, 0, 1], "the third can be evicted");
        let other = limit.slot(CLIENT);
        other.authenticated(&"ann".into());
        assert_eq!(waiting(&limit), [0, 0, 0, 1], "somebody else has a slot");
        drop((slots, other));
        assert!(limit.by_user().is_empty());
    }

    #[test]
    fn without_room_on_the_machine_an_eighth_of_the_strangers_leave() {
        let limit = limit(10, 200);
        let silent: Vec<ConnectionSlot> = (0..60).map(|_| limit.slot(ATTACKER)).collect();
        let asking: Vec<ConnectionSlot> = (0..70).map(|_| limit.slot(ATTACKER)).collect();
        asking.iter().for_each(|slot| slot.reached(Step::Asked));
        let known = limit.slot(CLIENT);
        known.authenticated(&"ann".into());
        limit.evict_some();
        assert_eq!(waiting(&limit), [57, 0, 0, 56]);
        assert!(!is_evicted(&known));
        drop((silent, asking));
        limit.evict_some();
    }

    /// Holds so many connections at a step, and opens the next as soon as one is evicted;
    /// all together so many each millisecond.
    fn attack(limit: &Arc<ConnectionLimit>, from: IpAddr, held: usize, step: Step, pace: usize) {
        let turns = Arc::new(Semaphore::new(0));
        for _ in 0..held {
            let (limit, turns) = (limit.clone(), turns.clone());
            tokio::spawn(async move {
                while let Ok(turn) = turns.acquire().await {
                    turn.forget();
                    let slot = limit.slot(from);
                    slot.reached(step);
                    slot.evicted().await;
                }
            });
        }
        tokio::spawn(async move {
            loop {
                turns.add_permits(pace);
                sleep(Duration::from_millis(1)).await;
            }
        });
    }

    /// Goes through all steps at the pace of the network; whether it was never evicted.
    async fn comes_through(limit: &Arc<ConnectionLimit>, from: IpAddr) -> bool {
        let slot = limit.slot(from);
        for step in [Step::Greeted, Step::Secured, Step::Asked] {
            sleep(TRIP).await;
            if is_evicted(&slot) {
                return false;
            }
            slot.reached(step);
        }
        true
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_goes_on_comes_through_between_attackers_of_the_same_address() {
        // Each step has places for longer than a trip takes at the pace of the attack.
        let (silent, handshakes, unauthenticated) = (200, 50, 50);
        let limit = ConnectionLimit::new(&Limits {
            silent,
            handshakes,
            unauthenticated,
            ..Limits::default()
        });
        attack(&limit, CLIENT, 250, Step::Connected, 3);
        attack(&limit, CLIENT, 100, Step::Greeted, 2);
        attack(&limit, CLIENT, 100, Step::Secured, 1);
        sleep(Duration::from_millis(200)).await;
        let [connected, others @ ..] = waiting(&limit);
        assert!(connected > 180 && others == [50, 50, 0], "{connected}, {others:?}");
        for _ in 0..10 {
            assert!(comes_through(&limit, CLIENT).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_pace_of_another_address_keeps_anybody_out() {
        let limit = limit(1000, 100);
        for step in [Step::Connected, Step::Greeted, Step::Secured] {
            attack(&limit, ATTACKER, 200, step, 100);
        }
        sleep(TRIP).await;
        let slow = limit.slot(CLIENT);
        for _ in 0..3 {
            assert!(comes_through(&limit, CLIENT).await);
        }
        assert!(!is_evicted(&slow), "not even who takes their time");
    }
}
