//! One pass over an initialized run, while it is being planned.
//!
//! Stages, gates and stopping put here what they decide: the new status of the run, writes
//! that must come before that status is stored (approval requests), writes that may only
//! follow it because the status promises them (bindings), events, measurements, and when to
//! look again. `reconcile` makes the [`Plan`] of it.

use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::SignedDuration;

use super::announced::Announced;
use super::inputs::Sorted;
use super::lifecycle::{Phase, phase};
use super::metrics::Measured;
use super::observed::{Observed, OtherRun};
use super::reconcile::{Action, Plan, Waiting};
use super::status::{ConditionValue, ConditionWriter};
use super::superseded::{superseded, taken};
use super::trusted;
use crate::event::Event;
use crate::model::Binding;
use crate::policy::Adopted;
use crate::policy::before::version;
use crate::policy::checks::Ask;

/// Event: somebody names a snapshot after the run has chosen one.
pub const INDEX_IGNORED: &str = "ResourceSnapshotIndexIgnored";
/// Event: a newer run has taken clusters of one that waits.
pub const SUPERSEDED: &str = "UpdateRunSuperseded";

/// A pass over an initialized run.
pub struct PlanBuilder<'a> {
    /// What there is.
    pub seen: &'a Observed,
    /// Bindings by what becomes of them.
    pub sorted: Sorted<'a>,
    /// Writes conditions.
    pub writer: ConditionWriter,
    /// The status as it will be.
    pub status: UpdateRunStatus,
    first: Vec<Action>,
    last: Vec<Action>,
    announced: Announced,
    /// What the run remembers from now on, if that is new.
    adopted: Option<Adopted>,
    /// Writes before the record with which the run ends badly.
    at_the_end: Vec<Action>,
    plan: Plan,
}

impl<'a> PlanBuilder<'a> {
    /// A pass that has decided nothing yet.
    pub fn new(
        seen: &'a Observed,
        writer: ConditionWriter,
        status: UpdateRunStatus,
        sorted: Sorted<'a>,
    ) -> Self {
        let (first, last, at_the_end) = (Vec::new(), Vec::new(), Vec::new());
        let announced = seen.run.announced.clone();
        let (adopted, plan) = (None, Plan::default());
        Self { seen, sorted, writer, status, first, last, announced, adopted, at_the_end, plan }
    }

    /// A write before the record.
    pub fn first(&mut self, action: Action) {
        self.first.push(action);
    }

    /// A write that the record promises.
    pub fn then(&mut self, action: Action) {
        self.last.push(action);
    }

    /// Says before the record that a binding is written although no record of this pass
    /// promises it.
    pub fn announce(&mut self, binding: &Binding) {
        self.announced.add(binding);
    }

    /// Notes what a cluster has that is about to be moved, where that may have to be undone.
    pub fn remember(&mut self, binding: &Binding) {
        let known = self.adopted.as_ref().or(self.seen.run.adopted.as_ref());
        let Some(known) = known.filter(|known| known.may_roll_back()) else { return };
        if known.before.held(binding.cluster()) != Some(version(binding).as_str()) {
            let mut adopted = known.clone();
            adopted.before.note(binding);
            self.adopted = Some(adopted);
        }
    }

    /// A write before the record with which the run ends badly; nothing else is written then.
    pub fn at_the_end(&mut self, action: Action) {
        self.at_the_end.push(action);
    }

    /// Says why nothing more is done.
    pub fn wait(&mut self, why: Waiting) {
        self.plan.waiting.push(why);
    }

    /// Asks a check from now on.
    pub fn ask(&mut self, ask: Ask) {
        self.plan.asks.push(ask);
    }

    /// The checks that are asked from now on.
    pub fn asks(&self) -> &[Ask] {
        &self.plan.asks
    }

    /// Looks again within this time.
    pub fn wake_in(&mut self, time: SignedDuration) {
        let time = time.max(SignedDuration::ZERO);
        let wake = self.plan.wake.map_or(time, |earlier| earlier.min(time));
        self.plan.wake = Some(wake);
    }

    /// Tells people about the run.
    pub fn tell(&mut self, event: Event) {
        self.plan.events.push(event);
    }

    /// Tells people about an approval request, and about the run that waits for it.
    pub fn tell_on_request(&mut self, request: &str, event: Event) {
        self.plan.on_requests.push((request.to_owned(), event.clone()));
        self.tell(event);
    }

    /// Counts something.
    pub fn measure(&mut self, measured: Measured) {
        self.plan.measured.push(measured);
    }

    /// Says how the run is doing; the last thing a pass decides.
    pub fn conclude(&mut self, value: &ConditionValue) {
        self.writer.progress(&mut self.status, value);
    }

    /// The run ends badly: nothing but its record is written.
    pub fn fail(&mut self, text: &str) {
        self.writer.failed(&mut self.status, text);
        self.first = std::mem::take(&mut self.at_the_end);
        self.last.clear();
        self.adopted = None;
        self.announced = self.seen.run.announced.clone();
        self.plan.waiting.clear();
        self.plan.asks.clear();
        self.plan.wake = None;
    }

    /// The index of a run that took its own snapshot can be filled in later, and a given one
    /// can be removed; it is too late for both.
    pub fn notice_late_index(&mut self) {
        let (named, used) = (
            &self.seen.run.spec.resource_snapshot_index,
            &self.status.resource_snapshot_index_used,
        );
        // One that was removed before the run chose had its effect, unless that was the same.
        let is_removed = named.is_empty() && self.seen.run.asked_index.as_ref() == Some(used);
        let message = if is_removed {
            format!(
                "resourceSnapshotIndex {used} was removed after the update run had chosen it; that has no effect, {used} is rolled out"
            )
        } else if !named.is_empty() && named != used {
            format!(
                "resourceSnapshotIndex {named} was set after the update run had chosen {used} and has no effect"
            )
        } else {
            return;
        };
        self.tell(Event::warning(INDEX_IGNORED, message));
    }

    /// A run that waits does not notice a newer one that passes it; whoever lets it go on
    /// takes clusters back. Told when the newer run rests, so that it is told a few times
    /// and not with each cluster.
    pub fn notice_superseded(&mut self) {
        let run = &self.seen.run;
        let phase = phase(&run.spec, &self.status);
        let rests =
            [Phase::Waiting, Phase::Stopped, Phase::Frozen, Phase::Closed, Phase::Initialized];
        if !rests.contains(&phase) {
            return;
        }
        let resting: Vec<OtherRun> =
            self.seen.rivals.iter().filter(|rival| rival.busy.is_empty()).cloned().collect();
        let taken = taken(&self.status, run.created, &resting);
        if let Some(found) = superseded(&self.status, &taken) {
            let message = format!(
                "{} at {}; if this run goes on, it takes them back to snapshot {}",
                found.told(),
                found.at,
                self.status.resource_snapshot_index_used
            );
            self.tell(Event::warning(SUPERSEDED, message));
        }
    }

    /// The status, and the plan without the write of it.
    pub fn into_plan(mut self) -> (UpdateRunStatus, Plan) {
        let at = (self.writer.generation, self.writer.now);
        if let Some(next) = &self.adopted {
            if !trusted::vouches(&self.seen.run.status, next) {
                // First the status says which copy of the policies may be there.
                let mut status = self.seen.run.status.clone();
                let known = self.seen.run.adopted.as_ref().unwrap_or(next);
                trusted::vouch(&mut status, known, Some(next), at.0, at.1);
                let wake = Some(SignedDuration::ZERO);
                return (status, Plan { wake, asks: self.plan.asks, ..Plan::default() });
            }
            trusted::vouch(&mut self.status, next, None, at.0, at.1);
        }
        let mut plan = self.plan;
        plan.actions = self.first;
        plan.actions.extend(self.adopted.map(Action::Adopt));
        if self.announced != self.seen.run.announced {
            plan.actions.push(Action::AnnounceWrites(self.announced));
        }
        plan.actions.extend(self.last);
        (self.status, plan)
    }
}
