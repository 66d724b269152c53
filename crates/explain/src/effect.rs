//! What a run would change on the clusters: objects and fields, how many clusters in which
//! regions, pods that restart; and a hash of the plan, by which exactly that plan is started.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_api::staged_update::UpdateStrategySpec;
use flagship_rules::model::{Binding, Cluster};
use flagship_rules::update_run::plan_hash::Hashed;
pub use flagship_rules::update_run::plan_hash::PlanHash;
use serde::Serialize;
use serde_json::Value;

use crate::board::Stage;
use crate::changes::{ObjectChange, between};
use crate::overridden::{OverrideEffect, Overriding, hashed, overriding};
use crate::served_kinds::{KindMissing, missing_kinds};
use crate::unstaged::{Unstaged, unstaged};

/// Labels that say where a cluster is, the first one that it has counts.
const REGION: [&str; 2] = ["topology.kubernetes.io/region", "region"];

/// What is on clusters and what a run would bring.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// The version that most clusters have; nothing if none has one.
    pub from: Option<String>,
    /// Its objects; nothing if they cannot be read.
    pub old: Option<Vec<Value>>,
    /// The objects that a run would bring; nothing if they cannot be read.
    pub new: Option<Vec<Value>>,
    /// The hash that a snapshot of them has; nothing if they cannot be read.
    pub hash: Option<String>,
    /// Overrides of both scopes, with what they say.
    pub overrides: BTreeMap<String, Value>,
    /// Whether there may be others that cannot be read.
    pub overrides_unread: bool,
    /// Bindings of other placements, where a kind is brought that not every cluster serves.
    pub others: Vec<Arc<Binding>>,
}

/// What a run is about, as far as its effect needs it.
pub struct Planned<'a> {
    /// The placement.
    pub placement: &'a ObjectKey,
    /// The stages, with their clusters.
    pub stages: &'a [Stage],
    /// How many of them bring something; the one after them takes it away.
    pub bringing: usize,
    /// The strategy.
    pub strategy: Option<&'a UpdateStrategySpec>,
    /// What policies say.
    pub policies: &'a [String],
    /// The placement's bindings.
    pub bindings: &'a [Arc<Binding>],
    /// The members.
    pub clusters: &'a [Arc<Cluster>],
}

/// What a run would change.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// How many clusters have which version now; `none` are those without one.
    pub versions: BTreeMap<String, usize>,
    /// The version that changes are told against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What differs; nothing if either side cannot be read.
    pub changes: Option<Vec<ObjectChange>>,
    /// Clusters by region, if any says where it is.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub regions: BTreeMap<String, usize>,
    /// Pods that are replaced on all clusters together, as many as overrides leave.
    pub pods: i64,
    /// What overrides make of the objects, on which clusters.
    pub overrides: Vec<OverrideEffect>,
    /// Whether there may be overrides that could not be read.
    pub overrides_unread: bool,
    /// Kinds that clusters do not serve, or may not.
    pub missing_kinds: Vec<KindMissing>,
    /// Chosen clusters that no stage takes.
    pub unstaged: Vec<Unstaged>,
    /// The hash of the plan.
    pub hash: PlanHash,
}

/// The version that a cluster's binding asks for: the number in the name of its snapshot.
pub fn version_of(snapshot: &str) -> Option<&str> {
    let number = snapshot.strip_suffix("-snapshot")?.rsplit('-').next()?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

/// How many clusters have which version.
pub fn versions(bindings: &[Arc<Binding>]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for binding in bindings {
        let version = version_of(&binding.spec.resource_snapshot_name).unwrap_or("none");
        *counts.entry(version.to_owned()).or_default() += 1;
    }
    counts
}

/// The version that most clusters have; of several the newest.
pub fn usual(versions: &BTreeMap<String, usize>) -> Option<&str> {
    let known = versions.iter().filter(|(version, _)| *version != "none");
    let number = |version: &str| version.parse::<u64>().unwrap_or_default();
    let most = known.max_by_key(|(version, count)| (**count, number(version)))?;
    Some(most.0)
}

impl Effect {
    /// Of a run through these stages.
    pub fn of(content: &Content, planned: &Planned<'_>) -> Self {
        let Planned { placement, stages, bringing, strategy, policies, bindings, clusters } =
            planned;
        let read = content.old.as_ref().zip(content.new.as_ref());
        let changes = read.map(|(old, new)| between(old, new));
        let names: Vec<(&str, Vec<&str>)> = stages
            .iter()
            .map(|stage| {
                let cells = stage.cells.iter().map(|cell| cell.cluster.as_str());
                (stage.name.as_str(), cells.collect())
            })
            .collect();
        let brought = names.iter().take(*bringing);
        let taken: BTreeSet<&str> =
            brought.flat_map(|(_, clusters)| clusters.iter().copied()).collect();
        let restarting = changes.iter().flatten().filter(|change| change.restarts);
        let each: i64 = restarting.clone().filter_map(|change| change.pods).sum();
        let each = each.saturating_mul(i64::try_from(taken.len()).unwrap_or(i64::MAX));
        let new = content.new.as_deref().unwrap_or_default();
        let of_run: Vec<&Cluster> = clusters
            .iter()
            .filter(|cluster| taken.contains(cluster.name.as_str()))
            .map(|cluster| &**cluster)
            .collect();
        let restarting = restarting.map(ObjectChange::named).collect();
        let Overriding { effects, pods } =
            overriding(placement, &content.overrides, new, &restarting, &of_run);
        let hash = PlanHash::of(&Hashed {
            content: content.hash.as_deref(),
            stages: names.clone(),
            strategy: *strategy,
            policies,
            overrides: hashed(&content.overrides, placement.namespace.as_deref()),
        });
        Self {
            versions: versions(bindings),
            from: content.from.clone(),
            regions: regions(&names, clusters),
            pods: each.saturating_add(pods),
            changes,
            overrides: effects,
            overrides_unread: content.overrides_unread,
            missing_kinds: missing_kinds(
                new,
                content.from.as_deref(),
                content.old.as_deref(),
                bindings,
                &content.others,
                &taken,
            ),
            unstaged: strategy
                .map(|strategy| unstaged(strategy, bindings, clusters))
                .unwrap_or_default(),
            hash,
        }
    }
}

fn regions(stages: &[(&str, Vec<&str>)], clusters: &[Arc<Cluster>]) -> BTreeMap<String, usize> {
    let by_name: BTreeMap<&str, &Arc<Cluster>> =
        clusters.iter().map(|cluster| (cluster.name.as_str(), cluster)).collect();
    let mut regions = BTreeMap::new();
    let mut said = false;
    for name in stages.iter().flat_map(|(_, names)| names) {
        let labels = by_name.get(name).map(|cluster| &cluster.labels);
        let region = labels.and_then(|labels| REGION.iter().find_map(|key| labels.get(key)));
        said |= region.is_some();
        *regions.entry(region.unwrap_or("unknown").to_owned()).or_default() += 1;
    }
    if said { regions } else { BTreeMap::new() }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_version_is_read_from_the_name_of_the_snapshot() {
        assert_eq!(version_of("demo-12-snapshot"), Some("12"));
        assert_eq!(version_of("a-b-0-snapshot"), Some("0"));
        for other in ["", "demo", "demo-snapshot", "demo-x-snapshot"] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }

    #[test]
    fn changes_are_told_against_what_most_clusters_have() {
        let counts = |of: &[(&str, usize)]| -> BTreeMap<String, usize> {
            of.iter().map(|(version, count)| ((*version).to_owned(), *count)).collect()
        };
        assert_eq!(usual(&counts(&[("9", 2), ("10", 2), ("none", 7)])), Some("10"));
        assert_eq!(usual(&counts(&[("1", 3), ("2", 1)])), Some("1"));
        assert_eq!(usual(&counts(&[("none", 7)])), None);
    }
}
