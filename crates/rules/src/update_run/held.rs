//! Whether a freeze or a closed window holds a run: the few places where runs ask `policy`.
//!
//! A held run begins no cluster and deletes no binding; gates are asked and clusters under
//! way finish as ever. It says that it is frozen before anything else, also where it would
//! wait anyway: from then on a hub that has not heard of the freeze cannot write over the
//! record (law P2). For the same reason the pass that finds the freeze lifted only says so,
//! and the next one begins something.
//!
//! A window is asked for each cluster before it is chosen, so that one whose window is closed
//! takes no slot from others. What a run says of it is that nothing of it may begin.

use std::collections::BTreeMap;

use flagship_api::condition::Conditions;
use flagship_api::condition_type::update_run::PROGRESSING;
use flagship_api::reason::update_run::{FROZEN, POLICIES_CHANGED, WINDOW_CLOSED};
use flagship_api::staged_update_status::{StageUpdatingStatus, UpdateRunStatus};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::counted::glass;
use super::gates::STAGE_POLL;
use super::lifecycle::{in_flight, is_settled};
use super::observed::Observed;
use super::plan_builder::PlanBuilder;
use super::reconcile::Waiting;
use super::status::ConditionValue;
use crate::model::Cluster;
use crate::policy::freeze::{Freeze, holding};
use crate::policy::windows::{Calendar, Opening, Span};

/// A closed window is looked at this often: timers do not notice when the clock is set, nor
/// when a cluster gets another zone.
pub const WINDOW_POLL: SignedDuration = SignedDuration::from_mins(5);

/// The freeze that holds a stage of the run.
pub fn held<'a>(seen: &'a Observed, stage: &str) -> Option<&'a Freeze> {
    let freeze = holding(&seen.policy, &seen.run.beside(&seen.run.name), stage, seen.now)?;
    // Whoever breaks the glass lets one stage of one run pass.
    glass(seen, stage).is_empty().then_some(freeze)
}

/// Whether the record says that the run is frozen.
pub fn says_frozen(status: &UpdateRunStatus) -> bool {
    status.conditions.of_type(PROGRESSING).is_some_and(|told| told.reason == FROZEN)
}

/// Whether the record says that somebody has changed the policies of the run.
pub fn says_policies_changed(status: &UpdateRunStatus) -> bool {
    status.conditions.of_type(PROGRESSING).is_some_and(|told| told.reason == POLICIES_CHANGED)
}

/// Whether the record says that somebody holds the run, so that whoever finds that it is over
/// only says so first.
pub fn says_held(status: &UpdateRunStatus) -> bool {
    says_frozen(status) || says_policies_changed(status)
}

/// Whether the record says that no window is open.
pub fn says_closed(status: &UpdateRunStatus) -> bool {
    status.conditions.of_type(PROGRESSING).is_some_and(|told| told.reason == WINDOW_CLOSED)
}

/// When clusters of a stage may begin; `None` where they always may.
pub fn calendar<'a>(seen: &'a Observed, stage: &'a str) -> Option<Calendar<'a>> {
    Calendar::of(seen.run.adopted.as_ref(), stage, seen.now)
}

/// When clusters of a stage may begin in the week to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageOpenings {
    /// The stage.
    pub stage: String,
    /// The clusters, which share their windows.
    pub clusters: Vec<String>,
    /// From when until when.
    pub openings: Vec<Span>,
}

/// How many days are looked ahead.
const WEEK: i64 = 7;

/// When clusters of a stage may begin in the week to come, those with the same hours together;
/// nothing where they always may.
pub fn week_ahead(seen: &Observed, stage: &StageUpdatingStatus) -> Vec<StageOpenings> {
    let Some(calendar) = calendar(seen, &stage.stage_name) else { return Vec::new() };
    let fleet: BTreeMap<&str, &Cluster> =
        seen.clusters.iter().map(|cluster| (&*cluster.name, &**cluster)).collect();
    let mut found: BTreeMap<Vec<Option<&str>>, StageOpenings> = BTreeMap::new();
    for entry in &stage.clusters {
        let name = &entry.cluster_name;
        let cluster = fleet.get(&**name).copied();
        let same = found.entry(calendar.zones(cluster)).or_insert_with(|| StageOpenings {
            stage: stage.stage_name.clone(),
            clusters: Vec::new(),
            openings: calendar.openings(name, cluster, WEEK),
        });
        same.clusters.push(name.clone());
    }
    found.into_values().collect()
}

/// What holds the clusters of a stage that have not begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// How many of them are held.
    pub clusters: usize,
    /// How many are not.
    pub open: usize,
    /// When the first of them may begin, if anybody knows.
    pub opens: Option<Timestamp>,
    /// What is said of that one.
    pub told: String,
}

/// Which clusters of a stage wait for a window; `None` if none does.
pub fn closed(seen: &Observed, stage: &StageUpdatingStatus, name: &str) -> Option<Closed> {
    let mut calendar = calendar(seen, name)?;
    let waiting = stage.clusters.iter().filter(|entry| !is_settled(entry) && !in_flight(entry));
    let mut found: Option<Closed> = None;
    let mut open = 0;
    for entry in waiting {
        let cluster = seen.clusters.iter().find(|cluster| cluster.name == entry.cluster_name);
        let Opening::Closed { opens, told } =
            calendar.opening(&entry.cluster_name, cluster.map(AsRef::as_ref))
        else {
            open += 1;
            continue;
        };
        let first = found.get_or_insert_with(|| Closed {
            clusters: 0,
            open: 0,
            opens: *opens,
            told: told.clone(),
        });
        first.clusters += 1;
        let far = |opens: &Option<Timestamp>| opens.unwrap_or(Timestamp::MAX);
        if far(opens) < far(&first.opens) {
            (first.opens, first.told) = (*opens, told.clone());
        }
    }
    if let Some(found) = &mut found {
        found.open = open;
    }
    found
}

impl Closed {
    /// The same of a stage before it begins: `stage prod is closed until Mon 09:00 UTC (policy
    /// night), 2 of its 5 clusters may begin before`.
    pub fn of_stage(&self, stage: &str) -> String {
        let told = self.told.strip_prefix("closed").unwrap_or_default();
        let all = self.clusters + self.open;
        match self.open {
            0 => format!("stage {stage} is closed{told}"),
            open => {
                format!("stage {stage} is closed{told}; {open} of its {all} clusters may begin")
            }
        }
    }
}

impl PlanBuilder<'_> {
    /// Looks again when the first window of a stage opens; what the run says if nothing of it
    /// is under way and nothing may begin.
    pub fn when_open(&mut self, stage: &StageUpdatingStatus, name: &str) -> Option<ConditionValue> {
        let closed = closed(self.seen, stage, name)?;
        let wake = closed.opens.map_or(WINDOW_POLL, |opens| opens.duration_since(self.seen.now));
        self.wake_in(wake.min(WINDOW_POLL));
        if closed.open > 0 || stage.clusters.iter().any(in_flight) {
            return None;
        }
        self.wait(Waiting::Closed { stage: name.to_owned(), opens: closed.opens });
        Some(ConditionValue::Closed(closed.told))
    }
    /// Whether clusters of the stage may begin in this pass.
    pub fn may_begin(&mut self, stage: &str) -> bool {
        if held(self.seen, stage).is_some() {
            return false;
        }
        let lifted = says_held(&self.seen.run.status);
        if lifted {
            self.wake_in(SignedDuration::ZERO);
        }
        !lifted
    }

    /// What a run says that would say this if nothing held it.
    pub fn unless_held(&mut self, stage: &str, value: ConditionValue) -> ConditionValue {
        let says_more = matches!(
            value,
            ConditionValue::Progressing
                | ConditionValue::Waiting(..)
                | ConditionValue::Stuck(..)
                | ConditionValue::Closed(..)
                | ConditionValue::Checking(..)
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
