//! How long a key that failed has to wait.
//!
//! The longer of two answers: the key's own exponential back-off, and a token
//! bucket shared by all keys of the queue. Keys that are added plainly pass both.

use std::time::Duration;

use flagship_base::backoff::Backoff;
use tokio::time::Instant;

/// First pause of a key whose pass was refused a write.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Parameters of the limiter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// First back-off of a key; doubles with each failure.
    pub base: Duration,
    /// Longest back-off of a key.
    pub max: Duration,
    /// Retries a second that all keys together get in the long run.
    pub qps: f64,
    /// Retries that may come at once.
    pub burst: u32,
}

impl RateLimit {
    /// The limits of the placement queues.
    pub const PLACEMENT: Self = Self {
        base: Duration::from_millis(5),
        max: Duration::from_secs(60),
        qps: 10.0,
        burst: 100,
    };
    /// The limits of every other queue.
    pub const DEFAULT: Self = Self { max: Duration::from_secs(300), ..Self::PLACEMENT };

    /// Back-off of a key that failed `failures` times before this one.
    pub fn backoff(&self, failures: u32) -> Duration {
        Backoff { first: self.base, longest: self.max }.after(failures)
    }

    /// Pause of a key whose pass was refused a write. It begins long for a back-off: what was
    /// refused is rarely taken a moment later, and each try asks the webhook that refuses it.
    pub fn refused(&self, failures: u32) -> Duration {
        Backoff { first: AFTER_REFUSAL, longest: self.max }.after(failures)
    }
}

impl Default for RateLimit {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Tokens of one queue. May go into debt: a debtor waits until it is paid back.
#[derive(Debug)]
pub(super) struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    pub(super) fn full(limit: &RateLimit, now: Instant) -> Self {
        Self { tokens: f64::from(limit.burst), filled: now }
    }

    /// Takes one token and says how long to wait for it.
    pub(super) fn take(&mut self, limit: &RateLimit, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * limit.qps).min(f64::from(limit.burst)) - 1.0;
        self.filled = now;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / limit.qps)
            .map_or(limit.max, |d| d.min(limit.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_up_to_its_limit() {
        let limit = RateLimit::PLACEMENT;
        let first: Vec<_> = (0..5).map(|n| limit.backoff(n).as_millis()).collect();
        assert_eq!(first, [5, 10, 20, 40, 80]);
        assert_eq!(limit.backoff(14), Duration::from_secs(60));
        assert_eq!(limit.backoff(u32::MAX), Duration::from_secs(60));
        assert_eq!(RateLimit::DEFAULT.backoff(40), Duration::from_secs(300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_the_rest_queue_up_at_the_rate() {
        let limit = RateLimit { burst: 2, qps: 10.0, ..RateLimit::PLACEMENT };
        let now = Instant::now();
        let mut bucket = Bucket::full(&limit, now);
        let waits: Vec<_> = (0..4).map(|_| bucket.take(&limit, now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        // A second later the debt is paid and eight tokens are there, of which two fit.
        let later = now + Duration::from_secs(1);
        assert_eq!(bucket.take(&limit, later), Duration::ZERO);
        assert_eq!(bucket.take(&limit, later), Duration::ZERO);
        assert_eq!(bucket.take(&limit, later).as_millis(), 100);
    }
}
