//! Reasons on works and on the manifests inside them, written by the member.

use crate::listed::listed;

listed! {
    /// Applied True.
    ALL_MANIFESTS_APPLIED = "AllManifestsApplied";
    /// Applied False.
    SOME_MANIFESTS_NOT_APPLIED = "SomeManifestsAreNotApplied";
    /// Available True.
    ALL_MANIFESTS_AVAILABLE = "AllManifestsAvailable";
    /// Available True, but some manifest cannot be tracked.
    WORK_NOT_TRACKABLE = "WorkNotTrackable";
    /// The future name of [`WORK_NOT_TRACKABLE`]; readers must accept it already.
    SOME_MANIFESTS_NOT_TRACKABLE = "SomeManifestsAreNotAvailabilityTrackable";
    /// Available False.
    SOME_MANIFESTS_NOT_AVAILABLE = "SomeManifestsAreNotAvailable";
    /// DiffReported True.
    ALL_MANIFESTS_DIFF_REPORTED = "AllManifestsDiffReported";
    /// DiffReported False.
    SOME_MANIFESTS_NOT_DIFF_REPORTED = "SomeManifestsHaveNotReportedDiff";
    /// StatusTrimmed True.
    OVERSIZED = "Oversized";
}

/// Both names of "available, but some of it cannot be tracked".
pub const UNTRACKABLE: [&str; 2] = [WORK_NOT_TRACKABLE, SOME_MANIFESTS_NOT_TRACKABLE];

/// Reasons on one manifest of a work.
pub mod manifest {
    use crate::listed::listed;

    listed! {
        /// Applied True.
        APPLIED = "Applied";
        /// Applied True, but nobody knows whether it drifted.
        APPLIED_WITH_FAILED_DRIFT_DETECTION = "AppliedWithFailedDriftDetection";
        /// Applied False: intent recorded, nothing done yet.
        PREPARING_TO_PROCESS = "PreparingToProcess";
        /// Applied False: not an object, or of a kind the member does not know.
        DECODING_ERRED = "DecodingErred";
        /// Applied False: an object without a name of its own.
        FOUND_GENERATE_NAME = "FoundGenerateName";
        /// Applied False: the work holds the object twice.
        DUPLICATED = "Duplicated";
        /// Applied False: the member could not be asked.
        FAILED_TO_FIND_OBJECT = "FailedToFindObjInMemberCluster";
        /// Applied False: the object belongs to somebody, or differs.
        FAILED_TO_TAKE_OVER = "FailedToTakeOver";
        /// Applied False: taking over is forbidden.
        NOT_TAKEN_OVER = "NotTakenOver";
        /// Applied False: the comparison itself failed.
        FAILED_TO_RUN_DRIFT_DETECTION = "FailedToRunDriftDetection";
        /// Applied False: drifted, and drifts are not to be overwritten.
        FOUND_DRIFTS = "FoundDrifts";
        /// The same, found by a full comparison in place of a partial one.
        FOUND_DRIFTS_IN_DEGRADED_MODE = "FoundDriftsInDegradedMode";
        /// Applied False: the member refused.
        APPLY_FAILED = "ManifestApplyFailed";
        /// Available True.
        AVAILABLE = "Available";
        /// Available False: not yet.
        NOT_AVAILABLE_YET = "ManifestNotAvailableYet";
        /// Available True: assumed, as nobody can tell for this kind.
        NOT_TRACKABLE = "NotTrackable";
        /// Available False: the check itself failed.
        FAILED = "Failed";
        /// DiffReported True: the same.
        NO_DIFF_FOUND = "NoDiffFound";
        /// DiffReported True: different.
        FOUND_DIFF = "FoundDiff";
        /// DiffReported True: different, by a full comparison in place of a partial one.
        FOUND_DIFF_IN_DEGRADED_MODE = "FoundDiffInDegradedMode";
        /// DiffReported False.
        FAILED_TO_REPORT_DIFF = "FailedToReportDiff";
    }
}

/// Reasons of an older applier: read on old objects, never written.
pub mod legacy {
    use crate::listed::listed;

    listed! {
        /// Now [`super::manifest::FAILED_TO_TAKE_OVER`].
        ALREADY_OWNED_BY_OTHERS = "ManifestsAlreadyOwnedByOthers";
        /// Now [`super::manifest::APPLIED`].
        ALREADY_UP_TO_DATE = "ManifestAlreadyUpToDate";
        /// Now [`super::manifest::AVAILABLE`].
        MANIFEST_AVAILABLE = "ManifestAvailable";
        /// Now [`super::SOME_MANIFESTS_NOT_APPLIED`].
        WORK_APPLIED_FAILED = "WorkAppliedFailed";
        /// Now [`super::ALL_MANIFESTS_APPLIED`].
        WORK_APPLIED_COMPLETED = "WorkAppliedCompleted";
        /// Now [`super::SOME_MANIFESTS_NOT_AVAILABLE`].
        WORK_NOT_AVAILABLE_YET = "WorkNotAvailableYet";
    }
}
