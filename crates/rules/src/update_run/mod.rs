//! Staged update runs: moves a placement's clusters to one version, stage by stage.
//!
//! Every write is either a record of what will be done or something the record promised:
//! after a crash anywhere the next pass reads what is stored and goes on. Bindings carry
//! the run's UID and generation, so that two hubs, or two runs, cannot undo each other
//! unnoticed. What must always hold is in [`laws`].
//!
//! Picking clusters is `scheduling`'s business, freezing resources that of `placement`.

mod age;
mod announced;
pub mod approving;
mod budget;
pub mod checked;
pub mod counted;
mod dates_ahead;
mod deletion;
mod delivery;
mod events;
mod execution;
mod fresh_reads;
mod from_api;
mod gates;
mod held;
mod initialization;
mod inputs;
pub mod laws;
pub mod lifecycle;
mod max_concurrency;
mod messages;
mod metrics;
mod observed;
mod overrides;
mod plan_builder;
pub mod plan_hash;
mod policed;
mod reconcile;
pub mod recorded;
mod replayed;
mod snapshot;
mod stages;
mod status;
mod stop;
pub mod superseded;
pub mod triggers;
pub mod trusted;
mod undoing;
mod validation;

#[cfg(test)]
mod tests;

pub use crate::overrides::contents::enveloped;
pub use age::Age;
pub use announced::Announced;
pub use budget::{Budget, budgets};
pub use dates_ahead::DatesAhead;
pub use delivery::{SignalStart, Target, UpdateBinding, start_signal};
pub use execution::{CLUSTER_POLL, TAKEN_OVER};
pub use fresh_reads::{needs_current_run, needs_fresh_reads};
pub use gates::{
    AcceptApproval, CreateApprovalRequest, DISMISSED_POLL, DeleteForeignRequest, FOREIGN_REQUEST,
    STAGE_POLL, WITHDRAWN_TOO_LATE, WRONG_GENERATION,
};
pub use held::{Closed, StageOpenings, closed, week_ahead};
pub use initialization::refused;
pub use metrics::{Measured, Series};
pub use observed::{
    Approval, ClusterOverride, NamespacedOverride, Observed, Options, OtherRun, Run,
};
pub use plan_builder::{INDEX_IGNORED, SUPERSEDED};
pub use policed::{available_by, why_skipped};
pub use reconcile::{
    Action, CLUSTERS_CHANGED, DeleteBinding, Plan, STATE_LOST, Waiting, entries_beside, plan,
    rounds,
};
pub use replayed::replayed;
pub use status::{ASKED, run_unreadable};
pub use undoing::CreateRollback;
