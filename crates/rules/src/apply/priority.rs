//! Which Work is looked at first, where the queue knows priorities.

use flagship_api::apply_strategy::ApplyStrategyType;
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::work::{APPLIED, AVAILABLE, DIFF_REPORTED};
use flagship_api::defaults::effective_apply_strategy;
use flagship_api::work::Work;
use jiff::Timestamp;

/// The priority of a Work that somebody waits for.
pub const HIGHEST: i32 = 100;

/// The priority of a look that only time has asked for.
pub const PERIODIC: i32 = -1;

/// What made a Work be looked at.
#[derive(Debug, Clone, Copy)]
pub enum Trigger<'a> {
    /// It was created.
    Created,
    /// Its deletion was asked for, or it is gone.
    Deleted,
    /// Its specification changed.
    Updated {
        /// The Work before the change.
        old: &'a Work,
    },
    /// Only time has passed.
    Periodic,
}

/// How the age of a Work counts: `a` for each minute, plus `b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ageing {
    /// For each whole minute of age, from -100 to -1.
    pub a: i32,
    /// For a new one, from 1 to 1000.
    pub b: i32,
}

impl Default for Ageing {
    fn default() -> Self {
        Self { a: -3, b: 100 }
    }
}

/// The priority of a look at a Work, the higher the sooner. An error keeps the one it had.
pub fn priority(trigger: Trigger<'_>, ageing: Ageing, now: Timestamp) -> i32 {
    match trigger {
        Trigger::Periodic => PERIODIC,
        Trigger::Created | Trigger::Deleted => HIGHEST,
        Trigger::Updated { old } if !is_settled(old) => HIGHEST,
        Trigger::Updated { old } => {
            let created = old.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
            let minutes = now.duration_since(created).as_mins().max(0);
            let value = i64::from(ageing.a).saturating_mul(minutes).saturating_add(ageing.b.into());
            i32::try_from(value.clamp(0, HIGHEST.into())).unwrap_or(HIGHEST)
        }
    }
}

/// Whether a Work had done all that its specification asked for.
fn is_settled(work: &Work) -> bool {
    let generation = Generation::of(&work.metadata);
    let Some(status) = &work.status else { return false };
    let holds = |of_type| status.conditions.is_true_at(of_type, generation);
    let strategy = effective_apply_strategy(work.spec.apply_strategy.as_ref());
    match strategy.r#type {
        Some(ApplyStrategyType::ReportDiff) => holds(DIFF_REPORTED),
        _ => holds(APPLIED) && holds(AVAILABLE),
    }
}
