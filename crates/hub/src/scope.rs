//! Where the two scopes of a kind meet: code is written once for any [`Scoped`],
//! and the key of a placement says which one it is.

use std::fmt::Debug;

use flagship_api::approval::{
    ApprovalRequest, ApprovalRequestSpec, ApprovalRequestStatus, ClusterApprovalRequest,
};
use flagship_api::approval_decision::{Approval, ClusterApproval};
use flagship_api::binding::{
    ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus,
};
use flagship_api::condition_type;
use flagship_api::hash;
use flagship_api::names::Scope;
use flagship_api::overrides::{
    ClusterResourceOverride, ClusterResourceOverrideSnapshot, ClusterResourceOverrideSnapshotSpec,
    ClusterResourceOverrideSpec, PlacementRef, ResourceOverride, ResourceOverrideSnapshot,
    ResourceOverrideSnapshotSpec, ResourceOverrideSpec,
};
use flagship_api::placement::{ClusterResourcePlacement, PlacementSpec, ResourcePlacement};
use flagship_api::placement_status::PlacementStatus;
use flagship_api::rollout_record::{ClusterRolloutRecord, RolloutRecord};
use flagship_api::snapshot::{
    ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, ResourceSnapshot,
    ResourceSnapshotSpec, ResourceSnapshotStatus, SchedulingPolicySnapshot,
    SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus,
};
use flagship_api::staged_update::{
    ClusterStagedUpdateRun, ClusterStagedUpdateStrategy, StagedUpdateRun, StagedUpdateStrategy,
    UpdateRunSpec, UpdateStrategySpec,
};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::model::Binding;
use flagship_runtime::effects::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::mirrors::{OverrideMirrors, OverrideStores, Said};
use crate::update_run::Recorded;

/// The kinds of one scope.
pub(crate) trait Scoped: Debug + Send + Sync + 'static {
    /// Which scope.
    const SCOPE: Scope;
    type Placement: Parts<Spec = PlacementSpec, Status = PlacementStatus>;
    type PolicySnapshot: Parts<Spec = SchedulingPolicySnapshotSpec, Status = SchedulingPolicySnapshotStatus>;
    type Binding: Parts<Spec = ResourceBindingSpec, Status = ResourceBindingStatus>;
    type ResourceSnapshot: Parts<Spec = ResourceSnapshotSpec, Status = ResourceSnapshotStatus>;
    type UpdateRun: Parts<Spec = UpdateRunSpec, Status = UpdateRunStatus>;
    type UpdateStrategy: Kind + Into<UpdateStrategySpec> + Send;
    type ApprovalRequest: Parts<Spec = ApprovalRequestSpec, Status = ApprovalRequestStatus>;
    type Record: Recorded;
    type Word: Said;

    /// What the condition is called on placements of this scope.
    fn condition(of: condition_type::Placement) -> &'static str {
        of.on(Self::SCOPE)
    }
}

/// Placements that belong to no namespace.
#[derive(Debug)]
pub(crate) struct ClusterWide;

/// Placements of a namespace.
#[derive(Debug)]
pub(crate) struct InNamespace;

impl Scoped for ClusterWide {
    const SCOPE: Scope = Scope::Cluster;
    type Placement = ClusterResourcePlacement;
    type PolicySnapshot = ClusterSchedulingPolicySnapshot;
    type Binding = ClusterResourceBinding;
    type ResourceSnapshot = ClusterResourceSnapshot;
    type UpdateRun = ClusterStagedUpdateRun;
    type UpdateStrategy = ClusterStagedUpdateStrategy;
    type ApprovalRequest = ClusterApprovalRequest;
    type Record = ClusterRolloutRecord;
    type Word = ClusterApproval;
}

impl Scoped for InNamespace {
    const SCOPE: Scope = Scope::Namespaced;
    type Placement = ResourcePlacement;
    type PolicySnapshot = SchedulingPolicySnapshot;
    type Binding = ResourceBinding;
    type ResourceSnapshot = ResourceSnapshot;
    type UpdateRun = StagedUpdateRun;
    type UpdateStrategy = StagedUpdateStrategy;
    type ApprovalRequest = ApprovalRequest;
    type Record = RolloutRecord;
    type Word = Approval;
}

/// A binding of either scope, as rules read it.
pub(crate) fn binding<K>(object: K) -> Binding
where
    K: Parts<Spec = ResourceBindingSpec, Status = ResourceBindingStatus>,
{
    let (metadata, spec, status) = object.into_parts();
    Binding::read(metadata, spec, status)
}

/// The kinds of one scope of overrides. Those in namespaces are there even where
/// placements are not: they change what cluster-scoped placements place.
pub(crate) trait Overriding: Scoped {
    /// Name of the controller.
    const CONTROLLER: &'static str;
    type Override: Kind + Debug + Send + Sync + 'static;
    type Snapshot: Kind + Debug + Send + Sync + 'static;
    type Spec: Clone + Debug + PartialEq + Send + Sync + 'static;

    /// What an override says.
    fn into_spec(from: Self::Override) -> Self::Spec;
    /// What a snapshot froze, and its hash in hex.
    fn into_frozen(from: Self::Snapshot) -> (Self::Spec, String);
    fn freeze(metadata: ObjectMeta, spec: Self::Spec, hash: &str) -> Self::Snapshot;
    fn hash(spec: &Self::Spec) -> serde_json::Result<String>;
    /// The placement it is for, if for one only.
    fn placement(spec: &Self::Spec) -> Option<&PlacementRef>;
    /// The stores of this scope.
    fn stores(mirrors: &OverrideMirrors) -> &OverrideStores<Self::Spec>;
}

macro_rules! overriding {
    ($($Scope:ty: $Override:ident, $Spec:ident, $Snapshot:ident, $Frozen:ident,
        $hash:ident, $stores:ident, $name:literal;)*) => {$(
        impl Overriding for $Scope {
            const CONTROLLER: &'static str = $name;
            type Override = $Override;
            type Snapshot = $Snapshot;
            type Spec = $Spec;

            fn into_spec(from: $Override) -> $Spec {
                from.spec
            }

            fn into_frozen(from: $Snapshot) -> ($Spec, String) {
                let hash = String::from_utf8_lossy(&from.spec.override_hash.0).into_owned();
                (from.spec.override_spec, hash)
            }

            fn freeze(metadata: ObjectMeta, spec: $Spec, hash: &str) -> $Snapshot {
                let spec = $Frozen { override_spec: spec, override_hash: hash::byte_field(hash) };
                $Snapshot { metadata, spec }
            }

            fn hash(spec: &$Spec) -> serde_json::Result<String> {
                hash::$hash(spec)
            }

            fn placement(spec: &$Spec) -> Option<&PlacementRef> {
                spec.placement.as_ref()
            }

            fn stores(mirrors: &OverrideMirrors) -> &OverrideStores<$Spec> {
                &mirrors.$stores
            }
        }
    )*};
}

overriding! {
    ClusterWide: ClusterResourceOverride, ClusterResourceOverrideSpec,
        ClusterResourceOverrideSnapshot, ClusterResourceOverrideSnapshotSpec,
        cluster_override_hash, cluster_wide, "clusterresourceoverride-controller";
    InNamespace: ResourceOverride, ResourceOverrideSpec,
        ResourceOverrideSnapshot, ResourceOverrideSnapshotSpec,
        override_hash, in_namespaces, "resourceoverride-controller";
}

/// An object taken apart: twins share the types of their parts.
pub(crate) trait Parts: Kind + Debug + Send + Sync + 'static {
    type Spec;
    type Status;

    fn new(metadata: ObjectMeta, spec: Self::Spec) -> Self;
    fn with_status(self, status: Self::Status) -> Self;
    fn spec(&self) -> &Self::Spec;
    fn status(&self) -> Option<&Self::Status>;
    fn into_parts(self) -> (ObjectMeta, Self::Spec, Option<Self::Status>);
}

macro_rules! parts {
    ($($Kind:ty: $Spec:ty, $Status:ty;)*) => {$(
        impl Parts for $Kind {
            type Spec = $Spec;
            type Status = $Status;

            fn new(metadata: ObjectMeta, spec: $Spec) -> Self {
                Self { metadata, spec, status: None }
            }

            fn with_status(self, status: $Status) -> Self {
                Self { status: Some(status), ..self }
            }

            fn spec(&self) -> &$Spec {
                &self.spec
            }

            fn status(&self) -> Option<&$Status> {
                self.status.as_ref()
            }

            fn into_parts(self) -> (ObjectMeta, $Spec, Option<$Status>) {
                (self.metadata, self.spec, self.status)
            }
        }
    )*};
}

parts! {
    ClusterResourcePlacement: PlacementSpec, PlacementStatus;
    ResourcePlacement: PlacementSpec, PlacementStatus;
    ClusterSchedulingPolicySnapshot: SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus;
    SchedulingPolicySnapshot: SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus;
    ClusterResourceBinding: ResourceBindingSpec, ResourceBindingStatus;
    ResourceBinding: ResourceBindingSpec, ResourceBindingStatus;
    ClusterResourceSnapshot: ResourceSnapshotSpec, ResourceSnapshotStatus;
    ResourceSnapshot: ResourceSnapshotSpec, ResourceSnapshotStatus;
    ClusterStagedUpdateRun: UpdateRunSpec, UpdateRunStatus;
    StagedUpdateRun: UpdateRunSpec, UpdateRunStatus;
    ClusterApprovalRequest: ApprovalRequestSpec, ApprovalRequestStatus;
    ApprovalRequest: ApprovalRequestSpec, ApprovalRequestStatus;
}
