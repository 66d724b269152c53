//! How fast requests may follow one another: `--hub-api-qps` and its kin.
//!
//! A request waits before its own timeout begins, so a client that is held back never takes
//! its own patience for a silent server. Those who wait go in the order they came.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lets requests through at a steady rate, and some at once after a rest.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// Time between two requests in the long run.
    every: Duration,
    /// How far requests may run ahead of that.
    ahead: Duration,
    /// When the next request is due, if none runs ahead.
    due: Mutex<Instant>,
}

impl RateLimiter {
    /// So many requests a second, and so many at once. A rate that is no rate limits nothing.
    pub(super) fn new(qps: f64, burst: u32) -> Option<Self> {
        let every = Duration::try_from_secs_f64(1.0 / qps).ok()?;
        let ahead = every.checked_mul(burst.max(1) - 1)?;
        Some(Self { every, ahead, due: Mutex::new(Instant::now()) })
    }

    /// Waits for leave to send.
    pub(super) async fn wait(&self) {
        let at = self.reserve(Instant::now());
        tokio::time::sleep_until(at).await;
    }

    fn reserve(&self, now: Instant) -> Instant {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = (*due).max(now);
        *due = mine + self.every;
        // Sleeping until a moment that has passed is no sleep at all.
        mine.checked_sub(self.ahead).map_or(now, |early| early.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn some_go_at_once_and_the_rest_at_the_rate() {
        let rate_limit = RateLimiter::new(10.0, 3).unwrap();
        let begun = Instant::now();
        let mut sent = Vec::new();
        for _ in 0..6 {
            rate_limit.wait().await;
            sent.push(begun.elapsed().as_millis());
        }
        assert_eq!(sent, [0, 0, 0, 100, 200, 300]);
        // After a rest some may go at once again, and no more than before.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let rested = Instant::now();
        for _ in 0..4 {
            rate_limit.wait().await;
        }
        assert_eq!(rested.elapsed().as_millis(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_gives_up_leaves_its_turn_unused() {
        let rate_limit = RateLimiter::new(1.0, 1).unwrap();
        rate_limit.wait().await;
        let impatient = tokio::time::timeout(Duration::from_millis(10), rate_limit.wait());
        assert!(impatient.await.is_err());
        let begun = Instant::now();
        rate_limit.wait().await;
        assert!(begun.elapsed() <= Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    #[test]
    fn what_is_no_rate_limits_nothing() {
        for qps in [-1.0, 0.0, f64::NAN] {
            assert!(RateLimiter::new(qps, 10).is_none(), "{qps}");
        }
    }
}
