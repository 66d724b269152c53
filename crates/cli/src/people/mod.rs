//! Commands for people: they read the hub, let the rules judge, and print.
//!
//! `connect` finds the hub, `twins` makes both scopes one, `gather` reads what `why`
//! wants. Nothing here decides anything: see `flagship_rules::why`.

mod connect;
mod gather;
mod member_view;
mod print;
mod twins;
mod why;

pub use connect::{Connect, Hub};
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
