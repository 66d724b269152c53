//! Why a request did not get the answer it asked for.

use flagship_base::machinery::status::ApiError;
use flagship_store::CommitError;
use flagship_store::env::Interference;

/// A refused request, or a connection that a fault cut.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// An answer with a `Status`.
    Refused(Box<ApiError>),
    /// Nothing is ever served there: 404, which on the network is not even a `Status`.
    Unserved,
    /// No answer at all.
    Severed,
}

/// Marks the answer to a request for something that is not served.
#[derive(Debug, Clone, Copy)]
pub struct Unserved;

impl Failure {
    /// As callers without a connection see it.
    pub fn into_error(self) -> ApiError {
        match self {
            Self::Refused(error) => *error,
            Self::Unserved => super::route::nowhere(),
            Self::Severed => {
                ApiError::new(0, "ConnectionReset", "the connection was lost before an answer came")
            }
        }
    }

    /// The HTTP status; 0 when there is none.
    pub fn code(&self) -> u16 {
        match self {
            Self::Refused(error) => error.code,
            Self::Unserved => 404,
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
        CommitError::Refused(why) => not_stored(why),
    }
}

/// The disk does not take a change. It may yet, so that the outcome is open.
pub(super) fn not_stored(why: impl std::fmt::Display) -> ApiError {
    ApiError::internal(format!("the change could not be stored: {why}"))
}
