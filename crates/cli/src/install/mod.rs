//! `flagship install`, `join`, `leave`, `uninstall` and `migrate`: the agents on clusters that are
//! there.
//!
//! What is applied is what the charts render, as the kustomize bases in `deploy` have it, with the
//! few fields that differ from fleet to fleet (`objects`). Who wants more than that takes the
//! charts. `target` reaches a cluster by the context of a kubeconfig; `progress` waits, and says
//! what is missing when waiting ends in nothing.

mod check;
mod hub;
mod join;
mod leave;
mod migrate;
mod objects;
mod progress;
mod target;

pub use hub::{Install, Uninstall};
pub use join::Join;
pub use leave::Leave;
pub use migrate::Migrate;
#[cfg(test)]
pub use objects::{TOKEN_SECRET, identity, token_secret};
pub use target::request_token;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::agent::duration;

/// The image that agents run when nobody names another.
const IMAGE: &str = concat!("flagship:", env!("CARGO_PKG_VERSION"));

/// What all four have in common
#[derive(Args, Clone, Debug)]
struct Common {
    /// The kubeconfig; $KUBECONFIG or kubectl's own by default
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How long is waited before giving up
    #[arg(long, default_value = "3m", value_parser = duration)]
    timeout: Duration,
}

/// Writes objects as kubectl takes them.
fn print(objects: &[Value], out: &mut dyn Write) -> anyhow::Result<()> {
    for object in objects {
        writeln!(out, "---")?;
        out.write_all(serde_saphyr::to_string(object)?.as_bytes())?;
    }
    Ok(())
}
