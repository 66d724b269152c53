//! Where each placement stands, as a metric: one series for every state it was seen in,
//! set to the moment it was last seen there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use flagship_api::names::ObjectKey;
use flagship_rules::placement::Series;
use flagship_runtime::metrics::Metrics;
use jiff::Timestamp;

const NAME: &str = "fleet_workload_placement_status_last_timestamp_seconds";
const HELP: &str = "When the placement was last seen in this state.";

/// The series of all placements, so that they can go with them.
pub(super) struct StatusSeries {
    metrics: Metrics,
    told: Mutex<BTreeMap<ObjectKey, BTreeSet<[String; 4]>>>,
}

impl StatusSeries {
    pub fn new(metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), told: Mutex::default() }
    }

    /// The placement stands there now.
    pub fn tell(&self, key: &ObjectKey, generation: i64, at: &Series, now: Timestamp) {
        let state =
            [&generation.to_string(), &at.condition, &at.status, &at.reason].map(Clone::clone);
        self.metrics.gauge(NAME, HELP, &labels(key, &state)).set(now.as_millisecond() as f64 / 1e3);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.entry(key.clone()).or_default().insert(state);
    }

    /// The placement is gone, or about to be.
    pub fn forget(&self, key: &ObjectKey) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        for state in told.into_iter().flatten() {
            self.metrics.forget(NAME, &labels(key, &state));
        }
    }
}

fn labels<'a>(key: &'a ObjectKey, state: &'a [String; 4]) -> [(&'static str, &'a str); 6] {
    let [generation, condition, status, reason] = state;
    [
        ("namespace", key.namespace.as_deref().unwrap_or_default()),
        ("name", &key.name),
        ("generation", generation),
        ("conditionType", condition),
        ("status", status),
        ("reason", reason),
    ]
}
