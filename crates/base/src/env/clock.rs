//! Where timestamps come from, and clocks that are wrong on purpose.

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
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        // A machine set before 1970 or past 9999 gets the nearest moment we can write down.
        Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Another clock seen through an offset and a drift, one for each cluster that is to
/// be wrong. Changing the offset is a jump, also backwards.
pub struct SkewedClock {
    base: Arc<dyn Clock>,
    skew: Mutex<Skew>,
}

#[derive(Debug, Clone, Copy)]
struct Skew {
    offset: SignedDuration,
    /// Parts per million gained (or lost) since `since`.
    drift: i32,
    since: Timestamp,
}

impl SkewedClock {
    /// Runs `offset` ahead of `base`, behind it when negative.
    pub fn new(base: Arc<dyn Clock>, offset: SignedDuration) -> Self {
        let skew = Skew { offset, drift: 0, since: base.now() };
        Self { base, skew: Mutex::new(skew) }
    }

    /// Jumps: from now on `offset` ahead of the base, whatever it had drifted.
    pub fn jump(&self, offset: SignedDuration) {
        let mut skew = self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        *skew = Skew { offset, since: self.base.now(), ..*skew };
    }

    /// Gains `ppm` microseconds a second from now on, keeping the offset it has.
    pub fn drift(&self, ppm: i32) {
        let mut skew = self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.base.now();
        *skew = Skew { offset: skew.at(now), drift: ppm, since: now };
    }
}

impl Skew {
    fn at(&self, now: Timestamp) -> SignedDuration {
        let passed = now.duration_since(self.since).as_micros() / 1_000_000;
        let gained = passed.saturating_mul(i128::from(self.drift));
        let gained = SignedDuration::from_micros(i64::try_from(gained).unwrap_or_default());
        self.offset.saturating_add(gained)
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let now = self.base.now();
        let skew = *self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = skew.at(now);
        let end = if offset.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
        now.checked_add(offset).unwrap_or(end)
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

    #[tokio::test(start_paused = true)]
    async fn a_skewed_clock_is_ahead_drifts_and_jumps_back() {
        let start = Timestamp::from_second(1_000_000).unwrap();
        let base = Arc::new(TokioClock::starting_at(start));
        let clock = SkewedClock::new(base, SignedDuration::from_mins(10));
        let seconds = || clock.now().duration_since(start).as_secs();
        assert_eq!(seconds(), 600);
        clock.drift(100_000);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(seconds(), 600 + 100 + 10);
        clock.jump(SignedDuration::from_mins(-5));
        assert_eq!(seconds(), 100 - 300);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(seconds(), 200 - 300 + 10);
    }
}
