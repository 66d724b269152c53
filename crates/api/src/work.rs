//! Work: manifests handed to one member, and what became of each; and the
//! AppliedWork that owns the results inside the member.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apply_strategy::{ApplyStrategy, ReportBackStrategy};
use crate::condition::Condition;
use crate::crd::shape;
use crate::kinds::{Version, kind};
use crate::null::or_default;
use crate::placement_status::PatchDetail;
use crate::raw_json::RawJson;

/// What one member is to apply, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkSpec {
    /// What to apply.
    #[serde(default, deserialize_with = "or_default")]
    pub workload: WorkloadTemplate,

    /// How manifests meet what is already in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,

    /// Whether the status of applied resources comes back to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

/// What to apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadTemplate {
    /// Complete resources to apply, identified by their place in this list.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::manifests")]
    pub manifests: Vec<RawJson>,
}

/// What became of a Work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// Whether all manifests are applied, available, or compared.
    #[serde(deserialize_with = "or_default")]
    #[schemars(schema_with = "shape::condition_list")]
    pub conditions: Vec<Condition>,

    /// What became of each manifest.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub manifest_conditions: Vec<ManifestCondition>,
}

/// What became of one manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestCondition {
    /// Which manifest this is about.
    pub identifier: WorkResourceIdentifier,

    /// Whether it is applied, available, or compared.
    #[serde(deserialize_with = "or_default")]
    #[schemars(schema_with = "shape::condition_list")]
    pub conditions: Vec<Condition>,

    /// Edits found in the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_details: Option<DriftDetails>,

    /// Differences found and left as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_details: Option<DiffDetails>,

    /// Status of the resource in the member, if it is to come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_reported_status: Option<BackReportedStatus>,
}

/// Which manifest of a Work, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkResourceIdentifier {
    /// Place in the list of manifests, from 0.
    #[schemars(schema_with = "shape::integer")]
    pub ordinal: i64,

    /// API group; left out for the core group.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub group: String,

    /// API version.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub version: String,

    /// Kind.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub kind: String,

    /// Plural name of the kind, if the member knows it.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub resource: String,

    /// Namespace; left out for cluster-scoped resources.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,

    /// Name.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Edits somebody made in the member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftDetails {
    /// When the edits were last looked at.
    #[schemars(schema_with = "shape::time")]
    pub observation_time: Time,

    /// Generation of the resource in the member at that time.
    pub observed_in_member_cluster_generation: i64,

    /// When edits were first found.
    #[schemars(schema_with = "shape::time")]
    pub first_drifted_observed_time: Time,

    /// The edits, field by field.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub observed_drifts: Vec<PatchDetail>,
}

/// Differences that were left as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffDetails {
    /// When the differences were last looked at.
    #[schemars(schema_with = "shape::time")]
    pub observation_time: Time,

    /// Generation of the resource in the member at that time, if it exists there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_in_member_cluster_generation: Option<i64>,

    /// When differences were first found.
    #[schemars(schema_with = "shape::time")]
    pub first_diffed_observed_time: Time,

    /// The differences, field by field.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub observed_diffs: Vec<PatchDetail>,
}

/// Status of a resource in the member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackReportedStatus {
    /// The resource with its status and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::manifest")]
    pub observed_status: Option<RawJson>,

    /// When the status was read.
    #[schemars(schema_with = "shape::time")]
    pub observation_time: Time,
}

/// Which Work an AppliedWork belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedWorkSpec {
    /// Name of the Work on the hub.
    pub work_name: String,

    /// Namespace of the Work on the hub.
    pub work_namespace: String,
}

/// What a Work has brought into the member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedWorkStatus {
    /// Resources that are applied now.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedResourceMeta>,
}

/// One applied resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedResourceMeta {
    /// Which manifest it came from.
    #[serde(flatten)]
    pub identifier: WorkResourceIdentifier,

    /// UID of the resource in the member.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

kind! {
    /// Manifests one member is to apply, kept in that member's namespace on the hub.
    pub struct Work {
        /// What to apply, and how.
        #[schemars(default)]
        spec: defaulted WorkSpec,
        /// What became of it.
        status: optional WorkStatus,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "works", short: [], status_subresource: true,
    versions: [
        Version::named("v1beta1"),
        // v1 cannot report status back.
        Version::named("v1").edited(|edits| {
            edits.remove("spec.reportBackStrategy").remove("manifestConditions.backReportedStatus");
        }),
    ],
    rules: &[],
}

kind! {
    /// Owns, inside a member, every resource that came from the Work of the same name.
    pub struct AppliedWork {
        /// Which Work it belongs to.
        spec: required AppliedWorkSpec,
        /// What the Work has brought into the member.
        status: optional AppliedWorkStatus,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "appliedworks", short: [], status_subresource: true,
    versions: [Version::named("v1beta1"), Version::named("v1")],
    rules: &[],
}
