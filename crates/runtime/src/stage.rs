//! How far a process has come, for whoever is asked whether it is ready.
//!
//! The answer is worked out when somebody asks: no task keeps it up to date. What answers
//! there are is for each process to say.

use std::sync::{Arc, Mutex, PoisonError};

/// How the present stage is looked at.
type Probe<A> = Arc<dyn Fn() -> A + Send + Sync>;

/// The stage a process is in. Clones share it.
pub struct Stage<A>(Arc<Mutex<Probe<A>>>);

impl<A> Clone for Stage<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A: Clone + Send + Sync + 'static> Stage<A> {
    /// The first stage, with its answer.
    pub fn new(answer: A) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(move || answer.clone()))))
    }

    /// From now on this is the answer.
    pub fn enter(&self, probe: impl Fn() -> A + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(probe);
    }

    /// The answer now.
    pub fn look(&self) -> A {
        let probe = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        probe()
    }

    /// Leaves the stage for the next when it is dropped, however that comes.
    pub fn until_dropped(&self, then: A) -> Leaving<A> {
        Leaving { stage: self.clone(), then }
    }
}

/// Leaves a stage when it is dropped.
pub struct Leaving<A: Clone + Send + Sync + 'static> {
    stage: Stage<A>,
    then: A,
}

impl<A: Clone + Send + Sync + 'static> Drop for Leaving<A> {
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
        let stage = Stage::new("idle");
        assert_eq!(stage.look(), "idle");
        {
            let _leaving = stage.until_dropped("standby");
            stage.enter(|| "working");
            assert_eq!(stage.look(), "working");
        }
        assert_eq!(stage.look(), "standby");
    }
}
