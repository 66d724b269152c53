//! What many objects have in common, kept once for all mirrors.
//!
//! A hundred bindings of a placement, their Works and its status make the same few statements,
//! and the scheduler gives every placement the same reasons for a cluster.

use std::sync::{Arc, Mutex, PoisonError};

use flagship_api::condition::{Condition, Statement};
use flagship_api::placement_status::PlacementStatus;
use flagship_api::snapshot::ClusterDecision;
use flagship_base::shared::Shared;
use flagship_rules::model::{Binding, PolicySnapshot};
use flagship_rules::work::{Stamp, Work};

/// The parts that are known. Clones share them.
#[derive(Clone, Default)]
pub(super) struct SharedParts(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    statements: Shared<Statement>,
    decisions: Shared<ClusterDecision>,
    finalizers: Shared<[String]>,
    stamps: Shared<Stamp>,
}

impl SharedParts {
    pub fn in_binding(&self, binding: &mut Binding) {
        self.with(|known| {
            known.statements(binding.status.conditions_mut());
            known.decisions.share(&mut binding.spec.cluster_decision);
            known.finalizers.share(&mut binding.finalizers);
        });
    }

    pub fn in_status(&self, status: &mut PlacementStatus) {
        self.with(|known| known.statements(status.conditions_mut()));
    }

    pub fn in_policy(&self, policy: &mut PolicySnapshot) {
        let decisions = policy.status.target_clusters.iter_mut();
        self.with(|known| decisions.for_each(|decision| known.decisions.share(decision)));
    }

    pub fn in_work(&self, work: &mut Work) {
        self.with(|known| {
            known.statements(work.conditions_mut());
            known.stamps.share(&mut work.stamp);
        });
    }

    fn with(&self, share: impl FnOnce(&mut Known)) {
        share(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Known {
    fn statements<'a>(&mut self, conditions: impl Iterator<Item = &'a mut Condition>) {
        conditions.for_each(|condition| self.statements.share(condition.statement_mut()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagship_api::condition::{Generation, draft};
    use jiff::Timestamp;

    fn binding() -> Binding {
        let said = draft("Available").is_true("AllWorkAreAvailable");
        let mut binding = Binding { finalizers: ["f".to_owned()].into(), ..Binding::default() };
        said.set(&mut binding.status.conditions, Generation(1), Timestamp::UNIX_EPOCH);
        binding
    }

    #[test]
    fn bindings_that_say_the_same_share_it_and_say_what_they_said() {
        let shared = SharedParts::default();
        let (mut one, mut other) = (binding(), binding());
        shared.in_binding(&mut one);
        shared.in_binding(&mut other);
        assert_eq!([&one, &other], [&binding(), &binding()]);
        assert!(Arc::ptr_eq(&one.finalizers, &other.finalizers));
        assert!(Arc::ptr_eq(&one.spec.cluster_decision, &other.spec.cluster_decision));
        let said = |binding: &mut Binding| binding.status.conditions[0].statement_mut().clone();
        assert!(Arc::ptr_eq(&said(&mut one), &said(&mut other)));
    }
}
