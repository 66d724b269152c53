//! Why a request did not get the answer it asked for.

use crate::env::Interference;
use crate::machinery::status::ApiError;
use crate::store::CommitError;

/// A refused request, or a connection that a fault cut.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// An answer with a `Status`.
    Refused(Box<ApiError>),
    /// No answer at all.
    Severed,
}

impl Failure {
    /// As callers without a connection see it.
    pub fn into_error(self) -> ApiError {
        match self {
            Self::Refused(error) => *error,
            Self::Severed => {
                ApiError::new(0, "ConnectionReset", "the connection was lost before an answer came")
            }
        }
    }

    /// The HTTP status; 0 when there is none.
    pub fn code(&self) -> u16 {
        match self {
            Self::Refused(error) => error.code,
            Self::Severed => 0,
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<Interference> for Failure {
    fn from(interference: Interference) -> Self {
        match interference {
            Interference::Answer(error) => Self::Refused(error),
            Interference::Severed => Self::Severed,
        }
    }
}

/// What a failed commit means to the client, where it is not simply tried again.
pub fn commit_error(error: &CommitError, resource: &str, name: &str) -> ApiError {
    match error {
        CommitError::Exists(_) => ApiError::already_exists(resource, name),
        CommitError::Moved(_) => ApiError::stale(resource, name),
        CommitError::Gone => ApiError::not_found(resource, name),
        CommitError::Refused(why) => ApiError::internal(why),
    }
}
