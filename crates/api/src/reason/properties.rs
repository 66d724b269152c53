//! Reasons on the collection of cluster properties.

use crate::listed::listed;

listed! {
    /// ClusterPropertyProviderStarted True.
    STARTED = "Started";
    /// Either condition False: no answer in time.
    TIMED_OUT = "TimedOut";
    /// ClusterPropertyProviderStarted False.
    FAILED_TO_START = "FailedToStart";
    /// ClusterPropertyCollectionSucceeded True.
    COLLECTED = "PropertiesCollected";
    /// ClusterPropertyCollectionSucceeded False: earlier calls hang.
    TOO_MANY_CALLS = "TooManyCalls";
    /// AKSClusterCostPropertiesCollectionSucceeded True.
    COSTS_CALCULATED = "CostsCalculated";
    /// The same, with warnings.
    COSTS_DEGRADED = "CostsCalculationDegraded";
    /// AKSClusterCostPropertiesCollectionSucceeded False.
    COSTS_FAILED = "CostsCalculationFailed";
    /// NamespaceCollectionSucceeded True.
    NAMESPACES_SUCCEEDED = "Succeeded";
    /// NamespaceCollectionSucceeded False: too many namespaces to track.
    NAMESPACES_DEGRADED = "Degraded";
}
