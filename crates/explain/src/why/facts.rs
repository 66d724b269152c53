//! What was read, as the rules want it: both scopes alike, and gaps said plainly.

use std::collections::BTreeMap;

use flagship_api::approval::ApprovalRequestStatus;
use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::cluster::{MemberClusterSpec, MemberClusterStatus};
use flagship_api::condition::Generation;
use flagship_api::condition_type::work;
use flagship_api::names::ObjectKey;
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::staged_update::UpdateRunSpec;
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::diagnosis::report::Reported;
use flagship_rules::policy::Adopted;
use flagship_rules::update_run::OtherRun;
use flagship_rules::update_run::superseded::{Taken, taken};
use jiff::Timestamp;
use serde_json::Value;

/// What a person asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A run of either scope.
    Run(ObjectKey),
    /// A placement of either scope.
    Placement(ObjectKey),
    /// A member.
    Cluster(String),
    /// A name that nothing has; where it was found instead.
    Nothing(ObjectKey, Vec<ObjectKey>),
}

/// Everything that was read for one question.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What is asked.
    pub subject: Subject,
    /// When it was read.
    pub now: Timestamp,
    /// When the hub's controllers last renewed their lease, if they hold one.
    pub hub_renewed: Option<Timestamp>,
    /// The run asked about.
    pub run: Option<RunFacts>,
    /// The placement asked about, or the run's.
    pub placement: Option<PlacementFacts>,
    /// Bindings of the placement, or on the cluster, by name.
    pub bindings: Vec<BindingFacts>,
    /// Members by name.
    pub clusters: BTreeMap<String, ClusterFacts>,
    /// Approval requests of the run by name.
    pub approvals: BTreeMap<String, ApprovalFacts>,
    /// Names of the placement's other runs that are not done, oldest first. For a placement,
    /// the last of them is `run`.
    pub rivals: Vec<String>,
    /// The placement's other runs, as one run sees another.
    pub others: Vec<OtherRun>,
    /// Versions of the placement that some run has brought everywhere.
    pub proven: Vec<String>,
    /// The placement's newest run, if it has ended and none is open.
    pub last_run: Option<(String, RunFacts)>,
    /// Placements of what is on a cluster, for questions about clusters.
    pub placements: BTreeMap<ObjectKey, PlacementGlance>,
    /// Why objects are not available, as the agents of clusters report it.
    pub reports: BTreeMap<String, Vec<Reported>>,
    /// What a member shows of an object that failed there, by cluster.
    pub members: BTreeMap<String, MemberView>,
    /// The run or placement asked about, if it is there and cannot be read: which field and why.
    pub subject_unreadable: Option<String>,
    /// Objects that belong to the subject and cannot be read: which, which field and why.
    pub unreadable: Vec<String>,
}

/// As much of a placement as a question about a cluster needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementGlance {
    /// Whether it leaves rollouts to runs.
    pub external: bool,
    /// Its newest run that has not ended.
    pub open_run: Option<String>,
}

impl Facts {
    /// Nothing but the question.
    pub fn new(subject: Subject, now: Timestamp) -> Self {
        Self {
            subject,
            now,
            hub_renewed: None,
            run: None,
            placement: None,
            bindings: Vec::new(),
            clusters: BTreeMap::new(),
            approvals: BTreeMap::new(),
            rivals: Vec::new(),
            others: Vec::new(),
            proven: Vec::new(),
            last_run: None,
            placements: BTreeMap::new(),
            reports: BTreeMap::new(),
            members: BTreeMap::new(),
            subject_unreadable: None,
            unreadable: Vec::new(),
        }
    }
}

impl Facts {
    /// Clusters of the run that follow another run by now.
    pub fn taken(&self) -> Vec<Taken> {
        let Some(run) = &self.run else { return Vec::new() };
        taken(&run.status, run.created.unwrap_or(self.now), &self.others)
    }
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Version of its spec.
    pub generation: Generation,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// What was asked for.
    pub spec: UpdateRunSpec,
    /// How far it has come.
    pub status: UpdateRunStatus,
    /// The rollout policies it follows.
    pub adopted: Option<Adopted>,
}

/// A placement.
#[derive(Clone, Debug, Default)]
pub struct PlacementFacts {
    /// Version of its spec.
    pub generation: Generation,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// What was asked for.
    pub spec: PlacementSpec,
    /// How far it has come.
    pub status: PlacementStatus,
}

/// A binding.
#[derive(Clone, Debug)]
pub struct BindingFacts {
    /// Where it stands.
    pub key: ObjectKey,
    /// The placement it belongs to.
    pub placement: String,
    /// Version of its spec.
    pub generation: Generation,
    /// What the cluster shall have.
    pub spec: ResourceBindingSpec,
    /// What it has.
    pub status: ResourceBindingStatus,
}

impl BindingFacts {
    /// Whether an object was applied there and is not available.
    pub fn is_unavailable(&self) -> bool {
        let failed = &self.status.failed_placements;
        failed.iter().any(|failed| failed.condition.type_ == work::AVAILABLE)
    }
}

/// A member, as the hub knows it.
#[derive(Clone, Debug)]
pub struct ClusterFacts {
    /// Version of its spec.
    pub generation: Generation,
    /// How it was registered.
    pub spec: MemberClusterSpec,
    /// What it says of itself, as the hub's controllers have taken it down.
    pub status: MemberClusterStatus,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is on its way out of the fleet.
    pub leaving: bool,
    /// When its agent last reported, whether or not the hub's controllers have noticed.
    pub reported: Option<Timestamp>,
}

/// An approval request.
#[derive(Clone, Debug)]
pub struct ApprovalFacts {
    /// Version of its spec: what an approval must name.
    pub generation: Generation,
    /// Who has said what.
    pub status: ApprovalRequestStatus,
}

/// What could be seen on a member, around the first object that failed there.
#[derive(Clone, Debug, Default)]
pub struct MemberView {
    /// Why nothing could be seen; empty if it could.
    pub blind: String,
    /// The object itself.
    pub object: Option<Value>,
    /// Its pods.
    pub pods: Vec<Value>,
    /// Events about the object, what it owns, and its pods; newest last.
    pub events: Vec<Value>,
}
