//! Queues that are fair between placements: one with a thousand clusters does not keep a
//! small one waiting.
//!
//! Their keys are bindings or runs, and the placement of a key is its group.

use flagship_api::names::ObjectKey;
use flagship_rules::model::Binding;
use flagship_runtime::metrics::Metrics;
use flagship_runtime::queue::{Queue, QueueConfig};

use crate::mirrors::Run;

/// A binding or a run, and its placement, which never changes: a namesake that belongs to
/// another placement has another key, and passes over the old key find nothing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlacedKey {
    pub placement: ObjectKey,
    pub object: ObjectKey,
}

/// A queue that serves placements in rounds.
pub(crate) type PerPlacement = Queue<PlacedKey, ObjectKey>;

/// An empty queue that serves placements in rounds.
pub(crate) fn queue(config: QueueConfig, metrics: &Metrics) -> PerPlacement {
    Queue::grouped(config, metrics, |key: &PlacedKey| key.placement.clone())
}

impl From<&Binding> for PlacedKey {
    fn from(binding: &Binding) -> Self {
        Self { placement: binding.placement_key(), object: binding.key() }
    }
}

impl From<&Run> for PlacedKey {
    fn from(run: &Run) -> Self {
        Self { placement: run.placement.clone(), object: run.precondition.key.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_placement_does_not_keep_a_small_one_waiting() {
        let queue = queue(QueueConfig::named("test"), &Metrics::default());
        let key = |placement: &str, binding: &str| PlacedKey {
            placement: ObjectKey::cluster(placement),
            object: ObjectKey::cluster(binding),
        };
        for cluster in ["a", "b", "c", "d"] {
            queue.add(key("large", &format!("large-{cluster}")));
        }
        queue.add(key("small", "small-a"));
        let mut claims = Vec::new();
        for _ in 0..3 {
            claims.extend(queue.next().await);
        }
        let order: Vec<_> = claims.iter().map(|claim| claim.key().object.name.as_str()).collect();
        assert_eq!(order, ["large-a", "small-a", "large-b"]);
    }
}
