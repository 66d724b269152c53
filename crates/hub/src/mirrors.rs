//! What the hub watches, mirrored once for all controllers.
//!
//! A mirror keeps what rules read and what a write must be fenced with, never whole
//! objects. What a pass must not read from a cache (the bindings it counts) is not
//! here: `observe` lists it from the server.

use std::sync::Arc;

use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::cluster::MemberCluster;
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type;
use flagship_api::keys::{finalizer, label};
use flagship_api::names::{ObjectKey, Scope};
use flagship_rules::{placement, scheduling};
use flagship_runtime::client::{Client, Fence, Selection};
use flagship_runtime::effects::Kind;
use flagship_runtime::env::Env;
use flagship_runtime::reflector::{IndexId, Reflector, Store};
use futures::future::{BoxFuture, join_all};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube_core::Resource;
use tokio::task::JoinSet;

use crate::options::Options;
use crate::placement::Derived;
use crate::scope::{ClusterWide, InNamespace, Parts, Scoped};

/// Everything that is mirrored.
pub(crate) struct Mirrors {
    /// Member clusters, as the scheduler sees them.
    pub clusters: Store<scheduling::Cluster>,
    /// What belongs to cluster-scoped placements.
    pub cluster_wide: ScopeMirrors,
    /// What belongs to namespaced placements; `None` if those are not served.
    pub in_namespaces: Option<ScopeMirrors>,
}

/// What fills the mirrors.
#[derive(Default)]
pub(crate) struct Filling {
    reflectors: Vec<BoxFuture<'static, ()>>,
    synced: Vec<BoxFuture<'static, ()>>,
}

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

impl Mirrors {
    /// Sets the mirrors up; they stay empty until they are filled.
    pub fn new(client: &Client, env: &Env, options: &Options) -> (Self, Filling) {
        let mut set = Set { client, env, options, filling: Filling::default() };
        let clusters =
            set.mirror(|cluster: MemberCluster| Some(scheduling::Cluster::read(&cluster)));
        let clusters = set.add(clusters);
        let cluster_wide = ScopeMirrors::new::<ClusterWide>(&mut set);
        let in_namespaces =
            options.resource_placement.then(|| ScopeMirrors::new::<InNamespace>(&mut set));
        (Self { clusters, cluster_wide, in_namespaces }, set.filling)
    }

    /// The mirrors of a placement's scope.
    pub fn of(&self, key: &ObjectKey) -> Option<&ScopeMirrors> {
        match key.scope() {
            Scope::Cluster => Some(&self.cluster_wide),
            Scope::Namespaced => self.in_namespaces.as_ref(),
        }
    }

    /// The mirrors of all scopes that are served.
    pub fn scopes(&self) -> impl Iterator<Item = &ScopeMirrors> {
        [&self.cluster_wide].into_iter().chain(&self.in_namespaces)
    }
}

impl Filling {
    /// Starts mirroring and waits until everything was listed once.
    pub async fn start(self, tasks: &mut JoinSet<()>) {
        for reflector in self.reflectors {
            tasks.spawn(reflector);
        }
        join_all(self.synced).await;
    }
}

impl ScopeMirrors {
    fn new<S: Scoped>(set: &mut Set<'_>) -> Self {
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
            finalizers: meta.finalizers.clone().unwrap_or_default(),
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
        let mut finalizers = meta.finalizers.iter().flatten();
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

/// Mirrors in the making.
pub(crate) struct Set<'a> {
    client: &'a Client,
    env: &'a Env,
    options: &'a Options,
    filling: Filling,
}

impl Set<'_> {
    pub fn mirror<K: Kind, V>(
        &self,
        project: impl Fn(K) -> Option<V> + Send + Sync + 'static,
    ) -> Reflector<K, V> {
        Reflector::new(self.env, self.client.of::<K>(), Selection::all(), project)
    }

    pub fn add<K, V>(&mut self, reflector: Reflector<K, V>) -> Store<V>
    where
        K: Kind + Send + 'static,
        V: Send + Sync + 'static,
    {
        let store = reflector.store();
        let filled = store.clone();
        self.filling.reflectors.push(Box::pin(reflector.run()));
        self.filling.synced.push(Box::pin(async move { filled.synced().await }));
        store
    }
}
