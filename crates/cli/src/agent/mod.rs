//! `flagship hub` and `flagship member`: the controllers on real API servers.
//!
//! Flags, environment and endpoints are those of KubeFleet's agents, so that its
//! charts and scripts start ours. What a flag means is said once, in `hub` and `member`.

pub(crate) mod connections;
mod console;
mod endpoints;
mod hub;
mod hub_access;
mod hub_choices;
mod member;
mod refresh_token;
mod spelling;
mod tls;
mod traces;
mod webhooks;

pub use hub::Hub;
pub use hub_choices::{HubChoices, signed};
pub use member::Member;
pub use refresh_token::RefreshToken;
pub use spelling::{Complaints, as_go_reads, as_switch, duration, with_two_dashes};

use std::future::Future;
use std::path::Path;

use anyhow::Context;
use flagship_runtime::client::Client;

/// Runs an agent on a runtime of its own until it is told to stop.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(work)
}

/// The cluster of a kubeconfig, or without one the cluster this process runs in.
async fn cluster(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    match kubeconfig {
        Some(path) => Client::from_kubeconfig(Some(path), context)
            .await
            .with_context(|| format!("cannot use the kubeconfig {}", path.display())),
        None => Client::in_cluster()
            .context("no --kubeconfig was given, and this process runs in no cluster"),
    }
}

/// Reads a command line as the agents do.
#[cfg(test)]
pub fn read<T: clap::Args>(line: &str) -> Result<T, clap::Error> {
    read_words(line.split_whitespace())
}

/// Reads the arguments of an agent that somebody else started.
pub fn read_words<'a, T: clap::Args>(
    words: impl Iterator<Item = &'a str>,
) -> Result<T, clap::Error> {
    let words = std::iter::once("agent").chain(words);
    let arguments = with_two_dashes(words.map(Into::into).collect());
    let command = as_go_reads(T::augment_args(clap::Command::new("agent")));
    T::from_arg_matches(&command.try_get_matches_from(arguments)?)
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
