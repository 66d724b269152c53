//! The requeue back-off of Works: how long after a pass over a Work the next one comes.
//!
//! Drift, changed availability and deleted objects are found by passes, whether or not the
//! member watches what it applied. The first passes come at a fixed distance; then the
//! distance grows, slowly while the Work is not available and faster afterwards, up to a
//! limit. A new generation of the Work or another result starts the sequence again.

use flagship_api::hash;
use jiff::SignedDuration;

use super::outcome::Outcome;

/// The sequence of delays, as the flags of KubeFleet's requeue rate limiter set it.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// Passes with a fixed delay before the delay grows.
    pub attempts: u32,
    /// That delay.
    pub fixed: SignedDuration,
    /// Factor by which the delay grows at first.
    pub slow_base: f64,
    /// First delay that grows.
    pub slow_start: SignedDuration,
    /// Longest delay that grows by the slow factor.
    pub slow_cap: SignedDuration,
    /// Factor from then on.
    pub fast_base: f64,
    /// The longest delay.
    pub fast_cap: SignedDuration,
    /// Whether the delay of available or compared Works grows by the fast factor at once.
    pub skip_to_fast: bool,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            attempts: 1,
            fixed: SignedDuration::from_secs(5),
            slow_base: 1.2,
            slow_start: SignedDuration::from_secs(2),
            slow_cap: SignedDuration::from_secs(15),
            fast_base: 1.5,
            fast_cap: SignedDuration::from_secs(900),
            skip_to_fast: true,
        }
    }
}

/// The longest delay anybody may ask for, and the shortest.
const LONGEST: SignedDuration = SignedDuration::from_secs(3600);
const SHORTEST: SignedDuration = SignedDuration::from_secs(2);

/// Passes that are counted; more make no difference.
const MOST_LOOKS: u32 = 199;

impl Timing {
    /// The same, with what makes no sense replaced by something that does.
    #[must_use]
    pub fn sound(mut self) -> Self {
        self.attempts = self.attempts.max(1);
        self.fixed = self.fixed.max(SHORTEST);
        // Not a comparison of opposites: nothing compares with what is not a number.
        let bases =
            1.05 <= self.slow_base && self.slow_base <= self.fast_base && self.fast_base <= 100.0;
        if !bases {
            (self.slow_base, self.fast_base) = (1.2, 1.2);
        }
        let ordered = [SHORTEST, self.slow_start, self.slow_cap, self.fast_cap, LONGEST];
        if !ordered.is_sorted() {
            self.slow_start = SHORTEST;
            self.slow_cap = SignedDuration::from_secs(30);
            self.fast_cap = SignedDuration::from_secs(900);
        }
        self
    }
}

/// How a pass over a Work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Generation of the Work.
    pub generation: i64,
    /// What became of the manifests; error texts do not count.
    pub results: String,
    /// Whether all there is to do is done: available, or compared.
    pub settled: bool,
    /// Whether some manifest waits for an object to be gone.
    pub waiting: bool,
}

impl Look {
    /// The end of a pass over the Work of this generation.
    pub fn new(generation: i64, outcomes: &[Outcome], settled: bool) -> Self {
        let result = |of: &Outcome| format!("{},{}", of.verdict.reason(), of.availability.name());
        let results: Vec<String> = outcomes.iter().map(result).collect();
        // A list of words can always be written.
        let results = hash::of(&results).unwrap_or_default();
        let waiting = outcomes.iter().any(|outcome| outcome.terminating);
        Self { generation, results, settled, waiting }
    }
}

/// How many passes over a Work brought the same result. Kept until the Work is gone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequeueBackOff {
    looks: u32,
    last: SignedDuration,
    seen: Option<(i64, String)>,
}

impl RequeueBackOff {
    /// How long to wait after this look.
    pub fn next(&mut self, timing: &Timing, look: &Look) -> SignedDuration {
        let seen = Some((look.generation, look.results.clone()));
        if self.seen != seen {
            *self = Self { seen, ..Self::default() };
        }
        let wait = self.wait(timing, look).min(timing.fast_cap);
        self.looks = (self.looks + 1).min(MOST_LOOKS);
        self.last = wait;
        wait
    }

    fn wait(&self, timing: &Timing, look: &Look) -> SignedDuration {
        if self.looks < timing.attempts || look.waiting {
            return timing.fixed;
        }
        if self.looks == timing.attempts {
            return timing.slow_start;
        }
        if self.last >= timing.fast_cap {
            return timing.fast_cap;
        }
        let fast = times(self.last, timing.fast_base);
        if (timing.skip_to_fast && look.settled) || self.last >= timing.slow_cap {
            return fast;
        }
        let slow = times(self.last, timing.slow_base);
        if slow > timing.slow_cap { fast } else { slow }
    }
}

/// A multiple of a span, whatever the factor: one that is no number makes no difference.
fn times(span: SignedDuration, factor: f64) -> SignedDuration {
    let seconds = (span.as_secs_f64() * factor).min(LONGEST.as_secs_f64());
    SignedDuration::try_from_secs_f64(seconds).unwrap_or(span)
}
