//! How runs are doing, as metrics: one series for every state a run was seen in, set to the
//! moment it was last seen there, and how long people and clusters took.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use flagship_api::keys::task_type::{AFTER_STAGE, BEFORE_STAGE};
use flagship_api::names::ObjectKey;
use flagship_rules::update_run::{Measured, Series};
use flagship_runtime::metrics::Metrics;
use jiff::Timestamp;

const STATUS: &str = "fleet_workload_update_run_status_last_timestamp_seconds";
const APPROVAL: &str = "fleet_workload_update_run_approval_request_latency_seconds";
const STAGE: &str = "fleet_workload_update_run_stage_cluster_updating_duration_seconds";

const APPROVAL_SECONDS: &[f64] =
    &[60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0];
const STAGE_SECONDS: &[f64] = &[15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

/// The series of all runs, so that they can go with them.
pub(super) struct StatusSeries {
    metrics: Metrics,
    told: Mutex<BTreeMap<ObjectKey, BTreeSet<[String; 5]>>>,
}

impl StatusSeries {
    pub fn new(metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), told: Mutex::default() }
    }

    /// The run stands there now.
    pub fn tell(&self, run: &ObjectKey, at: &Series, now: Timestamp) {
        let Series { state, condition, status, reason, failure_type } = at;
        let state = [state, condition, status, reason, failure_type].map(Clone::clone);
        let help = "When the update run was last seen in this state.";
        let gauge = self.metrics.gauge(STATUS, help, &labels(run, &state));
        gauge.set(now.as_millisecond() as f64 / 1e3);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.entry(run.clone()).or_default().insert(state);
    }

    /// Something took its time.
    pub fn measure(&self, run: &ObjectKey, measured: &Measured) {
        let [namespace, name] = identity(run);
        match measured {
            Measured::Approval { task_type, seconds } => {
                let labels = [namespace, name, ("taskType", task_type.as_str())];
                let help = "From an approval request to its approval.";
                let took = self.metrics.histogram(APPROVAL, help, APPROVAL_SECONDS, &labels);
                took.observe(*seconds);
            }
            Measured::Stage { seconds } => {
                let help = "How long the clusters of a stage took.";
                let labels = [namespace, name];
                let took = self.metrics.histogram(STAGE, help, STAGE_SECONDS, &labels);
                took.observe(*seconds);
            }
        }
    }

    /// The run is gone, or about to be.
    pub fn forget(&self, run: &ObjectKey) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
        for state in told.into_iter().flatten() {
            self.metrics.forget(STATUS, &labels(run, &state));
        }
        let [namespace, name] = identity(run);
        for side in [BEFORE_STAGE, AFTER_STAGE] {
            self.metrics.forget(APPROVAL, &[namespace, name, ("taskType", side)]);
        }
        self.metrics.forget(STAGE, &[namespace, name]);
    }
}

fn identity(run: &ObjectKey) -> [(&'static str, &str); 2] {
    [("namespace", run.namespace.as_deref().unwrap_or_default()), ("name", &run.name)]
}

fn labels<'a>(run: &'a ObjectKey, state: &'a [String; 5]) -> [(&'static str, &'a str); 7] {
    let [namespace, name] = identity(run);
    let [state, condition, status, reason, failure_type] = state;
    [
        namespace,
        name,
        ("state", state),
        ("condition", condition),
        ("status", status),
        ("reason", reason),
        ("failureType", failure_type),
    ]
}
