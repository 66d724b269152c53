//! Which clusters a placement chooses: the policy and everything inside it.
//!
//! Field order is part of the contract: the policy's hash is taken over its JSON
//! with the fields in this order. What is placed is in `placement`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::cel::rules;
use crate::crd::shape;
use crate::null::or_default;

/// Which clusters to choose, and how many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicy {
    /// PickAll takes every matching cluster, PickN a number of them, PickFixed those named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = PlacementType::default()))]
    pub placement_type: Option<PlacementType>,

    /// Clusters to use, for PickFixed only.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub cluster_names: Vec<String>,

    /// How many clusters to use, for PickN only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub number_of_clusters: Option<i32>,

    /// Which clusters are needed or liked, by labels and properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// How evenly to spread over groups of clusters, for PickN only.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,

    /// Taints on clusters to overlook.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-validations" = rules(&[
        (
            "self.all(x, x.operator != 'Exists' || !has(x.value) || size(x.value) == 0)",
            "value must be empty when operator is Exists",
        ),
        (
            "self.all(x, (has(x.key) && size(x.key) > 0) || x.operator == 'Exists')",
            "operator must be Exists when key is empty",
        ),
    ])))]
    pub tolerations: Vec<Toleration>,
}

/// How clusters are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlacementType {
    /// Every matching cluster.
    #[default]
    PickAll,
    /// The best so many.
    PickN,
    /// The clusters named.
    PickFixed,
}

/// Which clusters are needed or liked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Needs and likes about clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
}

/// Needs and likes about clusters, weighed when a cluster is chosen and not again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// What a cluster must match to be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<ClusterSelector>,

    /// What makes a cluster more or less welcome, by weight.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredClusterSelector>,
}

/// Clusters that match any one of several terms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// Terms, one of which is enough.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(max = 10))]
    pub cluster_selector_terms: Vec<ClusterSelectorTerm>,
}

/// A preference with a weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreferredClusterSelector {
    /// How much a match counts; below zero it counts against the cluster.
    #[schemars(range(min = -100, max = 100))]
    pub weight: i32,

    /// What to match, or what to rank clusters by.
    pub preference: ClusterSelectorTerm,
}

/// One description of clusters; all parts given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelectorTerm {
    /// Clusters by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shape::label_selector")]
    pub label_selector: Option<LabelSelector>,

    /// Clusters by property, such as node count or free memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_selector: Option<PropertySelector>,

    /// Property to rank clusters by; only in preferences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_sorter: Option<PropertySorter>,
}

/// Requirements on cluster properties.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySelector {
    /// Requirements, all of which must hold.
    #[serde(deserialize_with = "or_default")]
    pub match_expressions: Vec<PropertySelectorRequirement>,
}

/// A comparison of one property with a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PropertySelectorRequirement {
    /// Name of the property.
    pub name: String,

    /// One of Gt, Ge, Eq, Ne, Lt and Le.
    #[schemars(schema_with = "shape::text")]
    pub operator: PropertySelectorOperator,

    /// The one value to compare with, as a quantity.
    #[serde(deserialize_with = "or_default")]
    #[schemars(length(max = 1))]
    pub values: Vec<String>,
}

/// How a property is compared. The API does not check it, so others occur.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PropertySelectorOperator {
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Something the scheduler does not know.
    #[serde(untagged)]
    Other(String),
}

/// A property that ranks clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySorter {
    /// Name of the property.
    pub name: String,

    /// Whether low or high values are preferred.
    pub sort_order: PropertySortOrder,
}

/// Which end of a ranking is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PropertySortOrder {
    /// Low values first.
    Ascending,
    /// High values first.
    Descending,
}

/// How evenly to spread over clusters grouped by a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// Largest difference allowed between the fullest and the emptiest group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = 1))]
    pub max_skew: Option<i32>,

    /// Label of clusters whose values form the groups.
    pub topology_key: String,

    /// Whether the constraint is a need or only a wish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = UnsatisfiableConstraintAction::default()))]
    pub when_unsatisfiable: Option<UnsatisfiableConstraintAction>,
}

/// What to do with a cluster that would break a spread constraint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnsatisfiableConstraintAction {
    /// Leave it out.
    #[default]
    DoNotSchedule,
    /// Take it if nothing better is there.
    ScheduleAnyway,
}

/// A taint to overlook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Toleration {
    /// Key of the taint; left out with Exists, every taint.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub key: String,

    /// Whether the value must be equal or the key must merely exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = TolerationOperator::default()))]
    pub operator: Option<TolerationOperator>,

    /// Value of the taint, for Equal.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub value: String,

    /// Effect of the taint; left out, every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// How a toleration is compared with a taint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// Key and value are the same.
    #[default]
    Equal,
    /// The key is the same.
    Exists,
}

/// What a taint does to placements that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// The cluster is not chosen anew; what is there stays.
    NoSchedule,
}
