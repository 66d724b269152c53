//! Reasons that Kubernetes itself writes and that are read here.

use crate::listed::listed;

listed! {
    /// DisruptionAllowed True: enough pods run to lose one.
    SUFFICIENT_PODS = "SufficientPods";
    /// DisruptionAllowed False: none may be lost.
    INSUFFICIENT_PODS = "InsufficientPods";
}
