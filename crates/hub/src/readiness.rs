//! How far a hub has come, for whoever is asked whether it is ready.
//!
//! The answer is worked out when somebody asks: no task keeps it up to date.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How far a hub has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does not run, not yet or no longer.
    Idle,
    /// Another hub leads; this one would take over.
    Standby,
    /// These kinds are not listed yet, each with what is in the way as far as that is known.
    Filling(Vec<String>),
    /// It works, but not all objects that may be selected are known yet: in the words of
    /// the original's probe.
    Selecting(String),
    /// It works, and knows everything.
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
            Self::Standby => write!(out, "ready: another hub leads"),
            Self::Filling(kinds) => write!(out, "not listed yet: {}", kinds.join("; ")),
            Self::Selecting(why) => write!(out, "{why}"),
            Self::Working => write!(out, "ready"),
        }
    }
}

/// How the present stage of a hub is looked at.
type Probe = Arc<dyn Fn() -> Readiness + Send + Sync>;

/// The stage a hub is in. Clones share it.
#[derive(Clone)]
pub(crate) struct Stage(Arc<Mutex<Probe>>);

impl Default for Stage {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Arc::new(|| Readiness::Idle))))
    }
}

impl Stage {
    /// From now on this is the answer.
    pub fn enter(&self, probe: impl Fn() -> Readiness + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(probe);
    }

    /// The answer now.
    pub fn look(&self) -> Readiness {
        let probe = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        probe()
    }

    /// Leaves the stage for the next when it is dropped, however that comes.
    pub fn until_dropped(&self, then: Readiness) -> Leaving {
        Leaving { stage: self.clone(), then }
    }
}

/// Leaves a stage when it is dropped.
pub(crate) struct Leaving {
    stage: Stage,
    then: Readiness,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let then = self.then.clone();
        self.stage.enter(move || then.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_left_however_it_ends() {
        let stage = Stage::default();
        assert_eq!(stage.look(), Readiness::Idle);
        {
            let _leaving = stage.until_dropped(Readiness::Standby);
            stage.enter(|| Readiness::Working);
            assert!(stage.look().is_ready());
        }
        assert_eq!(stage.look(), Readiness::Standby);
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
