//! Every condition type, one module per kind of object that carries it.
//!
//! Placements are special: the types at placement level have the scope as a
//! prefix, while the same names without prefix are used per cluster and on
//! bindings. [`Placement`] knows both spellings.

use crate::names::Scope;

const STATUS_SYNCED: &str = "ClusterResourcePlacementStatusSynced";

/// A condition of a placement, whatever its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// The scheduler has picked clusters.
    Scheduled,
    /// The latest resources are on their way.
    RolloutStarted,
    /// Override rules were applied.
    Overridden,
    /// Works were written on the hub.
    WorkSynchronized,
    /// Members applied the resources.
    Applied,
    /// The resources work.
    Available,
    /// Members reported differences; takes the place of Applied and Available.
    DiffReported,
    /// The status was mirrored into a namespace; cluster scope only.
    StatusSynced,
}

impl Placement {
    /// What is expected, in order, of a placement that applies its resources.
    pub const WHEN_APPLYING: [Self; 5] = [
        Self::RolloutStarted,
        Self::Overridden,
        Self::WorkSynchronized,
        Self::Applied,
        Self::Available,
    ];

    /// What is expected, in order, of a placement that only reports differences.
    pub const WHEN_REPORTING_DIFF: [Self; 4] =
        [Self::RolloutStarted, Self::Overridden, Self::WorkSynchronized, Self::DiffReported];

    /// The six conditions of the rollout: all but Scheduled and StatusSynced.
    pub const ROLLOUT: [Self; 6] = [
        Self::RolloutStarted,
        Self::Overridden,
        Self::WorkSynchronized,
        Self::Applied,
        Self::Available,
        Self::DiffReported,
    ];

    /// The type on a placement of this scope. StatusSynced exists in one only and
    /// has one spelling wherever it is looked for.
    pub const fn on(self, scope: Scope) -> &'static str {
        match (scope, self) {
            (Scope::Cluster, Self::Scheduled) => "ClusterResourcePlacementScheduled",
            (Scope::Cluster, Self::RolloutStarted) => "ClusterResourcePlacementRolloutStarted",
            (Scope::Cluster, Self::Overridden) => "ClusterResourcePlacementOverridden",
            (Scope::Cluster, Self::WorkSynchronized) => "ClusterResourcePlacementWorkSynchronized",
            (Scope::Cluster, Self::Applied) => "ClusterResourcePlacementApplied",
            (Scope::Cluster, Self::Available) => "ClusterResourcePlacementAvailable",
            (Scope::Cluster, Self::DiffReported) => "ClusterResourcePlacementDiffReported",
            (Scope::Namespaced, Self::Scheduled) => "ResourcePlacementScheduled",
            (Scope::Namespaced, Self::RolloutStarted) => "ResourcePlacementRolloutStarted",
            (Scope::Namespaced, Self::Overridden) => "ResourcePlacementOverridden",
            (Scope::Namespaced, Self::WorkSynchronized) => "ResourcePlacementWorkSynchronized",
            (Scope::Namespaced, Self::Applied) => "ResourcePlacementApplied",
            (Scope::Namespaced, Self::Available) => "ResourcePlacementAvailable",
            (Scope::Namespaced, Self::DiffReported) => "ResourcePlacementDiffReported",
            (_, Self::StatusSynced) => STATUS_SYNCED,
        }
    }

    /// The type per cluster and on bindings.
    pub const fn per_cluster(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::RolloutStarted => binding::ROLLOUT_STARTED,
            Self::Overridden => binding::OVERRIDDEN,
            Self::WorkSynchronized => binding::WORK_SYNCHRONIZED,
            Self::Applied => binding::APPLIED,
            Self::Available => binding::AVAILABLE,
            Self::DiffReported => binding::DIFF_REPORTED,
            Self::StatusSynced => STATUS_SYNCED,
        }
    }
}

/// Bindings of both scopes, and per-cluster entries of a placement.
pub mod binding {
    use crate::listed::listed;

    listed! {
        /// The start signal for delivery.
        ROLLOUT_STARTED = "RolloutStarted";
        /// Override rules were applied.
        OVERRIDDEN = "Overridden";
        /// Works were written.
        WORK_SYNCHRONIZED = "WorkSynchronized";
        /// Every work is applied.
        APPLIED = "Applied";
        /// Every work is available.
        AVAILABLE = "Available";
        /// Every work reported its differences.
        DIFF_REPORTED = "DiffReported";
    }
}

/// Policy snapshots of both scopes.
pub mod policy_snapshot {
    use crate::listed::listed;

    listed! {
        /// The scheduler's verdict.
        SCHEDULED = "Scheduled";
    }
}

/// Works, and the manifests inside them (all but the last).
pub mod work {
    use crate::listed::listed;

    listed! {
        /// Written to the member.
        APPLIED = "Applied";
        /// Working on the member.
        AVAILABLE = "Available";
        /// Compared with the member, nothing written.
        DIFF_REPORTED = "DiffReported";
        /// Details were dropped because the status grew too large.
        STATUS_TRIMMED = "StatusTrimmed";
    }
}

/// Update runs of both scopes; stages use the last two.
pub mod update_run {
    use crate::listed::listed;

    listed! {
        /// The plan of the run is fixed.
        INITIALIZED = "Initialized";
        /// It moves.
        PROGRESSING = "Progressing";
        /// It ended, well or badly.
        SUCCEEDED = "Succeeded";
        /// Which rollout policies it follows, and the hash of its copy of them. Our own.
        FOLLOWS_POLICIES = "FollowsPolicies";
    }
}

/// One cluster of a stage.
pub mod updating_cluster {
    use crate::listed::listed;

    listed! {
        /// A promise written before the binding is touched.
        STARTED = "Started";
        /// The cluster runs the new version, or never will in this run.
        SUCCEEDED = "Succeeded";
    }
}

/// One task before or after a stage.
pub mod stage_task {
    use crate::listed::listed;

    listed! {
        /// The request exists.
        APPROVAL_REQUEST_CREATED = "ApprovalRequestCreated";
        /// The request was approved, for good.
        APPROVAL_REQUEST_APPROVED = "ApprovalRequestApproved";
        /// The wait is over.
        WAIT_TIME_ELAPSED = "WaitTimeElapsed";
    }
}

/// Approval requests of both scopes.
pub mod approval_request {
    use crate::listed::listed;

    listed! {
        /// Written by a person.
        APPROVED = "Approved";
        /// Written by the run: the approval can no longer be taken back.
        APPROVAL_ACCEPTED = "ApprovalAccepted";
    }
}

/// MemberClusters and InternalMemberClusters.
pub mod member_cluster {
    use crate::listed::listed;

    listed! {
        /// Namespace, role and hub-side counterpart exist.
        READY_TO_JOIN = "ReadyToJoin";
        /// Every expected agent joined; also the type inside `agentStatus`.
        JOINED = "Joined";
        /// Declared on the cluster and never set there; agents report it.
        HEALTHY = "Healthy";
        /// The property provider runs.
        PROPERTY_PROVIDER_STARTED = "ClusterPropertyProviderStarted";
        /// Properties are fresh.
        PROPERTY_COLLECTION_SUCCEEDED = "ClusterPropertyCollectionSucceeded";
        /// Costs are fresh.
        COST_COLLECTION_SUCCEEDED = "AKSClusterCostPropertiesCollectionSucceeded";
        /// Namespaces are collected; its presence alone switches namespace affinity on.
        NAMESPACE_COLLECTION_SUCCEEDED = "NamespaceCollectionSucceeded";
    }
}

/// Agents that report in `agentStatus`.
pub mod agent_type {
    use crate::listed::listed;

    listed! {
        /// Always expected.
        MEMBER = "MemberAgent";
        /// Expected with networking agents.
        MULTI_CLUSTER_SERVICE = "MultiClusterServiceAgent";
        /// Expected with networking agents.
        SERVICE_EXPORT_IMPORT = "ServiceExportImportAgent";
    }
}

/// ClusterProfiles.
pub mod cluster_profile {
    use crate::listed::listed;

    listed! {
        /// The member's API server answers.
        CONTROL_PLANE_HEALTHY = "ControlPlaneHealthy";
    }
}

/// Kubernetes' own PodDisruptionBudgets, which are available once their
/// controller has spoken.
pub mod pod_disruption_budget {
    use crate::listed::listed;

    listed! {
        /// Whether a pod may be evicted now; the reasons are in [`crate::reason::kubernetes`].
        DISRUPTION_ALLOWED = "DisruptionAllowed";
    }
}

/// ClusterResourcePlacementEvictions.
pub mod eviction {
    use crate::listed::listed;

    listed! {
        /// The eviction makes sense.
        VALID = "Valid";
        /// The binding was deleted, or will not be.
        EXECUTED = "Executed";
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::listed::table;

    /// These are promises to other systems: a change here is a break there.
    #[test]
    fn the_condition_types_are_these() {
        let all = [
            ("binding", binding::ALL),
            ("policy_snapshot", policy_snapshot::ALL),
            ("work", work::ALL),
            ("update_run", update_run::ALL),
            ("updating_cluster", updating_cluster::ALL),
            ("stage_task", stage_task::ALL),
            ("approval_request", approval_request::ALL),
            ("member_cluster", member_cluster::ALL),
            ("agent_type", agent_type::ALL),
            ("cluster_profile", cluster_profile::ALL),
            ("pod_disruption_budget", pod_disruption_budget::ALL),
            ("eviction", eviction::ALL),
        ];
        let text: String =
            all.iter().map(|(module, types)| format!("# {module}\n{}", table(types))).collect();
        expect![[r#"
            # binding
            ROLLOUT_STARTED   RolloutStarted
            OVERRIDDEN        Overridden
            WORK_SYNCHRONIZED WorkSynchronized
            APPLIED           Applied
            AVAILABLE         Available
            DIFF_REPORTED     DiffReported
            # policy_snapshot
            SCHEDULED Scheduled
            # work
            APPLIED        Applied
            AVAILABLE      Available
            DIFF_REPORTED  DiffReported
            STATUS_TRIMMED StatusTrimmed
            # update_run
            INITIALIZED      Initialized
            PROGRESSING      Progressing
            SUCCEEDED        Succeeded
            FOLLOWS_POLICIES FollowsPolicies
            # updating_cluster
            STARTED   Started
            SUCCEEDED Succeeded
            # stage_task
            APPROVAL_REQUEST_CREATED  ApprovalRequestCreated
            APPROVAL_REQUEST_APPROVED ApprovalRequestApproved
            WAIT_TIME_ELAPSED         WaitTimeElapsed
            # approval_request
            APPROVED          Approved
            APPROVAL_ACCEPTED ApprovalAccepted
            # member_cluster
            READY_TO_JOIN                  ReadyToJoin
            JOINED                         Joined
            HEALTHY                        Healthy
            PROPERTY_PROVIDER_STARTED      ClusterPropertyProviderStarted
            PROPERTY_COLLECTION_SUCCEEDED  ClusterPropertyCollectionSucceeded
            COST_COLLECTION_SUCCEEDED      AKSClusterCostPropertiesCollectionSucceeded
            NAMESPACE_COLLECTION_SUCCEEDED NamespaceCollectionSucceeded
            # agent_type
            MEMBER                MemberAgent
            MULTI_CLUSTER_SERVICE MultiClusterServiceAgent
            SERVICE_EXPORT_IMPORT ServiceExportImportAgent
            # cluster_profile
            CONTROL_PLANE_HEALTHY ControlPlaneHealthy
            # pod_disruption_budget
            DISRUPTION_ALLOWED DisruptionAllowed
            # eviction
            VALID    Valid
            EXECUTED Executed
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn the_mirrored_status_is_a_condition_of_cluster_scope_only() {
        let types = [
            Placement::StatusSynced.on(Scope::Cluster),
            Placement::StatusSynced.on(Scope::Namespaced),
            Placement::StatusSynced.per_cluster(),
        ];
        assert_eq!(types, ["ClusterResourcePlacementStatusSynced"; 3]);
    }

    #[test]
    fn a_placement_condition_is_its_scope_and_its_bare_name() {
        for condition in [Placement::Scheduled].into_iter().chain(Placement::ROLLOUT) {
            for (scope, prefix) in [
                (Scope::Cluster, "ClusterResourcePlacement"),
                (Scope::Namespaced, "ResourcePlacement"),
            ] {
                let spelled = format!("{prefix}{}", condition.per_cluster());
                assert_eq!(condition.on(scope), spelled);
            }
        }
    }

    #[test]
    fn reporting_differences_replaces_applying_and_availability() {
        let names = |list: &[Placement]| -> Vec<_> {
            list.iter().map(|condition| condition.per_cluster()).collect()
        };
        assert_eq!(
            names(&Placement::WHEN_APPLYING),
            ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"]
        );
        assert_eq!(
            names(&Placement::WHEN_REPORTING_DIFF),
            ["RolloutStarted", "Overridden", "WorkSynchronized", "DiffReported"]
        );
    }
}
