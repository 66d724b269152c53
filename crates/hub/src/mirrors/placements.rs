//! What is kept of placements and of everything derived from them, in either scope.

use std::sync::Arc;

use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type;
use flagship_api::keys::{finalizer, label};
use flagship_api::names::ObjectKey;
use flagship_api::placement_status::NamespacedName;
use flagship_api::snapshot::ResourceSnapshotSpec;
use flagship_rules::model::{self, Binding};
use flagship_rules::placement;
use flagship_runtime::client::Precondition;
use flagship_runtime::reflector::{Entry, IndexId, Store};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;

use super::runs::RunMirrors;
use super::{Set, SharedParts};
use crate::patches::finalizers_of;
use crate::scope::{Parts, Scoped, binding};

/// What belongs to the placements of one scope.
#[derive(Clone)]
pub(crate) struct ScopeMirrors {
    pub placements: Store<Placement>,
    pub policies: Store<Policy>,
    pub resources: Store<ResourceSnapshot>,
    pub bindings: Store<Binding>,
    pub runs: RunMirrors,
    indexes: Indexes,
}

/// What belongs to a placement, by the placement.
#[derive(Clone, Copy)]
struct Indexes {
    latest_policies: IndexId,
    policies: IndexId,
    resources: IndexId,
    bindings: IndexId,
    bindings_on: IndexId,
    moving_bindings: IndexId,
    bindings_with: IndexId,
}

/// What is kept of a resource snapshot.
#[derive(Debug, PartialEq)]
pub(crate) struct ResourceSnapshot {
    pub precondition: Precondition,
    pub placement: ObjectKey,
    /// Shared with the passes of all controllers.
    pub value: Arc<model::ResourceSnapshot>,
}

/// What is kept of a placement.
#[derive(Debug, PartialEq)]
pub(crate) struct Placement {
    pub precondition: Precondition,
    pub finalizers: Vec<String>,
    pub deleting: bool,
    /// As the placement controller sees it.
    pub value: placement::Placement,
    /// Whether its status says that all wanted clusters were found, for its present spec.
    pub scheduled: bool,
}

/// What is kept of a policy snapshot.
#[derive(Debug, PartialEq)]
pub(crate) struct Policy {
    pub precondition: Precondition,
    pub placement: ObjectKey,
    /// Whether it is in force.
    pub latest: bool,
    /// Whether the scheduler found all clusters that this very policy asks for.
    pub fulfilled: bool,
    /// Shared with the passes of all controllers.
    pub value: Arc<model::PolicySnapshot>,
}

impl ScopeMirrors {
    pub(super) fn new<S: Scoped>(set: &mut Set<'_>) -> Self {
        let shared = set.shared.clone();
        let placements = set.mirror(move |object: S::Placement| {
            let mut placement = Placement::read::<S>(&object)?;
            shared.in_status(&mut placement.value.status);
            Some(placement)
        });
        let placements = set.add(placements);
        let shared = set.shared.clone();
        let policies =
            set.mirror(move |object: S::PolicySnapshot| Policy::read::<S>(&object, &shared));
        let resources = set.mirror(|object: S::ResourceSnapshot| ResourceSnapshot::read(&object));
        let shared = set.shared.clone();
        let bindings = set.mirror(move |object: S::Binding| {
            let mut binding = read_binding::<S>(object)?;
            shared.in_binding(&mut binding);
            Some(binding)
        });
        let indexes = Indexes {
            latest_policies: policies.index(|_, policy| {
                policy.latest.then(|| policy.placement.to_string()).into_iter().collect()
            }),
            policies: policies.index(|_, policy| vec![policy.placement.to_string()]),
            resources: resources.index(|_, snapshot| vec![snapshot.placement.to_string()]),
            bindings: bindings
                .index(|_, binding: &Binding| vec![binding.placement_key().to_string()]),
            moving_bindings: bindings.index(|_, binding| {
                is_moving(binding)
                    .then(|| binding.placement_key().to_string())
                    .into_iter()
                    .collect()
            }),
            bindings_on: bindings.index(|_, binding| vec![binding.spec.target_cluster.clone()]),
            bindings_with: bindings.index(|_, binding| {
                let wide = binding.spec.cluster_resource_override_snapshots.iter();
                let wide = wide.map(|name| ObjectKey::cluster(name).to_string());
                let narrow = binding.spec.resource_override_snapshots.iter();
                let key = |o: &NamespacedName| ObjectKey::namespaced(&o.namespace, &o.name);
                wide.chain(narrow.map(|o| key(o).to_string())).collect()
            }),
        };
        Self {
            placements,
            policies: set.add(policies),
            resources: set.add(resources),
            bindings: set.add(bindings),
            runs: RunMirrors::new::<S>(set),
            indexes,
        }
    }

    /// All policy snapshots of a placement.
    pub fn policies_of(&self, placement: &ObjectKey) -> Vec<Arc<Policy>> {
        values(self.policies.by(self.indexes.policies, &placement.to_string()))
    }

    /// All resource snapshots of a placement.
    pub fn resources_of(&self, placement: &ObjectKey) -> Vec<Arc<ResourceSnapshot>> {
        values(self.resources.by(self.indexes.resources, &placement.to_string()))
    }

    /// All bindings of a placement that have been seen.
    pub fn bindings_of(&self, placement: &ObjectKey) -> Vec<Arc<Binding>> {
        values(self.bindings.by(self.indexes.bindings, &placement.to_string()))
    }

    /// How many bindings of a placement have been seen.
    pub fn count_bindings_of(&self, placement: &ObjectKey) -> u32 {
        let count = self.bindings.count(self.indexes.bindings, &placement.to_string());
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// How many bindings of a placement have not come to their end: their clusters do not work
    /// with what they are to have.
    pub fn count_moving_of(&self, placement: &ObjectKey) -> usize {
        self.bindings.count(self.indexes.moving_bindings, &placement.to_string())
    }

    /// All bindings of a cluster that have been seen.
    pub fn bindings_on(&self, cluster: &str) -> Vec<Arc<Binding>> {
        values(self.bindings.by(self.indexes.bindings_on, cluster))
    }

    /// All bindings of a placement for a cluster that have been seen, sought where fewer are.
    pub fn bindings_for(&self, placement: &ObjectKey, cluster: &str) -> Vec<Arc<Binding>> {
        let of_placement = self.bindings.count(self.indexes.bindings, &placement.to_string());
        let of_cluster = self.bindings.count(self.indexes.bindings_on, cluster);
        let mut found = if of_placement < of_cluster {
            self.bindings_of(placement)
        } else {
            self.bindings_on(cluster)
        };
        found.retain(|one| one.cluster() == cluster && one.placement_key() == *placement);
        found
    }

    /// Whether a binding, or an update run that has not ended, names an override snapshot.
    pub fn names_override(&self, snapshot: &ObjectKey) -> bool {
        let bound = self.bindings.by(self.indexes.bindings_with, &snapshot.to_string());
        !bound.is_empty() || self.runs.name_override(snapshot)
    }

    /// Versions of a placement that update runs still work with, or may go back to.
    pub fn indexes_in_runs(&self, placement: &ObjectKey) -> Vec<String> {
        let open = self.runs.open(placement);
        let mut indexes = Vec::new();
        for run in open {
            indexes.push(run.resource_index().to_owned());
            let before = run.value.adopted.iter().flat_map(|adopted| adopted.before.versions());
            indexes.extend(before.cloned());
        }
        indexes
    }

    /// All policy snapshots of a placement that say they are the latest.
    pub fn latest_policies_of(&self, placement: &ObjectKey) -> Vec<Arc<Policy>> {
        values(self.policies.by(self.indexes.latest_policies, &placement.to_string()))
    }

    /// The one latest policy snapshot of a placement. None while there is none, or
    /// more than one: then somebody is about to change that.
    pub fn policy_of(&self, placement: &ObjectKey) -> Option<Arc<Policy>> {
        let mut found = self.latest_policies_of(placement);
        let policy = found.pop()?;
        found.is_empty().then_some(policy)
    }
}

impl Placement {
    fn read<S: Scoped>(object: &S::Placement) -> Option<Self> {
        let meta = object.meta();
        let scheduled = S::condition(condition_type::Placement::Scheduled);
        let generation = Generation::of(meta);
        Some(Self {
            precondition: Precondition::of(object)?,
            finalizers: finalizers_of(meta).to_vec(),
            deleting: meta.deletion_timestamp.is_some(),
            value: placement::Placement::read(
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
    fn read<S: Scoped>(object: &S::PolicySnapshot, shared: &SharedParts) -> Option<Self> {
        let meta = object.meta();
        let mut value = model::PolicySnapshot::read(meta, object.spec(), object.status());
        shared.in_policy(&mut value);
        Some(Self {
            precondition: Precondition::of(object)?,
            placement: parent(meta)?,
            latest: value.latest && meta.deletion_timestamp.is_none(),
            fulfilled: value.is_fulfilled(),
            value: Arc::new(value),
        })
    }

    /// Whether the scheduler is asked the same question. What it answered is no question.
    pub fn asks_the_same_as(&self, other: &Self) -> bool {
        let (one, two) = (&self.value, &other.value);
        self.placement == other.placement
            && one.number_of_clusters == two.number_of_clusters
            && one.placement_generation == two.placement_generation
            && one.policy == two.policy
    }
}

impl ResourceSnapshot {
    /// What is kept of a resource snapshot of either scope.
    pub fn read<K: Parts<Spec = ResourceSnapshotSpec>>(object: &K) -> Option<Self> {
        let (meta, spec) = (object.meta(), object.spec());
        Some(Self {
            precondition: Precondition::of(object)?,
            placement: parent(meta)?,
            value: Arc::new(model::ResourceSnapshot::read(meta, spec)),
        })
    }
}

/// A binding that belongs to a placement.
fn read_binding<S: Scoped>(object: S::Binding) -> Option<Binding> {
    Precondition::of(&object)?;
    Some(binding(object)).filter(|binding| !binding.placement.is_empty())
}

fn is_moving(binding: &Binding) -> bool {
    use condition_type::binding::{AVAILABLE, DIFF_REPORTED};
    let (conditions, at) = (&binding.status.conditions, binding.generation());
    !conditions.is_true_at(AVAILABLE, at) && !conditions.is_true_at(DIFF_REPORTED, at)
}

pub(super) fn values<V>(entries: Vec<Entry<V>>) -> Vec<Arc<V>> {
    entries.into_iter().map(|(_, value)| value).collect()
}

/// The placement that an object belongs to: named by label, in the object's own namespace.
fn parent(meta: &ObjectMeta) -> Option<ObjectKey> {
    let name =
        meta.labels.as_ref()?.get(label::PARENT_PLACEMENT).filter(|name| !name.is_empty())?;
    Some(ObjectKey::new(meta.namespace.as_deref(), name))
}
