//! What the work generator sees: one binding, its member, the Works it has so far, and
//! the snapshot group it names.
//!
//! All of it is metadata and conditions. [`Content`] is the exception: manifests and
//! overrides, read from the server for a pass that asked for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::apply_strategy::{ApplyStrategy, ApplyStrategyType, ReportBackStrategy};
use flagship_api::condition::Condition;
use flagship_api::names::ObjectKey;
use flagship_api::placement_status::{EnvelopeIdentifier, NamespacedName, ResourceIdentifier};
use flagship_api::raw_json::RawJson;
use flagship_api::work::{DiffDetails, DriftDetails};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::model::{Binding, Cluster, ResourceSnapshot};
use crate::overrides::{ClusterOverride, NamespacedOverride};
use crate::policy::checks::jobs::JobReport;

/// Everything one pass over a binding may look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The present moment.
    pub now: Timestamp,
    /// The binding.
    pub binding: Arc<Binding>,
    /// The member it is for; `None` if there is no such cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// Its Works in the member's namespace, by name, those on their way out included.
    pub works: Vec<Work>,
    /// Resource snapshots of its placement, in any order: of the group it names at least.
    pub snapshots: Vec<Arc<ResourceSnapshot>>,
    /// The placement itself; `None` if it is gone.
    pub placement: Option<Placement>,
    /// Hashes of the override snapshots it names, in its order: one that was deleted and made
    /// anew has its old name and other content. `None` unless all of them are there.
    pub override_hashes: Option<Vec<String>>,
    /// What an earlier look at the same binding asked for.
    pub content: Option<Content>,
    /// How long the member still has to answer what this hub wrote last, before the status says
    /// that it is at it: nothing once that time is over, `None` if nothing was written lately.
    pub answer_due: Option<SignedDuration>,
}

impl Observed {
    /// Works that are there to stay.
    pub fn live_works(&self) -> impl Iterator<Item = &Work> {
        self.works.iter().filter(|work| !work.deleting)
    }
}

/// What a placement of either scope says to its Works past the binding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Whether it is being deleted.
    pub deleting: bool,
    /// `spec.strategy.reportBackStrategy`.
    pub report_back: Option<ReportBackStrategy>,
    /// Whether placed resources stay in the members when the placement is deleted.
    pub abandons: bool,
}

impl Binding {
    /// Whether the member only compares.
    pub fn reports_diff(&self) -> bool {
        let kind = self.spec.apply_strategy.as_ref().and_then(|strategy| strategy.r#type);
        kind == Some(ApplyStrategyType::ReportDiff)
    }
}

/// A Work without its manifests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The binding it belongs to, by its labels; one without a namespace has an empty one.
    pub binding: Option<NamespacedName>,
    /// Label `parent-CRP`.
    pub placement: Option<String>,
    /// The envelope it was made from, by its labels.
    pub envelope: Option<EnvelopeIdentifier>,
    /// What it was made from.
    pub stamp: Arc<Stamp>,
    /// Whether what it brought is to stay in the member when the placement is deleted.
    pub to_abandon: bool,
    /// Whether the member has been told so.
    pub abandoned: bool,
    /// `spec.applyStrategy`.
    pub apply_strategy: Option<ApplyStrategy>,
    /// `spec.reportBackStrategy`.
    pub report_back: Option<ReportBackStrategy>,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
    /// Whether it belongs to a placement in a namespace and carries what stands elsewhere: a
    /// hub that did not look wrote it.
    #[serde(default)]
    pub escapes: bool,
    /// Manifests with something to tell, in order.
    pub manifests: Vec<Manifest>,
    /// Hash of the statuses that came back from the member, if any did.
    pub reported: Option<String>,
    /// What it says of the Job of a check, if that is what it brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<JobReport>>,
}

impl Work {
    /// The binding it belongs to.
    pub fn owner(&self) -> Option<ObjectKey> {
        let NamespacedName { namespace, name } = self.binding.as_ref()?;
        Some(ObjectKey::new(Some(namespace), name))
    }

    /// Every condition in it.
    pub fn conditions_mut(&mut self) -> impl Iterator<Item = &mut Condition> {
        let failed = self.manifests.iter_mut().filter_map(|manifest| manifest.failure.as_mut());
        self.conditions.iter_mut().chain(failed)
    }
}

/// What a Work was made from, as its labels and annotations tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// Label `parent-resource-snapshot-index`.
    pub index: Option<String>,
    /// Annotation `parent-resource-snapshot-name`.
    pub snapshot: Option<String>,
    /// Annotation `parent-resource-override-snapshot-hash`.
    pub overrides: Option<String>,
    /// Annotation `parent-cluster-resource-override-snapshot-hash`.
    pub cluster_overrides: Option<String>,
    /// Our own annotation: hash of what else overrides look at.
    pub inputs: Option<String>,
    /// Our own annotation: hash of what came out of the overrides.
    pub manifests: Option<String>,
}

/// A manifest of a Work that failed, drifted or differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Which resource, and the envelope it came in.
    pub resource: ResourceIdentifier,
    /// Its Applied condition if that is False, else its Available condition if that is.
    pub failure: Option<Condition>,
    /// Edits found in the member.
    pub drift: Option<DriftDetails>,
    /// Differences that were left alone.
    pub diff: Option<DiffDetails>,
}

/// What a pass has to know before it can write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    /// Names of resource snapshots, in the binding's namespace.
    pub snapshots: Vec<String>,
    /// Names of cluster-wide override snapshots.
    pub cluster_overrides: Vec<String>,
    /// Namespaced override snapshots.
    pub overrides: Vec<NamespacedName>,
}

/// What was read. A name that is not in here does not exist.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Resource snapshots by name.
    pub snapshots: BTreeMap<String, SnapshotContent>,
    /// Cluster-wide override snapshots, in any order.
    pub cluster_overrides: Vec<ClusterOverride>,
    /// Namespaced override snapshots, in any order.
    pub overrides: Vec<NamespacedOverride>,
}

/// What is in a resource snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotContent {
    /// Label `parent-CRP`.
    pub placement: Option<String>,
    /// `spec.selectedResources`.
    pub resources: Vec<RawJson>,
}
