//! Which types of resources are propagated at all, and how operators change that.
//!
//! Without options everything goes but the fleet's own machinery and what clusters
//! produce by themselves. An allow list replaces all of that, built-in entries included.

use std::collections::BTreeSet;

use flagship_api::keys::group;
use serde::{Deserialize, Serialize};

use super::hub::Kind;

/// Kinds of the placement group that stay on the hub; envelopes are not among them.
const PLACEMENT_KINDS: [&str; 22] = [
    "ClusterResourcePlacement",
    "ResourcePlacement",
    "ClusterResourceBinding",
    "ResourceBinding",
    "ClusterResourceSnapshot",
    "ResourceSnapshot",
    "ClusterSchedulingPolicySnapshot",
    "SchedulingPolicySnapshot",
    "Work",
    "ClusterStagedUpdateRun",
    "ClusterStagedUpdateStrategy",
    "ClusterApprovalRequest",
    "StagedUpdateRun",
    "StagedUpdateStrategy",
    "ApprovalRequest",
    "ClusterResourcePlacementEviction",
    "ClusterResourcePlacementDisruptionBudget",
    "ClusterResourceOverride",
    "ClusterResourceOverrideSnapshot",
    "ResourceOverride",
    "ResourceOverrideSnapshot",
    "ClusterResourcePlacementStatus",
];

const NETWORKING_KINDS: [&str; 3] =
    ["ServiceImport", "TrafficManagerProfile", "TrafficManagerBackend"];

/// Which types are propagated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeRules {
    /// Whether the entries are the only types propagated, rather than the ones left out.
    allow_list: bool,
    entries: Entries,
}

/// Types by group, by group and version, or one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Entries {
    groups: BTreeSet<String>,
    versions: BTreeSet<(String, String)>,
    kinds: BTreeSet<Kind>,
    /// Kinds in whatever version.
    group_kinds: BTreeSet<(String, String)>,
}

/// Why the options of an operator cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadTypeRules {
    /// Both lists were given.
    Both,
    /// An entry is neither a group, nor a version, nor kinds.
    Entry(String),
}

impl std::fmt::Display for BadTypeRules {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Both => out.write_str(
                "--skipped-propagating-apis and --allowed-propagating-apis are mutually exclusive",
            ),
            Self::Entry(entry) => write!(
                out,
                "cannot read {entry:?}: want group, group/version, group/version/Kind[,Kind...] or v1/Kind[,Kind...]"
            ),
        }
    }
}

impl std::error::Error for BadTypeRules {}

impl Default for TypeRules {
    fn default() -> Self {
        Self { allow_list: false, entries: Entries::built_in() }
    }
}

impl TypeRules {
    /// Reads `--skipped-propagating-apis` and `--allowed-propagating-apis`.
    pub fn read(skipped: &str, allowed: &str) -> Result<Self, BadTypeRules> {
        match (skipped.trim().is_empty(), allowed.trim().is_empty()) {
            (false, false) => Err(BadTypeRules::Both),
            (_, true) => {
                let mut entries = Entries::built_in();
                entries.add(skipped)?;
                Ok(Self { allow_list: false, entries })
            }
            (true, false) => {
                let mut entries = Entries::default();
                entries.add(allowed)?;
                Ok(Self { allow_list: true, entries })
            }
        }
    }

    /// Whether objects of this kind stay on the hub.
    pub fn disables(&self, kind: &Kind) -> bool {
        self.allow_list != self.entries.contain(kind)
    }
}

impl Entries {
    fn built_in() -> Self {
        let mut entries = Self::default();
        // Members have no definitions of policies, freezes and records.
        for name in [group::CLUSTER, group::POLICY] {
            entries.groups.insert(name.to_owned());
        }
        for name in ["events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"] {
            entries.groups.insert(name.to_owned());
        }
        // The core Event is the same resource as the one of events.k8s.io.
        for core in ["Pod", "Node", "Event"] {
            entries.kinds.insert(Kind::new("", "v1", core));
        }
        let placement = PLACEMENT_KINDS.map(|kind| (group::PLACEMENT, kind));
        let networking = NETWORKING_KINDS.map(|kind| (group::NETWORKING, kind));
        for (group, kind) in placement.into_iter().chain(networking) {
            entries.group_kinds.insert((group.to_owned(), kind.to_owned()));
        }
        entries
    }

    fn add(&mut self, option: &str) -> Result<(), BadTypeRules> {
        for entry in option.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let parts: Vec<&str> = entry.split('/').map(str::trim).collect();
            let bad = || BadTypeRules::Entry(entry.to_owned());
            if parts.iter().any(|part| part.is_empty()) {
                return Err(bad());
            }
            match parts.as_slice() {
                [group] => {
                    self.groups.insert((*group).to_owned());
                }
                // The core group has no name, so its version comes first.
                ["v1", kinds] => self.add_kinds("", "v1", kinds).ok_or_else(bad)?,
                [group, version] => {
                    self.versions.insert(((*group).to_owned(), (*version).to_owned()));
                }
                [group, version, kinds] => {
                    self.add_kinds(group, version, kinds).ok_or_else(bad)?;
                }
                _ => return Err(bad()),
            }
        }
        Ok(())
    }

    fn add_kinds(&mut self, group: &str, version: &str, kinds: &str) -> Option<()> {
        for kind in kinds.split(',').map(str::trim) {
            if kind.is_empty() {
                return None;
            }
            self.kinds.insert(Kind::new(group, version, kind));
        }
        Some(())
    }

    fn contain(&self, kind: &Kind) -> bool {
        self.groups.contains(&kind.group)
            || self.kinds.contains(kind)
            || self.versions.contains(&(kind.group.clone(), kind.version.clone()))
            || self.group_kinds.contains(&(kind.group.clone(), kind.kind.clone()))
    }
}
