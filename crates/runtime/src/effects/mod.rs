//! The effect shell: carries out what a plan says, in order, each write with its precondition.
//!
//! The first error ends the pass; nothing repairs half a plan. A conflict means
//! that the plan was made on a stale cache, so the whole pass starts over. Writes go
//! through [`Writer`], which refuses to write for a leader that lost, and which
//! remembers what it wrote, so that the next pass can wait until the caches show
//! it ([`PendingWrites`]).

use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use thiserror::Error;

use crate::env::Env;
use crate::error_action::{ErrorAction, Failure};
use crate::metrics::Counter;

mod pending_writes;
#[cfg(test)]
mod tests;
mod writer;

pub use pending_writes::{PendingWrites, Waiting};
pub use writer::{Kind, Made, Writer};

/// An action that could not be carried out, and how far the plan had come.
#[derive(Debug, Error)]
#[error("after {done} of {total} actions, at {action}")]
pub struct Stopped<E> {
    /// Actions carried out before.
    pub done: usize,
    /// Actions of the plan.
    pub total: usize,
    /// The action, as its `Debug` says it.
    pub action: String,
    /// Why it could not.
    #[source]
    pub error: E,
}

impl<E: Into<Failure>> From<Stopped<E>> for Failure {
    fn from(stopped: Stopped<E>) -> Self {
        let Stopped { done, total, action, error } = stopped;
        let Failure { action: next, why } = error.into();
        Self { action: next, why: format!("{why} (after {done} of {total} actions, at {action})") }
    }
}

/// Carries the actions out one after the other; stops at the first that fails.
pub async fn carry_out<A, E, Fut>(
    actions: Vec<A>,
    mut each: impl FnMut(A) -> Fut,
) -> Result<usize, Stopped<E>>
where
    A: Debug,
    Fut: Future<Output = Result<(), E>>,
{
    let total = actions.len();
    for (done, action) in actions.into_iter().enumerate() {
        let said = shortened(&action);
        tracing::debug!(action = said, "carrying out");
        if let Err(error) = each(action).await {
            return Err(Stopped { done, total, action: said, error });
        }
    }
    Ok(total)
}

/// Carries groups of actions out: one group after the other, up to `at_once` actions
/// of a group side by side. After a failure nothing new is begun, what was begun is
/// finished, and the first error in the order of the plan is told.
pub async fn carry_out_in_groups<A, E, Fut>(
    groups: Vec<Vec<A>>,
    at_once: usize,
    each: impl Fn(A) -> Fut,
) -> Result<usize, Stopped<E>>
where
    A: Debug,
    Fut: Future<Output = Result<(), E>>,
{
    let total = groups.iter().map(Vec::len).sum();
    let failed = AtomicBool::new(false);
    let mut done = 0;
    for group in groups {
        let one = |action| {
            let (each, failed) = (&each, &failed);
            async move {
                if failed.load(Ordering::Relaxed) {
                    return None;
                }
                let said = shortened(&action);
                let result = each(action).await;
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                Some(result.map_err(|error| (said, error)))
            }
        };
        let results: Vec<_> = stream::iter(group).map(one).buffered(at_once.max(1)).collect().await;
        let mut first = None;
        for result in results.into_iter().flatten() {
            match result {
                Ok(()) => done += 1,
                Err(error) => first = first.or(Some(error)),
            }
        }
        if let Some((action, error)) = first {
            return Err(Stopped { done, total, action, error });
        }
    }
    Ok(total)
}

/// Long plans with whole objects inside would flood the log.
fn shortened(action: &impl Debug) -> String {
    const LONGEST: usize = 200;
    let text = format!("{action:?}");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// How often and how fast a single write is tried again within a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Attempts in all.
    pub attempts: u32,
    /// Pause after the first.
    pub base: Duration,
    /// By how much each pause is longer than the last.
    pub factor: u32,
    /// Part of a pause that may be added, from the seeded source.
    pub jitter: f64,
}

impl Retry {
    /// For a write that must get through and can be decided again on the spot.
    pub const CONFLICT: Self =
        Self { attempts: 4, base: Duration::from_millis(10), factor: 5, jitter: 0.1 };
}

/// Tries until it succeeds, `worth` says that it is hopeless, or the attempts are
/// used up. `attempt` reads what it decides on afresh each time.
pub async fn retry<T, E, Fut>(
    env: &Env,
    retry: Retry,
    worth: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Fut,
) -> Result<T, E>
where
    Fut: Future<Output = Result<T, E>>,
{
    let mut pause = retry.base;
    let mut left = retry.attempts.max(1);
    loop {
        left -= 1;
        match attempt().await {
            Err(error) if left > 0 && worth(&error) => {
                tokio::time::sleep(env.entropy.jittered(pause, retry.jitter)).await;
                pause = pause.saturating_mul(retry.factor);
            }
            result => return result,
        }
    }
}

/// Whether an error is worth another try on the spot: conflicts and busy servers.
pub fn is_transient(action: ErrorAction) -> bool {
    matches!(action, ErrorAction::Reread | ErrorAction::BackOff { .. })
}

/// Drops a result that nothing depends on, but counts and logs a failure.
pub fn drop_counted<T, E: std::fmt::Display>(
    what: &str,
    result: Result<T, E>,
    dropped: &Counter,
) -> Option<T> {
    result
        .inspect_err(|error| {
            dropped.inc();
            tracing::warn!(%error, what, "failed, and nothing depends on it");
        })
        .ok()
}
