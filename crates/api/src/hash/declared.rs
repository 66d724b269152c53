//! Hashes of policies and overrides: fields in the order of their declaration.
//!
//! The order is KubeFleet's, and so is what is left out. Where the wire form of
//! our types differs from it (label selectors, patches without a value), a view
//! of the type is hashed in its place.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::Serialize;
use serde_json::{Result, Value};

use crate::overrides::{
    ClusterResourceOverrideSpec, JsonPatchOperator, JsonPatchOverride, OverridePolicy,
    OverrideRule, OverrideType, PlacementRef, ResourceOverrideSpec, ResourceSelector,
};
use crate::placement::{ResourceSelectorTerm, SelectionScope};
use crate::policy::{
    Affinity, ClusterAffinity, ClusterSelector, ClusterSelectorTerm, PlacementPolicy,
    PlacementType, PreferredClusterSelector, PropertySelector, PropertySorter, Toleration,
    TopologySpreadConstraint,
};
use crate::raw_json::RawJson;

/// Hash of a policy as stored. The number of clusters does not count: another
/// number is not another policy.
pub fn policy_hash(policy: Option<&PlacementPolicy>) -> Result<String> {
    match policy {
        None => super::of(&Value::Null),
        Some(policy) => super::of(&Policy::from(policy)),
    }
}

/// Hash of a ClusterResourceOverride's spec as stored.
pub fn cluster_override_hash(spec: &ClusterResourceOverrideSpec) -> Result<String> {
    super::of(&ClusterOverride {
        placement: spec.placement.as_ref(),
        cluster_resource_selectors: views(&spec.cluster_resource_selectors),
        policy: Rules::from(&spec.policy),
    })
}

/// Hash of a ResourceOverride's spec as stored.
pub fn override_hash(spec: &ResourceOverrideSpec) -> Result<String> {
    super::of(&NamespacedOverride {
        placement: spec.placement.as_ref(),
        resource_selectors: &spec.resource_selectors,
        policy: Rules::from(&spec.policy),
    })
}

fn views<'a, T, V: From<&'a T>>(list: &'a [T]) -> Vec<V> {
    list.iter().map(V::from).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Policy<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    placement_type: Option<PlacementType>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    cluster_names: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<AffinityView<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    topology_spread_constraints: &'a [TopologySpreadConstraint],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tolerations: &'a [Toleration],
}

impl<'a> From<&'a PlacementPolicy> for Policy<'a> {
    fn from(policy: &'a PlacementPolicy) -> Self {
        Self {
            placement_type: policy.placement_type,
            cluster_names: &policy.cluster_names,
            affinity: policy.affinity.as_ref().map(AffinityView::from),
            topology_spread_constraints: &policy.topology_spread_constraints,
            tolerations: &policy.tolerations,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AffinityView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_affinity: Option<ClusterAffinityView<'a>>,
}

impl<'a> From<&'a Affinity> for AffinityView<'a> {
    fn from(affinity: &'a Affinity) -> Self {
        Self { cluster_affinity: affinity.cluster_affinity.as_ref().map(ClusterAffinityView::from) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterAffinityView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    required_during_scheduling_ignored_during_execution: Option<Clusters<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    preferred_during_scheduling_ignored_during_execution: Vec<Preferred<'a>>,
}

impl<'a> From<&'a ClusterAffinity> for ClusterAffinityView<'a> {
    fn from(affinity: &'a ClusterAffinity) -> Self {
        let required = &affinity.required_during_scheduling_ignored_during_execution;
        let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
        Self {
            required_during_scheduling_ignored_during_execution: required.as_ref().map(Into::into),
            preferred_during_scheduling_ignored_during_execution: views(preferred),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Clusters<'a> {
    cluster_selector_terms: Vec<Term<'a>>,
}

impl<'a> From<&'a ClusterSelector> for Clusters<'a> {
    fn from(selector: &'a ClusterSelector) -> Self {
        Self { cluster_selector_terms: views(&selector.cluster_selector_terms) }
    }
}

#[derive(Serialize)]
struct Preferred<'a> {
    weight: i32,
    preference: Term<'a>,
}

impl<'a> From<&'a PreferredClusterSelector> for Preferred<'a> {
    fn from(preferred: &'a PreferredClusterSelector) -> Self {
        Self { weight: preferred.weight, preference: (&preferred.preference).into() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Term<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<Labels<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    property_selector: Option<&'a PropertySelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    property_sorter: Option<&'a PropertySorter>,
}

impl<'a> From<&'a ClusterSelectorTerm> for Term<'a> {
    fn from(term: &'a ClusterSelectorTerm) -> Self {
        Self {
            label_selector: term.label_selector.as_ref().map(Labels::from),
            property_selector: term.property_selector.as_ref(),
            property_sorter: term.property_sorter.as_ref(),
        }
    }
}

/// Labels before expressions; the wire form of the type has it the other way.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Labels<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    match_labels: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<Requirement<'a>>,
}

impl<'a> From<&'a LabelSelector> for Labels<'a> {
    fn from(selector: &'a LabelSelector) -> Self {
        Self {
            match_labels: selector.match_labels.as_ref().filter(|labels| !labels.is_empty()),
            match_expressions: views(selector.match_expressions.as_deref().unwrap_or_default()),
        }
    }
}

/// Values that are given but empty count as absent.
#[derive(Serialize)]
struct Requirement<'a> {
    key: &'a str,
    operator: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    values: &'a [String],
}

impl<'a> From<&'a LabelSelectorRequirement> for Requirement<'a> {
    fn from(wanted: &'a LabelSelectorRequirement) -> Self {
        let values = wanted.values.as_deref().unwrap_or_default();
        Self { key: &wanted.key, operator: &wanted.operator, values }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterOverride<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<&'a PlacementRef>,
    cluster_resource_selectors: Vec<Resources<'a>>,
    policy: Rules<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NamespacedOverride<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<&'a PlacementRef>,
    resource_selectors: &'a [ResourceSelector],
    policy: Rules<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resources<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<Labels<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selection_scope: Option<SelectionScope>,
}

impl<'a> From<&'a ResourceSelectorTerm> for Resources<'a> {
    fn from(term: &'a ResourceSelectorTerm) -> Self {
        Self {
            group: &term.group,
            version: &term.version,
            kind: &term.kind,
            name: &term.name,
            label_selector: term.label_selector.as_ref().map(Labels::from),
            selection_scope: term.selection_scope,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rules<'a> {
    override_rules: Vec<Rule<'a>>,
}

impl<'a> From<&'a OverridePolicy> for Rules<'a> {
    fn from(policy: &'a OverridePolicy) -> Self {
        Self { override_rules: views(&policy.override_rules) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_selector: Option<Clusters<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    override_type: Option<OverrideType>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    json_patch_overrides: Vec<Patch<'a>>,
}

impl<'a> From<&'a OverrideRule> for Rule<'a> {
    fn from(rule: &'a OverrideRule) -> Self {
        Self {
            cluster_selector: rule.cluster_selector.as_ref().map(Clusters::from),
            override_type: rule.override_type,
            json_patch_overrides: views(&rule.json_patch_overrides),
        }
    }
}

/// A patch without a value still has one here: `null`.
#[derive(Serialize)]
struct Patch<'a> {
    op: JsonPatchOperator,
    path: &'a str,
    value: Option<&'a RawJson>,
}

impl<'a> From<&'a JsonPatchOverride> for Patch<'a> {
    fn from(patch: &'a JsonPatchOverride) -> Self {
        Self { op: patch.op, path: &patch.path, value: patch.value.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_json;

    #[track_caller]
    fn check_policy(text: &str, hash: &str) {
        let policy: Option<PlacementPolicy> = serde_json::from_str(text).unwrap();
        assert_eq!(policy_hash(policy.as_ref()).unwrap(), hash);
        if let Some(policy) = &policy {
            assert_eq!(go_json::to_string(&Policy::from(policy)).unwrap(), text);
        }
    }

    #[test]
    fn policies() {
        check_policy("null", "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b");
        check_policy(
            r#"{"placementType":"PickAll"}"#,
            "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a",
        );
        check_policy(
            r#"{"placementType":"PickN"}"#,
            "479f405eb7808cfc58366b2648680a3a815ef914fe6756ae8df0d6f74885416a",
        );
        check_policy(
            r#"{"placementType":"PickFixed"}"#,
            "b77e88683ac48c5da8d9ec332ae68224437a9ecdc7679fa81f98364146558c8d",
        );
        check_policy(
            r#"{"placementType":"PickFixed","clusterNames":["member-1","member-2"]}"#,
            "af934541d0dbdf1151c6c8d437f2dafdeaefd72bd0ac02a2046fd3556d5b57e3",
        );
        let full = r#"{"placementType":"PickN","affinity":{"clusterAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"clusterSelectorTerms":[{"labelSelector":{"matchLabels":{"env":"prod"}},"propertySelector":{"matchExpressions":[{"name":"kubernetes-fleet.io/node-count","operator":"Ge","values":["3"]}]}}]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":20,"preference":{"propertySorter":{"name":"resources.kubernetes-fleet.io/available-cpu","sortOrder":"Descending"}}}]}},"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"region","whenUnsatisfiable":"DoNotSchedule"}],"tolerations":[{"key":"k","operator":"Equal","value":"v","effect":"NoSchedule"}]}"#;
        assert_eq!(full.len(), 660);
        check_policy(full, "7abe32010cff2bc33aa04bb14e7b79cadf1d2c0a07fa42ab89901d125d91f980");
    }

    #[test]
    fn the_number_of_clusters_does_not_count() {
        let hash = |text| policy_hash(Some(&serde_json::from_str(text).unwrap())).unwrap();
        assert_eq!(
            hash(r#"{"placementType":"PickN","numberOfClusters":3}"#),
            hash(r#"{"placementType":"PickN","numberOfClusters":7}"#)
        );
    }

    #[test]
    fn order_counts_and_empty_objects_show() {
        let text = |text: &str| {
            let policy: PlacementPolicy = serde_json::from_str(text).unwrap();
            go_json::to_string(&Policy::from(&policy)).unwrap()
        };
        for unchanged in [
            r#"{"placementType":"PickN","affinity":{}}"#,
            r#"{"affinity":{"clusterAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"clusterSelectorTerms":[{"labelSelector":{}},{}]}}}}"#,
            r#"{"affinity":{"clusterAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":0,"preference":{"labelSelector":{"matchLabels":{"a":"<","b":"c"},"matchExpressions":[{"key":"k","operator":"Exists"}]}}}]}}}"#,
        ] {
            assert_eq!(text(unchanged), unchanged.replace('<', "\\u003c"));
        }
    }

    #[test]
    fn what_is_given_but_empty_counts_as_absent() {
        let hash = |expression: &str| {
            let text = format!(
                r#"{{"affinity":{{"clusterAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"clusterSelectorTerms":[{{"labelSelector":{{"matchLabels":{{}},"matchExpressions":[{expression}]}}}}]}}}}}}}}"#
            );
            policy_hash(Some(&serde_json::from_str(&text).unwrap())).unwrap()
        };
        assert_eq!(
            hash(r#"{"key":"k","operator":"Exists","values":[]}"#),
            hash(r#"{"key":"k","operator":"Exists"}"#)
        );
    }

    #[test]
    fn cluster_overrides() {
        let text = r#"{"placement":{"name":"crp-1","scope":"Cluster"},"clusterResourceSelectors":[{"group":"","version":"v1","kind":"Namespace","name":"app","selectionScope":"NamespaceWithResources"}],"policy":{"overrideRules":[{"clusterSelector":{"clusterSelectorTerms":[]},"overrideType":"JSONPatch","jsonPatchOverrides":[{"op":"add","path":"/metadata/annotations","value":{"k":"v"}},{"op":"remove","path":"/metadata/labels/x","value":null}]}]}}"#;
        let hash = "d7376264a90cfd935a099fb6a7ccb424796ae1a66b8f42f1a8afcee1975b4c7b";
        let read = |text: &str| serde_json::from_str::<ClusterResourceOverrideSpec>(text).unwrap();
        assert_eq!(super::super::of_text(text), hash);
        assert_eq!(cluster_override_hash(&read(text)).unwrap(), hash);
        // On the wire the value may be absent, and spaces do not count.
        let stored =
            text.replace(r#","value":null"#, "").replace(r#"{"k":"v"}"#, r#"{ "k" : "v" }"#);
        assert_eq!(cluster_override_hash(&read(&stored)).unwrap(), hash);
    }

    #[test]
    fn namespaced_overrides() {
        let text = r#"{"resourceSelectors":[{"group":"","version":"v1","kind":"ConfigMap","name":"cm"}],"policy":{"overrideRules":[{"clusterSelector":{"clusterSelectorTerms":[{"labelSelector":{"matchLabels":{"env":"prod"}}}]},"overrideType":"Delete"}]}}"#;
        let spec: ResourceOverrideSpec = serde_json::from_str(text).unwrap();
        assert_eq!(
            override_hash(&spec).unwrap(),
            "80d9b69e05acfdf1250256e7fbf6c8d40541721ed3de05df1b99fe87c5522ae6"
        );
    }
}
