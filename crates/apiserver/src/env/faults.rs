//! Named points at which a call may be disturbed, and what a disturbance may be.
//!
//! The server asks [`Faults::at`] at each point a call passes; [`Plan`](super::plan::Plan)
//! answers from seeded rules, [`NoFaults`] always says [`Verdict::Proceed`].
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
//!
//! `env.pass` itself waits out delays and hangs for ever where it must. Its error is
//! [`Interference::Answer`], sent as any other refusal (with a `Retry-After` header when
//! the details say so), or [`Interference::Severed`]: a socket is closed without a reply,
//! an in-process service returns an I/O error of kind `ConnectionReset`. What was committed
//! before `PostCommit` stays committed.

use std::future;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Env;
use crate::machinery::status::ApiError;

/// Decides what happens to a call at a point.
pub trait Faults: Send + Sync {
    /// Asked once for each point that a call passes, in order.
    fn at(&self, point: Point, call: &Call<'_>) -> Verdict;

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
pub enum Verdict {
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
    fn at(&self, _: Point, _: &Call<'_>) -> Verdict {
        Verdict::Proceed
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
            Verdict::Delay(span) => self.sleep(span).await,
            Verdict::Hang => future::pending().await,
            Verdict::Sever => return Err(Interference::Severed),
            Verdict::Answer { code, retry_after } => {
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
            Verdict::Stale(revisions) => revisions,
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
