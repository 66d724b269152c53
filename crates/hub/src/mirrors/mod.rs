//! What the hub watches, mirrored once for all controllers.
//!
//! A mirror keeps what rules read and the precondition of a write, never whole
//! objects. A pass that must see its own last writes waits until the mirror shows them.
//!
//! Kinds that not every hub needs are `optional`: where their definition is not installed
//! they count as empty. Without the others a hub waits, and says for what.
//!
//! Here is how mirrors are set up and filled; `members`, `placements`, `runs`, `overrides`,
//! `evictions`, `policies` and `works` say what is kept of which kind, `shared_parts` what of
//! it is kept once for many objects.

mod evictions;
mod members;
mod overrides;
mod placements;
mod policies;
mod runs;
mod shared_parts;
mod works;

use flagship_api::cluster_profile::ClusterProfile;
use flagship_api::names::{ObjectKey, SYSTEM_NAMESPACE, Scope};
use flagship_api::placement_status::{ClusterResourcePlacementStatus, PlacementStatus};
use flagship_rules::inventory;
use flagship_rules::policy::Freeze;
use flagship_runtime::client::{Client, Precondition, ResourceType, Selection};
use flagship_runtime::effects::Kind;
use flagship_runtime::env::Env;
use flagship_runtime::readiness::Readiness;
use flagship_runtime::reflector::{Reflector, Store, Subscription};
use futures::future::{BoxFuture, join_all};
use kube_core::Resource;
use tokio::task::JoinSet;

use crate::malformed_events::MalformedEvents;
use crate::options::Options;
use crate::scope::{ClusterWide, InNamespace};

pub(crate) use evictions::Eviction;
pub(crate) use members::{Cluster, MemberMirrors};
pub(crate) use overrides::{Override, OverrideMirrors, OverrideSnapshot, OverrideStores};
pub(crate) use placements::{Placement, Policy, ResourceSnapshot, ScopeMirrors};
pub(crate) use policies::Channel;
pub(crate) use runs::{Run, Said};
use shared_parts::SharedParts;
pub(crate) use works::WorkMirrors;

/// Everything that is mirrored.
pub(crate) struct Mirrors {
    /// What belongs to members.
    pub members: MemberMirrors,
    /// What belongs to cluster-scoped placements.
    pub cluster_wide: ScopeMirrors,
    /// What belongs to namespaced placements; `None` if those are not served.
    pub in_namespaces: Option<ScopeMirrors>,
    /// Overrides of both scopes, and what was frozen of them.
    pub overrides: OverrideMirrors,
    /// What members are to apply.
    pub works: WorkMirrors,
    /// Placements that are to leave a cluster.
    pub evictions: Store<Eviction>,
    /// Copies of placements' statuses in placed namespaces.
    pub copies: Store<Versioned<PlacementStatus>>,
    /// What stands still.
    pub freezes: Store<Freeze>,
    /// Where transitions of runs are told.
    pub channels: Store<Channel>,
    /// Profiles of members; `None` if the hub publishes none.
    pub profiles: Option<Store<Versioned<inventory::Profile>>>,
}

/// What fills the mirrors.
#[derive(Default)]
pub(crate) struct Filling {
    reflectors: Vec<BoxFuture<'static, ()>>,
    synced: Vec<BoxFuture<'static, ()>>,
    probes: Vec<Box<Probe>>,
    listeners: Vec<Box<Listener>>,
    resources: Vec<ResourceType>,
}

/// Says what a mirror waits for; `None` once it is filled.
type Probe = dyn Fn() -> Option<String> + Send + Sync;

/// Lets somebody hear of what a mirror cannot read.
type Listener = dyn FnOnce(MalformedEvents) -> Subscription + Send;

/// What rules read of an object, and the precondition of a write to it.
#[derive(Debug, PartialEq)]
pub(crate) struct Versioned<V> {
    pub precondition: Precondition,
    pub value: V,
}

impl Mirrors {
    /// Sets the mirrors up; they stay empty until they are filled.
    pub fn new(client: &Client, env: &Env, options: &Options) -> (Self, Filling) {
        let (shared, filling) = (SharedParts::default(), Filling::default());
        let mut set = Set { client, env, optional: false, shared, filling };
        let members = MemberMirrors::new(&mut set);
        let cluster_wide = ScopeMirrors::new::<ClusterWide>(&mut set);
        let works = WorkMirrors::new(&mut set);
        set.optional = true;
        let in_namespaces =
            options.resource_placement.then(|| ScopeMirrors::new::<InNamespace>(&mut set));
        let overrides = OverrideMirrors::new(&mut set);
        let evictions = evictions::mirror(&mut set);
        let copies = set.mirror(|object: ClusterResourcePlacementStatus| {
            let status = object.source_status.clone();
            Versioned::of(&object, status)
        });
        let copies = set.add(copies);
        let freezes = policies::mirror(&mut set);
        let channels = policies::channels(&mut set);
        let profiles = options.controllers.inventory.then(|| {
            let profiles = set.mirror(|object: ClusterProfile| {
                let ours = object.metadata.namespace.as_deref() == Some(SYSTEM_NAMESPACE);
                ours.then(|| Versioned::of(&object, inventory::Profile::read(&object))).flatten()
            });
            set.add(profiles)
        });
        let mirrors = Self {
            members,
            cluster_wide,
            in_namespaces,
            overrides,
            works,
            evictions,
            copies,
            freezes,
            channels,
            profiles,
        };
        (mirrors, set.filling)
    }

    /// The mirrors of a placement's scope.
    pub fn of(&self, key: &ObjectKey) -> Option<&ScopeMirrors> {
        match key.scope() {
            Scope::Cluster => Some(&self.cluster_wide),
            Scope::Namespaced => self.in_namespaces.as_ref(),
        }
    }

    /// Asks, whenever it is called, whether anybody overrides anything.
    pub fn overrides_in_force(&self) -> impl Fn() -> bool + Send + 'static + use<> {
        let (wide, narrow) = (&self.overrides.cluster_wide, &self.overrides.in_namespaces);
        let (wide, narrow) = (wide.snapshots.clone(), narrow.snapshots.clone());
        move || !wide.is_empty() || !narrow.is_empty()
    }

    /// The mirrors of all scopes that are served.
    pub fn scopes(&self) -> impl Iterator<Item = &ScopeMirrors> {
        [&self.cluster_wide].into_iter().chain(&self.in_namespaces)
    }
}

impl Filling {
    /// What will be mirrored.
    pub fn resources(self) -> Vec<ResourceType> {
        self.resources
    }

    /// Tells of unreadable objects of every kind, for as long as the subscriptions live.
    pub fn record_malformed(&mut self, malformed: &MalformedEvents) -> Vec<Subscription> {
        let listeners = std::mem::take(&mut self.listeners);
        listeners.into_iter().map(|listen| listen(malformed.clone())).collect()
    }

    /// What is still to be listed, whenever it is asked.
    pub fn probe(&mut self) -> impl Fn() -> Readiness + Send + Sync + 'static {
        let probes = std::mem::take(&mut self.probes);
        move || Readiness::Filling(probes.iter().filter_map(|probe| probe()).collect())
    }

    /// Starts mirroring and waits until everything was listed once.
    pub async fn start(self, tasks: &mut JoinSet<()>) {
        for reflector in self.reflectors {
            tasks.spawn(reflector);
        }
        join_all(self.synced).await;
    }
}

impl<V> Versioned<V> {
    fn of<K: Resource>(object: &K, value: V) -> Option<Self> {
        Some(Self { precondition: Precondition::of(object)?, value })
    }
}

/// Mirrors in the making.
struct Set<'a> {
    client: &'a Client,
    env: &'a Env,
    /// Whether the kinds that follow may be missing.
    optional: bool,
    shared: SharedParts,
    filling: Filling,
}

impl Set<'_> {
    /// A mirror of a kind, for those who want to add an index before it is filled.
    fn mirror<K: Kind, V>(
        &self,
        project: impl Fn(K) -> Option<V> + Send + Sync + 'static,
    ) -> Reflector<K, V> {
        let mirror = Reflector::new(self.env, self.client.of::<K>(), Selection::all(), project);
        if self.optional { mirror.optional() } else { mirror }
    }

    fn add<K, V>(&mut self, reflector: Reflector<K, V>) -> Store<V>
    where
        K: Kind + Send + 'static,
        V: Send + Sync + 'static,
    {
        let store = reflector.store();
        let resource = ResourceType::of::<K>();
        self.filling.resources.push(resource.clone());
        let (heard, of) = (store.clone(), resource.clone());
        self.filling.listeners.push(Box::new(move |malformed| {
            heard.subscribe(move |change| malformed.hear(&of, change))
        }));
        let probed = store.clone();
        self.filling.probes.push(Box::new(move || {
            if probed.is_synced() {
                return None;
            }
            Some(probed.trouble().unwrap_or_else(|| resource.to_string()))
        }));
        let filled = store.clone();
        self.filling.reflectors.push(Box::pin(reflector.run()));
        self.filling.synced.push(Box::pin(async move { filled.synced().await }));
        store
    }
}
