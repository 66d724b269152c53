//! Reasons on MemberClusters and inside the status of member agents.

use crate::listed::listed;

listed! {
    /// ReadyToJoin True.
    READY_TO_JOIN = "MemberClusterReadyToJoin";
    /// ReadyToJoin False: set together with Joined False.
    NOT_READY_TO_JOIN = "MemberClusterNotReadyToJoin";
    /// Joined True.
    JOINED = "MemberClusterJoined";
    /// Joined False.
    LEFT = "MemberClusterLeft";
    /// Joined Unknown: agents are missing or disagree.
    JOIN_STATE_UNKNOWN = "MemberClusterJoinStateUnknown";
}

/// Reasons inside `agentStatus`, written by the member.
pub mod agent {
    use crate::listed::listed;

    listed! {
        /// Joined True.
        JOINED = "InternalMemberClusterJoined";
        /// Joined Unknown.
        FAILED_TO_JOIN = "InternalMemberClusterFailedToJoin";
        /// Joined False.
        LEFT = "InternalMemberClusterLeft";
        /// Joined Unknown.
        FAILED_TO_LEAVE = "InternalMemberClusterFailedToLeave";
        /// Healthy True.
        HEALTHY = "InternalMemberClusterHealthy";
        /// Healthy False.
        UNHEALTHY = "InternalMemberClusterUnhealthy";
    }
}
