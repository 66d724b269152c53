//! Time, chance and failure, injected so that a run can be replayed.

pub mod faults;
pub mod plan;
pub mod trace;

use std::sync::Arc;
use std::time::Duration;

use flagship_base::env::Env as Seam;
use jiff::SignedDuration;

pub use faults::{Call, FaultOutcome, Faults, Interference, NoFaults, Point};
pub use flagship_base::env::{Clock, Entropy, SkewedClock, TokioClock, WallClock};
pub use plan::FaultPlan;
pub use trace::Trace;

/// What a server gets from outside itself.
#[derive(Clone)]
pub struct Env {
    /// The only source of time.
    pub clock: Arc<dyn Clock>,
    /// The only source of randomness.
    pub entropy: Arc<Entropy>,
    /// What goes wrong on purpose.
    pub faults: Arc<dyn Faults>,
    /// What happened, as a hash.
    pub trace: Arc<Trace>,
}

impl Env {
    /// An environment for tests and simulation: a fixed start and a seed, no faults.
    pub fn simulated(seed: u64) -> Self {
        Self::without_faults(Seam::simulated(seed), Trace::hashing())
    }

    /// An environment for servers that people use: the machine's clock and real chance.
    pub fn system() -> Self {
        Self::without_faults(Seam::system(), Trace::off())
    }

    fn without_faults(seam: Seam, trace: Trace) -> Self {
        let Seam { clock, entropy } = seam;
        Self { clock, entropy, faults: Arc::new(NoFaults), trace: Arc::new(trace) }
    }

    /// The same, with things going wrong.
    #[must_use]
    pub fn with_faults(mut self, faults: Arc<dyn Faults>) -> Self {
        self.faults = faults;
        self
    }

    /// The same, with another trace.
    #[must_use]
    pub fn with_trace(mut self, trace: Arc<Trace>) -> Self {
        self.trace = trace;
        self
    }

    /// The same for a cluster whose clock runs `offset` ahead; the clock to jump and drift.
    pub fn skewed(&self, offset: SignedDuration) -> (Self, Arc<SkewedClock>) {
        let clock = Arc::new(SkewedClock::new(self.clock.clone(), offset));
        (Self { clock: clock.clone(), ..self.clone() }, clock)
    }

    /// Waits on tokio's time.
    pub async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}
