//! Reasons on ClusterResourcePlacementEvictions.

use crate::listed::listed;

listed! {
    /// Valid True.
    VALID = "ClusterResourcePlacementEvictionValid";
    /// Valid False; final.
    INVALID = "ClusterResourcePlacementEvictionInvalid";
    /// Executed True; final.
    EXECUTED = "ClusterResourcePlacementEvictionExecuted";
    /// Executed False; final.
    NOT_EXECUTED = "ClusterResourcePlacementEvictionNotExecuted";
}
