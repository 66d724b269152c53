//! Taking a placement off one cluster, and the budget that may forbid it.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::crd::cel::{immutable, rules};
use crate::crd::shape;
use crate::kinds::{Column, Version, condition, kind};
use crate::null::or_default;

/// Which placement leaves which cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementEvictionSpec {
    /// ClusterResourcePlacement that is to leave.
    #[schemars(length(max = 255))]
    #[schemars(extend("x-kubernetes-validations" = immutable("The PlacementName field is immutable")))]
    pub placement_name: String,

    /// Cluster it is to leave.
    #[schemars(length(max = 255))]
    #[schemars(extend("x-kubernetes-validations" = immutable("The ClusterName field is immutable")))]
    pub cluster_name: String,
}

/// What became of an eviction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementEvictionStatus {
    /// Whether the eviction made sense and whether it was carried out.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shape::condition_list")]
    pub conditions: Vec<Condition>,
}

/// How many clusters of a placement must keep working.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!(has(self.maxUnavailable) && has(self.minAvailable))",
    "Both MaxUnavailable and MinAvailable cannot be specified",
)])))]
pub struct PlacementDisruptionBudgetSpec {
    /// How many clusters may be without a working copy; not together with minAvailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::int_or_string", extend("x-kubernetes-validations" = rules(COUNT_OR_PERCENT)))]
    pub max_unavailable: Option<IntOrString>,

    /// How many clusters must have a working copy; not together with maxUnavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::int_or_string", extend("x-kubernetes-validations" = rules(COUNT_OR_PERCENT)))]
    pub min_available: Option<IntOrString>,
}

const COUNT_OR_PERCENT: &[(&str, &str)] = &[(
    "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
    "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or \
     If supplied value is Integer must be greater than or equal to 0",
)];

kind! {
    /// Takes a ClusterResourcePlacement off one cluster, once.
    pub struct ClusterResourcePlacementEviction {
        /// Which placement leaves which cluster.
        spec: required PlacementEvictionSpec,
        /// What became of it.
        status: optional PlacementEvictionStatus,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterresourceplacementevictions", short: ["crpe"], status_subresource: true,
    versions: [
        Version::named("v1beta1").columns(&[
            Column::text("Valid", condition!("Valid", "status")),
            Column::text("Executed", condition!("Executed", "status")),
        ]),
        Version::named("v1alpha1"),
    ],
    rules: &[],
}

kind! {
    /// Limits evictions of the ClusterResourcePlacement of the same name.
    pub struct ClusterResourcePlacementDisruptionBudget {
        /// How many clusters must keep working.
        spec: required PlacementDisruptionBudgetSpec,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterresourceplacementdisruptionbudgets", short: ["crpdb"], status_subresource: false,
    versions: [Version::named("v1beta1"), Version::named("v1alpha1")],
    rules: &[],
}
