//! Why a binding's Works could not be brought up to date: which condition says so, and
//! who can help.

use std::fmt;

use flagship_api::error_class::ErrorClass;
use jiff::SignedDuration;

/// How soon a snapshot group that is not complete is looked at again.
pub const PARTIAL_GROUP_RETRY: SignedDuration = SignedDuration::from_secs(1);

/// How soon a name that is taken is tried again. Its owner may belong to a placement that
/// has nothing to do with this one, so that nobody else tells.
pub const OCCUPIED_RETRY: SignedDuration = SignedDuration::from_secs(15);

/// The condition that turns False.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// `Overridden`: nobody knows what the Works should carry.
    Override,
    /// `WorkSynchronized`: it is known, but cannot be written.
    Sync,
}

/// What stopped a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassError {
    /// The condition that says so.
    pub stage: Stage,
    /// Who can do something about it.
    pub class: ErrorClass,
    /// What is wrong.
    pub cause: String,
    /// When another try can help although nothing seems to have changed.
    pub retry: Retry,
}

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Only when something changes.
    Never,
    /// Soon, and then later and later.
    BackOff,
    /// After this span.
    After(SignedDuration),
}

impl PassError {
    /// The user must change something; nothing is tried again before that.
    pub fn user(stage: Stage, cause: impl Into<String>) -> Self {
        Self { stage, class: ErrorClass::User, cause: cause.into(), retry: Retry::Never }
    }

    /// It goes away by itself.
    pub fn expected(stage: Stage, cause: impl Into<String>) -> Self {
        Self { stage, class: ErrorClass::Expected, cause: cause.into(), retry: Retry::BackOff }
    }

    /// Somebody must look: this should not be possible.
    pub fn unexpected(stage: Stage, cause: impl Into<String>) -> Self {
        Self { stage, class: ErrorClass::Unexpected, cause: cause.into(), retry: Retry::BackOff }
    }

    /// The server refused a write.
    pub fn refused(stage: Stage, cause: impl Into<String>) -> Self {
        Self { stage, class: ErrorClass::ApiServer, cause: cause.into(), retry: Retry::BackOff }
    }

    /// The same, with a time of its own.
    pub fn again_after(self, span: SignedDuration) -> Self {
        Self { retry: Retry::After(span), ..self }
    }

    /// A name that is taken by a Work of somebody else: placements `ns.name` and `ns/name`
    /// want the same one, and so does a new binding while the old one's Work is going.
    pub fn occupied(work: &str, binding: Option<&str>) -> Self {
        let owner = match binding {
            Some(binding) => format!("is already owned by binding {binding}"),
            None => "exists already and belongs to no binding".to_owned(),
        };
        let cause = format!("work {work} {owner}");
        Self::expected(Stage::Sync, cause).again_after(OCCUPIED_RETRY)
    }
}

impl fmt::Display for PassError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.class.message(&self.cause))
    }
}

impl std::error::Error for PassError {}
