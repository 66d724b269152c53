//! Reasons on bindings, written by the rollout side and the work generator.

use super::placement;
use crate::listed::listed;

listed! {
    /// RolloutStarted True.
    ROLLOUT_STARTED = "RolloutStarted";
    /// RolloutStarted False: held back by the rollout strategy.
    ROLLOUT_NOT_STARTED_YET = "RolloutNotStartedYet";
    /// Overridden True: there was nothing to override.
    NO_OVERRIDE_SPECIFIED = "NoOverrideSpecified";
    /// Overridden True.
    OVERRIDDEN_SUCCEEDED = "OverriddenSucceeded";
    /// Overridden False; nothing after it is set.
    OVERRIDDEN_FAILED = "OverriddenFailed";
    /// WorkSynchronized True.
    ALL_WORK_SYNCED = "AllWorkSynced";
    /// WorkSynchronized False; nothing after it is set.
    SYNC_WORK_FAILED = "SyncWorkFailed";
    /// Applied False: a work changed in this very pass.
    APPLY_IN_PROGRESS = "ApplyInProgress";
    /// Applied False: some work is not applied, or has not said so yet.
    NOT_ALL_WORK_APPLIED = "NotAllWorkHaveBeenApplied";
    /// Applied True.
    ALL_WORK_APPLIED = "AllWorkHaveBeenApplied";
    /// Available False: some work is not available, or has not said so yet.
    NOT_ALL_WORK_AVAILABLE = "NotAllWorkAreAvailable";
    /// Available True, but some work cannot be tracked: a rollout waits a period instead.
    NOT_ALL_WORK_TRACKABLE = "NotAllWorkAreAvailabilityTrackable";
    /// Available True.
    ALL_WORK_AVAILABLE = "AllWorkAreAvailable";
    /// DiffReported False: a work changed in this very pass.
    DIFF_REPORT_IN_PROGRESS = "DiffReportInProgress";
    /// DiffReported False: some work has not reported.
    NOT_ALL_WORK_DIFF_REPORTED = "NotAllWorkHaveDiffReported";
    /// DiffReported True.
    ALL_WORK_DIFF_REPORTED = "AllWorkHaveDiffReported";
}

/// Reasons of a False condition that do not count as a failure.
pub const NOT_A_FAILURE: [&str; 4] = [
    placement::OVERRIDDEN_PENDING,
    placement::WORK_NOT_SYNCHRONIZED_YET,
    placement::APPLY_PENDING,
    placement::NOT_AVAILABLE_YET,
];

/// Reasons of Available True after which a rollout must wait the unavailable
/// period; the second one was written by older hubs.
pub const WAIT_AFTER_AVAILABLE: [&str; 2] =
    [NOT_ALL_WORK_TRACKABLE, super::work::WORK_NOT_TRACKABLE];
