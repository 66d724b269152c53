//! Time, chance and failure, injected so that a run can be replayed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// What a server gets from outside itself.
#[derive(Clone)]
pub struct Env {
    /// The only source of time.
    pub clock: Arc<dyn Clock>,
    /// The only source of randomness.
    pub entropy: Arc<Entropy>,
}

/// Tells the time. Waiting is done with `tokio::time`, which paused runtimes control.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// A clock that starts at a given moment and moves with tokio's time, so that a
/// paused runtime has paused timestamps too. The moment of creation is `start`.
#[derive(Debug)]
pub struct TokioClock {
    start: Timestamp,
    origin: tokio::time::Instant,
}

impl TokioClock {
    /// Needs no runtime; without one it follows the machine's monotonic clock.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let passed = self.origin.elapsed();
        self.start.checked_add(passed).unwrap_or(Timestamp::MAX)
    }
}

/// Seeded randomness: uids, generated names, jitter.
#[derive(Debug)]
pub struct Entropy(Mutex<fastrand::Rng>);

impl Entropy {
    /// The same seed gives the same sequence.
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// The next 64 bits.
    pub fn u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).u64(..)
    }

    /// A version 4 UUID in its usual text form.
    pub fn uuid(&self) -> String {
        let high = (self.u64() & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (self.u64() & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
        format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
    }
}

impl Env {
    /// An environment for tests and simulation: a fixed start and a seed.
    pub fn simulated(seed: u64) -> Self {
        // A round moment, so that printed times are easy to read.
        let start = Timestamp::from_second(1_767_225_600).expect("2026-01-01 is in range");
        Self {
            clock: Arc::new(TokioClock::starting_at(start)),
            entropy: Arc::new(Entropy::seeded(seed)),
        }
    }

    /// Waits on tokio's time.
    pub async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_version_and_variant() {
        let id = Entropy::seeded(7).uuid();
        assert_eq!(id.len(), 36);
        assert_eq!(id.as_bytes()[14], b'4');
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }
}
