//! A policy snapshot of either scope.

use flagship_api::keys::{annotation, label};
use flagship_api::policy::PlacementPolicy;
use flagship_api::snapshot::{SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{annotated, is_latest, labelled};

/// A policy as it was when it was frozen, and what the scheduler recorded of it. Labels and
/// annotations are kept as written, so that rules can say which of them cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicySnapshot {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Label `policy-index`.
    pub index: Option<String>,
    /// Whether label `is-latest-snapshot` is `true`.
    pub latest: bool,
    /// `spec.policyHash`, as the hex digits it holds.
    pub hash: String,
    /// Annotation `CRP-generation`: the placement generation that a scheduling pass answers.
    pub placement_generation: Option<String>,
    /// Annotation `number-of-clusters`. It, and not the policy, says how many.
    pub number_of_clusters: Option<String>,
    /// The policy; absent means PickAll.
    pub policy: Option<PlacementPolicy>,
    /// What the scheduler recorded.
    pub status: SchedulingPolicySnapshotStatus,
}

impl PolicySnapshot {
    /// Takes an object of either scope apart.
    pub fn read(
        metadata: &ObjectMeta,
        spec: &SchedulingPolicySnapshotSpec,
        status: Option<&SchedulingPolicySnapshotStatus>,
    ) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            index: labelled(metadata, label::POLICY_INDEX),
            latest: is_latest(metadata),
            hash: String::from_utf8_lossy(&spec.policy_hash.0).into_owned(),
            placement_generation: annotated(metadata, annotation::PLACEMENT_GENERATION),
            number_of_clusters: annotated(metadata, annotation::NUMBER_OF_CLUSTERS),
            policy: spec.policy.clone(),
            status: status.cloned().unwrap_or_default(),
        }
    }
}
