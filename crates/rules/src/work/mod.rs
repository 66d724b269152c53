//! Turns a binding into Works for one member, and what became of them into its status.
//!
//! A pass first tells from metadata alone whether the Works carry what the binding names:
//! manifests are read only when something has to be written ([`Plan::reads`]), and then
//! everything is rendered before anything is written. So a Work that reports costs no
//! more than a look at its conditions.
//!
//! Moving a binding to a new version is `rollout`'s and `update_run`'s business, what an
//! override does to a manifest that of `overrides`. Copying statuses from members back to
//! the hub is in [`back_report`].

pub mod back_report;
mod deletion;
mod envelope;
mod from_api;
mod group;
mod lists;
mod observed;
mod pass_error;
mod reconcile;
mod render;
mod status;
mod sync;
pub mod triggers;

#[cfg(test)]
mod tests;

pub use deletion::{FALLBACK, ends_of};
pub use from_api::{ABANDON, owner};
pub use group::relevant;
pub use lists::MOST_LISTED;
pub use observed::{Content, Manifest, Observed, Placement, Reads, SnapshotContent, Stamp, Work};
pub use pass_error::{OCCUPIED_RETRY, PARTIAL_GROUP_RETRY, PassError, Retry, Stage};
pub use reconcile::{ANSWER_WINDOW, Action, DROPPED_RETRY, Plan, Waiting, after_failure, plan};
pub use sync::{NewWork, Strategies, Write};
