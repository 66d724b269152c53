//! Reasons on update runs, their stages, clusters, tasks and approval requests.

use crate::listed::listed;

listed! {
    /// Initialized True.
    INITIALIZED = "UpdateRunInitializedSuccessfully";
    /// Initialized False; final.
    INITIALIZATION_FAILED = "UpdateRunInitializedFailed";
    /// Initialized Unknown: something the run needs is stored and cannot be read. Our own.
    INPUT_UNREADABLE = "UpdateRunInputUnreadable";
    /// Progressing True.
    PROGRESSING = "UpdateRunProgressing";
    /// Progressing False: a task of a stage is open.
    WAITING = "UpdateRunWaiting";
    /// Progressing False: a cluster has been updating for too long.
    STUCK = "UpdateRunStuck";
    /// Progressing Unknown: started clusters are still finishing.
    STOPPING = "UpdateRunStopping";
    /// Progressing False.
    STOPPED = "UpdateRunStopped";
    /// Progressing False: a freeze holds what has not begun. Our own.
    FROZEN = "UpdateRunFrozen";
    /// Progressing False: no window of a policy is open for what has not begun. Our own.
    WINDOW_CLOSED = "UpdateRunWindowClosed";
    /// Progressing True: clusters are updated, and checks of a policy are asked. Our own.
    CHECKING = "UpdateRunChecking";
    /// Progressing False: the copy of the policies that it follows was changed. Our own.
    POLICIES_CHANGED = "UpdateRunPoliciesChanged";
    /// FollowsPolicies True. Our own.
    POLICIES_ADOPTED = "RolloutPoliciesAdopted";
    /// Progressing False and Succeeded True; final.
    SUCCEEDED = "UpdateRunSucceeded";
    /// Progressing False and Succeeded False; final.
    FAILED = "UpdateRunFailed";
}

/// Reasons on one stage of a run.
pub mod stage {
    use crate::listed::listed;

    listed! {
        /// Progressing True.
        STARTED = "StageUpdatingStarted";
        /// Progressing False: an approval or a wait is open.
        WAITING = "StageUpdatingWaiting";
        /// Progressing Unknown: started clusters are still finishing.
        STOPPING = "StageUpdatingStopping";
        /// Progressing False: a check of a policy has failed. Our own.
        CHECKS_FAILED = "StageUpdatingChecksFailed";
        /// Progressing False: waiting to be resumed.
        STOPPED = "StageUpdatingStopped";
        /// Progressing False and Succeeded True.
        SUCCEEDED = "StageUpdatingSucceeded";
        /// Progressing False and Succeeded False.
        FAILED = "StageUpdatingFailed";
        /// Progressing False and Succeeded True: there was nothing to update.
        SKIPPED_NO_CLUSTERS = "StageUpdatingSkippedNoClusters";
    }
}

/// Reasons on one cluster of a stage.
pub mod cluster {
    use crate::listed::listed;

    listed! {
        /// Started True.
        STARTED = "ClusterUpdatingStarted";
        /// Succeeded True.
        SUCCEEDED = "ClusterUpdatingSucceeded";
        /// Succeeded False: another writer took the binding, or a policy calls the cluster failed.
        FAILED = "ClusterUpdatingFailed";
        /// Succeeded False: the run goes on without the cluster. Our own.
        SKIPPED = "ClusterSkipped";
    }
}

/// Reasons on one task before or after a stage.
pub mod task {
    use crate::listed::listed;

    listed! {
        /// WaitTimeElapsed True.
        WAIT_TIME_ELAPSED = "AfterStageTaskWaitTimeElapsed";
        /// ApprovalRequestCreated True.
        REQUEST_CREATED = "StageTaskApprovalRequestCreated";
        /// ApprovalRequestApproved True.
        REQUEST_APPROVED = "StageTaskApprovalRequestApproved";
    }
}

/// Reasons on approval requests.
pub mod approval {
    use crate::listed::listed;

    listed! {
        /// ApprovalAccepted True: from here on it cannot be taken back.
        ACCEPTED = "ApprovalRequestApprovalAccepted";
        /// Approved True: the hub has counted the approvals that a policy asks for. Our own.
        COUNTED = "RolloutPolicyApprovalsCounted";
        /// Approved True: admission has written who approved, where one is enough. Our own.
        STAMPED = "RolloutPolicyApprovalStamped";
        /// Approved True as the command line writes it on a ClusterApprovalRequest.
        APPROVED_CLUSTER = "ClusterApprovalRequestApproved";
        /// Approved True as the command line writes it on an ApprovalRequest.
        APPROVED_NAMESPACED = "ApprovalRequestApproved";
    }
}
