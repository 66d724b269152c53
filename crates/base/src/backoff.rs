//! Exponential back-off: how long to wait after so many failures in a row.

use std::time::Duration;

/// Waits that double with each failure, up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Backoff {
    /// The wait after a failure that `failures` others came before, without a success between.
    pub const fn after(self, failures: u32) -> Duration {
        let doublings = if failures < 31 { failures } else { 31 };
        let wait = self.first.saturating_mul(1 << doublings);
        if wait.as_nanos() < self.longest.as_nanos() { wait } else { self.longest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_stop_at_the_longest() {
        let backoff = Backoff { first: Duration::from_millis(5), longest: Duration::from_secs(60) };
        let first: Vec<_> = (0..5).map(|failures| backoff.after(failures).as_millis()).collect();
        assert_eq!(first, [5, 10, 20, 40, 80]);
        assert_eq!(backoff.after(14), Duration::from_secs(60));
        assert_eq!(backoff.after(u32::MAX), Duration::from_secs(60));
        let never = Backoff { first: Duration::ZERO, longest: Duration::from_secs(1) };
        assert_eq!(never.after(7), Duration::ZERO);
    }
}
