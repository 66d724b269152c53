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
pub struct BindingDelays(Mutex<State>);

#[derive(Default)]
struct State {
    /// Bindings whose Work is available, and since when.
    works: BTreeMap<String, Instant>,
    /// Bindings that say so.
    bindings: BTreeSet<String>,
    longest: Option<Duration>,
}

impl BindingDelays {
    /// A Work was seen.
    pub fn work(&self, seen: &Work) {
        let labels = seen.metadata.labels.as_ref();
        let Some(of) = labels.and_then(|labels| labels.get(label::PARENT_BINDING)) else { return };
        let conditions = seen.status.as_ref().map(|status| &*status.conditions);
        let at = Generation::of(&seen.metadata);
        let is_available = conditions.is_some_and(|said| said.is_true_at(work::AVAILABLE, at));
        self.work_is_available(of, is_available);
    }

    /// A binding was seen.
    pub fn binding(&self, seen: &ClusterResourceBinding) {
        let Some(name) = &seen.metadata.name else { return };
        let conditions = seen.status.as_ref().map(|status| &*status.conditions);
        let at = Generation::of(&seen.metadata);
        let is_available = conditions.is_some_and(|said| said.is_true_at(binding::AVAILABLE, at));
        self.binding_is_available(name, is_available);
    }

    fn work_is_available(&self, binding: &str, is_available: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_available {
            state.works.entry(binding.to_owned()).or_insert_with(Instant::now);
        } else {
            state.works.remove(binding);
        }
    }

    fn binding_is_available(&self, name: &str, is_available: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_available {
            state.bindings.remove(name);
        } else if state.bindings.insert(name.to_owned()) {
            let took = state.works.get(name).map(Instant::elapsed);
            state.longest = state.longest.max(took);
        }
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
        let delays = BindingDelays::default();
        let second = Duration::from_secs(1);
        delays.work_is_available("slow", true);
        tokio::time::sleep(second).await;
        delays.work_is_available("slow", true);
        delays.work_is_available("changed-again", true);
        delays.work_is_available("changed-again", false);
        // Seen before its Work was.
        delays.binding_is_available("early", true);
        delays.work_is_available("early", true);
        tokio::time::sleep(second).await;
        delays.binding_is_available("slow", true);
        delays.binding_is_available("changed-again", true);
        assert_eq!(delays.take_longest(), Some(2 * second));
        assert_eq!(delays.take_longest(), None);
        // Another version, whose Work is seen before the binding that asks for it.
        delays.work_is_available("slow", false);
        delays.work_is_available("slow", true);
        tokio::time::sleep(second).await;
        delays.binding_is_available("slow", false);
        delays.binding_is_available("slow", true);
        delays.binding_is_available("slow", true);
        assert_eq!(delays.take_longest(), Some(second));
    }
}
