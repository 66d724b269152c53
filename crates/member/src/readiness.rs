//! How far an agent has come, for whoever is asked whether it is ready.
//!
//! Ready means that hub and member were reached and everything was listed once. An agent
//! that was ready stays so while the hub is away: what it has it keeps in order, and how
//! the member fares is told on its MemberCluster.

use std::fmt;

use flagship_runtime::reflector::Store;

/// How far an agent has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does not run, not yet or no longer.
    Idle,
    /// Another agent of this member leads; this one would take over.
    Standby,
    /// These are not listed yet, each with what is in the way as far as that is known.
    Filling(Vec<String>),
    /// It works.
    Working,
}

impl Readiness {
    /// Whether a probe may say yes. Who stands by is ready, or no second replica could be.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Standby | Self::Working)
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => write!(out, "not running"),
            Self::Standby => write!(out, "ready: another agent leads"),
            Self::Filling(missing) => write!(out, "not listed yet: {}", missing.join("; ")),
            Self::Working => write!(out, "ready"),
        }
    }
}

/// The stage an agent is in.
pub(crate) type Stage = flagship_runtime::stage::Stage<Readiness>;

/// What is missing of a mirror; `None` once it was filled.
pub(crate) fn missing<V>(store: &Store<V>, what: &str) -> Option<String> {
    if store.is_synced() {
        return None;
    }
    Some(match store.trouble() {
        Some(trouble) => format!("{what}: {trouble}"),
        None => what.to_owned(),
    })
}
