//! Room for connections, so that those nobody knows cannot keep out those who are known.
//!
//! Whoever connects is a stranger until they have shown a certificate or a token. There are
//! few seats for strangers, and when they are taken the one who came first has to leave: an
//! attacker with thousands of half-open connections only pushes out their own. Whoever is
//! known keeps the seat; when all seats are taken by those, newcomers wait to be accepted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The seats of a server.
pub(super) struct Room {
    /// One permit a connection.
    seats: Arc<Semaphore>,
    /// How many of them strangers may have.
    most_strangers: usize,
    strangers: Mutex<Strangers>,
}

#[derive(Default)]
struct Strangers {
    /// In the order in which they came; each is told to leave by its token.
    sitting: BTreeMap<u64, CancellationToken>,
    next: u64,
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
    pub(super) fn new(connections: usize, strangers: usize) -> Arc<Self> {
        Arc::new(Self {
            seats: Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS))),
            most_strangers: strangers.max(1),
            strangers: Mutex::default(),
        })
    }

    /// A seat for somebody who has just come; waits when all are taken by known ones.
    /// `None` when there will be none.
    pub(super) async fn seat(self: &Arc<Self>) -> Option<Seat> {
        if self.lock().sitting.len() >= self.most_strangers || self.seats.available_permits() == 0 {
            self.make_way();
        }
        let permit = self.seats.clone().acquire_owned().await.ok()?;
        let leave = CancellationToken::new();
        let mut strangers = self.lock();
        let number = strangers.next;
        strangers.next += 1;
        strangers.sitting.insert(number, leave.clone());
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

    /// The stranger who came first has to leave.
    pub(super) fn make_way(&self) {
        if let Some((_, leave)) = self.lock().sitting.pop_first() {
            leave.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Whoever sits here has shown who they are, and may stay.
    pub(super) fn recognise(&self) {
        if !self.known.swap(true, Ordering::Relaxed) {
            self.room.lock().sitting.remove(&self.number);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.lock().sitting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn now(room: &Arc<Room>) -> Option<Seat> {
        room.seat().now_or_never().flatten()
    }

    #[test]
    fn the_stranger_who_came_first_makes_way_and_whoever_is_known_stays() {
        let room = Room::new(10, 2);
        let (known, first, second) =
            (now(&room).unwrap(), now(&room).unwrap(), now(&room).unwrap());
        assert!(known.leave.is_cancelled(), "nobody knew it yet");
        let known = now(&room).unwrap();
        assert!(first.leave.is_cancelled() && !second.leave.is_cancelled());
        known.recognise();
        known.recognise();
        let newcomers: Vec<Seat> = (0..3).map(|_| now(&room).unwrap()).collect();
        let told = |seat: &Seat| seat.leave.is_cancelled();
        assert!(told(&second) && !told(&known));
        assert_eq!(newcomers.iter().map(told).collect::<Vec<_>>(), [true, false, false]);
    }

    #[test]
    fn when_all_seats_are_taken_strangers_go_and_known_ones_are_waited_for() {
        let room = Room::new(2, 2);
        let (known, stranger) = (now(&room).unwrap(), now(&room).unwrap());
        known.recognise();
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
