//! What is made from placements, mirrored: snapshots, copies of statuses, and the
//! update runs that hold on to old versions.
//!
//! Of a resource snapshot only the names of its content are kept, never the manifests.

use std::sync::Arc;

use flagship_api::condition::Conditions;
use flagship_api::condition_type::update_run::SUCCEEDED;
use flagship_api::names::{ObjectKey, Scope};
use flagship_api::placement_status::{ClusterResourcePlacementStatus, PlacementStatus};
use flagship_rules::placement::{PolicySnapshot, ResourceSnapshot};
use flagship_runtime::client::Fence;
use flagship_runtime::reflector::{IndexId, Reflector, Store};
use kube_core::Resource;

use crate::mirrors::{Set, parent};
use crate::scope::{Parts, Scoped};

/// What is made from the placements of one scope.
#[derive(Clone)]
pub(crate) struct Derived {
    /// All policy snapshots, not only the latest ones.
    pub policies: Family<PolicySnapshot>,
    /// All resource snapshots.
    pub resources: Family<ResourceSnapshot>,
    /// Resource snapshot indexes that unfinished update runs work with.
    pub runs: Family<String>,
    /// Copies of statuses in placed namespaces; only cluster-scoped placements have them.
    pub copies: Option<Store<Copy>>,
}

/// Objects that belong to placements.
pub(crate) struct Family<V> {
    pub store: Store<Member<V>>,
    by_placement: IndexId,
}

/// One of them.
#[derive(Debug, PartialEq)]
pub(crate) struct Member<V> {
    pub placement: ObjectKey,
    pub fence: Fence,
    pub seen: V,
}

/// A copy of a status.
#[derive(Debug, PartialEq)]
pub(crate) struct Copy {
    pub fence: Fence,
    pub status: PlacementStatus,
}

impl Derived {
    pub fn new<S: Scoped>(set: &mut Set<'_>) -> Self {
        let policies = set.mirror(|object: S::PolicySnapshot| {
            let seen = PolicySnapshot::read(object.meta(), object.spec(), object.status());
            Member::of(&object, parent(object.meta())?, seen)
        });
        let resources = set.mirror(|object: S::ResourceSnapshot| {
            let seen = ResourceSnapshot::read(object.meta(), object.spec());
            Member::of(&object, parent(object.meta())?, seen)
        });
        let runs = set.mirror(|object: S::Run| {
            let index = index_in_use(&object)?;
            let space = object.meta().namespace.as_deref();
            let placement = ObjectKey::new(space, &object.spec().placement_name);
            Member::of(&object, placement, index)
        });
        let copies = match S::SCOPE {
            Scope::Cluster => {
                let copies = set.mirror(|object: ClusterResourcePlacementStatus| {
                    Some(Copy { fence: Fence::of(&object)?, status: object.source_status })
                });
                Some(set.add(copies))
            }
            Scope::Namespaced => None,
        };
        Self {
            policies: Family::new(set, policies),
            resources: Family::new(set, resources),
            runs: Family::new(set, runs),
            copies,
        }
    }
}

impl<V: Send + Sync + 'static> Family<V> {
    fn new<K>(set: &mut Set<'_>, reflector: Reflector<K, Member<V>>) -> Self
    where
        K: flagship_runtime::effects::Kind + Send + 'static,
    {
        let by_placement = reflector.index(|_, member| vec![member.placement.to_string()]);
        Self { store: set.add(reflector), by_placement }
    }

    /// Those of one placement, by name.
    pub fn of(&self, placement: &ObjectKey) -> Vec<Arc<Member<V>>> {
        let found = self.store.by(self.by_placement, &placement.to_string());
        found.into_iter().map(|(_, member)| member).collect()
    }
}

impl<V> Clone for Family<V> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), by_placement: self.by_placement }
    }
}

impl<V> Member<V> {
    fn of<K: Parts>(object: &K, placement: ObjectKey, seen: V) -> Option<Self> {
        Some(Self { placement, fence: Fence::of(object)?, seen })
    }
}

/// Which version a run works with; `None` for one that has ended, or has no version yet.
fn index_in_use<K>(run: &K) -> Option<String>
where
    K: Parts<
            Spec = flagship_api::staged_update::UpdateRunSpec,
            Status = flagship_api::staged_update_status::UpdateRunStatus,
        >,
{
    let ended = |told: &str| told == "True" || told == "False";
    let used = match run.status() {
        Some(status) => {
            if status.conditions.of_type(SUCCEEDED).is_some_and(|told| ended(&told.status)) {
                return None;
            }
            status.resource_snapshot_index_used.clone()
        }
        None => String::new(),
    };
    let asked = &run.spec().resource_snapshot_index;
    [&used, asked].into_iter().find(|index| !index.is_empty()).cloned()
}
