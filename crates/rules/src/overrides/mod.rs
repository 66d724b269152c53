//! Overrides: per-cluster changes to resources on their way to a member.
//!
//! An override is frozen into numbered snapshots; a rollout or an update run writes the
//! names of those that concern a cluster into its binding, and the work generator applies
//! what the binding names. The names are the contract: nobody looks at live overrides.
//!
//! [`snapshots`] freezes, [`belonging`] says which snapshots a cluster of a placement gets,
//! [`manifest`] applies them.

pub mod belonging;
mod clusters;
pub mod contents;
mod identity;
pub mod manifest;
pub(crate) mod mistakes;
mod patch;
mod selection;
pub mod snapshots;
mod variables;

#[cfg(test)]
pub(crate) mod tests;

use flagship_api::overrides::{ClusterResourceOverrideSpec, ResourceOverrideSpec};
use flagship_api::placement_status::NamespacedName;
use serde::{Deserialize, Serialize};

use crate::model::PackedMap;

/// A ClusterResourceOverrideSnapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterOverride {
    /// `metadata.name`.
    pub name: String,
    /// The override as it was.
    pub spec: ClusterResourceOverrideSpec,
}

/// A ResourceOverrideSnapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamespacedOverride {
    /// Namespace and name.
    pub key: NamespacedName,
    /// The override as it was.
    pub spec: ResourceOverrideSpec,
}

/// What overrides may ask of the cluster they are applied for.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Name of the MemberCluster.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a PackedMap,
}
