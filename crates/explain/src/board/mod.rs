//! A run at a glance: its stages, where each cluster stands, and its gates.
//!
//! Terminal, page and `-o json` show this one value, so that they can never disagree.
//! What the run's own status says comes first; clusters that other runs have, causes that hold
//! some, and what policies say are added to it. *Why* something does not move is
//! [`crate::why`]'s business.

mod gates;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::{update_run, updating_cluster};
use flagship_api::names::ObjectKey;
use flagship_api::staged_update::{UpdateRunSpec, UpdateRunState};
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageUpdatingStatus, UpdateRunStatus,
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use flagship_rules::policy::Adopted;
use flagship_rules::update_run::lifecycle::{self, outcome, says, started_at};
use flagship_rules::update_run::superseded::Taken;
use flagship_rules::update_run::{Budget, available_by, budgets, start_signal, why_skipped};

use crate::why::{Cause, Facts, causes};

pub use flagship_rules::update_run::lifecycle::Phase;
pub use gates::{Gate, GateState, Side};

/// Where a cluster stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mark {
    /// Not begun.
    Queued,
    /// Being updated.
    Updating,
    /// Done.
    Done,
    /// Taken over by somebody else, or failed under a policy.
    Failed,
    /// The run goes on without it.
    Skipped,
    /// Follows another run since.
    Taken,
    /// Being updated, and something keeps it from getting on.
    Stuck,
    /// Begun by a run that has ended since and did not finish it.
    Left,
}

impl Mark {
    /// Whether the run is at it, whether or not it gets on.
    pub const fn is_under_way(self) -> bool {
        matches!(self, Self::Updating | Self::Stuck)
    }
}

/// One cluster of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// Its name.
    pub cluster: String,
    /// Where it stands.
    pub mark: Mark,
    /// Seconds since it was begun, while it is being updated; until the end of a run that left
    /// it unfinished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// The run that has it now, if that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<String>,
    /// The code of the cause that keeps it from getting on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// When it was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it was done, well or badly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// By when it must be available while it is being updated, if a policy says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Why the run goes on without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Its clusters, in the order they are updated.
    pub cells: Vec<Cell>,
    /// What stands before and after it.
    pub gates: Vec<Gate>,
    /// Whether it is over.
    pub done: bool,
    /// Whether it has begun.
    pub begun: bool,
}

/// A run at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Board {
    /// The run.
    pub run: String,
    /// What it rolls out.
    pub placement: String,
    /// Which version of it.
    pub snapshot: String,
    /// Where it stands.
    pub phase: Phase,
    /// Whether somebody told it to stop, whatever its phase.
    pub stopping: bool,
    /// The strategy it follows.
    pub strategy: String,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Seconds since it was created, or from then to its end.
    pub seconds: i64,
    /// The stages, the deletion stage last if it has anything to do.
    pub stages: Vec<Stage>,
    /// The rollout policies it follows, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// How many clusters may fail and which have: in the stage under way, in those with
    /// failures, and in the whole run; of a run that has ended only those with failures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
    /// Who has frozen it, until when and why, while it is frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<String>,
}

impl Board {
    /// The board of a run.
    pub fn of(
        run: &str,
        created: Option<Timestamp>,
        spec: &UpdateRunSpec,
        status: &UpdateRunStatus,
        now: Timestamp,
    ) -> Self {
        // Nothing goes on in a run that has ended: neither seconds nor waits.
        let ended = lifecycle::ended_at(status);
        let now = ended.unwrap_or(now);
        let mut stages: Vec<Stage> =
            status.stages_status.iter().map(|stage| Stage::of(stage, status, now)).collect();
        let deletion = status.deletion_stage_status.as_ref();
        if let Some(deletion) = deletion.filter(|stage| !stage.clusters.is_empty()) {
            let mut stage = Stage::of(deletion, status, now);
            "remove".clone_into(&mut stage.name);
            stages.push(stage);
        }
        let from = created.unwrap_or(now);
        let phase = lifecycle::phase(spec, status);
        let told = spec.state == Some(UpdateRunState::Stop) && ended.is_none();
        Self {
            run: run.to_owned(),
            placement: spec.placement_name.clone(),
            snapshot: status.resource_snapshot_index_used.clone(),
            phase,
            stopping: told && phase != Phase::Stopped,
            strategy: spec.staged_rollout_strategy_name.clone(),
            created,
            ended,
            seconds: seconds(now.duration_since(from)),
            stages,
            policies: Vec::new(),
            budgets: Vec::new(),
            frozen: frozen(status).filter(|_| phase == Phase::Frozen),
        }
    }

    /// The board of the run asked about, with everything that was read for it.
    pub fn of_facts(facts: &Facts, key: &ObjectKey) -> Option<Self> {
        let run = facts.run.as_ref()?;
        let board = Self::of(&key.to_string(), run.created, &run.spec, &run.status, facts.now);
        let signalled = |cluster: &str| {
            let mut bound = facts.bindings.iter().filter(|found| {
                found.spec.target_cluster == cluster && found.placement == run.spec.placement_name
            });
            let signal = start_signal(&bound.next()?.status.conditions)?;
            Some(signal.last_transition_time.0)
        };
        let board = board.showing(&facts.taken()).marking(&causes(facts));
        Some(match &run.adopted {
            Some(adopted) => board.following(adopted, &run.status, signalled),
            None => board,
        })
    }

    /// The same board with what the policies of the run say of it. `signalled` is when a
    /// cluster's binding was told to begin.
    #[must_use]
    pub fn following(
        mut self,
        adopted: &Adopted,
        status: &UpdateRunStatus,
        signalled: impl Fn(&str) -> Option<Timestamp>,
    ) -> Self {
        self.policies = adopted.policies.iter().map(|policy| policy.name.clone()).collect();
        for (stage, told) in self.stages.iter_mut().zip(&status.stages_status) {
            for (cell, entry) in stage.cells.iter_mut().zip(&told.clusters) {
                if cell.mark.is_under_way() {
                    let signalled = signalled(&cell.cluster);
                    cell.deadline = available_by(adopted, &stage.name, entry, signalled);
                }
            }
        }
        if adopted.limits_failures() {
            let under_way = self.stages.iter().find(|stage| !stage.done);
            let under_way = under_way.map(|stage| stage.name.as_str());
            let over = self.ended.is_some();
            let worth_a_look = |budget: &Budget| {
                let stage = budget.stage.as_deref();
                let matters = !over && (stage.is_none() || stage == under_way);
                matters || !budget.failed.is_empty()
            };
            self.budgets = budgets(adopted, status.stages_status.iter());
            self.budgets.retain(worth_a_look);
        }
        self
    }

    /// The cluster under way that has failed first if none of them gets on, with its deadline,
    /// and how many more have one.
    pub fn first_deadline(&self) -> Option<(&Cell, Timestamp, usize)> {
        let cells = self.stages.iter().flat_map(|stage| &stage.cells);
        let with = cells.filter_map(|cell| Some((cell, cell.deadline?)));
        let (cell, deadline) = with.clone().min_by_key(|(_, deadline)| *deadline)?;
        Some((cell, deadline, with.count() - 1))
    }

    /// Clusters that the run goes on without, and why.
    pub fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        let cells = self.stages.iter().flat_map(|stage| &stage.cells);
        let skipped = cells.filter(|cell| cell.mark == Mark::Skipped);
        skipped.map(|cell| (cell.cluster.as_str(), cell.says.as_deref().unwrap_or_default()))
    }

    /// The same board, where clusters that follow another run by now say so.
    #[must_use]
    pub fn showing(mut self, taken: &[Taken]) -> Self {
        let cells = self.stages.iter_mut().flat_map(|stage| &mut stage.cells);
        for cell in cells.filter(|cell| matches!(cell.mark, Mark::Queued | Mark::Done)) {
            if let Some(found) = taken.iter().find(|taken| taken.cluster == cell.cluster) {
                cell.mark = Mark::Taken;
                cell.taken_by = Some(found.by.clone());
            }
        }
        self
    }

    /// The same board, where clusters that do not get on say what holds them.
    #[must_use]
    pub fn marking(mut self, causes: &BTreeMap<String, Cause>) -> Self {
        let cells = self.stages.iter_mut().flat_map(|stage| &mut stage.cells);
        for cell in cells.filter(|cell| cell.mark == Mark::Updating) {
            if let Some(cause) = causes.get(&cell.cluster) {
                cell.mark = Mark::Stuck;
                cell.cause = Some(cause.code().to_owned());
            }
        }
        self
    }

    /// Clusters done, and clusters in all.
    pub fn clusters(&self) -> (usize, usize) {
        let cells = || self.stages.iter().flat_map(|stage| &stage.cells);
        (cells().filter(|cell| cell.mark == Mark::Done).count(), cells().count())
    }

    /// The stage under way, counted from one; the number of stages when all are over.
    pub fn stage_number(&self) -> usize {
        let at = self.stages.iter().position(|stage| !stage.done);
        at.map_or(self.stages.len(), |at| at + 1)
    }
}

impl Stage {
    fn of(stage: &StageUpdatingStatus, run: &UpdateRunStatus, now: Timestamp) -> Self {
        Self {
            name: stage.stage_name.clone(),
            cells: stage
                .clusters
                .iter()
                .map(|cluster| Cell::of(cluster, lifecycle::has_ended(run), now))
                .collect(),
            gates: gates::of(stage, run, now),
            done: says(&stage.conditions, update_run::SUCCEEDED) == Some(ConditionStatus::True),
            begun: !stage.conditions.is_empty(),
        }
    }
}

impl Cell {
    fn of(cluster: &ClusterUpdatingStatus, run_has_ended: bool, now: Timestamp) -> Self {
        let started = started_at(cluster);
        let mark = match outcome(cluster) {
            Some(ConditionStatus::True) => Mark::Done,
            Some(_) if lifecycle::is_skipped(cluster) => Mark::Skipped,
            Some(_) => Mark::Failed,
            None if started.is_some() && run_has_ended => Mark::Left,
            None if started.is_some() => Mark::Updating,
            None => Mark::Queued,
        };
        let since = started.filter(|_| matches!(mark, Mark::Updating | Mark::Left));
        let succeeded = cluster.conditions.of_type(updating_cluster::SUCCEEDED);
        let ended = succeeded.filter(|_| outcome(cluster).is_some());
        Self {
            cluster: cluster.cluster_name.clone(),
            mark,
            taken_by: None,
            cause: None,
            started,
            ended: ended.map(|ended| ended.last_transition_time.0),
            deadline: None,
            says: why_skipped(cluster).map(str::to_owned),
            seconds: since.map(|since| seconds(now.duration_since(since))),
        }
    }
}

/// What a run says of the freeze that holds it.
fn frozen(status: &UpdateRunStatus) -> Option<String> {
    let told = status.conditions.of_type(update_run::PROGRESSING)?;
    Some(told.message.clone())
}

fn seconds(span: SignedDuration) -> i64 {
    span.as_secs().max(0)
}
