//! Clusters of a placement that no stage of a strategy takes, counted by what they lack.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flagship_api::binding::BindingState;
use flagship_api::selector;
use flagship_api::staged_update::UpdateStrategySpec;
use flagship_rules::model::{Binding, Cluster};
use serde::Serialize;

use crate::order::natural;

/// Clusters in no stage that lack the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unstaged {
    /// `no label environment`, `environment=dev`.
    pub because: String,
    /// The clusters, in natural order.
    pub clusters: Vec<String>,
}

/// Chosen clusters that no stage takes, those that lack the same together, most first.
pub fn unstaged(
    strategy: &UpdateStrategySpec,
    bindings: &[Arc<Binding>],
    clusters: &[Arc<Cluster>],
) -> Vec<Unstaged> {
    let leaves = |binding: &&Arc<Binding>| binding.spec.state == BindingState::Unscheduled;
    let chosen: BTreeSet<&str> = bindings
        .iter()
        .filter(|binding| !leaves(binding))
        .map(|binding| binding.cluster())
        .collect();
    let selectors = strategy.stages.iter().map(|stage| stage.label_selector.as_ref());
    // What cannot be read takes nobody; that it cannot be read is said elsewhere.
    let read: Vec<_> = selectors.clone().filter_map(|given| selector::read(given).ok()).collect();
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for given in selectors.flatten() {
        let labels = given.match_labels.iter().flatten().map(|(key, _)| key.as_str());
        let expressions = given.match_expressions.iter().flatten();
        keys.extend(labels.chain(expressions.map(|expression| expression.key.as_str())));
    }
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cluster in clusters.iter().filter(|cluster| chosen.contains(cluster.name.as_str())) {
        let label = |key: &str| cluster.labels.get(key);
        if !read.iter().any(|selector| selector.matches_what(label)) {
            groups.entry(because(&keys, label)).or_default().push(cluster.name.clone());
        }
    }
    let mut found: Vec<Unstaged> = groups
        .into_iter()
        .map(|(because, mut clusters)| {
            clusters.sort_by(|a, b| natural(a, b));
            Unstaged { because, clusters }
        })
        .collect();
    found.sort_by_key(|group| std::cmp::Reverse(group.clusters.len()));
    found
}

/// What keeps a cluster out of every stage.
fn because<'a>(keys: &BTreeSet<&str>, label: impl Fn(&str) -> Option<&'a str>) -> String {
    let absent: Vec<&str> = keys.iter().copied().filter(|key| label(key).is_none()).collect();
    if !absent.is_empty() {
        return format!("no label {}", absent.join(", "));
    }
    let has = keys.iter().map(|key| format!("{key}={}", label(key).unwrap_or_default()));
    match has.collect::<Vec<_>>().join(", ").as_str() {
        "" => "no stage selects by a label".to_owned(),
        has => has.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use flagship_api::binding::ResourceBindingSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, labels: &[(&str, &str)]) -> Arc<Cluster> {
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        Arc::new(Cluster { name: name.into(), labels: labels.into(), ..Cluster::default() })
    }

    fn binding(cluster: &str, state: &str) -> Arc<Binding> {
        let spec: ResourceBindingSpec = serde_json::from_value(json!({"state": state,
            "targetCluster": cluster, "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": "p",
            "clusterDecision": {"clusterName": cluster, "selected": true, "reason": ""}}))
        .unwrap();
        Arc::new(Binding::read(ObjectMeta::default(), spec, None))
    }

    #[test]
    fn all_of_them_are_counted_by_the_label_they_lack() {
        let strategy: UpdateStrategySpec = serde_json::from_value(json!({"stages": [
            {"name": "a", "labelSelector": {"matchLabels": {"environment": "canary"}}},
            {"name": "b", "labelSelector": {"matchExpressions": [
                {"key": "environment", "operator": "In", "values": ["prod"]}]}}]}))
        .unwrap();
        let mut clusters = vec![
            cluster("fine", &[("environment", "prod")]),
            cluster("dev1", &[("environment", "dev")]),
            cluster("leaves", &[]),
            cluster("elsewhere", &[]),
        ];
        clusters.extend((1..=12).map(|number| cluster(&format!("m{number}"), &[("a", "b")])));
        let mut bindings = vec![
            binding("fine", "Bound"),
            binding("dev1", "Scheduled"),
            binding("leaves", "Unscheduled"),
        ];
        bindings.extend((1..=12).map(|number| binding(&format!("m{number}"), "Bound")));
        let found = unstaged(&strategy, &bindings, &clusters);
        let told: Vec<(&str, usize)> =
            found.iter().map(|group| (group.because.as_str(), group.clusters.len())).collect();
        assert_eq!(told, [("no label environment", 12), ("environment=dev", 1)]);
        assert_eq!(found[0].clusters[..3], ["m1", "m2", "m3"]);
    }
}
