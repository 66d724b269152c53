//! What to do about an error: what the queue does next: requeue, back off, give up.
//!
//! Errors are sorted by what comes next, not by where they came from. Whoever
//! makes an error names its action; only the queue acts on it.

use std::time::Duration;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorAction {
    /// Somebody wrote first. Read again and start over; nothing is wrong.
    Reread,
    /// The other side is busy, broken or out of reach. Try again later.
    BackOff {
        /// What the server asked for in `Retry-After`.
        after: Option<Duration>,
    },
    /// The server refuses it as it is written: because of the object, or because of somebody's
    /// webhook or policy, and who takes those away tells nobody. Try again, ever more seldom.
    Refused,
    /// It cannot succeed as written. Wait until somebody changes something.
    GiveUp,
    /// The object to create is there. Often that is success.
    AlreadyExists,
    /// The object is not there. Often that is success, too.
    NotFound,
}

/// Why a pass over a key ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Failure {
    /// What to do next.
    pub action: ErrorAction,
    /// One sentence for people.
    pub why: String,
}

impl Failure {
    /// A failure with its reason.
    pub fn new(action: ErrorAction, why: impl Into<String>) -> Self {
        Self { action, why: why.into() }
    }

    /// Start over with fresh reads.
    pub fn reread(why: impl Into<String>) -> Self {
        Self::new(ErrorAction::Reread, why)
    }

    /// Try again after the usual back-off.
    pub fn back_off(why: impl Into<String>) -> Self {
        Self::new(ErrorAction::BackOff { after: None }, why)
    }

    /// Wait until somebody changes something.
    pub fn give_up(why: impl Into<String>) -> Self {
        Self::new(ErrorAction::GiveUp, why)
    }
}
