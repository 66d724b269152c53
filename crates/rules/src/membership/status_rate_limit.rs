//! How many status updates of one member the hub handles.
//!
//! Agents report every few seconds, and a handful of times while they join. A member that
//! writes its status hundreds of times a second must not make the hub write as often.

use jiff::{SignedDuration, Timestamp};

/// As many are taken note of at once.
const BURST: u32 = 10;

/// And one more after each such span.
const EVERY: SignedDuration = SignedDuration::from_secs(1);

/// What one member may still say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRateLimit {
    left: u32,
    /// Since when `left` is that many.
    since: Timestamp,
}

impl StatusRateLimit {
    /// Of a member that has said nothing yet.
    pub fn new(now: Timestamp) -> Self {
        Self { left: BURST, since: now }
    }

    /// Takes note of one more word: how long it has to wait.
    pub fn take(&mut self, now: Timestamp) -> SignedDuration {
        let passed = now.duration_since(self.since);
        if passed.is_negative() {
            // The clock was set back: begin anew rather than wait for it to catch up.
            *self = Self::new(now);
        }
        let more = passed.as_secs() / EVERY.as_secs();
        if more > 0 {
            self.left = BURST.min(self.left.saturating_add(u32::try_from(more).unwrap_or(BURST)));
            self.since = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                SignedDuration::ZERO
            }
            None => EVERY - now.duration_since(self.since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_a_second() {
        let start: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let at = |millis: i64| start + SignedDuration::from_millis(millis);
        let mut allowance = StatusRateLimit::new(start);
        let passed = (0..930).filter(|n| allowance.take(at(*n)).is_zero()).count();
        assert_eq!(passed, 10);
        assert_eq!(allowance.take(at(990)), SignedDuration::from_millis(10));
        assert_eq!(allowance.take(at(1000)), SignedDuration::ZERO);
        assert!(!allowance.take(at(1001)).is_zero());
        assert_eq!(allowance.take(at(60_000)), SignedDuration::ZERO);
        let passed = (0..100).filter(|n| allowance.take(at(60_001 + n)).is_zero()).count();
        assert_eq!(passed, 9, "what was not said is not saved up");
        assert_eq!(allowance.take(at(-5_000)), SignedDuration::ZERO, "the clock was set back");
    }
}
