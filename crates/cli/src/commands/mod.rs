//! The commands people type: they read the hub, ask `flagship_explain`, and print.
//!
//! `connect` finds the hub, `scoped_kind` makes both scopes one, `gather` reads what `why`
//! wants. Nothing here computes a rule or what a person is told.

mod again;
mod approvals;
mod board_text;
mod connect;
pub mod console;
mod doctor;
mod frame;
mod freeze;
mod gather;
mod history;
mod member_view;
mod members;
mod name;
mod notify;
mod overview;
mod plan;
mod print;
mod quarantine;
mod records;
#[cfg(test)]
mod scenarios;
mod scoped_kind;
mod simulate;
mod start;
mod status;
mod steer;
mod support_bundle;
mod table;
mod why;
mod wrap;

pub use again::{Retry, Skip};
pub use approvals::{Inbox, Reject};
pub use connect::{Connect, NoHub};
pub use console::Console;
pub use doctor::Doctor;
pub use freeze::{Freeze, Unfreeze};
pub use history::History;
pub use members::Clusters;
pub use notify::Notify;
pub use plan::Plan;
pub use print::colours;
pub use quarantine::Quarantine;
pub use records::{Audit, Replay, Report};
pub use scoped_kind::{ScopedKind, Stored};
pub use simulate::Simulate;
pub use start::{Rollback, Run};
pub use status::{Status, Watch};
pub use steer::{Approve, Resume, Stop};
pub use support_bundle::SupportBundle;
pub use why::Why;

use std::future::Future;

use anyhow::Context;

/// Carries out a command that talks to a cluster.
pub fn wait_for<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(work)
}
