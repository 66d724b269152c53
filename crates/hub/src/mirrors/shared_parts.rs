//! What many objects have in common, kept once for all mirrors.
//!
//! A hundred bindings of a placement, their Works and its status make the same few statements,
//! and the scheduler gives every placement the same reasons for a cluster.

use std::sync::{Arc, Mutex, PoisonError};

use flagship_api::condition::{Condition, Statement};
use flagship_api::placement_status::PlacementStatus;
use flagship_api::snapshot::ClusterDecision;
use flagship_base::interner::Interner;
use flagship_rules::model::{Binding, PolicySnapshot};
use flagship_rules::work::{Stamp, Work};

/// The parts that are known. Clones share them.
#[derive(Clone, Default)]
pub(super) struct SharedParts(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    statements: Interner<Statement>,
    decisions: Interner<ClusterDecision>,
    finalizers: Interner<[String]>,
    stamps: Interner<Stamp>,
}

impl SharedParts {
    pub fn in_binding(&self, binding: &mut Binding) {
        self.with(|known| {
            known.statements(binding.status.conditions_mut());
            known.decisions.intern(&mut binding.spec.cluster_decision);
            known.finalizers.intern(&mut binding.finalizers);
        });
    }

    pub fn in_status(&self, status: &mut PlacementStatus) {
        self.with(|known| known.statements(status.conditions_mut()));
    }

    pub fn in_policy(&self, policy: &mut PolicySnapshot) {
        let decisions = policy.status.target_clusters.iter_mut();
        self.with(|known| decisions.for_each(|decision| known.decisions.intern(decision)));
    }

    pub fn in_work(&self, work: &mut Work) {
        self.with(|known| {
            known.statements(work.conditions_mut());
            known.stamps.intern(&mut work.stamp);
        });
    }

    fn with(&self, share: impl FnOnce(&mut Known)) {
        share(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Known {
    fn statements<'a>(&mut self, conditions: impl Iterator<Item = &'a mut Condition>) {
        conditions.for_each(|condition| self.statements.intern(condition.statement_mut()));
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

    #[test]
    fn the_status_of_a_placement_shares_what_its_bindings_and_works_say() {
        let shared = SharedParts::default();
        let mut bound = binding();
        shared.in_binding(&mut bound);
        let conditions = || binding().status.conditions;
        let mut status = PlacementStatus { conditions: conditions(), ..Default::default() };
        shared.in_status(&mut status);
        let mut works = [(); 2].map(|()| Work { conditions: conditions(), ..Work::default() });
        works.iter_mut().for_each(|work| shared.in_work(work));
        let statement = bound.status.conditions[0].statement_mut().clone();
        assert!(Arc::ptr_eq(&statement, status.conditions[0].statement_mut()));
        assert!(Arc::ptr_eq(&statement, works[1].conditions[0].statement_mut()));
        assert!(Arc::ptr_eq(&works[0].stamp, &works[1].stamp));
        let mut policy = PolicySnapshot::default();
        policy.status.target_clusters = vec![Arc::default()];
        shared.in_policy(&mut policy);
        let decided = &policy.status.target_clusters[0];
        assert!(Arc::ptr_eq(decided, &bound.spec.cluster_decision));
    }
}
