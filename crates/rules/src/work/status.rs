//! The status of a binding, told from its Works.
//!
//! It is told anew on every pass and written only if it differs. A condition keeps its
//! time while it says the same about the same generation, so that whoever waits for a
//! while after `Available` turned True does not wait forever; conditions of others are
//! left alone.

use flagship_api::binding::ResourceBindingStatus;
use flagship_api::condition::{
    Condition, ConditionDraft, ConditionStatus, Conditions, Generation, draft,
};
use flagship_api::condition_type::{Placement as Step, binding, work};
use flagship_api::reason::binding as reason;
use flagship_api::reason::work::UNTRACKABLE;

use super::lists::{Shown, show};
use super::observed::{Observed, Work};
use super::pass_error::{PassError, Stage};

/// How the Works compare with what the binding names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorksState {
    /// They could not be brought up to date.
    Failed(PassError),
    /// They are about to be written: what members said is about something else.
    Changed,
    /// They carry it.
    Settled,
}

/// How far all Works are in one respect; the first by name that stands out.
enum Progress<'a> {
    /// One has not said anything about its present content.
    Incomplete(&'a str),
    /// All have, and one says no.
    Failed(&'a str),
    /// All say yes.
    Done,
}

/// The status as it should be.
pub fn rebuilt(seen: &Observed, state: &WorksState) -> ResourceBindingStatus {
    let mut told = Told::default();
    let shown = told.tell(seen, state);
    let old = &seen.binding.status.conditions;
    let generation = seen.binding.generation();
    let others = old.iter().filter(|condition| !is_ours(&condition.type_)).cloned();
    let mut conditions: Vec<Condition> = others.collect();
    for (kind, said) in told.0 {
        // First as it was, so that its time can be kept, and in our order.
        let was = old.of_type(kind).filter(|was| Generation::seen_by(was) <= generation);
        conditions.extend(was.cloned());
        said.set_per_generation(&mut conditions, generation, seen.now);
    }
    show(seen, shown, conditions)
}

fn is_ours(kind: &str) -> bool {
    Step::ROLLOUT.iter().any(|step| step.per_cluster() == kind) && kind != binding::ROLLOUT_STARTED
}

/// Conditions in the order they are told.
#[derive(Default)]
struct Told(Vec<(&'static str, ConditionDraft)>);

impl Told {
    fn say(&mut self, kind: &'static str, truth: ConditionStatus, reason: &'static str, why: &str) {
        self.0.push((kind, draft(kind).is(truth, reason).because(why)));
    }

    fn tell(&mut self, seen: &Observed, state: &WorksState) -> Shown {
        if let WorksState::Failed(PassError { stage: Stage::Override, cause, .. }) = state {
            let why = format!("Failed to apply the override rules on the resources: {cause}");
            self.say(binding::OVERRIDDEN, ConditionStatus::False, reason::OVERRIDDEN_FAILED, &why);
            return Shown::default();
        }
        let (overridden, why) = if seen.binding.is_overridden() {
            let why = "Successfully applied the override rules on the resources";
            (reason::OVERRIDDEN_SUCCEEDED, why)
        } else {
            let why = "No override rules are configured for the selected resources";
            (reason::NO_OVERRIDE_SPECIFIED, why)
        };
        self.say(binding::OVERRIDDEN, ConditionStatus::True, overridden, why);
        if let WorksState::Failed(PassError { cause, .. }) = state {
            let why = format!("Failed to synchronize the work to the latest: {cause}");
            self.say(
                binding::WORK_SYNCHRONIZED,
                ConditionStatus::False,
                reason::SYNC_WORK_FAILED,
                &why,
            );
            return Shown::default();
        }
        let why = "All of the works are synchronized to the latest";
        self.say(binding::WORK_SYNCHRONIZED, ConditionStatus::True, reason::ALL_WORK_SYNCED, why);
        match (seen.binding.reports_diff(), *state == WorksState::Changed) {
            (false, true) => {
                let why = "Resources are being applied";
                self.say(binding::APPLIED, ConditionStatus::False, reason::APPLY_IN_PROGRESS, why);
                Shown::default()
            }
            (true, true) => {
                let (kind, in_progress) = (binding::DIFF_REPORTED, reason::DIFF_REPORT_IN_PROGRESS);
                self.say(
                    kind,
                    ConditionStatus::False,
                    in_progress,
                    "Diff reporting on resources is in progress",
                );
                Shown::default()
            }
            (true, false) => self.tell_diffs(seen),
            (false, false) => self.tell_applied(seen),
        }
    }

    fn tell_applied(&mut self, seen: &Observed) -> Shown {
        let (why, shown) = match progress(seen, work::APPLIED) {
            Progress::Done => {
                let why = "All corresponding work objects are applied";
                self.say(binding::APPLIED, ConditionStatus::True, reason::ALL_WORK_APPLIED, why);
                return self.tell_available(seen);
            }
            Progress::Incomplete(name) => {
                let why = format!("Work object {name} has not yet completed the apply op");
                (why, Shown::default())
            }
            Progress::Failed(name) => {
                let why = format!("Work object {name} has failed to apply");
                (why, Shown { failed: true, diffed: true, drifted: true })
            }
        };
        self.say(binding::APPLIED, ConditionStatus::False, reason::NOT_ALL_WORK_APPLIED, &why);
        shown
    }

    fn tell_available(&mut self, seen: &Observed) -> Shown {
        let (truth, reason, why) = match (progress(seen, work::AVAILABLE), untrackable(seen)) {
            (Progress::Incomplete(name), _) => (
                ConditionStatus::False,
                reason::NOT_ALL_WORK_AVAILABLE,
                format!("Work object {name} has not yet completed availability check"),
            ),
            (Progress::Failed(name), _) => {
                let why = format!("Work object {name} is not yet available");
                self.say(
                    binding::AVAILABLE,
                    ConditionStatus::False,
                    reason::NOT_ALL_WORK_AVAILABLE,
                    &why,
                );
                return Shown { failed: true, drifted: true, diffed: false };
            }
            (Progress::Done, Some(name)) => (
                ConditionStatus::True,
                reason::NOT_ALL_WORK_TRACKABLE,
                format!("The availability of work object {name} is not trackable"),
            ),
            (Progress::Done, None) => (
                ConditionStatus::True,
                reason::ALL_WORK_AVAILABLE,
                "All corresponding work objects are available".to_owned(),
            ),
        };
        self.say(binding::AVAILABLE, truth, reason, &why);
        Shown { drifted: true, ..Shown::default() }
    }

    fn tell_diffs(&mut self, seen: &Observed) -> Shown {
        let kind = binding::DIFF_REPORTED;
        let why = match progress(seen, work::DIFF_REPORTED) {
            Progress::Done => {
                let why = "All corresponding work objects have reported diff";
                self.say(kind, ConditionStatus::True, reason::ALL_WORK_DIFF_REPORTED, why);
                return Shown { diffed: true, ..Shown::default() };
            }
            Progress::Incomplete(name) => {
                format!("Work object {name} has not yet completed diff reporting")
            }
            Progress::Failed(name) => format!("Work object {name} has failed to report diff"),
        };
        self.say(kind, ConditionStatus::False, reason::NOT_ALL_WORK_DIFF_REPORTED, &why);
        Shown::default()
    }
}

/// How far all live Works are; a word about older content does not count.
fn progress<'a>(seen: &'a Observed, kind: &str) -> Progress<'a> {
    let works = by_name(seen);
    let says = |work: &Work, truth: ConditionStatus| {
        let current = work.conditions.current(kind, Generation(work.generation));
        current.is_some_and(|condition| ConditionStatus::of(condition) == truth)
    };
    let silent =
        |work: &&&Work| !says(work, ConditionStatus::True) && !says(work, ConditionStatus::False);
    if let Some(work) = works.iter().find(silent) {
        return Progress::Incomplete(&work.name);
    }
    match works.iter().find(|work| says(work, ConditionStatus::False)) {
        Some(work) => Progress::Failed(&work.name),
        None => Progress::Done,
    }
}

fn untrackable(seen: &Observed) -> Option<&str> {
    let works = by_name(seen);
    let found = works.iter().find(|work| {
        let available = work.conditions.of_type(work::AVAILABLE);
        available.is_some_and(|condition| UNTRACKABLE.contains(&condition.reason.as_str()))
    });
    found.map(|work| work.name.as_str())
}

fn by_name(seen: &Observed) -> Vec<&Work> {
    let mut works: Vec<&Work> = seen.live_works().collect();
    works.sort_by(|a, b| a.name.cmp(&b.name));
    works
}
