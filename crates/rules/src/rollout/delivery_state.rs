//! How the delivery to one cluster is doing, as far as a rollout cares.
//!
//! Only conditions about the binding's present generation count; everything else is not
//! decided yet. A binding that is being applied, or whose work has not said anything yet,
//! counts as failed in that it may be updated at any time (nothing is lost: it does not
//! serve), but unlike a broken one it still holds its place among those that may be surging.

use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::binding::{
    APPLIED, AVAILABLE, DIFF_REPORTED, OVERRIDDEN, WORK_SYNCHRONIZED,
};
use flagship_api::reason::binding::{APPLY_IN_PROGRESS, NOT_A_FAILURE, WAIT_AFTER_AVAILABLE};
use jiff::{SignedDuration, Timestamp};

use crate::model::Binding;

/// What the conditions of a binding come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryState {
    /// Whether the resources work.
    pub works: Works,
    /// Whether some step has failed, or is not done: KubeFleet's test, which
    /// evictions use too.
    pub failed: bool,
    /// Whether everything that counts as failed is merely under way.
    pub under_way: bool,
    /// Whether the cluster only reports differences.
    pub reports_diff: bool,
}

/// Whether the resources on a cluster work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Works {
    /// They do.
    Yes,
    /// Nobody can tell. They count as working a while after this moment.
    Since(Timestamp),
    /// Not yet; the binding will change when they do.
    No,
}

/// Whether a binding is ready, now that the time is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// It is.
    Yes,
    /// It will be once this much time has passed, and a moment more.
    In(SignedDuration),
    /// It waits for something other than time.
    No,
}

impl Binding {
    /// How the delivery is doing, in short.
    pub fn delivery_state(&self) -> DeliveryState {
        DeliveryState::of(&self.status.conditions, self.generation())
    }
}

impl DeliveryState {
    /// Reads the conditions of a binding of that generation.
    pub fn of(conditions: &[Condition], generation: Generation) -> Self {
        let failing: Vec<&Condition> = [OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED, AVAILABLE]
            .into_iter()
            .filter_map(|kind| conditions.current(kind, generation))
            .filter(|c| {
                ConditionStatus::of(c) == ConditionStatus::False
                    && !NOT_A_FAILURE.contains(&c.reason.as_str())
            })
            .collect();
        Self {
            works: works(conditions, generation),
            failed: !failing.is_empty(),
            under_way: !failing.is_empty() && failing.into_iter().all(is_under_way),
            reports_diff: conditions.current(DIFF_REPORTED, generation).is_some(),
        }
    }

    /// Whether the binding may become ready without being touched again.
    pub fn can_be_ready(&self) -> bool {
        (!self.failed || self.under_way) && !self.reports_diff
    }

    /// Whether it is ready, if what cannot be told takes this long.
    pub fn ready(&self, period: SignedDuration, now: Timestamp) -> Ready {
        match self.works {
            Works::Yes => Ready::Yes,
            Works::No => Ready::No,
            Works::Since(since) => {
                let left = period.saturating_sub(now.duration_since(since));
                if left.is_negative() { Ready::Yes } else { Ready::In(left) }
            }
        }
    }
}

fn works(conditions: &[Condition], generation: Generation) -> Works {
    if conditions.is_true_at(DIFF_REPORTED, generation) {
        return Works::Yes;
    }
    match conditions.current(AVAILABLE, generation) {
        Some(available) if ConditionStatus::of(available) == ConditionStatus::True => {
            if WAIT_AFTER_AVAILABLE.contains(&available.reason.as_str()) {
                Works::Since(available.last_transition_time.0)
            } else {
                Works::Yes
            }
        }
        _ => Works::No,
    }
}

/// A step that is being taken, as opposed to one that went wrong.
fn is_under_way(failing: &Condition) -> bool {
    let kind = failing.type_.as_str();
    (kind == APPLIED && failing.reason == APPLY_IN_PROGRESS)
        || (matches!(kind, APPLIED | AVAILABLE)
            && failing.message.contains(" has not yet completed "))
}
