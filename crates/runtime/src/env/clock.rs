//! Who tells the time.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

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
        self.start.checked_add(self.origin.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// The machine's own clock, with all its jumps.
#[derive(Debug)]
pub struct WallClock;

impl Clock for WallClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        // A machine set before 1970 or past 9999 gets the nearest moment we can write down.
        Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Another clock seen from a machine that is wrong, and may be set right or wrong again.
pub struct SkewedClock {
    base: Arc<dyn Clock>,
    offset: Mutex<SignedDuration>,
}

impl SkewedClock {
    /// Runs `offset` ahead of `base`, behind it when negative.
    pub fn new(base: Arc<dyn Clock>, offset: SignedDuration) -> Self {
        Self { base, offset: Mutex::new(offset) }
    }

    /// Jumps: from now on `offset` ahead of the base.
    pub fn jump(&self, offset: SignedDuration) {
        *self.offset.lock().unwrap_or_else(PoisonError::into_inner) = offset;
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let offset = *self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let past_the_end = if offset.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
        self.base.now().checked_add(offset).unwrap_or(past_the_end)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::env::Env;

    #[tokio::test(start_paused = true)]
    async fn timestamps_move_with_paused_time() {
        let env = Env::simulated(1);
        assert_eq!(env.now().to_string(), "2026-01-01T00:00:00Z");
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(env.now().to_string(), "2026-01-01T00:01:30Z");
    }

    #[tokio::test(start_paused = true)]
    async fn a_skewed_clock_runs_at_the_same_pace_until_it_jumps() {
        let (slow, clock) = Env::simulated(1).skewed(SignedDuration::from_secs(-60));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(slow.now().to_string(), "2026-01-01T00:00:00Z");
        clock.jump(SignedDuration::from_mins(10));
        assert_eq!(slow.now().to_string(), "2026-01-01T00:11:00Z");
    }
}
