//! Why a patch was refused, sorted by what the caller is told.

use thiserror::Error;

use crate::depth::MAX_DEPTH;

/// A patch that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The patch makes no sense by itself: 400.
    #[error("{0}")]
    Malformed(String),
    /// An operation does not fit the object it was sent for: 422.
    #[error("{0}")]
    Misfit(String),
    /// The patch cannot be merged into the object: 422.
    #[error("{0}")]
    Unmergeable(String),
    /// A strategic patch asks for something that there is not: 500 in Kubernetes, too.
    #[error("{0}")]
    Unknown(String),
    /// The patch, or what it would lead to, is too large: 413.
    #[error("{0}")]
    TooLarge(String),
}

impl PatchError {
    pub(crate) fn too_deep() -> Self {
        Self::TooLarge(format!("the object would nest deeper than {MAX_DEPTH} levels"))
    }
}
