//! Why a pass over a placement could not go on, sorted by who can help.

use std::fmt;

use flagship_api::error_class::ErrorClass;
use serde::{Deserialize, Serialize};

/// What stopped a pass. Prints as users and metrics see it: class, then cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassError {
    /// The user must change something. Told as a condition, looked at again rarely.
    User(String),
    /// Goes away by itself; retry with backoff, write nothing.
    Expected(String),
    /// A kind that appeared a moment ago and is not watched yet; look again shortly.
    Fresh(String),
    /// Somebody must look: this should not be possible. Retried with backoff all the same.
    Unexpected(String),
    /// The same about a snapshot whose labels or annotations cannot be read; told on it, too.
    Snapshot {
        /// What it holds.
        of: Frozen,
        /// The snapshot.
        name: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The API server, or the cache in front of it, did not answer.
    Server(String),
}

/// What a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frozen {
    /// A policy.
    Policy,
    /// Resources.
    Resources,
}

impl PassError {
    /// Who can do something about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::User(_) => ErrorClass::User,
            Self::Expected(_) | Self::Fresh(_) => ErrorClass::Expected,
            Self::Unexpected(_) | Self::Snapshot { .. } => ErrorClass::Unexpected,
            Self::Server(_) => ErrorClass::ApiServer,
        }
    }

    /// What is wrong, without the class.
    pub fn cause(&self) -> &str {
        match self {
            Self::User(cause)
            | Self::Expected(cause)
            | Self::Fresh(cause)
            | Self::Unexpected(cause)
            | Self::Snapshot { cause, .. }
            | Self::Server(cause) => cause,
        }
    }
}

impl fmt::Display for PassError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.class().as_str(), self.cause())
    }
}

impl std::error::Error for PassError {}
