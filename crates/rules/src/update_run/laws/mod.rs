//! What must always hold of a run, whoever crashes, races or is late.
//!
//! Predicates over one stored state, over one write, or over two successive states with
//! the write between them, seen from one run. Used by tests after every single write, by
//! the model checker and the simulator. They know the record and the stored objects, never how
//! a plan was made.
//!
//! Which bindings a run may write is in `binding_writes`, what its record may say in `record`,
//! concurrency and stopping in `cluster_state`, other runs of the placement in `takeovers`, waits
//! and runs that rest in `idle`, policies in `policy` and `approvals`, what the rollout record
//! must hold in `recorded`.

mod approvals;
mod binding_writes;
mod cluster_state;
mod idle;
mod policy;
mod record;
mod recorded;
mod takeovers;

use flagship_api::condition::{Condition, Conditions};
use flagship_api::condition_type::update_run;
use flagship_api::staged_update_status::{StageUpdatingStatus, UpdateRunStatus};
use jiff::SignedDuration;

use super::observed::Observed;
use super::reconcile::{Action, Plan};
pub use cluster_state::{few_are_down, one_snapshot, stop_is_true};
pub use idle::rest;
pub use policy::passed_jobs_are_complete;
pub use takeovers::is_lost;

/// A law that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub law: &'static str,
    /// What was seen.
    pub what: String,
}

type Told = Vec<Broken>;

fn broken(law: &'static str, what: impl Into<String>) -> Broken {
    Broken { law, what: what.into() }
}

/// The laws of one stored state: S1, S4, S6 and P6.
pub fn state(seen: &Observed) -> Told {
    let mut told = cluster_state::concurrency_holds(seen);
    told.extend(few_are_down(seen));
    told.extend(stop_is_true(seen));
    told.extend(takeovers::losses_are_told(seen));
    told.extend(recorded::told_once_and_in_a_chain(seen));
    told
}

/// The laws of a plan, held against what was read: S6, P2, P3, P5, P6 and P10.
pub fn decided(read: &Observed, plan: &Plan) -> Told {
    let mut told = takeovers::takeovers_are_told(read, plan);
    told.extend(policy::nothing_held_is_planned(read, plan));
    told.extend(approvals::enough_have_approved(read, plan));
    told.extend(policy::nothing_quarantined_is_planned(read, plan));
    told.extend(policy::nothing_quarantined_is_initialized(read, plan));
    told.extend(policy::changed_policies_stop_a_run(read, plan));
    told.extend(recorded::status_is_told(read, plan));
    told
}

/// The laws of one write of this run: S2, S3, S4, S5, S7, S9, S11, P1, P2, P4, P6 and P8.
pub fn write(before: &Observed, action: &Action) -> Told {
    let mut told = binding_writes::judge(before, action);
    told.extend(policy::nothing_frozen_begins(before, action));
    told.extend(policy::a_spent_budget_starts_nothing(before, action));
    told.extend(policy::only_what_was_touched_is_undone(before, action));
    told.extend(policy::what_they_had_comes_back(before, action));
    told.extend(policy::nothing_is_taken_back(before, action));
    told.extend(recorded::effects_are_told_before(before, action));
    told
}

/// The laws of two successive states of one run: S3, S5, S6, S8, S9, S12 and P9. What a run
/// claims about other objects must have been so when they were `read`: nobody can look at
/// one object and write another in the same moment, and what becomes of a cluster right
/// after it was seen to work is what becomes of a finished one.
pub fn step(read: &Observed, before: &Observed, after: &Observed) -> Told {
    let (old, new) = (&before.run.status, &after.run.status);
    let mut told = record::monotone(old, new);
    told.extend(record::frozen(old, new));
    let strategy = new.staged_update_strategy_snapshot.clone().unwrap_or_default();
    let untouched = StageUpdatingStatus::default();
    for (at, stage) in new.stages_status.iter().enumerate() {
        let past = old.stages_status.get(at).unwrap_or(&untouched);
        told.extend(record::gates_hold(read, past, stage));
        if let Some(config) = strategy.stages.get(at) {
            told.extend(record::waits_are_whole(after.now, config, past, stage));
        }
        told.extend(policy::nothing_ends_unchecked(read, past, stage));
        for (at, cluster) in stage.clusters.iter().enumerate() {
            let was = past.clusters.get(at);
            told.extend(cluster_state::really_there(read, new, was, cluster));
            told.extend(takeovers::really_lost(read, new, was, cluster));
        }
    }
    told
}

/// S16: with nothing new stored there is nothing to write, and no hurry.
pub fn quiet(plan: &Plan) -> bool {
    plan.actions.is_empty() && plan.wake.is_none_or(|wake| wake > SignedDuration::ZERO)
}

/// S10: how a run ended, without times and versions; equal for every road to one end.
pub fn ending(status: &UpdateRunStatus) -> String {
    let line = |depth: usize, what: &str, conditions: &[Condition]| {
        let said = conditions.iter().map(|c| format!(" {}={}/{}", c.type_, c.status, c.reason));
        format!("{}{what}:{}\n", "  ".repeat(depth), said.collect::<String>())
    };
    let mut text = line(0, "run", &status.conditions);
    for stage in status.stages_status.iter().chain(&status.deletion_stage_status) {
        text += &line(1, &stage.stage_name, &stage.conditions);
        let tasks = stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status);
        for task in tasks {
            text += &line(2, &format!("{:?}", task.r#type), &task.conditions);
        }
        for cluster in &stage.clusters {
            text += &line(2, &cluster.cluster_name, &cluster.conditions);
        }
    }
    text
}

/// The reason a run gives for how it is doing.
fn reason_of(status: &UpdateRunStatus) -> Option<&str> {
    status.conditions.of_type(update_run::PROGRESSING).map(|condition| condition.reason.as_str())
}
