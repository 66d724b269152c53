//! Room for connections, so that those nobody knows cannot keep out those who are known.
//!
//! Whoever connects is a stranger until they have shown a certificate or a token. Nobody waits
//! to be let in: one place in a queue behind an attacker with thousands of connections would be
//! as good as none. Strangers come step by step instead (see [`Step`]), every step has places
//! of its own, and only those who come to the same step push each other out (see `crowd`). So
//! whoever dawdles at one step takes no place from those at another, and whoever goes on as
//! fast as the network carries is past a step before as many others as it has places have done
//! what it takes to get there. Each step costs an attacker more, and the server has fewer
//! places where it costs the server more. Being pushed out means to leave unless one can take
//! the next step at once: what it takes may have come, and only not have been read yet.
//!
//! Whoever is known keeps the seat. There are so many seats for those; the next one is served
//! as well, but may have to leave as strangers do.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_metrics::Metrics;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Limits;
use super::crowd::{Crowd, Origin};

/// How far a stranger has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Has connected, and not yet said what it takes to begin TLS.
    Connected,
    /// Has begun TLS.
    Greeted,
    /// Speaks TLS, and has not yet asked anything.
    Secured,
    /// Has asked something, as nobody in particular.
    Asked,
}

const STEPS: usize = Step::Asked as usize + 1;

/// What part of all strangers leave when the machine has no room, one in so many.
const RELIEF: usize = 8;

/// The seats of a server.
pub(super) struct Room {
    /// One permit for everyone who is known.
    seats: Arc<Semaphore>,
    all_seats: usize,
    strangers: Mutex<Strangers>,
}

struct Strangers {
    steps: [Crowd; STEPS],
    next: u64,
}

/// The place of one connection.
pub(super) struct Seat {
    room: Arc<Room>,
    origin: Origin,
    standing: Mutex<Standing>,
    /// Told when somebody else got the place.
    told: Arc<Notify>,
    /// Told when the first request has come.
    pub(super) spoken: CancellationToken,
}

enum Standing {
    Stranger { step: Step, number: u64 },
    Known { _seat: OwnedSemaphorePermit },
}

impl Room {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let seats = limits.connections.min(Semaphore::MAX_PERMITS);
        let files = open_files().unwrap_or(usize::MAX) / 4;
        let steps = [limits.silent.min(files), limits.handshakes.min(files)];
        let [connected, greeted] = steps.map(Crowd::new);
        let [secured, asked] = [limits.strangers; 2].map(Crowd::new);
        let steps = [connected, greeted, secured, asked];
        Arc::new(Self {
            seats: Arc::new(Semaphore::new(seats)),
            all_seats: seats,
            strangers: Mutex::new(Strangers { steps, next: 0 }),
        })
    }

    /// A seat for somebody who has just come.
    pub(super) fn seat(self: &Arc<Self>, from: IpAddr) -> Seat {
        let (origin, told) = (Origin::from(from), Arc::<Notify>::default());
        let number = self.lock().join(Step::Connected, origin, told.clone());
        let standing = Standing::Stranger { step: Step::Connected, number };
        Seat {
            room: self.clone(),
            origin,
            standing: Mutex::new(standing),
            told,
            spoken: CancellationToken::new(),
        }
    }

    /// How many there are, for Prometheus.
    pub(super) fn metrics(&self) -> Metrics {
        let metrics = Metrics::default();
        let help = "Connections, by how far those who opened them have come.";
        let set = |step: &str, count: usize| {
            metrics.gauge("flagship_edge_connections", help, &[("step", step)]).set(count as f64);
        };
        let names = ["connected", "greeted", "secured", "asked"];
        let lengths = self.lock().steps.each_ref().map(Crowd::len);
        names.into_iter().zip(lengths).for_each(|(step, count)| set(step, count));
        set("known", self.all_seats - self.seats.available_permits());
        metrics
    }

    /// The machine has no room for as many as there are: some have to leave, from the step
    /// with the most.
    pub(super) fn make_way(&self) {
        let mut strangers = self.lock();
        let all: usize = strangers.steps.iter().map(Crowd::len).sum();
        for _ in 0..all.div_ceil(RELIEF) {
            if let Some(fullest) = strangers.steps.iter_mut().max_by_key(|step| step.len()) {
                fullest.push_out();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many files this process may have open, where that can be read.
fn open_files() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Strangers {
    fn join(&mut self, step: Step, origin: Origin, told: Arc<Notify>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.steps[step as usize].join(number, origin, told);
        number
    }
}

impl Seat {
    /// Whoever sits here has come so far. Nothing happens to those who are known, or have
    /// come further already.
    pub(super) fn come_to(&self, next: Step) {
        let mut standing = self.standing();
        let Standing::Stranger { step, number } = &mut *standing else { return };
        if *step >= next {
            return;
        }
        let mut strangers = self.room.lock();
        strangers.steps[*step as usize].part(*number, self.origin);
        *number = strangers.join(next, self.origin, self.told.clone());
        *step = next;
    }

    /// Whoever sits here has shown who they are, and may stay if there is a seat for them.
    pub(super) fn recognise(&self) {
        let mut standing = self.standing();
        let Standing::Stranger { step, number } = *standing else { return };
        if let Ok(seat) = self.room.seats.clone().try_acquire_owned() {
            self.room.lock().steps[step as usize].part(number, self.origin);
            *standing = Standing::Known { _seat: seat };
        }
    }

    /// Whether nobody else got the place.
    pub(super) fn is_kept(&self) -> bool {
        match *self.standing() {
            Standing::Known { .. } => true,
            Standing::Stranger { step, number } => {
                self.room.lock().steps[step as usize].has(number, self.origin)
            }
        }
    }

    /// Waits until somebody else got the place.
    pub(super) async fn lost(&self) {
        while self.is_kept() {
            self.told.notified().await;
        }
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Standing::Stranger { step, number } = *self.standing() {
            self.room.lock().steps[step as usize].part(number, self.origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    const CITIZEN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const ATTACKER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    /// How long the network takes, there and back.
    const TRIP: Duration = Duration::from_millis(15);

    fn room(connections: usize, strangers: usize) -> Arc<Room> {
        let (silent, handshakes) = (strangers, strangers);
        Room::new(&Limits { connections, silent, handshakes, strangers, ..Limits::default() })
    }

    fn told(seat: &Seat) -> bool {
        !seat.is_kept()
    }

    fn strangers(room: &Room) -> [usize; STEPS] {
        room.lock().steps.each_ref().map(Crowd::len)
    }

    #[test]
    fn only_those_at_the_same_step_push_each_other_out() {
        let room = room(10, 1);
        let [first, second, third] = [(); 3].map(|()| room.seat(CITIZEN));
        assert_eq!([&first, &second, &third].map(told), [true, true, false]);
        third.come_to(Step::Greeted);
        let fourth = room.seat(CITIZEN);
        assert_eq!([&third, &fourth].map(told), [false, false]);
        fourth.come_to(Step::Secured);
        // Nobody goes back, and who can go on at once need not leave.
        fourth.come_to(Step::Greeted);
        first.come_to(Step::Asked);
        assert_eq!(strangers(&room), [0, 1, 1, 1]);
        assert_eq!([&first, &second].map(told), [false, true]);
        third.come_to(Step::Secured);
        assert_eq!([&third, &fourth].map(told), [false, true]);
        drop((first, second, third, fourth));
        assert_eq!(strangers(&room), [0; STEPS], "who left is forgotten");
    }

    #[test]
    fn who_is_known_stays_while_there_are_seats_for_those() {
        let room = room(1, 1);
        let known = room.seat(CITIZEN);
        known.recognise();
        let late = room.seat(CITIZEN);
        late.recognise();
        late.come_to(Step::Asked);
        assert_eq!(strangers(&room), [0, 0, 0, 1], "it has no seat, and is served nevertheless");
        let other = room.seat(CITIZEN);
        other.come_to(Step::Asked);
        assert_eq!([&known, &late, &other].map(told), [false, true, false]);
        drop(known);
        other.recognise();
        assert_eq!(strangers(&room), [0; STEPS], "a seat was free");
    }

    #[test]
    fn without_room_on_the_machine_an_eighth_of_the_strangers_leave() {
        let room = room(10, 200);
        let silent: Vec<Seat> = (0..60).map(|_| room.seat(ATTACKER)).collect();
        let asking: Vec<Seat> = (0..70).map(|_| room.seat(ATTACKER)).collect();
        asking.iter().for_each(|seat| seat.come_to(Step::Asked));
        let known = room.seat(CITIZEN);
        known.recognise();
        room.make_way();
        assert_eq!(strangers(&room), [57, 0, 0, 56]);
        assert!(!told(&known));
        drop((silent, asking));
        room.make_way();
    }

    /// Holds so many connections at a step, and opens the next as soon as one is thrown out;
    /// all together so many each millisecond.
    fn besiege(room: &Arc<Room>, from: IpAddr, held: usize, step: Step, pace: usize) {
        let turns = Arc::new(Semaphore::new(0));
        for _ in 0..held {
            let (room, turns) = (room.clone(), turns.clone());
            tokio::spawn(async move {
                while let Ok(turn) = turns.acquire().await {
                    turn.forget();
                    let seat = room.seat(from);
                    seat.come_to(step);
                    seat.lost().await;
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

    /// Comes at the pace of the network, and is recognised at the end, if they have never been
    /// pushed out.
    async fn comes_through(room: &Arc<Room>, from: IpAddr) -> bool {
        let seat = room.seat(from);
        for step in [Step::Greeted, Step::Secured, Step::Asked] {
            sleep(TRIP).await;
            if told(&seat) {
                return false;
            }
            seat.come_to(step);
        }
        true
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_goes_on_comes_through_between_attackers_of_the_same_address() {
        // Each step has places for longer than a trip takes at the pace of the attack.
        let (silent, handshakes, strangers) = (200, 50, 50);
        let room = Room::new(&Limits { silent, handshakes, strangers, ..Limits::default() });
        besiege(&room, CITIZEN, 250, Step::Connected, 3);
        besiege(&room, CITIZEN, 100, Step::Greeted, 2);
        besiege(&room, CITIZEN, 100, Step::Secured, 1);
        sleep(Duration::from_millis(200)).await;
        let [connected, others @ ..] = self::strangers(&room);
        assert!(connected > 180 && others == [50, 50, 0], "{connected}, {others:?}");
        for _ in 0..10 {
            assert!(comes_through(&room, CITIZEN).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_pace_of_another_address_keeps_anybody_out() {
        let room = room(1000, 100);
        for step in [Step::Connected, Step::Greeted, Step::Secured] {
            besiege(&room, ATTACKER, 200, step, 100);
        }
        sleep(TRIP).await;
        let slow = room.seat(CITIZEN);
        for _ in 0..3 {
            assert!(comes_through(&room, CITIZEN).await);
        }
        assert!(!told(&slow), "not even who takes their time");
    }
}
