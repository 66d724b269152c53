//! How long after its Work a binding says that everything is available.
//!
//! Works and bindings are watched apart, so that either may be seen first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flagship_api::binding::ClusterResourceBinding;
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::{binding, work};
use flagship_api::keys::label;
use flagship_api::work::Work;
use tokio::time::Instant;

/// What was seen of Works and of the bindings that they belong to.
#[derive(Default)]
pub struct Behind(Mutex<State>);

#[derive(Default)]
struct State {
    /// Bindings whose Work is available and that do not say so yet, and since when.
    waiting: BTreeMap<String, Instant>,
    /// Bindings that say so.
    available: BTreeSet<String>,
    longest: Option<Duration>,
}

impl Behind {
    /// A Work was seen.
    pub fn work(&self, seen: &Work) {
        let labels = seen.metadata.labels.as_ref();
        let Some(of) = labels.and_then(|labels| labels.get(label::PARENT_BINDING)) else { return };
        let conditions = seen.status.as_ref().map(|status| &*status.conditions);
        let at = Generation::of(&seen.metadata);
        let is_available = conditions.is_some_and(|said| said.is_true_at(work::AVAILABLE, at));
        self.is_so(of, is_available);
    }

    /// A binding was seen.
    pub fn binding(&self, seen: &ClusterResourceBinding) {
        let Some(name) = &seen.metadata.name else { return };
        let conditions = seen.status.as_ref().map(|status| &*status.conditions);
        let at = Generation::of(&seen.metadata);
        self.is_said(name, conditions.is_some_and(|said| said.is_true_at(binding::AVAILABLE, at)));
    }

    fn is_so(&self, binding: &str, is_available: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_available {
            state.waiting.remove(binding);
        } else if !state.available.contains(binding) {
            state.waiting.entry(binding.to_owned()).or_insert_with(Instant::now);
        }
    }

    fn is_said(&self, binding: &str, is_available: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_available {
            state.available.remove(binding);
            return;
        }
        state.available.insert(binding.to_owned());
        let took = state.waiting.remove(binding).map(|since| since.elapsed());
        state.longest = state.longest.max(took);
    }

    /// The longest time so far, and begins to count anew.
    pub fn take_longest(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).longest.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_binding_that_is_furthest_behind_its_work_is_told() {
        let behind = Behind::default();
        let second = Duration::from_secs(1);
        behind.is_so("slow", true);
        tokio::time::sleep(second).await;
        behind.is_so("slow", true);
        behind.is_so("changed-again", true);
        behind.is_so("changed-again", false);
        // Seen before its Work was.
        behind.is_said("early", true);
        behind.is_so("early", true);
        tokio::time::sleep(second).await;
        behind.is_said("slow", true);
        behind.is_said("changed-again", true);
        assert_eq!(behind.take_longest(), Some(2 * second));
        assert_eq!(behind.take_longest(), None);
    }
}
