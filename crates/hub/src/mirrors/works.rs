//! What is kept of Works: whose they are and what members say of them, never what is in them.

use flagship_api::names::ObjectKey;
use flagship_api::work::Work as Object;
use flagship_rules::work::Work;
use flagship_runtime::reflector::{Entry, IndexId, Store};

use super::{Set, Versioned};

/// The Works of all members.
#[derive(Clone)]
pub(crate) struct WorkMirrors {
    pub works: Store<Versioned<Work>>,
    bindings: IndexId,
    checked_runs: IndexId,
}

impl WorkMirrors {
    pub(super) fn new(set: &mut Set<'_>) -> Self {
        let shared = set.shared.clone();
        let works = set.mirror(move |object: Object| {
            let mut work = Work::read(&object);
            shared.in_work(&mut work);
            Versioned::of(&object, work)
        });
        let bindings = works.index(|_, work: &Versioned<Work>| {
            work.value.owner().map(|binding| binding.to_string()).into_iter().collect()
        });
        let checked_runs = works.index(|_, work: &Versioned<Work>| {
            work.value.check.as_ref().map(|report| report.run_uid.clone()).into_iter().collect()
        });
        Self { works: set.add(works), bindings, checked_runs }
    }

    /// The Works that bring Jobs of checks for the run of this UID.
    pub fn of_checks(&self, run_uid: &str) -> Vec<Entry<Versioned<Work>>> {
        self.works.by(self.checked_runs, run_uid)
    }

    /// The Works of a binding, wherever they are.
    pub fn all_of(&self, binding: &ObjectKey) -> Vec<Entry<Versioned<Work>>> {
        self.works.by(self.bindings, &binding.to_string())
    }

    /// The Works of a binding in the namespace of its member. What another member says in
    /// its own namespace does not count.
    pub fn of(&self, binding: &ObjectKey, namespace: &str) -> Vec<Entry<Versioned<Work>>> {
        let mut works = self.all_of(binding);
        works.retain(|(key, _)| key.namespace.as_deref() == Some(namespace));
        works
    }
}
