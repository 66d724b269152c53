//! Overrides: per-cluster changes to resources on their way to a member, and
//! the frozen copies bindings refer to.
//!
//! Field order is part of the contract: an override's hash is taken over its
//! JSON with the fields in this order.

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rules;
use crate::crd::shape;
use crate::kinds::{Version, kind};
use crate::null::or_default;
use crate::placement::ResourceSelectorTerm;
use crate::policy::ClusterSelector;
use crate::raw_json::RawJson;

/// Which cluster-scoped resources change, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(KEEPS_PLACEMENT)))]
pub struct ClusterResourceOverrideSpec {
    /// Placement the override is for; left out, every placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,

    /// Resources to change, by name; a namespace stands for everything in it.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(min = 1, max = 20))]
    pub cluster_resource_selectors: Vec<ResourceSelectorTerm>,

    /// What to change on which clusters.
    pub policy: OverridePolicy,
}

/// Which resources of the override's namespace change, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(KEEPS_PLACEMENT)))]
pub struct ResourceOverrideSpec {
    /// Placement the override is for; left out, every placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,

    /// Resources to change, in the override's own namespace.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(min = 1, max = 20))]
    pub resource_selectors: Vec<ResourceSelector>,

    /// What to change on which clusters.
    pub policy: OverridePolicy,
}

const KEEPS_PLACEMENT: &[(&str, &str)] = &[(
    "(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement) || \
     (!has(oldSelf.placement) && !has(self.placement))",
    "The placement field is immutable",
)];

/// A placement, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementRef {
    /// Name of the placement.
    pub name: String,

    /// Whether it is a ClusterResourcePlacement or a ResourcePlacement of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = PlacementScope::default()))]
    pub scope: Option<PlacementScope>,
}

/// Which kind of placement is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlacementScope {
    /// A ClusterResourcePlacement.
    #[default]
    Cluster,
    /// A ResourcePlacement.
    Namespaced,
}

/// One resource in the override's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSelector {
    /// API group; empty for the core group.
    pub group: String,

    /// API version.
    pub version: String,

    /// Kind.
    pub kind: String,

    /// Name.
    pub name: String,
}

/// What to change on which clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverridePolicy {
    /// Rules, applied in order on every cluster they match.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(min = 1, max = 20))]
    pub override_rules: Vec<OverrideRule>,
}

/// A change and the clusters it is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideRule {
    /// Clusters the rule is for, by label; left out, none; empty, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<ClusterSelector>,

    /// Whether the resource is patched or left out on those clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = OverrideType::default()))]
    pub override_type: Option<OverrideType>,

    /// Patches, applied in order, for JSONPatch only.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 20))]
    pub json_patch_overrides: Vec<JsonPatchOverride>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OverrideType {
    /// It patches the resource.
    #[default]
    #[serde(rename = "JSONPatch")]
    JsonPatch,
    /// It leaves the resource out.
    Delete,
}

/// One operation of a JSON patch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JsonPatchOverride {
    /// What to do at the path.
    pub op: JsonPatchOperator,

    /// JSON pointer to the field.
    pub path: String,

    /// New value, for add and replace; may name variables such as the cluster's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::anything")]
    pub value: Option<RawJson>,
}

/// What a patch operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonPatchOperator {
    /// Adds or inserts the value.
    Add,
    /// Removes what is there.
    Remove,
    /// Replaces what is there.
    Replace,
}

/// A frozen ClusterResourceOverride.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterResourceOverrideSnapshotSpec {
    /// The override as it was.
    pub override_spec: ClusterResourceOverrideSpec,

    /// Hash of the override, to tell whether it has changed.
    #[schemars(schema_with = "shape::bytes")]
    pub override_hash: ByteString,
}

/// A frozen ResourceOverride.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceOverrideSnapshotSpec {
    /// The override as it was.
    pub override_spec: ResourceOverrideSpec,

    /// Hash of the override, to tell whether it has changed.
    #[schemars(schema_with = "shape::bytes")]
    pub override_hash: ByteString,
}

kind! {
    /// Changes cluster-scoped resources and whole namespaces on their way to certain clusters.
    pub struct ClusterResourceOverride {
        /// Which resources change, and how.
        spec: required ClusterResourceOverrideSpec,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterresourceoverrides", short: [], status_subresource: false,
    versions: [
        Version::named("v1beta1"),
        Version::named("v1"),
        Version::named("v1alpha1").edited(|edits| { edits.without_rules("spec"); }),
    ],
    rules: &[(
        "!has(self.spec.placement) || self.spec.placement.scope != 'Namespaced'",
        "clusterResourceOverride placement reference cannot be Namespaced scope",
    )],
}

kind! {
    /// Changes resources of its own namespace on their way to certain clusters.
    pub struct ResourceOverride {
        /// Which resources change, and how.
        spec: required ResourceOverrideSpec,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "resourceoverrides", short: [], status_subresource: false,
    versions: [
        Version::named("v1beta1"),
        Version::named("v1"),
        Version::named("v1alpha1").edited(|edits| { edits.without_rules("spec"); }),
    ],
    rules: &[],
}

kind! {
    /// A ClusterResourceOverride as it was at one time.
    pub struct ClusterResourceOverrideSnapshot {
        /// The override as it was.
        spec: required ClusterResourceOverrideSnapshotSpec,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterresourceoverridesnapshots", short: [], status_subresource: false,
    versions: [
        Version::named("v1beta1"),
        Version::named("v1"),
        Version::named("v1alpha1").edited(|edits| { edits.without_rules("spec.overrideSpec"); }),
    ],
    rules: &[],
}

kind! {
    /// A ResourceOverride as it was at one time.
    pub struct ResourceOverrideSnapshot {
        /// The override as it was.
        spec: required ResourceOverrideSnapshotSpec,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "resourceoverridesnapshots", short: [], status_subresource: false,
    versions: [
        Version::named("v1beta1"),
        Version::named("v1"),
        Version::named("v1alpha1").edited(|edits| { edits.without_rules("spec.overrideSpec"); }),
    ],
    rules: &[],
}
