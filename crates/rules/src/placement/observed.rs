//! What the placement controller sees: one placement, what it selects, and everything
//! derived from it so far.
//!
//! Both scopes become these values at the edge.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::kinds::Scope;
use flagship_api::names::ObjectKey;
use flagship_api::placement::{PlacementSpec, RolloutStrategyType, StatusReportingScope};
use flagship_api::placement_status::PlacementStatus;
use flagship_api::policy::PlacementType;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::pass_error::PassError;
use super::selection::{Selection, kind_of};
use crate::model::{Binding, PolicySnapshot, ResourceSnapshot};

/// Everything one pass over a placement may look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The present moment.
    pub now: Timestamp,
    /// The placement.
    pub placement: Placement,
    /// What its selectors select today.
    pub selection: Result<Selection, PassError>,
    /// Its policy snapshots, in any order.
    pub policy_snapshots: Vec<Arc<PolicySnapshot>>,
    /// Its resource snapshots, in any order.
    pub resource_snapshots: Vec<Arc<ResourceSnapshot>>,
    /// Its bindings, in any order.
    pub bindings: Vec<Arc<Binding>>,
    /// Resource snapshot indexes that update runs of this placement still work with.
    pub indexes_in_runs: Vec<String>,
    /// The copy of the status in the placed namespace, if there is one.
    pub mirror: Option<PlacementStatus>,
    /// How long changes are collected before a new snapshot is taken.
    pub batching: Batching,
}

/// How long changes are collected before a new resource snapshot is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batching {
    /// `--resource-snapshot-creation-minimum-interval`, from the creation of the latest.
    pub minimum_interval: SignedDuration,
    /// `--resource-changes-collection-duration`, from the first change seen.
    pub collection: SignedDuration,
}

impl Batching {
    /// Every change is a snapshot of its own.
    pub const NONE: Self =
        Self { minimum_interval: SignedDuration::ZERO, collection: SignedDuration::ZERO };
}

impl Default for Batching {
    fn default() -> Self {
        Self {
            minimum_interval: SignedDuration::from_secs(30),
            collection: SignedDuration::from_secs(15),
        }
    }
}

/// A placement of either scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Its namespace; `None` for a ClusterResourcePlacement.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`, for owner references.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it carries our finalizer.
    pub has_finalizer: bool,
    /// The spec as stored.
    pub spec: PlacementSpec,
    /// The status as last written.
    pub status: PlacementStatus,
}

impl Placement {
    /// A placement that has just been written, and has its finalizer.
    #[cfg(test)]
    pub fn of_spec(name: &str, spec: PlacementSpec) -> Self {
        Self {
            namespace: None,
            name: name.to_owned(),
            uid: "uid".to_owned(),
            generation: 1,
            deleting: false,
            has_finalizer: true,
            spec,
            status: PlacementStatus::default(),
        }
    }

    /// Decided by the namespace alone.
    pub fn scope(&self) -> Scope {
        self.key().scope()
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.as_deref(), &self.name)
    }

    /// Whether update runs move the clusters.
    pub fn is_external(&self) -> bool {
        let strategy = self.spec.strategy.as_ref();
        strategy.and_then(|s| s.r#type) == Some(RolloutStrategyType::External)
    }

    /// How clusters are picked; no policy picks all.
    pub fn picks(&self) -> PlacementType {
        let policy = self.spec.policy.as_ref();
        policy.and_then(|policy| policy.placement_type).unwrap_or_default()
    }

    /// Whether the status is to be copied into the placed namespace.
    pub fn is_mirrored(&self) -> bool {
        self.namespace.is_none()
            && self.spec.status_reporting_scope == Some(StatusReportingScope::NamespaceAccessible)
    }

    /// The namespace selected by name, where the status is copied to.
    pub fn named_namespace(&self) -> Option<&str> {
        let mut terms = self.spec.resource_selectors.iter();
        let term = terms.find(|term| kind_of(term).is_namespace())?;
        Some(term.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// Bindings by the cluster they are for.
pub type ByCluster<'a> = BTreeMap<&'a str, &'a Binding>;
