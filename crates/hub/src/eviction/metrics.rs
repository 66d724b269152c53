//! What became of each eviction, as a metric: set to the moment it was last seen so.

use flagship_runtime::metrics::Metrics;
use jiff::Timestamp;

const NAME: &str = "fleet_workload_eviction_complete";
const HELP: &str = "When the eviction was last seen in this state.";

/// `isCompleted` and `isValid`, as they are written.
const STATES: [[&str; 2]; 3] = [["true", "true"], ["true", "false"], ["false", "unknown"]];

/// The series of all evictions, so that they can go with them.
pub(super) struct Outcomes {
    metrics: Metrics,
}

impl Outcomes {
    pub fn new(metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone() }
    }

    /// The verdict was written, and said whether the eviction made sense.
    pub fn concluded(&self, name: &str, valid: bool, now: Timestamp) {
        self.forget(name);
        self.tell(name, if valid { STATES[0] } else { STATES[1] }, now);
    }

    /// The pass failed; another will follow.
    pub fn failed(&self, name: &str, now: Timestamp) {
        self.tell(name, STATES[2], now);
    }

    /// The eviction is gone.
    pub fn forget(&self, name: &str) {
        for state in STATES {
            self.metrics.forget(NAME, &labels(name, state));
        }
    }

    fn tell(&self, name: &str, state: [&str; 2], now: Timestamp) {
        let gauge = self.metrics.gauge(NAME, HELP, &labels(name, state));
        gauge.set(now.as_millisecond() as f64 / 1e3);
    }
}

fn labels<'a>(name: &'a str, [completed, valid]: [&'a str; 2]) -> [(&'static str, &'a str); 3] {
    [("name", name), ("isCompleted", completed), ("isValid", valid)]
}
