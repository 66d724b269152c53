//! Reasons of Kubernetes events that have no condition of the same name.
//!
//! Agent and property events reuse the reason of the condition they announce.

use crate::listed::listed;

listed! {
    /// Placements: RolloutStarted turned True.
    PLACEMENT_ROLLOUT_STARTED = "PlacementRolloutStarted";
    /// Placements: Overridden turned True.
    PLACEMENT_OVERRIDDEN = "PlacementOverriddenSucceeded";
    /// Placements: WorkSynchronized turned True.
    PLACEMENT_WORK_SYNCHRONIZED = "PlacementWorkSynchronized";
    /// Placements: Applied turned True.
    PLACEMENT_APPLIED = "PlacementApplied";
    /// Placements: Available turned True.
    PLACEMENT_AVAILABLE = "PlacementAvailable";
    /// Placements: DiffReported turned True.
    PLACEMENT_DIFF_REPORTED = "PlacementDiffReported";
    /// Placements: every expected condition is True.
    PLACEMENT_ROLLOUT_COMPLETED = "PlacementRolloutCompleted";
    /// Placements: snapshots deleted, finalizer gone.
    PLACEMENT_CLEANUP_FINALIZER_REMOVED = "PlacementCleanupFinalizerRemoved";
    /// Placements: a selector names a type that is never propagated.
    SELECTED_TYPE_NOT_PROPAGATED = "SelectedTypeNotPropagated";
    /// Placements: a selector names an object that is not there.
    SELECTED_RESOURCE_NOT_FOUND = "SelectedResourceNotFound";
    /// Placements: the policy cannot be carried out as written; tried again every few minutes.
    SCHEDULING_FAILED = "SchedulingFailed";
    /// Placements: a second binding stood for one cluster and is let go.
    SURPLUS_BINDING_UNSCHEDULED = "SurplusBindingUnscheduled";
    /// Placements: somebody's binding has the name that a new one would get.
    BINDING_NAME_TAKEN = "BindingNameTaken";
    /// Placements: a cluster keeps the placement although it would not be chosen today.
    SELECTED_CLUSTER_NOT_ELIGIBLE = "SelectedClusterNotEligible";
    /// Placements: a cluster reports a property that the policy asks for and nobody can read.
    MALFORMED_PROPERTY = "MalformedProperty";
    /// Placements: something that should not be possible holds it up; the message says what.
    PLACEMENT_BLOCKED = "PlacementBlocked";
    /// Snapshots: labels or annotations cannot be read, and the placement waits for it.
    UNUSABLE_SNAPSHOT = "UnusableSnapshot";
    /// Objects of any kind: it cannot be read; the message names the field.
    MALFORMED_OBJECT = "MalformedObject";
    /// Bindings: two works for one envelope.
    DUPLICATE_ENVELOPE_WORKS = "DuplicateEnvelopeWorks";
    /// MemberClusters: namespace made.
    NAMESPACE_CREATED = "NamespaceCreated";
    /// MemberClusters: label added to the namespace.
    NAMESPACE_PATCHED = "NamespacePatched";
    /// MemberClusters: role made.
    ROLE_CREATED = "RoleCreated";
    /// MemberClusters: role repaired.
    ROLE_UPDATED = "RoleUpdated";
    /// MemberClusters: role binding made.
    ROLE_BINDING_CREATED = "RoleBindingCreated";
    /// MemberClusters: role binding repaired.
    ROLE_BINDING_UPDATED = "RoleBindingUpdated";
    /// MemberClusters: hub-side counterpart made.
    INTERNAL_MEMBER_CREATED = "InternalMemberClusterCreated";
    /// MemberClusters: hub-side counterpart changed.
    INTERNAL_MEMBER_UPDATED = "InternalMemberClusterSpecUpdated";
}
