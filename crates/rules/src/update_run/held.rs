//! Whether a freeze holds a run: the few places where runs ask `policy`.
//!
//! A held run begins no cluster and deletes no binding; gates are asked and clusters under
//! way finish as ever. It says that it is frozen before anything else, also where it would
//! wait anyway: from then on a hub that has not heard of the freeze cannot write over the
//! record (law P2). For the same reason the pass that finds the freeze lifted only says so,
//! and the next one begins something.

use flagship_api::condition::Conditions;
use flagship_api::condition_type::update_run::PROGRESSING;
use flagship_api::reason::update_run::FROZEN;
use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::SignedDuration;

use super::gates::STAGE_POLL;
use super::observed::Observed;
use super::plan_builder::PlanBuilder;
use super::reconcile::Waiting;
use super::status::ConditionValue;
use crate::policy::freeze::{Freeze, holding};

/// The freeze that holds a stage of the run.
pub fn held<'a>(seen: &'a Observed, stage: &str) -> Option<&'a Freeze> {
    holding(&seen.policy, &seen.run.beside(&seen.run.name), stage, seen.now)
}

/// Whether the record says that the run is frozen.
pub fn says_frozen(status: &UpdateRunStatus) -> bool {
    status.conditions.of_type(PROGRESSING).is_some_and(|told| told.reason == FROZEN)
}

impl PlanBuilder<'_> {
    /// Whether clusters of the stage may begin in this pass.
    pub fn may_begin(&mut self, stage: &str) -> bool {
        if held(self.seen, stage).is_some() {
            return false;
        }
        let lifted = says_frozen(&self.seen.run.status);
        if lifted {
            self.wake_in(SignedDuration::ZERO);
        }
        !lifted
    }

    /// What a run says that would say this if nothing held it.
    pub fn unless_held(&mut self, stage: &str, value: ConditionValue) -> ConditionValue {
        let says_more = matches!(
            value,
            ConditionValue::Progressing | ConditionValue::Waiting(..) | ConditionValue::Stuck(..)
        );
        let Some(freeze) = held(self.seen, stage).filter(|_| says_more) else { return value };
        self.wait(Waiting::Frozen { stage: stage.to_owned(), freeze: freeze.name.clone() });
        self.wake_in(STAGE_POLL);
        if let Some(until) = freeze.until() {
            self.wake_in(until.duration_since(self.seen.now));
        }
        ConditionValue::Frozen(freeze.told())
    }
}
