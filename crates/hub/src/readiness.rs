//! How far a hub has come, for whoever is asked whether it is ready.

use std::fmt;

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

/// The stage a hub is in.
pub(crate) type Stage = flagship_runtime::stage::Stage<Readiness>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_says_what_is_missing() {
        let missing = Readiness::Filling(vec!["a: the server does not serve a".into(), "b".into()]);
        assert_eq!(missing.to_string(), "not listed yet: a: the server does not serve a; b");
        assert!(!missing.is_ready());
        let informers = "resource informer not ready: 1/2 informers not synced yet";
        assert_eq!(Readiness::Selecting(informers.into()).to_string(), informers);
    }
}
