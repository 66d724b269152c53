//! Named points at which a call may be disturbed, and what a disturbance may be.
//!
//! The server asks [`Faults::at`] at each point a call passes;
//! [`FaultPlan`](super::plan::FaultPlan)
//! answers from seeded rules, [`NoFaults`] always says [`FaultOutcome::Proceed`].
//!
//! How the REST layer asks, in the order of a call:
//!
//! | point | when | how |
//! |---|---|---|
//! | [`Point::Request`] | the call is parsed, nothing else done; every verb | `env.pass(Request, &call).await?` |
//! | [`Point::Read`] | before a get or list that does not name a revision | `env.staleness(&call)` revisions back: 0 means `get`/`list`, else `Store::get_back`/`Store::list_back` |
//! | [`Point::PreCommit`] | a write is validated, just before `Store::commit`; not for dry runs | `env.pass(PreCommit, &call).await?` |
//! | [`Point::PostCommit`] | `Store::commit` succeeded, the reply not yet sent | `env.pass(PostCommit, &call).await?` |
//! | [`Point::WatchStart`], [`Point::WatchEvent`] | asked by the store | `Store::watch_as(.., &call)` instead of `Store::watch` |
//! | [`Point::Bookmark`] | asked by the store | `Subscription::bookmark()` instead of `progress()`: `None` means send none |
//! | - | the outcome is fixed, whatever it is | `env.record(&call, revision, code)`, with code 0 when severed |
//!
//! Which verdicts mean something where: at `Request`, `PreCommit` and `PostCommit` `Delay`,
//! `Sever`, `Hang` and `Answer`; at `Read` `Stale`; at `WatchStart` `Replay` (a watch after a
//! revision begins earlier), `Stale` (a watch of the current state begins with an older one)
//! and `Expire`; at `WatchEvent` `Delay`, `Drop`, `Sever` and `Expire`; at `Bookmark`
//! `Starve`, `Drop`, `Sever` and `Expire`.
//!
//! `env.pass` itself waits out delays and hangs for ever where it must. Its error is
//! [`Interference::Answer`], sent as any other refusal (with a `Retry-After` header when
//! the details say so), or [`Interference::Severed`]: a socket is closed without a reply,
//! an in-process service returns an I/O error of kind `ConnectionReset`. What was committed
//! before `PostCommit` stays committed.

use std::future;
use std::time::Duration;

use flagship_base::machinery::status::ApiError;
use serde::{Deserialize, Serialize};

use super::Env;

/// Decides what happens to a call at a point.
pub trait Faults: Send + Sync {
    /// Asked once for each point that a call passes, in order.
    fn at(&self, point: Point, call: &Call<'_>) -> FaultOutcome;

    /// Whether nothing will ever be disturbed, so that nobody needs to ask.
    fn is_quiet(&self) -> bool {
        false
    }
}

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Point {
    /// The request arrived; nothing has been done.
    Request,
    /// A get or list is about to read.
    Read,
    /// A write is about to be committed.
    PreCommit,
    /// A write was committed; the client does not know yet.
    PostCommit,
    /// A watch is about to begin.
    WatchStart,
    /// A watch event is about to be delivered.
    WatchEvent,
    /// A bookmark is about to be delivered.
    Bookmark,
}

/// Who asks for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// Logical cluster.
    pub cluster: &'a str,
    /// Name of the client: its user, or the name a simulator gave it.
    pub who: &'a str,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'a str,
    /// As in `deployments.apps`.
    pub resource: &'a str,
    /// Empty for cluster-scoped objects and lists across namespaces.
    pub namespace: &'a str,
    /// Empty for lists and watches.
    pub name: &'a str,
}

/// What becomes of a call. Verdicts that make no sense at a point are ignored there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultOutcome {
    /// Nothing happens.
    Proceed,
    /// The call, or the watch from this event on, waits; then it goes on.
    Delay(Duration),
    /// The connection breaks: refused, cut, or the reply lost, depending on the point.
    Sever,
    /// No reply ever comes; the client must give up by itself, or is dead already.
    Hang,
    /// An error is sent instead of the true answer.
    Answer {
        /// HTTP status code.
        code: u16,
        /// Seconds to wait before trying again.
        retry_after: Option<u32>,
    },
    /// The read is served from a state this many revisions old.
    Stale(u64),
    /// The watch ends here.
    Drop,
    /// The watch ends here and its history is forgotten, so that resuming gives 410.
    Expire,
    /// The watch begins this many revisions too early, repeating old events.
    Replay(u64),
    /// The bookmark is not sent.
    Starve,
}

/// Never disturbs anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn at(&self, _: Point, _: &Call<'_>) -> FaultOutcome {
        FaultOutcome::Proceed
    }

    fn is_quiet(&self) -> bool {
        true
    }
}

/// Why a call that was fine did not get its true answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Interference {
    /// This is sent instead.
    Answer(Box<ApiError>),
    /// Nothing is sent; the connection is gone.
    Severed,
}

impl Env {
    /// Takes a call past [`Point::Request`], [`Point::PreCommit`] or [`Point::PostCommit`].
    pub async fn pass(&self, point: Point, call: &Call<'_>) -> Result<(), Interference> {
        match self.faults.at(point, call) {
            FaultOutcome::Delay(span) => self.sleep(span).await,
            FaultOutcome::Hang => future::pending().await,
            FaultOutcome::Sever => return Err(Interference::Severed),
            FaultOutcome::Answer { code, retry_after } => {
                let answer = Box::new(injected(code, retry_after, call));
                return Err(Interference::Answer(answer));
            }
            _ => {}
        }
        Ok(())
    }

    /// How many revisions old the state is that this read is to see; normally 0.
    pub fn staleness(&self, call: &Call<'_>) -> u64 {
        match self.faults.at(Point::Read, call) {
            FaultOutcome::Stale(revisions) => revisions,
            _ => 0,
        }
    }
}

/// The error as a real server would word it: clients must not see the difference.
fn injected(code: u16, retry_after: Option<u32>, call: &Call<'_>) -> ApiError {
    let error = match code {
        409 => ApiError::stale(call.resource, call.name),
        410 => ApiError::expired("too old resource version"),
        429 => ApiError::new(
            429,
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => ApiError::new(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => ApiError::new(
            504,
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        500 => ApiError::internal("injected fault"),
        other => ApiError::new(other, "", format!("injected fault with code {other}")),
    };
    match retry_after {
        Some(seconds) => error.retry_after(seconds),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;

    use super::*;
    use crate::env::FaultPlan;
    use crate::env::plan::{Effect, Rule};

    const CALL: Call<'static> = Call {
        cluster: "hub",
        who: "agent",
        verb: "update",
        resource: "works",
        namespace: "a",
        name: "x",
    };

    fn env(verdict: FaultOutcome) -> Env {
        let env = Env::simulated(1);
        let rules = vec![Rule::at(Point::Request, Effect::Do(verdict))];
        let plan = FaultPlan::new(1, env.clock.clone(), rules);
        env.with_faults(Arc::new(plan))
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_call_passes_later_and_a_hanging_one_never() {
        let start = tokio::time::Instant::now();
        let late = env(FaultOutcome::Delay(Duration::from_secs(90)));
        assert_eq!(late.pass(Point::Request, &CALL).await, Ok(()));
        assert_eq!(start.elapsed().as_secs(), 90);
        let hung = env(FaultOutcome::Hang);
        let wait =
            tokio::time::timeout(Duration::from_secs(3600), hung.pass(Point::Request, &CALL));
        assert!(wait.await.is_err());
    }

    #[test]
    fn an_injected_answer_reads_like_a_real_one() {
        let table = [
            (
                409,
                None,
                "Conflict",
                "Operation cannot be fulfilled on works \"x\": the object has been modified; please apply your changes to the latest version and try again",
            ),
            (
                429,
                Some(2),
                "TooManyRequests",
                "the server has received too many requests and has asked us to try again later",
            ),
            (500, None, "InternalError", "Internal error occurred: injected fault"),
            (
                503,
                None,
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            (418, None, "", "injected fault with code 418"),
        ];
        for (code, retry_after, reason, message) in table {
            let env = env(FaultOutcome::Answer { code, retry_after });
            let answer = env.pass(Point::Request, &CALL).now_or_never();
            let Some(Err(Interference::Answer(error))) = answer else { panic!("{answer:?}") };
            assert_eq!((error.code, error.reason, error.message.as_str()), (code, reason, message));
            let seconds = error.details.and_then(|details| details.retry_after_seconds);
            assert_eq!(seconds, retry_after);
        }
    }

    #[test]
    fn verdicts_out_of_place_are_ignored() {
        for verdict in [
            FaultOutcome::Proceed,
            FaultOutcome::Stale(3),
            FaultOutcome::Drop,
            FaultOutcome::Starve,
        ] {
            let passed = env(verdict).pass(Point::Request, &CALL).now_or_never();
            assert_eq!(passed, Some(Ok(())));
        }
        assert_eq!(
            env(FaultOutcome::Stale(3)).staleness(&CALL),
            0,
            "the rule is for another point"
        );
    }
}
