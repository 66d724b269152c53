//! All kinds as Rust types, for code that must be written out once for each.
//!
//! This is the only list of them; the table in [`crate::kinds`] is made from it.

/// Calls a macro with all kinds: `module::Kind, module::Kind, ...`, where the
/// modules are those of this crate. The kinds are in alphabetical order.
#[macro_export]
macro_rules! every_kind {
    ($call:ident) => {
        $call! {
            work::AppliedWork,
            approval::ApprovalRequest,
            approval::ClusterApprovalRequest,
            cluster_profile::ClusterProfile,
            binding::ClusterResourceBinding,
            envelope::ClusterResourceEnvelope,
            overrides::ClusterResourceOverride,
            overrides::ClusterResourceOverrideSnapshot,
            placement::ClusterResourcePlacement,
            eviction::ClusterResourcePlacementDisruptionBudget,
            eviction::ClusterResourcePlacementEviction,
            placement_status::ClusterResourcePlacementStatus,
            snapshot::ClusterResourceSnapshot,
            snapshot::ClusterSchedulingPolicySnapshot,
            staged_update::ClusterStagedUpdateRun,
            staged_update::ClusterStagedUpdateStrategy,
            cluster::InternalMemberCluster,
            cluster::MemberCluster,
            binding::ResourceBinding,
            envelope::ResourceEnvelope,
            overrides::ResourceOverride,
            overrides::ResourceOverrideSnapshot,
            placement::ResourcePlacement,
            snapshot::ResourceSnapshot,
            snapshot::SchedulingPolicySnapshot,
            staged_update::StagedUpdateRun,
            staged_update::StagedUpdateStrategy,
            work::Work
        }
    };
}
