//! Schema defaults of whole objects, and of the statuses that have any.

use super::{SchemaDefaults, fill};
use crate::approval::{ApprovalRequest, ClusterApprovalRequest};
use crate::binding::{
    ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus,
};
use crate::cluster::{InternalMemberCluster, MemberCluster};
use crate::cluster_profile::ClusterProfile;
use crate::envelope::{ClusterResourceEnvelope, ResourceEnvelope};
use crate::eviction::{ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction};
use crate::overrides::{
    ClusterResourceOverride, ClusterResourceOverrideSnapshot, ResourceOverride,
    ResourceOverrideSnapshot,
};
use crate::placement::{ClusterResourcePlacement, ResourcePlacement};
use crate::placement_status::{
    ClusterResourcePlacementStatus, DiffedResourcePlacement, DriftedResourcePlacement,
    EnvelopeIdentifier, FailedResourcePlacement, PerClusterPlacementStatus, PlacementStatus,
    ResourceIdentifier,
};
use crate::snapshot::{
    ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, ResourceSnapshot,
    SchedulingPolicySnapshot, SchedulingPolicySnapshotSpec,
};
use crate::staged_update::{
    ClusterStagedUpdateRun, ClusterStagedUpdateStrategy, StagedUpdateRun, StagedUpdateStrategy,
};
use crate::staged_update_status::UpdateRunStatus;
use crate::work::{AppliedWork, Work, WorkSpec};

/// Lists the fields of each type that hold defaults somewhere inside.
macro_rules! inside {
    ($($Type:ident: [$($field:ident),*];)*) => {
        $(impl SchemaDefaults for $Type {
            fn fill_schema_defaults(&mut self) {
                $(self.$field.fill_schema_defaults();)*
            }
        })*
    };
}

inside! {
    ClusterResourcePlacement: [spec, status];
    ResourcePlacement: [spec, status];
    ClusterResourcePlacementStatus: [source_status];
    ClusterSchedulingPolicySnapshot: [spec];
    SchedulingPolicySnapshot: [spec];
    ClusterResourceSnapshot: [];
    ResourceSnapshot: [];
    ClusterResourceBinding: [spec, status];
    ResourceBinding: [spec, status];
    ClusterStagedUpdateRun: [spec, status];
    StagedUpdateRun: [spec, status];
    ClusterStagedUpdateStrategy: [spec];
    StagedUpdateStrategy: [spec];
    ClusterApprovalRequest: [];
    ApprovalRequest: [];
    ClusterResourceOverride: [spec];
    ResourceOverride: [spec];
    ClusterResourceOverrideSnapshot: [spec];
    ResourceOverrideSnapshot: [spec];
    ClusterResourcePlacementEviction: [];
    ClusterResourcePlacementDisruptionBudget: [];
    ClusterResourceEnvelope: [];
    ResourceEnvelope: [];
    Work: [spec];
    AppliedWork: [];
    MemberCluster: [spec];
    InternalMemberCluster: [spec];
    ClusterProfile: [];

    SchedulingPolicySnapshotSpec: [policy];
    ResourceBindingSpec: [apply_strategy];
    ResourceBindingStatus: [failed_placements, drifted_placements, diffed_placements];
    UpdateRunStatus: [applied_strategy, staged_update_strategy_snapshot];
    WorkSpec: [apply_strategy];
    PlacementStatus: [selected_resources, placement_statuses];
    PerClusterPlacementStatus: [failed_placements, drifted_placements, diffed_placements];
    FailedResourcePlacement: [resource];
    DriftedResourcePlacement: [resource];
    DiffedResourcePlacement: [resource];
    ResourceIdentifier: [envelope];
}

impl SchemaDefaults for EnvelopeIdentifier {
    fn fill_schema_defaults(&mut self) {
        fill(&mut self.r#type);
    }
}
