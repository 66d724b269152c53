//! A fleet as its users see it: one hub and named members, each a cluster that speaks
//! Kubernetes. Stories told with it run on embedded and on real API servers alike.

use std::collections::BTreeMap;

use super::Cluster;

/// The clusters of a fleet.
#[derive(Clone)]
pub struct Clusters {
    /// Where placements are written.
    pub hub: Cluster,
    /// Where workloads run, by name.
    pub members: BTreeMap<String, Cluster>,
}

impl Clusters {
    /// A member by its name.
    pub fn member(&self, name: &str) -> &Cluster {
        self.members.get(name).unwrap_or_else(|| panic!("there is no member {name}"))
    }

    /// All members, by name.
    pub fn members(&self) -> impl Iterator<Item = &Cluster> {
        self.members.values()
    }
}
