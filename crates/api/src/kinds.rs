//! The table of all kinds: names, scope, versions, columns, and how the types
//! of their objects come to be.
//!
//! `kind!` makes the root type of one kind. It is a macro of our own because two
//! kinds often share one spec type (cluster-scoped and namespaced twins), which
//! a derive on the spec cannot express. Field rules are on the specs themselves.

use serde_json::Value;

use crate::approval::{ApprovalRequest, ClusterApprovalRequest};
use crate::binding::{ClusterResourceBinding, ResourceBinding};
use crate::cluster::{InternalMemberCluster, MemberCluster};
use crate::cluster_profile::ClusterProfile;
use crate::crd::versions::Edits;
use crate::envelope::{ClusterResourceEnvelope, ResourceEnvelope};
use crate::eviction::{ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction};
use crate::overrides::{
    ClusterResourceOverride, ClusterResourceOverrideSnapshot, ResourceOverride,
    ResourceOverrideSnapshot,
};
use crate::placement::{ClusterResourcePlacement, ResourcePlacement};
use crate::placement_status::ClusterResourcePlacementStatus;
use crate::snapshot::{
    ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, ResourceSnapshot,
    SchedulingPolicySnapshot,
};
use crate::staged_update::{
    ClusterStagedUpdateRun, ClusterStagedUpdateStrategy, StagedUpdateRun, StagedUpdateStrategy,
};
use crate::work::{AppliedWork, Work};

/// Short word -> API group, as a literal that `concat!` accepts.
macro_rules! group {
    (placement) => {
        "placement.kubernetes-fleet.io"
    };
    (cluster) => {
        "cluster.kubernetes-fleet.io"
    };
    (multicluster) => {
        "multicluster.x-k8s.io"
    };
}
pub(crate) use group;

const ALL: &[&KindInfo] = &[
    AppliedWork::INFO,
    ApprovalRequest::INFO,
    ClusterApprovalRequest::INFO,
    ClusterProfile::INFO,
    ClusterResourceBinding::INFO,
    ClusterResourceEnvelope::INFO,
    ClusterResourceOverride::INFO,
    ClusterResourceOverrideSnapshot::INFO,
    ClusterResourcePlacement::INFO,
    ClusterResourcePlacementDisruptionBudget::INFO,
    ClusterResourcePlacementEviction::INFO,
    ClusterResourcePlacementStatus::INFO,
    ClusterResourceSnapshot::INFO,
    ClusterSchedulingPolicySnapshot::INFO,
    ClusterStagedUpdateRun::INFO,
    ClusterStagedUpdateStrategy::INFO,
    InternalMemberCluster::INFO,
    MemberCluster::INFO,
    ResourceBinding::INFO,
    ResourceEnvelope::INFO,
    ResourceOverride::INFO,
    ResourceOverrideSnapshot::INFO,
    ResourcePlacement::INFO,
    ResourceSnapshot::INFO,
    SchedulingPolicySnapshot::INFO,
    StagedUpdateRun::INFO,
    StagedUpdateStrategy::INFO,
    Work::INFO,
];

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One name space for the whole cluster.
    Cluster,
    /// Each object belongs to a namespace.
    Namespaced,
}

impl Scope {
    /// The word a CustomResourceDefinition uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Namespaced => "Namespaced",
        }
    }
}

/// Everything about one kind that is not in its fields.
#[derive(Debug)]
pub struct KindInfo {
    /// API group, such as `placement.kubernetes-fleet.io`.
    pub group: &'static str,
    /// Kind, in upper camel case.
    pub kind: &'static str,
    /// Name in URLs.
    pub plural: &'static str,
    /// Cluster or namespace.
    pub scope: Scope,
    /// Abbreviations kubectl accepts.
    pub short_names: &'static [&'static str],
    /// Whether status is written through its own endpoint.
    pub status_subresource: bool,
    /// Served versions; the first one is stored.
    pub versions: &'static [Version],
    /// CEL rules on the whole object, with their messages.
    pub(crate) rules: &'static [(&'static str, &'static str)],
    /// Raw schema of the storage version, as derived from the Rust types.
    pub(crate) schema: fn() -> Value,
}

impl KindInfo {
    /// Lower-case name of one object.
    pub fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// Kind of a list of these.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Name of the CustomResourceDefinition: `plural.group`.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Groups of kinds kubectl can list together, such as `fleet`.
    pub fn categories(&self) -> &'static [&'static str] {
        match self.group {
            group!(placement) => &["fleet", "fleet-placement"],
            group!(cluster) => &["fleet", "fleet-cluster"],
            _ => &[],
        }
    }

    /// Whether a person could mean this kind: kind, plural, singular, short name
    /// or `plural.group`, in any case.
    pub fn answers_to(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        name == self.singular()
            || name == self.plural
            || name == self.crd_name()
            || self.short_names.contains(&name.as_str())
    }

    /// Whether objects with this `apiVersion` and `kind` are objects of this kind.
    pub fn covers(&self, api_version: &str, kind: &str) -> bool {
        let Some((group, version)) = api_version.split_once('/') else { return false };
        kind == self.kind
            && group == self.group
            && self.versions.iter().any(|served| served.name == version)
    }
}

/// One served version of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// Such as `v1beta1`.
    pub name: &'static str,
    /// Columns of `kubectl get`, in order.
    pub columns: &'static [Column],
    /// How this version's schema differs from the stored one.
    pub(crate) edits: fn(&mut Edits),
}

impl Version {
    /// A version whose schema is that of the Rust types.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self { name, columns: &[], edits: |_| {} }
    }

    /// The same, with columns.
    pub(crate) const fn columns(self, columns: &'static [Column]) -> Self {
        Self { columns, ..self }
    }

    /// The same, with differences from the stored schema.
    pub(crate) const fn edited(self, edits: fn(&mut Edits)) -> Self {
        Self { edits, ..self }
    }
}

/// One column of `kubectl get`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// Where the value is found in an object.
    pub json_path: &'static str,
    /// `string` or `date`.
    pub r#type: &'static str,
    /// Shown only by `-o wide`.
    pub wide: bool,
}

impl Column {
    /// Time since creation.
    pub(crate) const AGE: Self = Self::date("Age", ".metadata.creationTimestamp");

    /// A column of text.
    pub(crate) const fn text(name: &'static str, json_path: &'static str) -> Self {
        Self { name, json_path, r#type: "string", wide: false }
    }

    /// A column of text that only `-o wide` shows.
    pub(crate) const fn wide(name: &'static str, json_path: &'static str) -> Self {
        Self { wide: true, ..Self::text(name, json_path) }
    }

    /// A column that shows how long ago something was.
    pub(crate) const fn date(name: &'static str, json_path: &'static str) -> Self {
        Self { r#type: "date", ..Self::text(name, json_path) }
    }
}

/// A root type of this API: what ties `kube::Api<K>` to the table.
pub trait FleetKind: kube_core::Resource<DynamicType = ()> {
    /// Names, scope and versions of the kind.
    const INFO: &'static KindInfo;
}

/// Every kind, in alphabetical order.
pub fn all() -> &'static [&'static KindInfo] {
    ALL
}

/// Finds a kind by anything [`KindInfo::answers_to`] accepts.
pub fn find(name: &str) -> Option<&'static KindInfo> {
    ALL.iter().copied().find(|info| info.answers_to(name))
}

/// Refuses an object that says it is something else. Absent fields say nothing:
/// items of typed lists may leave them out.
pub(crate) fn check_type_meta(
    info: &KindInfo,
    api_version: Option<&str>,
    kind: Option<&str>,
) -> Result<(), String> {
    let said_version = api_version
        .map_or_else(|| format!("{}/{}", info.group, info.versions[0].name), str::to_owned);
    let said_kind = kind.unwrap_or(info.kind);
    if info.covers(&said_version, said_kind) {
        return Ok(());
    }
    let served: Vec<_> = info.versions.iter().map(|version| version.name).collect();
    Err(format!(
        "expected {} of {} ({}), found {said_kind} of {said_version}",
        info.kind,
        info.group,
        served.join(", "),
    ))
}

/// JSON path of a field of one condition in an object's status.
macro_rules! condition {
    ($($type:literal)+, $field:literal) => {
        concat!(".status.conditions[?(@.type==\"", $($type,)+ "\")].", $field)
    };
}
pub(crate) use condition;

/// Scope -> the marker type of `k8s-openapi`.
macro_rules! scope_marker {
    (Cluster) => {
        k8s_openapi::ClusterResourceScope
    };
    (Namespaced) => {
        k8s_openapi::NamespaceResourceScope
    };
}
pub(crate) use scope_marker;

/// Defines the root type of one kind and its row in the table.
///
/// A field is `required`, `defaulted` (may be absent when read, is always
/// written) or `optional` (an `Option`). Attributes on fields shape the schema.
macro_rules! kind {
    (
        $(#[$doc:meta])*
        pub struct $Kind:ident {
            $( $(#[$attr:meta])* $field:ident: $mode:ident $Type:ty, )*
        }
        group: $group:ident, version: $version:literal, scope: $scope:ident,
        plural: $plural:literal, short: [$($short:literal),*], status_subresource: $status:literal,
        versions: [$($served:expr),* $(,)?],
        rules: $rules:expr,
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, schemars::JsonSchema)]
        #[schemars(rename_all = "camelCase")]
        pub struct $Kind {
            /// Name, namespace, labels and the rest of the usual object metadata.
            #[schemars(default, schema_with = "crate::crd::shape::metadata")]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $( $(#[$attr])* pub $field: $crate::kinds::field_type!($mode $Type), )*
        }

        impl $crate::kinds::FleetKind for $Kind {
            const INFO: &'static $crate::kinds::KindInfo = &$crate::kinds::KindInfo {
                group: $crate::kinds::group!($group),
                kind: stringify!($Kind),
                plural: $plural,
                scope: $crate::kinds::Scope::$scope,
                short_names: &[$($short),*],
                status_subresource: $status,
                versions: &[$($served),*],
                rules: $rules,
                schema: $crate::crd::derived_schema::<$Kind>,
            };
        }

        impl k8s_openapi::Resource for $Kind {
            const API_VERSION: &'static str = concat!($crate::kinds::group!($group), "/", $version);
            const GROUP: &'static str = $crate::kinds::group!($group);
            const KIND: &'static str = stringify!($Kind);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = $crate::kinds::scope_marker!($scope);
        }

        impl k8s_openapi::ListableResource for $Kind {
            const LIST_KIND: &'static str = concat!(stringify!($Kind), "List");
        }

        impl k8s_openapi::Metadata for $Kind {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }
            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $Kind {
            fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                #[derive(serde::Serialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire<'a> {
                    api_version: &'static str,
                    kind: &'static str,
                    metadata: &'a k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                    $(
                        #[serde(skip_serializing_if = "Option::is_none")]
                        $field: Option<&'a $Type>,
                    )*
                }
                let wire = Wire {
                    api_version: <Self as k8s_openapi::Resource>::API_VERSION,
                    kind: <Self as k8s_openapi::Resource>::KIND,
                    metadata: &self.metadata,
                    $( $field: $crate::kinds::written!($mode self.$field), )*
                };
                wire.serialize(out)
            }
        }

        impl<'de> serde::Deserialize<'de> for $Kind {
            fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    api_version: Option<String>,
                    kind: Option<String>,
                    metadata: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>,
                    $( $field: Option<$Type>, )*
                }
                let wire = Wire::deserialize(input)?;
                $crate::kinds::check_type_meta(
                    <Self as $crate::kinds::FleetKind>::INFO,
                    wire.api_version.as_deref(),
                    wire.kind.as_deref(),
                )
                .map_err(serde::de::Error::custom)?;
                Ok(Self {
                    metadata: wire.metadata.unwrap_or_default(),
                    $( $field: $crate::kinds::read!($mode wire.$field, stringify!($field)), )*
                })
            }
        }
    };
}
pub(crate) use kind;

macro_rules! field_type {
    (optional $Type:ty) => { Option<$Type> };
    ($mode:ident $Type:ty) => { $Type };
}
pub(crate) use field_type;

macro_rules! written {
    (optional $value:expr) => {
        $value.as_ref()
    };
    ($mode:ident $value:expr) => {
        Some(&$value)
    };
}
pub(crate) use written;

macro_rules! read {
    (optional $value:expr, $name:expr) => {
        $value
    };
    (defaulted $value:expr, $name:expr) => {
        $value.unwrap_or_default()
    };
    (required $value:expr, $name:expr) => {
        $value.ok_or_else(|| serde::de::Error::missing_field($name))?
    };
}
pub(crate) use read;
