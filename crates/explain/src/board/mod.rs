//! A run at a glance: its stages, where each cluster stands, and its gates.
//!
//! Terminal, page and `-o json` show this one value, so that they can never disagree.
//! It only reads the run's own status; *why* something does not move is
//! [`crate::why`]'s business.

mod gates;
#[cfg(test)]
mod tests;

use flagship_api::condition::Truth;
use flagship_api::condition_type::update_run;
use flagship_api::staged_update::UpdateRunSpec;
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageUpdatingStatus, UpdateRunStatus,
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use flagship_rules::update_run::lifecycle::{self, outcome, says, started_at};
use flagship_rules::update_run::superseded::Taken;

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
    /// Taken over by somebody else.
    Failed,
    /// Follows another run since.
    Taken,
}

/// One cluster of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// Its name.
    pub cluster: String,
    /// Where it stands.
    pub mark: Mark,
    /// Seconds since it was begun, while it is being updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// The run that has it now, if that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<String>,
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
    /// Seconds since it was created, or from then to its end.
    pub seconds: i64,
    /// The stages, the deletion stage last if it has anything to do.
    pub stages: Vec<Stage>,
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
        let mut stages: Vec<Stage> =
            status.stages_status.iter().map(|stage| Stage::of(stage, status, now)).collect();
        let deletion = status.deletion_stage_status.as_ref();
        if let Some(deletion) = deletion.filter(|stage| !stage.clusters.is_empty()) {
            let mut stage = Stage::of(deletion, status, now);
            "remove".clone_into(&mut stage.name);
            stages.push(stage);
        }
        let end = lifecycle::ended_at(status).unwrap_or(now);
        let from = created.unwrap_or(now);
        Self {
            run: run.to_owned(),
            placement: spec.placement_name.clone(),
            snapshot: status.resource_snapshot_index_used.clone(),
            phase: lifecycle::phase(spec, status),
            seconds: seconds(end.duration_since(from)),
            stages,
        }
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
            cells: stage.clusters.iter().map(|cluster| Cell::of(cluster, now)).collect(),
            gates: gates::of(stage, run, now),
            done: says(&stage.conditions, update_run::SUCCEEDED) == Some(Truth::True),
            begun: !stage.conditions.is_empty(),
        }
    }
}

impl Cell {
    fn of(cluster: &ClusterUpdatingStatus, now: Timestamp) -> Self {
        let started = started_at(cluster);
        let mark = match outcome(cluster) {
            Some(Truth::True) => Mark::Done,
            Some(_) => Mark::Failed,
            None if started.is_some() => Mark::Updating,
            None => Mark::Queued,
        };
        let since = started.filter(|_| mark == Mark::Updating);
        Self {
            cluster: cluster.cluster_name.clone(),
            mark,
            taken_by: None,
            seconds: since.map(|since| seconds(now.duration_since(since))),
        }
    }
}

fn seconds(span: SignedDuration) -> i64 {
    span.as_secs().max(0)
}
