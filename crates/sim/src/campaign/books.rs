//! What is stored on the hub, decoded as the rules read it, kept up write by write: so that the
//! state before a write is known when it has been accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::cluster::MemberCluster;
use flagship_api::eviction::ClusterResourcePlacementEviction;
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::snapshot::{
    ResourceSnapshotSpec, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus,
};
use flagship_api::staged_update::{UpdateRunSpec, UpdateStrategySpec};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_api::work::Work as WorkObject;
use flagship_rules::eviction::Eviction;
use flagship_rules::model::{Binding, Cluster, PolicySnapshot, ResourceSnapshot};
use flagship_rules::placement::Placement;
use flagship_rules::update_run::{Approval, Observed, OtherRun, Run};
use flagship_rules::work::Work;
use flagship_store::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::testing::{CLUSTERS, CSPS, SPS, Scope, WORK};

/// Evictions, which only cluster-scoped placements have.
pub const EVICTIONS: &str = "clusterresourceplacementevictions.placement.kubernetes-fleet.io";

/// An object in any scope.
#[derive(Deserialize)]
#[serde(bound(deserialize = "S: DeserializeOwned, T: DeserializeOwned"))]
struct Raw<S, T> {
    metadata: ObjectMeta,
    spec: S,
    #[serde(default = "none")]
    status: Option<T>,
}

fn none<T>() -> Option<T> {
    None
}

/// What a write did to the books.
pub enum Change {
    /// A run was written; how it was before, if it was there.
    Run(Option<Box<Run>>),
    /// A binding was written or is gone; how it was before, if it was there.
    Binding(Option<Arc<Binding>>),
    /// A request for an approval was written or is gone; how it was before, if it was there.
    Approval(Option<Box<Approval>>),
    /// An eviction was written.
    Eviction(Option<Box<Eviction>>),
    /// A Work was written or is gone; its generation has changed, or it is new.
    Work {
        /// Whether there is something new to apply.
        fresh: bool,
    },
    /// A resource snapshot was written or is gone.
    Snapshot {
        /// Whether it is there now.
        is: bool,
    },
    /// Something else.
    Other,
}

/// The books of one hub, of one scope.
pub struct Books {
    scope: Scope,
    /// Resources by what they hold.
    names: Names,
    pub runs: BTreeMap<ObjectKey, Run>,
    pub bindings: BTreeMap<ObjectKey, Arc<Binding>>,
    pub approvals: BTreeMap<ObjectKey, Approval>,
    pub clusters: BTreeMap<ObjectKey, Arc<Cluster>>,
    pub works: BTreeMap<ObjectKey, Work>,
    pub placements: BTreeMap<ObjectKey, Placement>,
    pub policies: BTreeMap<ObjectKey, Arc<PolicySnapshot>>,
    pub snapshots: BTreeMap<ObjectKey, Arc<ResourceSnapshot>>,
    pub strategies: BTreeMap<ObjectKey, UpdateStrategySpec>,
    pub evictions: BTreeMap<ObjectKey, Eviction>,
}

struct Names {
    runs: String,
    approvals: String,
    snapshots: String,
    strategies: String,
    policies: &'static str,
}

impl Books {
    /// Nothing is written yet.
    pub fn new(scope: Scope) -> Self {
        let names = Names {
            runs: scope.runs(),
            approvals: scope.approvals(),
            snapshots: scope.snapshots(),
            strategies: scope.strategies(),
            policies: if scope.space.is_empty() { CSPS } else { SPS },
        };
        Self {
            scope,
            names,
            runs: BTreeMap::new(),
            bindings: BTreeMap::new(),
            approvals: BTreeMap::new(),
            clusters: BTreeMap::new(),
            works: BTreeMap::new(),
            placements: BTreeMap::new(),
            policies: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            strategies: BTreeMap::new(),
            evictions: BTreeMap::new(),
        }
    }

    /// Whether objects of this resource are in the books.
    pub fn hold(&self, resource: &str) -> bool {
        let Names { runs, approvals, snapshots, strategies, policies } = &self.names;
        [runs.as_str(), approvals, snapshots, strategies, policies].contains(&resource)
            || [self.scope.placements, self.scope.bindings].contains(&resource)
            || [CLUSTERS, WORK, EVICTIONS].contains(&resource)
    }

    /// Takes over what is stored at a place now, if anything.
    pub fn note(&mut self, resource: &str, key: &ObjectKey, json: Option<&[u8]>) -> Change {
        let names = &self.names;
        if resource == names.runs {
            let run = read::<UpdateRunSpec, UpdateRunStatus>(json)
                .map(|raw| Run::read(&raw.metadata, &raw.spec, &raw.status.unwrap_or_default()));
            return Change::Run(put(&mut self.runs, key, run).map(Box::new));
        }
        if resource == self.scope.bindings {
            let binding = read::<ResourceBindingSpec, ResourceBindingStatus>(json)
                .map(|raw| Arc::new(Binding::read(raw.metadata, raw.spec, raw.status)));
            return Change::Binding(put(&mut self.bindings, key, binding));
        }
        if resource == names.approvals {
            let request = read::<ApprovalRequestSpec, ApprovalRequestStatus>(json)
                .map(|raw| Approval::read(&raw.metadata, &raw.spec, raw.status.as_ref()));
            return Change::Approval(put(&mut self.approvals, key, request).map(Box::new));
        }
        if resource == names.snapshots {
            let snapshot = read::<ResourceSnapshotSpec, ()>(json)
                .map(|raw| Arc::new(ResourceSnapshot::read(&raw.metadata, &raw.spec)));
            let is = snapshot.is_some();
            put(&mut self.snapshots, key, snapshot);
            return Change::Snapshot { is };
        }
        if resource == names.strategies {
            let strategy = read::<UpdateStrategySpec, ()>(json).map(|raw| raw.spec);
            put(&mut self.strategies, key, strategy);
        } else if resource == names.policies {
            let policy = read::<SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus>(json);
            let policy = policy.map(|raw| {
                Arc::new(PolicySnapshot::read(&raw.metadata, &raw.spec, raw.status.as_ref()))
            });
            put(&mut self.policies, key, policy);
        } else if resource == self.scope.placements {
            // No law asks for its status, which has a row for each cluster.
            let placement = read::<PlacementSpec, IgnoredAny>(json)
                .map(|raw| Placement::read(&raw.metadata, &raw.spec, &PlacementStatus::default()));
            put(&mut self.placements, key, placement);
        } else if resource == CLUSTERS {
            let cluster = whole::<MemberCluster>(json).map(|one| Arc::new(Cluster::read(&one)));
            put(&mut self.clusters, key, cluster);
        } else if resource == EVICTIONS {
            let eviction = whole::<ClusterResourcePlacementEviction>(json);
            let eviction = eviction.map(|eviction| Eviction::read(&eviction));
            return Change::Eviction(put(&mut self.evictions, key, eviction).map(Box::new));
        } else if resource == WORK {
            let work = whole::<WorkObject>(json).map(|work| Work::read(&work));
            let generation = work.as_ref().map(|work| work.generation);
            let old = put(&mut self.works, key, work);
            let fresh = generation.is_some() && generation != old.map(|old| old.generation);
            return Change::Work { fresh };
        }
        Change::Other
    }

    /// Where objects of this resource are, as far as the books know.
    pub fn keys(&self, resource: &str) -> Vec<ObjectKey> {
        fn all<V>(of: &BTreeMap<ObjectKey, V>) -> Vec<ObjectKey> {
            of.keys().cloned().collect()
        }
        match resource {
            CLUSTERS => all(&self.clusters),
            WORK => all(&self.works),
            EVICTIONS => all(&self.evictions),
            name if name == self.names.runs => all(&self.runs),
            name if name == self.names.approvals => all(&self.approvals),
            name if name == self.names.snapshots => all(&self.snapshots),
            name if name == self.names.strategies => all(&self.strategies),
            name if name == self.names.policies => all(&self.policies),
            name if name == self.scope.bindings => all(&self.bindings),
            _ => all(&self.placements),
        }
    }

    /// A run as the rules see it, if everything were read at once.
    pub fn seen(&self, run: &Run, now: Timestamp) -> Observed {
        let placement = run.placement_key();
        let bindings = self.bindings.values().filter(|b| b.placement_key() == placement);
        let bindings: Vec<Arc<Binding>> = bindings.cloned().collect();
        let others = self.runs.values().filter(|other| other.uid != run.uid);
        let mut rivals: Vec<OtherRun> =
            others.filter(|other| other.placement_key() == placement).map(OtherRun::of).collect();
        for fence in bindings.iter().filter_map(|binding| binding.fence.as_ref()) {
            let known = |rival: &OtherRun| rival.uid == fence.run;
            if fence.run != run.uid && !rivals.iter().any(known) {
                rivals.push(OtherRun::departed(&fence.run));
            }
        }
        let ours = |request: &&Approval| {
            request.run == run.name || request.labelled.as_ref() == Some(&run.name)
        };
        let here = stored(&placement);
        Observed {
            placement: self.placements.get(&here).cloned(),
            policy_snapshots: self
                .policies
                .values()
                .filter(|policy| policy.latest && belongs(&policy.name, &placement.name))
                .cloned()
                .collect(),
            bindings,
            clusters: self.clusters.values().cloned().collect(),
            strategy: self.strategies.get(&stored(&run.strategy_key())).cloned(),
            resource_snapshots: self
                .snapshots
                .values()
                .filter(|snapshot| belongs(&snapshot.name, &placement.name))
                .cloned()
                .collect(),
            approvals: self.approvals.values().filter(ours).cloned().collect(),
            rivals,
            ..Observed::of(run.clone(), now)
        }
    }
}

/// Whether a snapshot is one of this placement: they are called `<placement>-<index>...`, and
/// no placement of a story has a dash in its name.
fn belongs(snapshot: &str, placement: &str) -> bool {
    snapshot.split_once('-').is_some_and(|(of, _)| of == placement)
}

/// The same place as the store spells it.
pub fn stored(key: &flagship_api::names::ObjectKey) -> ObjectKey {
    ObjectKey::new(key.namespace.as_deref().unwrap_or(""), key.name.as_str())
}

fn put<V>(into: &mut BTreeMap<ObjectKey, V>, key: &ObjectKey, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => into.insert(key.clone(), value),
        None => into.remove(key),
    }
}

/// What cannot be read is not in the books.
fn read<S: DeserializeOwned, T: DeserializeOwned>(json: Option<&[u8]>) -> Option<Raw<S, T>> {
    whole(json)
}

fn whole<K: DeserializeOwned>(json: Option<&[u8]>) -> Option<K> {
    serde_json::from_slice(json?).ok()
}
