//! Names of work: which controller looks at which object.

use std::sync::Arc;

/// One controller's interest in one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub controller: Controller,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name of the object; for garbage collection its UID.
    pub name: Arc<str>,
}

/// Everything a cluster does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Controller {
    Namespace,
    Garbage,
    Deployment,
    ReplicaSet,
    Replication,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Scheduler,
    Kubelet,
    Service,
    Claim,
    Volume,
    Budget,
    Quota,
}

impl Key {
    pub fn new(controller: Controller, namespace: &str, name: &str) -> Self {
        Self { controller, namespace: namespace.into(), name: name.into() }
    }
}

impl Controller {
    /// Whether a cluster needs it even if nothing runs there.
    pub fn is_housekeeping(self) -> bool {
        matches!(self, Self::Namespace | Self::Garbage)
    }

    /// The controller of an owner's kind, for pods and sets that changed.
    pub fn of_kind(kind: &str) -> Option<Self> {
        Some(match kind {
            "Deployment" => Self::Deployment,
            "ReplicaSet" => Self::ReplicaSet,
            "ReplicationController" => Self::Replication,
            "StatefulSet" => Self::StatefulSet,
            "DaemonSet" => Self::DaemonSet,
            "Job" => Self::Job,
            "CronJob" => Self::CronJob,
            _ => return None,
        })
    }

    /// The controller that looks at every object of a resource.
    pub fn of_resource(resource: &str) -> Option<Self> {
        Some(match resource {
            "namespaces" => Self::Namespace,
            "deployments.apps" => Self::Deployment,
            "replicasets.apps" => Self::ReplicaSet,
            "replicationcontrollers" => Self::Replication,
            "statefulsets.apps" => Self::StatefulSet,
            "daemonsets.apps" => Self::DaemonSet,
            "jobs.batch" => Self::Job,
            "cronjobs.batch" => Self::CronJob,
            "services" => Self::Service,
            "persistentvolumeclaims" => Self::Claim,
            "persistentvolumes" => Self::Volume,
            "poddisruptionbudgets.policy" => Self::Budget,
            "resourcequotas" => Self::Quota,
            _ => return None,
        })
    }
}
