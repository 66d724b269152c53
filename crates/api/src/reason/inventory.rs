//! Reasons of `ControlPlaneHealthy` on ClusterProfiles.

use crate::listed::listed;

listed! {
    /// Unknown: the agent has never reported.
    NO_STATUS = "MemberAgentReportedNoStatus";
    /// Unknown: the agent reported, but not about health.
    NO_HEALTH_INFO = "MemberAgentReportedNoHealthInfo";
    /// False: the heartbeat is too old.
    HEARTBEAT_LOST = "MemberAgentHeartbeatLost";
    /// False.
    UNHEALTHY = "MemberClusterAPIServerUnhealthy";
    /// True.
    HEALTHY = "MemberClusterAPIServerHealthy";
}
