//! Kubernetes events a plan asks for. Whoever carries the plan out records them.

use serde::{Deserialize, Serialize};

/// One event on the object a plan is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Whether something is wrong.
    pub warning: bool,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

impl Event {
    /// Something happened as it should.
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self { warning: false, reason: reason.to_owned(), message: message.into() }
    }

    /// Something a person should look at.
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self { warning: true, ..Self::normal(reason, message) }
    }
}
