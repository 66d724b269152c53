//! What an embedded cluster is made of and how fast it is.

use jiff::SignedDuration;

/// The shape and pace of one cluster. Shared by all clusters that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadConfig {
    /// Whether workloads run. Without it only namespaces are emptied and garbage is
    /// collected, as on a hub whose objects are templates for other clusters.
    pub runs_workloads: bool,
    /// How many nodes the cluster has when it starts.
    pub nodes: u32,
    /// Names of nodes: `<prefix>-1`, `<prefix>-2`, …
    pub node_prefix: String,
    /// Cores of each node.
    pub node_cpu: u32,
    /// Memory of each node, in GiB.
    pub node_memory_gib: u32,
    /// Pods that fit on each node, at most 250.
    pub node_pods: u32,
    /// From a pod's start until it is ready.
    pub ready_after: SignedDuration,
    /// From a pod's start until its containers run, if that is earlier.
    pub start_after: SignedDuration,
    /// From a pod's deletion until it is gone, within its grace period.
    pub stop_after: SignedDuration,
    /// How long pods of Jobs run, and others that are there to finish something.
    pub job_runs_for: SignedDuration,
    /// Images that no registry has: a whole name, a prefix that ends in `*`, or an end that begins
    /// with one. Unless told otherwise all that are tagged `doesnotexist`.
    pub missing_images: Vec<String>,
    /// Whether Services of type LoadBalancer get an address.
    pub load_balancer: bool,
    /// Whether claims get volumes. Without it they stay `Pending`.
    pub provision_volumes: bool,
    /// Text of the cluster's root certificate, given to every namespace.
    pub root_ca: String,
}

impl Default for WorkloadConfig {
    fn default() -> Self {
        Self {
            runs_workloads: true,
            nodes: 2,
            node_prefix: "node".into(),
            node_cpu: 8,
            node_memory_gib: 32,
            node_pods: 110,
            ready_after: SignedDuration::from_secs(1),
            start_after: SignedDuration::from_secs(1),
            stop_after: SignedDuration::from_secs(1),
            job_runs_for: SignedDuration::from_secs(2),
            missing_images: vec!["*:doesnotexist".to_owned()],
            load_balancer: false,
            provision_volumes: true,
            root_ca: String::new(),
        }
    }
}

impl WorkloadConfig {
    /// A cluster that runs nothing and keeps itself tidy.
    pub fn hub() -> Self {
        Self { runs_workloads: false, nodes: 0, ..Self::default() }
    }

    /// Whether no registry has this image.
    pub fn is_missing(&self, image: &str) -> bool {
        self.missing_images.iter().any(|pattern| {
            match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
                (Some(end), _) => image.ends_with(end),
                (None, Some(start)) => image.starts_with(start),
                (None, None) => pattern == image,
            }
        })
    }
}
