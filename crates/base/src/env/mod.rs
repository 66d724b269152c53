//! Time and chance, injected so that a run can be replayed.
//!
//! Timestamps come from [`Clock`], waiting is done with `tokio::time`, and both
//! follow a paused runtime. Spans are measured on tokio's monotonic clock: a wall
//! clock that jumps must not shorten a lease or a back-off.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

mod clock;
mod entropy;

pub use clock::{Clock, SkewedClock, TokioClock, WallClock};
pub use entropy::Entropy;

/// What a program gets from outside itself.
#[derive(Clone)]
pub struct Env {
    /// The only source of time.
    pub clock: Arc<dyn Clock>,
    /// The only source of randomness.
    pub entropy: Arc<Entropy>,
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

    /// An environment for real clusters: the machine's clock and real chance.
    pub fn system() -> Self {
        Self { clock: Arc::new(WallClock), entropy: Arc::new(Entropy::unseeded()) }
    }

    /// The same on a machine whose clock runs `offset` ahead; the clock to jump.
    pub fn skewed(&self, offset: SignedDuration) -> (Self, Arc<SkewedClock>) {
        let clock = Arc::new(SkewedClock::new(self.clock.clone(), offset));
        (Self { clock: clock.clone(), ..self.clone() }, clock)
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
