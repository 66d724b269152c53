//! Turns a placement into snapshots, and what became of them into its status.
//!
//! One pass: select, freeze the policy, freeze the resources, report. Nothing is frozen
//! unless selection succeeded, and the policy always comes first, so that the scheduler
//! may pick clusters before there is anything to send them.
//!
//! Picking clusters is `scheduling`'s business, moving them to a new version that of
//! `rollout` and `update_run`.

mod events;
mod from_api;
pub mod mirror;
mod observed;
mod pass_error;
pub mod policy_snapshots;
mod reconcile;
pub mod resource_snapshots;
pub mod selection;
pub mod status;
pub mod triggers;
pub mod validation;

#[cfg(test)]
mod tests;

pub use from_api::identifier;
pub use observed::{Batching, ByCluster, Observed, Placement};
pub use pass_error::{Frozen, PassError};
pub use reconcile::{Action, FRESH_KIND_RETRY, Plan, RESYNC, Series, plan, series};
