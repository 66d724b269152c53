//! Reasons on placements, at placement level and per cluster.
//!
//! Per-cluster entries may also carry any reason of [`super::binding`], copied
//! from the binding as it stands.

use crate::listed::listed;

listed! {
    /// Scheduled Unknown: the scheduler has not spoken about this generation yet.
    SCHEDULE_PENDING = "SchedulePending";
    /// Scheduled True: as many clusters as wanted.
    SCHEDULING_POLICY_FULFILLED = "SchedulingPolicyFulfilled";
    /// Scheduled False: too few clusters.
    SCHEDULING_POLICY_UNFULFILLED = "SchedulingPolicyUnfulfilled";
    /// Scheduled False: the user must change the selectors.
    INVALID_RESOURCE_SELECTORS = "InvalidResourceSelectors";
    /// Scheduled False: the placement as a whole cannot be worked with; the user must change it.
    INVALID_PLACEMENT = "InvalidPlacement";
    /// Reserved by the API; nothing emits it.
    SCHEDULE_SUCCEEDED = "ScheduleSucceeded";
    /// Per cluster, Scheduled True.
    SCHEDULED = "Scheduled";
    /// Per cluster, Scheduled False; the entry has no cluster name.
    SCHEDULE_FAILED = "ScheduleFailed";
    /// RolloutStarted Unknown: not decided yet.
    ROLLOUT_STARTED_UNKNOWN = "RolloutStartedUnknown";
    /// RolloutStarted False: held back by the rollout strategy.
    ROLLOUT_NOT_STARTED_YET = "RolloutNotStartedYet";
    /// RolloutStarted True.
    ROLLOUT_STARTED = "RolloutStarted";
    /// RolloutStarted Unknown: update runs decide, and clusters differ, or none has started, or one
    /// has not said.
    ROLLOUT_CONTROLLED_EXTERNALLY = "RolloutControlledByExternalController";
    /// Overridden Unknown.
    OVERRIDDEN_PENDING = "OverriddenPending";
    /// Overridden False.
    OVERRIDDEN_FAILED = "OverriddenFailed";
    /// Overridden True.
    OVERRIDDEN_SUCCEEDED = "OverriddenSucceeded";
    /// Overridden True: there was nothing to override.
    NO_OVERRIDE_SPECIFIED = "NoOverrideSpecified";
    /// WorkSynchronized Unknown.
    WORK_SYNCHRONIZED_UNKNOWN = "WorkSynchronizedUnknown";
    /// WorkSynchronized False.
    WORK_NOT_SYNCHRONIZED_YET = "WorkNotSynchronizedYet";
    /// WorkSynchronized True.
    WORK_SYNCHRONIZED = "WorkSynchronized";
    /// Applied Unknown.
    APPLY_PENDING = "ApplyPending";
    /// Applied False.
    APPLY_FAILED = "ApplyFailed";
    /// Applied True.
    APPLY_SUCCEEDED = "ApplySucceeded";
    /// Available Unknown.
    AVAILABLE_UNKNOWN = "ResourceAvailableUnknown";
    /// Available False.
    NOT_AVAILABLE_YET = "ResourceNotAvailableYet";
    /// Available True.
    AVAILABLE = "ResourceAvailable";
    /// DiffReported Unknown.
    DIFF_REPORTING_PENDING = "DiffReportingPending";
    /// DiffReported False.
    DIFF_REPORTING_INCOMPLETE_OR_FAILED = "DiffReportingIncompleteOrFailed";
    /// DiffReported True.
    DIFF_REPORTING_COMPLETED = "DiffReportingCompleted";
    /// StatusSynced True.
    STATUS_SYNC_SUCCEEDED = "StatusSyncSucceeded";
    /// StatusSynced False.
    STATUS_SYNC_FAILED = "StatusSyncFailed";
}
