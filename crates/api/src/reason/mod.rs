//! Every condition reason, one module per rule set.
//!
//! Reasons are API: dashboards and scripts match on them. The golden test below
//! prints all of them.
//!
//! Condition *types* live in [`crate::condition_type`], reasons of Kubernetes
//! events in [`event`].

pub mod binding;
pub mod event;
pub mod eviction;
pub mod inventory;
pub mod kubernetes;
pub mod membership;
pub mod placement;
pub mod properties;
pub mod update_run;
pub mod work;

/// Every reason of every rule set: `(module, [(constant, reason)])`.
pub const ALL: &[(&str, &[(&str, &str)])] = &[
    ("placement", placement::ALL),
    ("binding", binding::ALL),
    ("work", work::ALL),
    ("work::manifest", work::manifest::ALL),
    ("work::legacy", work::legacy::ALL),
    ("update_run", update_run::ALL),
    ("update_run::stage", update_run::stage::ALL),
    ("update_run::cluster", update_run::cluster::ALL),
    ("update_run::task", update_run::task::ALL),
    ("update_run::approval", update_run::approval::ALL),
    ("membership", membership::ALL),
    ("membership::agent", membership::agent::ALL),
    ("properties", properties::ALL),
    ("inventory", inventory::ALL),
    ("eviction", eviction::ALL),
    ("event", event::ALL),
    ("kubernetes", kubernetes::ALL),
];

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::listed::table;

    #[test]
    fn the_reasons_are_these() {
        let text: String =
            ALL.iter().map(|(module, reasons)| format!("# {module}\n{}", table(reasons))).collect();
        expect![[r#"
            # placement
            SCHEDULE_PENDING                    SchedulePending
            SCHEDULING_POLICY_FULFILLED         SchedulingPolicyFulfilled
            SCHEDULING_POLICY_UNFULFILLED       SchedulingPolicyUnfulfilled
            INVALID_RESOURCE_SELECTORS          InvalidResourceSelectors
            INVALID_PLACEMENT                   InvalidPlacement
            SCHEDULE_SUCCEEDED                  ScheduleSucceeded
            SCHEDULED                           Scheduled
            SCHEDULE_FAILED                     ScheduleFailed
            ROLLOUT_STARTED_UNKNOWN             RolloutStartedUnknown
            ROLLOUT_NOT_STARTED_YET             RolloutNotStartedYet
            ROLLOUT_STARTED                     RolloutStarted
            ROLLOUT_CONTROLLED_EXTERNALLY       RolloutControlledByExternalController
            OVERRIDDEN_PENDING                  OverriddenPending
            OVERRIDDEN_FAILED                   OverriddenFailed
            OVERRIDDEN_SUCCEEDED                OverriddenSucceeded
            NO_OVERRIDE_SPECIFIED               NoOverrideSpecified
            WORK_SYNCHRONIZED_UNKNOWN           WorkSynchronizedUnknown
            WORK_NOT_SYNCHRONIZED_YET           WorkNotSynchronizedYet
            WORK_SYNCHRONIZED                   WorkSynchronized
            APPLY_PENDING                       ApplyPending
            APPLY_FAILED                        ApplyFailed
            APPLY_SUCCEEDED                     ApplySucceeded
            AVAILABLE_UNKNOWN                   ResourceAvailableUnknown
            NOT_AVAILABLE_YET                   ResourceNotAvailableYet
            AVAILABLE                           ResourceAvailable
            DIFF_REPORTING_PENDING              DiffReportingPending
            DIFF_REPORTING_INCOMPLETE_OR_FAILED DiffReportingIncompleteOrFailed
            DIFF_REPORTING_COMPLETED            DiffReportingCompleted
            STATUS_SYNC_SUCCEEDED               StatusSyncSucceeded
            STATUS_SYNC_FAILED                  StatusSyncFailed
            # binding
            ROLLOUT_STARTED            RolloutStarted
            ROLLOUT_NOT_STARTED_YET    RolloutNotStartedYet
            NO_OVERRIDE_SPECIFIED      NoOverrideSpecified
            OVERRIDDEN_SUCCEEDED       OverriddenSucceeded
            OVERRIDDEN_FAILED          OverriddenFailed
            ALL_WORK_SYNCED            AllWorkSynced
            SYNC_WORK_FAILED           SyncWorkFailed
            APPLY_IN_PROGRESS          ApplyInProgress
            NOT_ALL_WORK_APPLIED       NotAllWorkHaveBeenApplied
            ALL_WORK_APPLIED           AllWorkHaveBeenApplied
            NOT_ALL_WORK_AVAILABLE     NotAllWorkAreAvailable
            NOT_ALL_WORK_TRACKABLE     NotAllWorkAreAvailabilityTrackable
            ALL_WORK_AVAILABLE         AllWorkAreAvailable
            DIFF_REPORT_IN_PROGRESS    DiffReportInProgress
            NOT_ALL_WORK_DIFF_REPORTED NotAllWorkHaveDiffReported
            ALL_WORK_DIFF_REPORTED     AllWorkHaveDiffReported
            # work
            ALL_MANIFESTS_APPLIED            AllManifestsApplied
            SOME_MANIFESTS_NOT_APPLIED       SomeManifestsAreNotApplied
            ALL_MANIFESTS_AVAILABLE          AllManifestsAvailable
            WORK_NOT_TRACKABLE               WorkNotTrackable
            SOME_MANIFESTS_NOT_TRACKABLE     SomeManifestsAreNotAvailabilityTrackable
            SOME_MANIFESTS_NOT_AVAILABLE     SomeManifestsAreNotAvailable
            ALL_MANIFESTS_DIFF_REPORTED      AllManifestsDiffReported
            SOME_MANIFESTS_NOT_DIFF_REPORTED SomeManifestsHaveNotReportedDiff
            OVERSIZED                        Oversized
            # work::manifest
            APPLIED                             Applied
            APPLIED_WITH_FAILED_DRIFT_DETECTION AppliedWithFailedDriftDetection
            PREPARING_TO_PROCESS                PreparingToProcess
            DECODING_ERRED                      DecodingErred
            FOUND_GENERATE_NAME                 FoundGenerateName
            DUPLICATED                          Duplicated
            FAILED_TO_FIND_OBJECT               FailedToFindObjInMemberCluster
            FAILED_TO_TAKE_OVER                 FailedToTakeOver
            NOT_TAKEN_OVER                      NotTakenOver
            FAILED_TO_RUN_DRIFT_DETECTION       FailedToRunDriftDetection
            FOUND_DRIFTS                        FoundDrifts
            FOUND_DRIFTS_IN_DEGRADED_MODE       FoundDriftsInDegradedMode
            APPLY_FAILED                        ManifestApplyFailed
            AVAILABLE                           Available
            NOT_AVAILABLE_YET                   ManifestNotAvailableYet
            NOT_TRACKABLE                       NotTrackable
            FAILED                              Failed
            NO_DIFF_FOUND                       NoDiffFound
            FOUND_DIFF                          FoundDiff
            FOUND_DIFF_IN_DEGRADED_MODE         FoundDiffInDegradedMode
            FAILED_TO_REPORT_DIFF               FailedToReportDiff
            # work::legacy
            ALREADY_OWNED_BY_OTHERS ManifestsAlreadyOwnedByOthers
            ALREADY_UP_TO_DATE      ManifestAlreadyUpToDate
            MANIFEST_AVAILABLE      ManifestAvailable
            WORK_APPLIED_FAILED     WorkAppliedFailed
            WORK_APPLIED_COMPLETED  WorkAppliedCompleted
            WORK_NOT_AVAILABLE_YET  WorkNotAvailableYet
            # update_run
            INITIALIZED           UpdateRunInitializedSuccessfully
            INITIALIZATION_FAILED UpdateRunInitializedFailed
            INPUT_UNREADABLE      UpdateRunInputUnreadable
            PROGRESSING           UpdateRunProgressing
            WAITING               UpdateRunWaiting
            STUCK                 UpdateRunStuck
            STOPPING              UpdateRunStopping
            STOPPED               UpdateRunStopped
            FROZEN                UpdateRunFrozen
            WINDOW_CLOSED         UpdateRunWindowClosed
            CHECKING              UpdateRunChecking
            POLICIES_CHANGED      UpdateRunPoliciesChanged
            POLICIES_ADOPTED      RolloutPoliciesAdopted
            SUCCEEDED             UpdateRunSucceeded
            FAILED                UpdateRunFailed
            # update_run::stage
            STARTED             StageUpdatingStarted
            WAITING             StageUpdatingWaiting
            STOPPING            StageUpdatingStopping
            CHECKS_FAILED       StageUpdatingChecksFailed
            STOPPED             StageUpdatingStopped
            SUCCEEDED           StageUpdatingSucceeded
            FAILED              StageUpdatingFailed
            SKIPPED_NO_CLUSTERS StageUpdatingSkippedNoClusters
            # update_run::cluster
            STARTED   ClusterUpdatingStarted
            SUCCEEDED ClusterUpdatingSucceeded
            FAILED    ClusterUpdatingFailed
            SKIPPED   ClusterSkipped
            # update_run::task
            WAIT_TIME_ELAPSED AfterStageTaskWaitTimeElapsed
            REQUEST_CREATED   StageTaskApprovalRequestCreated
            REQUEST_APPROVED  StageTaskApprovalRequestApproved
            # update_run::approval
            ACCEPTED            ApprovalRequestApprovalAccepted
            COUNTED             RolloutPolicyApprovalsCounted
            STAMPED             RolloutPolicyApprovalStamped
            APPROVED_CLUSTER    ClusterApprovalRequestApproved
            APPROVED_NAMESPACED ApprovalRequestApproved
            # membership
            READY_TO_JOIN      MemberClusterReadyToJoin
            NOT_READY_TO_JOIN  MemberClusterNotReadyToJoin
            JOINED             MemberClusterJoined
            LEFT               MemberClusterLeft
            JOIN_STATE_UNKNOWN MemberClusterJoinStateUnknown
            # membership::agent
            JOINED          InternalMemberClusterJoined
            FAILED_TO_JOIN  InternalMemberClusterFailedToJoin
            LEFT            InternalMemberClusterLeft
            FAILED_TO_LEAVE InternalMemberClusterFailedToLeave
            HEALTHY         InternalMemberClusterHealthy
            UNHEALTHY       InternalMemberClusterUnhealthy
            # properties
            STARTED              Started
            TIMED_OUT            TimedOut
            FAILED_TO_START      FailedToStart
            COLLECTED            PropertiesCollected
            TOO_MANY_CALLS       TooManyCalls
            COSTS_CALCULATED     CostsCalculated
            COSTS_DEGRADED       CostsCalculationDegraded
            COSTS_FAILED         CostsCalculationFailed
            NAMESPACES_SUCCEEDED Succeeded
            NAMESPACES_DEGRADED  Degraded
            # inventory
            NO_STATUS      MemberAgentReportedNoStatus
            NO_HEALTH_INFO MemberAgentReportedNoHealthInfo
            HEARTBEAT_LOST MemberAgentHeartbeatLost
            UNHEALTHY      MemberClusterAPIServerUnhealthy
            HEALTHY        MemberClusterAPIServerHealthy
            # eviction
            VALID        ClusterResourcePlacementEvictionValid
            INVALID      ClusterResourcePlacementEvictionInvalid
            EXECUTED     ClusterResourcePlacementEvictionExecuted
            NOT_EXECUTED ClusterResourcePlacementEvictionNotExecuted
            # event
            PLACEMENT_ROLLOUT_STARTED           PlacementRolloutStarted
            PLACEMENT_OVERRIDDEN                PlacementOverriddenSucceeded
            PLACEMENT_WORK_SYNCHRONIZED         PlacementWorkSynchronized
            PLACEMENT_APPLIED                   PlacementApplied
            PLACEMENT_AVAILABLE                 PlacementAvailable
            PLACEMENT_DIFF_REPORTED             PlacementDiffReported
            PLACEMENT_ROLLOUT_COMPLETED         PlacementRolloutCompleted
            PLACEMENT_CLEANUP_FINALIZER_REMOVED PlacementCleanupFinalizerRemoved
            SELECTED_TYPE_NOT_PROPAGATED        SelectedTypeNotPropagated
            SELECTED_RESOURCE_NOT_FOUND         SelectedResourceNotFound
            SCHEDULING_FAILED                   SchedulingFailed
            SURPLUS_BINDING_UNSCHEDULED         SurplusBindingUnscheduled
            BINDING_NAME_TAKEN                  BindingNameTaken
            SELECTED_CLUSTER_NOT_ELIGIBLE       SelectedClusterNotEligible
            MALFORMED_PROPERTY                  MalformedProperty
            PLACEMENT_BLOCKED                   PlacementBlocked
            UNUSABLE_SNAPSHOT                   UnusableSnapshot
            MALFORMED_OBJECT                    MalformedObject
            DUPLICATE_ENVELOPE_WORKS            DuplicateEnvelopeWorks
            NAMESPACE_CREATED                   NamespaceCreated
            NAMESPACE_PATCHED                   NamespacePatched
            ROLE_CREATED                        RoleCreated
            ROLE_UPDATED                        RoleUpdated
            ROLE_BINDING_CREATED                RoleBindingCreated
            ROLE_BINDING_UPDATED                RoleBindingUpdated
            INTERNAL_MEMBER_CREATED             InternalMemberClusterCreated
            INTERNAL_MEMBER_UPDATED             InternalMemberClusterSpecUpdated
            # kubernetes
            SUFFICIENT_PODS   SufficientPods
            INSUFFICIENT_PODS InsufficientPods
        "#]]
        .assert_eq(&text);
    }

    /// The schema of a condition demands it, and a server would refuse the write.
    #[test]
    fn every_reason_has_the_form_a_condition_needs() {
        for (_, reasons) in ALL {
            for (name, reason) in *reasons {
                let valid = reason.starts_with(|c: char| c.is_ascii_alphabetic())
                    && reason.chars().all(|c| c.is_ascii_alphanumeric());
                assert!(valid, "{name} = {reason}");
            }
        }
    }
}
