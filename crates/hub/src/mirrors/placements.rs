//! What is kept of placements and of everything derived from them, in either scope.

use std::sync::Arc;

use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type;
use flagship_api::keys::{finalizer, label};
use flagship_api::names::ObjectKey;
use flagship_rules::{placement, scheduling};
use flagship_runtime::client::Fence;
use flagship_runtime::reflector::{IndexId, Store};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube_core::Resource;

use super::Set;
use crate::patches::finalizers_of;
use crate::placement::Derived;
use crate::scope::{Parts, Scoped};

/// What belongs to the placements of one scope.
#[derive(Clone)]
pub(crate) struct ScopeMirrors {
    pub placements: Store<Placement>,
    /// Only the newest of each placement.
    pub policies: Store<Policy>,
    pub bindings: Store<Binding>,
    /// What the placement controller makes and reads besides, if it runs here.
    pub derived: Option<Derived>,
    by_placement: IndexId,
    bindings_by_placement: IndexId,
}

/// What is kept of a placement.
#[derive(Debug, PartialEq)]
pub(crate) struct Placement {
    pub fence: Fence,
    pub finalizers: Vec<String>,
    pub deleting: bool,
    /// All of it, as its own controller sees it.
    pub seen: placement::Placement,
    /// Whether its status says that all wanted clusters were found, for its present spec.
    pub scheduled: bool,
}

/// What is kept of a latest policy snapshot.
#[derive(Debug, PartialEq)]
pub(crate) struct Policy {
    pub fence: Fence,
    pub placement: ObjectKey,
    pub generation: Generation,
    pub snapshot: scheduling::Snapshot,
    pub conditions: Vec<Condition>,
}

/// What is kept of a binding.
#[derive(Debug, PartialEq)]
pub(crate) struct Binding {
    pub placement: ObjectKey,
    /// All of it, as its placement sees it.
    pub seen: placement::Binding,
    /// It is being deleted and waits for the scheduler to let it go.
    pub awaits_scheduler: bool,
}

impl ScopeMirrors {
    pub(super) fn new<S: Scoped>(set: &mut Set<'_>) -> Self {
        let placements = set.mirror(|object: S::Placement| Placement::read::<S>(&object));
        let placements = set.add(placements);
        let policies = set.mirror(|object: S::PolicySnapshot| Policy::read::<S>(&object));
        let by_placement = policies.index(|_, policy| vec![policy.placement.to_string()]);
        let policies = set.add(policies);
        let bindings = set.mirror(|object: S::Binding| Binding::read(&object));
        let bindings_by_placement = bindings.index(|_, one| vec![one.placement.to_string()]);
        let bindings = set.add(bindings);
        let derived = set.options.placement_controllers.then(|| Derived::new::<S>(set));
        Self { placements, policies, bindings, derived, by_placement, bindings_by_placement }
    }

    /// The bindings of a placement.
    pub fn bindings_of(&self, placement: &ObjectKey) -> Vec<placement::Binding> {
        let found = self.bindings.by(self.bindings_by_placement, &placement.to_string());
        found.into_iter().map(|(_, binding)| binding.seen.clone()).collect()
    }

    /// The one latest policy snapshot of a placement. None while there is none, or
    /// more than one: then somebody is about to change that.
    pub fn policy_of(&self, placement: &ObjectKey) -> Option<Arc<Policy>> {
        let mut found = self.policies.by(self.by_placement, &placement.to_string());
        let (_, policy) = found.pop()?;
        found.is_empty().then_some(policy)
    }
}

impl Placement {
    fn read<S: Scoped>(object: &S::Placement) -> Option<Self> {
        let meta = object.meta();
        let scheduled = S::condition(condition_type::Placement::Scheduled);
        let generation = Generation::of(meta);
        Some(Self {
            fence: Fence::of(object)?,
            finalizers: finalizers_of(meta).to_vec(),
            deleting: meta.deletion_timestamp.is_some(),
            seen: placement::Placement::read(
                meta,
                object.spec(),
                &object.status().cloned().unwrap_or_default(),
            ),
            scheduled: object
                .status()
                .is_some_and(|status| status.conditions.is_true_at(scheduled, generation)),
        })
    }

    /// Whether the scheduler has to be asked before it goes.
    pub fn awaits_scheduler(&self) -> bool {
        self.deleting && self.finalizers.iter().any(|f| f == finalizer::SCHEDULER)
    }
}

impl Policy {
    fn read<S: Scoped>(object: &S::PolicySnapshot) -> Option<Self> {
        let meta = object.meta();
        let latest = meta.labels.as_ref()?.get(label::IS_LATEST_SNAPSHOT)?;
        if latest != "true" || meta.deletion_timestamp.is_some() {
            return None;
        }
        Some(Self {
            fence: Fence::of(object)?,
            placement: parent(meta)?,
            generation: Generation::of(meta),
            snapshot: scheduling::Snapshot::read(meta, object.spec(), object.status()),
            conditions: object.status().map(|s| s.conditions.clone()).unwrap_or_default(),
        })
    }

    /// Whether the scheduler found all clusters that this very policy asks for.
    pub fn is_fulfilled(&self) -> bool {
        self.snapshot.recorded.as_ref().is_some_and(|recorded| {
            recorded.placement_generation == self.snapshot.placement_generation
                && recorded.verdict.is_some_and(|verdict| verdict.fulfilled)
        })
    }

    /// Whether the scheduler is asked the same question. What it answered is no question.
    pub fn asks_the_same_as(&self, other: &Self) -> bool {
        let (one, two) = (&self.snapshot, &other.snapshot);
        self.placement == other.placement
            && one.number_of_clusters == two.number_of_clusters
            && one.placement_generation == two.placement_generation
            && one.policy == two.policy
    }
}

impl Binding {
    fn read<K>(object: &K) -> Option<Self>
    where
        K: Parts<Spec = ResourceBindingSpec, Status = ResourceBindingStatus>,
    {
        let meta = object.meta();
        let mut finalizers = finalizers_of(meta).iter();
        Some(Self {
            placement: parent(meta)?,
            seen: placement::Binding::read(meta, object.spec(), object.status()),
            awaits_scheduler: meta.deletion_timestamp.is_some()
                && finalizers.any(|f| f == finalizer::SCHEDULER_BINDING),
        })
    }
}

/// The placement that an object belongs to: named by label, in the object's own namespace.
pub(crate) fn parent(meta: &ObjectMeta) -> Option<ObjectKey> {
    let name =
        meta.labels.as_ref()?.get(label::PARENT_PLACEMENT).filter(|name| !name.is_empty())?;
    Some(ObjectKey::new(meta.namespace.as_deref(), name))
}
