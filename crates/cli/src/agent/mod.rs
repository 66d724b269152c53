//! `flagship hub` and `flagship member`: the controllers on real API servers.
//!
//! Flags, environment and endpoints are those of the original's agents, so that its
//! charts and scripts start ours. What a flag means is said once, in `hub` and `member`.

mod endpoints;
mod hub;
mod hub_access;
mod member;
mod spelling;

pub use hub::Hub;
pub use member::Member;
pub use spelling::{as_switch, duration, with_two_dashes};

use std::future::Future;

use anyhow::Context;

/// Runs an agent on a runtime of its own until it is told to stop.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(work)
}

/// Ready when the process is asked to end: Ctrl-C, or what Kubernetes sends a pod.
pub async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = async {
        // Without a handler the signal ends the process, which is what it asks for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signals) => drop(signals.recv().await),
            Err(_) => std::future::pending::<()>().await,
        }
    };
    futures::future::select(std::pin::pin!(interrupted), std::pin::pin!(terminated)).await;
    tracing::info!("stopping: passes under way are finished first");
}
