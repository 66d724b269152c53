//! Every cause there is a name for. Codes are API: scripts match on them, and each
//! has a page of the same name.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $title:literal;)+) => {
        /// Why something is not done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cause {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Cause {
            /// Every cause, in the order of this file.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The stable code.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            /// What it means, in half a sentence.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }
        }
    };
}

causes! {
    /// All is well.
    Done = "DONE", "everything asked for has happened";
    /// Nothing is wrong, it is not finished.
    InProgress = "IN_PROGRESS", "it is moving";
    /// Nobody on the hub acts on what was written.
    HubSilent = "HUB_SILENT", "the hub's controllers do not answer";
    /// The object asked about is not there.
    NotFound = "NOT_FOUND", "there is no such object";

    /// Something is stored that cannot be read as what it should be.
    ObjectUnreadable = "OBJECT_UNREADABLE", "an object it depends on cannot be read";

    /// A run that was never started.
    NotStarted = "NOT_STARTED", "the run is prepared and waits to be started";
    /// Somebody stopped the run.
    Stopped = "STOPPED", "the run was stopped";
    /// Somebody stopped the run, and clusters are still finishing.
    Stopping = "STOPPING", "the run is being stopped";
    /// An approval is open.
    ApprovalMissing = "APPROVAL_MISSING", "somebody must approve";
    /// An approval was written for another version of the request.
    ApprovalStale = "APPROVAL_STALE", "the approval does not name the request's generation";
    /// A timed wait is running.
    TimedWait = "TIMED_WAIT", "a wait that the strategy asks for is not over";
    /// A freeze holds the run.
    Frozen = "FROZEN", "somebody has stopped the line";
    /// No window of a policy is open.
    WindowClosed = "WINDOW_CLOSED", "no window is open in which it may go on";
    /// Checks of a policy are asked.
    Checking = "CHECKING", "a check that a policy asks for is not done";
    /// A check of a policy has failed.
    CheckFailed = "CHECK_FAILED", "a check that a policy asks for has failed";
    /// More clusters have failed than a policy allows.
    BudgetSpent = "BUDGET_SPENT", "more clusters have failed than the policy allows";
    /// What the run brings must not be rolled out.
    Quarantined = "QUARANTINED", "what it brings is quarantined";
    /// A newer run has taken clusters, and a policy forbids to take them back.
    Overtaken = "OVERTAKEN", "a newer run has overtaken this one";
    /// Somebody has changed the copy of the policies that a run follows.
    PoliciesChanged = "POLICIES_CHANGED", "the policies that the run follows were changed behind the hub";
    /// Two policies cannot both be followed.
    PoliciesDisagree = "POLICIES_DISAGREE", "two rollout policies say different things";
    /// Another writer changed a cluster that was being updated.
    Preempted = "PREEMPTED", "another run or person took over a cluster";
    /// A newer run has passed a run that waits.
    Superseded = "SUPERSEDED", "a newer run has taken clusters of this one";
    /// The placement is gone.
    PlacementMissing = "PLACEMENT_MISSING", "the placement does not exist";
    /// The placement rolls out by itself.
    PlacementNotExternal = "PLACEMENT_NOT_EXTERNAL", "the placement does not leave rollouts to runs";
    /// The scheduler has not found all clusters.
    PlacementNotScheduled = "PLACEMENT_NOT_SCHEDULED", "the policy is not fully scheduled";
    /// An External placement that no run has touched.
    RunMissing = "RUN_MISSING", "the placement waits for a run";
    /// Clusters of a placement have different versions, and no run changes that.
    MixedVersions = "MIXED_VERSIONS", "the placement's clusters have different versions";
    /// The strategy is gone.
    StrategyMissing = "STRATEGY_MISSING", "the strategy does not exist";
    /// The strategy cannot be used as it is.
    StrategyInvalid = "STRATEGY_INVALID", "the strategy has a mistake";
    /// The wanted version of the resources is not there.
    SnapshotMissing = "SNAPSHOT_MISSING", "the resource snapshot does not exist";
    /// A cluster matches two stages.
    ClusterInTwoStages = "CLUSTER_IN_TWO_STAGES", "a cluster's labels match two stages";
    /// A cluster matches no stage.
    ClusterInNoStage = "CLUSTER_IN_NO_STAGE", "a chosen cluster's labels match no stage";
    /// The clusters of the placement changed under the run.
    ClustersChanged = "CLUSTERS_CHANGED", "the set of clusters changed during the run";
    /// Selectors that cannot be used.
    SelectionInvalid = "SELECTION_INVALID", "the placement's resource selectors have a mistake";
    /// A run that failed for a reason without a name of its own.
    RunFailed = "RUN_FAILED", "the run failed";

    /// A cluster that is not a member, or no longer.
    ClusterNotJoined = "CLUSTER_NOT_JOINED", "the cluster is not a member";
    /// The agent on a member has not been heard of.
    HeartbeatStale = "HEARTBEAT_STALE", "the member has not been heard of";
    /// A cluster that is on its way out of the fleet.
    ClusterLeaving = "CLUSTER_LEAVING", "the cluster is leaving the fleet";
    /// A healthy cluster that no placement has chosen.
    NothingPlaced = "NOTHING_PLACED", "no placement has chosen the cluster";
    /// A cluster that takes no new placements.
    ClusterCordoned = "CLUSTER_CORDONED", "the cluster has taints that keep placements away";

    /// Override rules that cannot be applied.
    OverrideInvalid = "OVERRIDE_INVALID", "an override rule does not fit its object";
    /// The hub could not write the work for a member.
    WorkNotSynced = "WORK_NOT_SYNCED", "the hub could not write what the member shall apply";
    /// A member that has not said what became of what it was given.
    NotReported = "NOT_REPORTED", "the member has not said what became of its work";
    /// The rollout of a cluster is held back by the strategy.
    RolloutHeldBack = "ROLLOUT_HELD_BACK", "the rolling update keeps this cluster back";

    /// An admission webhook said no.
    WebhookDenied = "WEBHOOK_DENIED", "an admission webhook refused the object";
    /// A field that cannot be changed.
    FieldImmutable = "FIELD_IMMUTABLE", "a field cannot be changed once the object exists";
    /// The member does not know the kind.
    KindMissing = "KIND_MISSING", "the member does not serve this kind";
    /// The namespace is not on the member.
    NamespaceMissing = "NAMESPACE_MISSING", "the namespace does not exist on the member";
    /// Somebody else owns the object.
    OwnershipConflict = "OWNERSHIP_CONFLICT", "the object on the member belongs to somebody else";
    /// The object was changed on the member.
    Drifted = "DRIFTED", "the object was changed on the member";
    /// The agent may not do it.
    MemberForbidden = "MEMBER_FORBIDDEN", "the agent is not allowed to write the object";
    /// A manifest that no cluster would take.
    ManifestInvalid = "MANIFEST_INVALID", "the member's API server refused the manifest";
    /// The member refused for a reason without a name of its own.
    ApplyFailed = "APPLY_FAILED", "the manifest could not be applied";

    /// A quota is used up.
    QuotaExceeded = "QUOTA_EXCEEDED", "a resource quota is used up";
    /// The image's name cannot be read.
    ImageNameInvalid = "IMAGE_NAME_INVALID", "an image name is not a valid reference";
    /// The registry does not have the image.
    ImageNotFound = "IMAGE_NOT_FOUND", "the registry does not have the image";
    /// The registry wants credentials.
    ImagePullDenied = "IMAGE_PULL_DENIED", "the registry refused to hand out the image";
    /// The image cannot be fetched for another reason.
    ImagePullFailed = "IMAGE_PULL_FAILED", "the image cannot be fetched";
    /// A container ends again and again.
    CrashLoop = "CRASH_LOOP", "a container keeps ending";
    /// A container lacks a ConfigMap, Secret or key.
    ContainerConfig = "CONTAINER_CONFIG", "a container refers to something that is not there";
    /// No node takes the pod.
    PodUnschedulable = "POD_UNSCHEDULABLE", "no node takes the pod";
    /// No pod can be made.
    PodCreationFailed = "POD_CREATION_FAILED", "the controller cannot create a pod";
    /// Pods run and do not become ready.
    PodNotReady = "POD_NOT_READY", "a pod runs and is not ready";
    /// The object is not available, and nothing inside says why.
    ObjectNotReady = "OBJECT_NOT_READY", "the object is not ready";
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.code())
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.code())
    }
}

impl Cause {
    /// The cause with this code.
    pub fn read(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.code().eq_ignore_ascii_case(code))
    }
}
