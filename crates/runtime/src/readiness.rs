//! How far a hub or an agent has come, for whoever is asked whether it is ready.
//!
//! The answer is worked out when somebody asks: no task keeps it up to date.
//!
//! Ready means that the servers were reached and everything was listed once. A process that
//! was ready stays so while a server is away: what it has it keeps in order.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::reflector::Store;

/// How far a process has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does not run, not yet or no longer.
    Idle,
    /// Another replica leads; this one would take over.
    Standby,
    /// These kinds are not listed yet, each with what is in the way as far as that is known.
    Filling(Vec<String>),
    /// It works, but not all objects that may be selected are known yet: in the words of
    /// KubeFleet's probe.
    Selecting(String),
    /// It works, and knows everything.
    Working,
}

impl Readiness {
    /// Whether a probe may say yes. A replica that stands by is ready, or no second one could be.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Standby | Self::Working)
    }

    /// Why a probe has to say no; `None` when it may say yes.
    pub fn unready(&self) -> Option<String> {
        (!self.is_ready()).then(|| self.to_string())
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => write!(out, "not running"),
            Self::Standby => write!(out, "ready: another replica leads"),
            Self::Filling(missing) => write!(out, "not listed yet: {}", missing.join("; ")),
            Self::Selecting(why) => write!(out, "{why}"),
            Self::Working => write!(out, "ready"),
        }
    }
}

/// What is missing of a mirror; `None` once it was filled.
pub fn missing<V>(store: &Store<V>, what: &str) -> Option<String> {
    if store.is_synced() {
        return None;
    }
    Some(match store.trouble() {
        Some(trouble) => format!("{what}: {trouble}"),
        None => what.to_owned(),
    })
}

/// How the answer is found at the moment.
type Probe = Arc<dyn Fn() -> Readiness + Send + Sync>;

/// The readiness of one process. Clones share it.
#[derive(Clone)]
pub struct ReadinessState(Arc<Mutex<Probe>>);

impl Default for ReadinessState {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Arc::new(|| Readiness::Idle))))
    }
}

impl ReadinessState {
    /// From now on this is the answer.
    pub fn set(&self, probe: impl Fn() -> Readiness + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(probe);
    }

    /// The answer now.
    pub fn get(&self) -> Readiness {
        let probe = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        probe()
    }

    /// Says [`Readiness::Idle`] from the moment it is dropped, however that comes.
    pub fn until_dropped(&self) -> IdleWhenDropped {
        IdleWhenDropped(self.clone())
    }
}

/// Makes a process idle when it is dropped.
pub struct IdleWhenDropped(ReadinessState);

impl Drop for IdleWhenDropped {
    fn drop(&mut self) {
        self.0.set(|| Readiness::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_left_however_it_ends() {
        let state = ReadinessState::default();
        assert_eq!(state.get(), Readiness::Idle);
        {
            let _running = state.until_dropped();
            state.set(|| Readiness::Working);
            assert_eq!(state.get(), Readiness::Working);
        }
        assert_eq!(state.get(), Readiness::Idle);
    }

    #[test]
    fn each_stage_says_what_is_missing() {
        let missing = Readiness::Filling(vec!["a: the server does not serve a".into(), "b".into()]);
        assert_eq!(missing.to_string(), "not listed yet: a: the server does not serve a; b");
        assert!(!missing.is_ready());
        let informers = "resource informer not ready: 1/2 informers not synced yet";
        assert_eq!(Readiness::Selecting(informers.into()).to_string(), informers);
    }
}
