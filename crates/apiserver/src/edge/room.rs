//! Room for connections, so that those nobody knows cannot keep out those who are known.
//!
//! Whoever connects is a stranger until they have shown a certificate or a token. There are
//! few seats for strangers, and when they are taken the one who came first has to leave: an
//! attacker with thousands of half-open connections only pushes out their own. Nobody has to
//! leave at once, for then whoever connects fastest would push out all others before they
//! can show anything; newcomers wait so long. Whoever is known keeps the seat; when all seats
//! are taken by those, newcomers wait, too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Limits;

/// The seats of a server.
pub(super) struct Room {
    /// One permit a connection.
    seats: Arc<Semaphore>,
    /// How many of them strangers may have.
    most_strangers: usize,
    /// How long each may stay for certain.
    stay: Duration,
    strangers: Mutex<Strangers>,
    /// Told when a stranger left, or is none any more.
    fewer: Notify,
}

#[derive(Default)]
struct Strangers {
    /// In the order in which they came.
    sitting: BTreeMap<u64, Stranger>,
    next: u64,
}

struct Stranger {
    since: Instant,
    /// Tells them to leave.
    leave: CancellationToken,
}

/// The place of one connection.
pub(super) struct Seat {
    room: Arc<Room>,
    number: u64,
    known: AtomicBool,
    /// Told when somebody else needs the place.
    pub(super) leave: CancellationToken,
    /// Told when the first request has come.
    pub(super) spoken: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Room {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let seats = limits.connections.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            seats: Arc::new(Semaphore::new(seats)),
            most_strangers: limits.strangers.max(1),
            stay: limits.stay,
            strangers: Mutex::default(),
            fewer: Notify::new(),
        })
    }

    /// A seat for somebody who has just come; waits while there is none. `None` when there
    /// never will be.
    pub(super) async fn seat(self: &Arc<Self>) -> Option<Seat> {
        while let Some(wait) = self.crowded() {
            // Whoever leaves meanwhile makes room; otherwise the first has stayed long enough.
            timeout(wait, self.fewer.notified()).await.ok();
        }
        let permit = self.seats.clone().acquire_owned().await.ok()?;
        let (since, leave) = (Instant::now(), CancellationToken::new());
        let mut strangers = self.lock();
        let number = strangers.next;
        strangers.next += 1;
        strangers.sitting.insert(number, Stranger { since, leave: leave.clone() });
        drop(strangers);
        Some(Seat {
            room: self.clone(),
            number,
            known: AtomicBool::new(false),
            leave,
            spoken: CancellationToken::new(),
            _permit: permit,
        })
    }

    /// How long the stranger who came first may still stay, if a newcomer needs the place;
    /// one who may not is told to leave.
    fn crowded(&self) -> Option<Duration> {
        let mut strangers = self.lock();
        let full = self.seats.available_permits() == 0;
        if strangers.sitting.len() < self.most_strangers && !full {
            return None;
        }
        let (_, first) = strangers.sitting.first_key_value()?;
        let left = self.stay.saturating_sub(first.since.elapsed());
        if !left.is_zero() {
            return Some(left);
        }
        first.leave.cancel();
        strangers.sitting.pop_first();
        None
    }

    /// The stranger who came first has to leave at once.
    pub(super) fn make_way(&self) {
        if let Some((_, first)) = self.lock().sitting.pop_first() {
            first.leave.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_no_stranger(&self, number: u64) {
        if self.lock().sitting.remove(&number).is_some() {
            self.fewer.notify_one();
        }
    }
}

impl Seat {
    /// Whoever sits here has shown who they are, and may stay.
    pub(super) fn recognise(&self) {
        if !self.known.swap(true, Ordering::Relaxed) {
            self.room.is_no_stranger(self.number);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.is_no_stranger(self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const STAY: Duration = Duration::from_secs(1);

    fn room(connections: usize, strangers: usize) -> Arc<Room> {
        Room::new(&Limits { connections, strangers, stay: STAY, ..Limits::default() })
    }

    fn now(room: &Arc<Room>) -> Option<Seat> {
        room.seat().now_or_never().flatten()
    }

    #[tokio::test(start_paused = true)]
    async fn the_stranger_who_came_first_makes_way_and_whoever_is_known_stays() {
        let room = room(10, 2);
        let (known, first) = (now(&room).unwrap(), now(&room).unwrap());
        known.recognise();
        known.recognise();
        let second = now(&room).unwrap();
        assert!(now(&room).is_none(), "both may stay a while");
        tokio::time::advance(STAY).await;
        let told = |seat: &Seat| seat.leave.is_cancelled();
        let newcomers = [now(&room).unwrap(), now(&room).unwrap()];
        assert!(told(&first) && told(&second) && !told(&known));
        assert!(!newcomers.iter().any(told));
        // Whoever waits is served as soon as one leaves, or has stayed long enough.
        let begun = Instant::now();
        let waiting = tokio::spawn({
            let room = room.clone();
            async move { room.seat().await.unwrap() }
        });
        tokio::task::yield_now().await;
        drop(newcomers);
        let third = waiting.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let fourth = room.seat().await.unwrap();
        let fifth = room.seat().await.unwrap();
        assert_eq!(begun.elapsed(), STAY);
        assert!(told(&third) && !told(&fourth) && !told(&fifth));
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_seats_are_taken_strangers_go_and_known_ones_are_waited_for() {
        let room = room(2, 2);
        let (known, stranger) = (now(&room).unwrap(), now(&room).unwrap());
        known.recognise();
        tokio::time::advance(STAY).await;
        assert!(now(&room).is_none() && stranger.leave.is_cancelled());
        drop(stranger);
        let newcomer = now(&room).unwrap();
        newcomer.recognise();
        assert!(now(&room).is_none(), "both seats are taken by known ones");
        drop(known);
        assert!(now(&room).is_some());
        assert!(room.lock().sitting.is_empty(), "who left is forgotten");
    }
}
