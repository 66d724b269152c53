//! When a Work is looked at again.
//!
//! Nothing on a member is watched by this rule: drift, availability and deleted objects are
//! found by looking again, soon at first and more and more seldom while nothing changes.

use flagship_api::hash;
use jiff::SignedDuration;

use super::outcome::Outcome;

/// How often to look.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// Looks at a fixed distance before the distance grows.
    pub attempts: u32,
    /// That distance.
    pub fixed: SignedDuration,
    /// What the distance grows by at first.
    pub slow_base: f64,
    /// What it starts from.
    pub slow_start: SignedDuration,
    /// Up to where it grows slowly.
    pub slow_cap: SignedDuration,
    /// What it grows by from then on.
    pub fast_base: f64,
    /// The greatest distance.
    pub fast_cap: SignedDuration,
    /// Whether Works that are done grow fast from the start.
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

/// The longest distance anybody may ask for, and the shortest.
const LONGEST: SignedDuration = SignedDuration::from_secs(3600);
const SHORTEST: SignedDuration = SignedDuration::from_secs(2);

/// Looks that are counted; more make no difference.
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

/// How often a Work was looked at without anything new. Kept until the Work is gone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pace {
    looks: u32,
    last: SignedDuration,
    seen: Option<(i64, String)>,
}

impl Pace {
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
