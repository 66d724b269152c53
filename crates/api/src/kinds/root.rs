//! `kind!`: how the root type of a kind comes to be.
//!
//! It is a macro of our own because two kinds often share one spec type
//! (cluster-scoped and namespaced twins), which a derive on the spec cannot
//! express. The root types hold metadata and fields only: `apiVersion` and
//! `kind` are written on the way out and checked on the way in.

use super::KindInfo;

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
    (flagship) => {
        "flagship.dev"
    };
}
pub(crate) use group;

/// Refuses an object that says it is something else. Absent fields say nothing:
/// items of typed lists may leave them out.
pub(crate) fn check_type_meta(
    info: &KindInfo,
    api_version: Option<&str>,
    kind: Option<&str>,
) -> Result<(), String> {
    if kind.is_none_or(|kind| kind == info.kind) && api_version.is_none_or(|v| info.serves(v)) {
        return Ok(());
    }
    let served: Vec<_> = info.versions.iter().map(|version| version.name).collect();
    Err(format!(
        "expected {} of {} ({}), found {} of {}",
        info.kind,
        info.group,
        served.join(", "),
        kind.unwrap_or("an object"),
        api_version.unwrap_or("no group"),
    ))
}

/// Says which field is missing, by its name on the wire.
pub(crate) fn missing(field: &str) -> String {
    let mut words = field.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        name.push_str(&first.to_uppercase());
        name.push_str(rest);
    }
    format!("missing field `{name}`")
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
        $value.ok_or_else(|| serde::de::Error::custom($crate::kinds::missing($name)))?
    };
}
pub(crate) use read;
