//! What the metrics of a run say.

use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::update_run::{INITIALIZED, PROGRESSING, SUCCEEDED};
use flagship_api::error_class::ErrorClass;
use flagship_api::reason::update_run as reason;
use flagship_api::staged_update_status::StageUpdatingStatus;
use serde::{Deserialize, Serialize};

use super::observed::Run;
use super::plan_builder::PlanBuilder;

/// Labels of `fleet_workload_update_run_status_last_timestamp_seconds` besides namespace
/// and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Label `state`.
    pub state: String,
    /// Label `condition`.
    pub condition: String,
    /// Label `status`.
    pub status: String,
    /// Label `reason`.
    pub reason: String,
    /// Label `failureType`.
    pub failure_type: String,
}

/// Something a histogram is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Measured {
    /// How long an approval took.
    Approval {
        /// Label `taskType`.
        task_type: String,
        /// From the request to the approval.
        seconds: f64,
    },
    /// How long the clusters of a stage took.
    Stage {
        /// From the first start to the last finish.
        seconds: f64,
    },
}

/// Where a run stands; nothing as long as no condition is about its generation.
pub fn series(run: &Run, conditions: &[Condition]) -> Option<Series> {
    let at = Generation(run.generation);
    let told = [SUCCEEDED, PROGRESSING, INITIALIZED];
    let told = told.into_iter().find_map(|kind| conditions.current(kind, at))?;
    Some(Series {
        state: format!("{:?}", run.state()),
        condition: told.type_.clone(),
        status: told.status.clone(),
        reason: told.reason.clone(),
        failure_type: failure_type(told).to_owned(),
    })
}

fn failure_type(told: &Condition) -> &'static str {
    if ConditionStatus::of(told) != ConditionStatus::False {
        return "none";
    }
    match told.reason.as_str() {
        reason::STUCK => "internal_error",
        reason::FAILED | reason::INITIALIZATION_FAILED => {
            if told.message.contains(ErrorClass::User.as_str()) {
                "user_error"
            } else {
                "internal_error"
            }
        }
        _ => "none",
    }
}

/// The clusters of a stage are all updated.
pub fn stage_done(pass: &mut PlanBuilder<'_>, stage: &StageUpdatingStatus) {
    if let Some(start) = &stage.start_time {
        let seconds = pass.seen.now.duration_since(start.0).as_secs_f64();
        pass.measure(Measured::Stage { seconds });
    }
}
