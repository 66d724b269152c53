//! All kinds as Rust types, for code that must be written out once for each.
//!
//! The table of the same kinds as values is in [`crate::kinds`].

/// Calls a macro with all kinds: `module::Kind, module::Kind, ...`, where the
/// modules are those of this crate.
#[macro_export]
macro_rules! every_kind {
    ($call:ident) => {
        $call! {
            approval::ApprovalRequest,
            approval::ClusterApprovalRequest,
            binding::ClusterResourceBinding,
            binding::ResourceBinding,
            cluster::InternalMemberCluster,
            cluster::MemberCluster,
            cluster_profile::ClusterProfile,
            envelope::ClusterResourceEnvelope,
            envelope::ResourceEnvelope,
            eviction::ClusterResourcePlacementDisruptionBudget,
            eviction::ClusterResourcePlacementEviction,
            overrides::ClusterResourceOverride,
            overrides::ClusterResourceOverrideSnapshot,
            overrides::ResourceOverride,
            overrides::ResourceOverrideSnapshot,
            placement::ClusterResourcePlacement,
            placement::ResourcePlacement,
            placement_status::ClusterResourcePlacementStatus,
            snapshot::ClusterResourceSnapshot,
            snapshot::ClusterSchedulingPolicySnapshot,
            snapshot::ResourceSnapshot,
            snapshot::SchedulingPolicySnapshot,
            staged_update::ClusterStagedUpdateRun,
            staged_update::ClusterStagedUpdateStrategy,
            staged_update::StagedUpdateRun,
            staged_update::StagedUpdateStrategy,
            work::AppliedWork,
            work::Work
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::kinds::{self, FleetKind};

    #[test]
    fn the_list_of_types_is_the_table_of_kinds() {
        macro_rules! names {
            ($($module:ident::$Kind:ident),*) => {
                [$(crate::$module::$Kind::INFO.kind),*]
            };
        }
        let types = BTreeSet::from(every_kind!(names));
        let table = kinds::all().iter().map(|info| info.kind).collect();
        assert_eq!(types, table);
    }
}
