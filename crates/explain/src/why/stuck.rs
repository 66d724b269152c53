//! All clusters that hold a run up, and what holds each: a run of hundreds is explained by
//! counting causes, not by the first cluster of the list.

use std::collections::BTreeMap;

use flagship_api::condition_type::work;
use flagship_api::names::ObjectKey;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::staged_update_status::ClusterUpdatingStatus;
use flagship_rules::update_run::lifecycle::in_flight;

use super::facts::{BindingFacts, Facts, RunFacts, Subject};
use super::finding::{Finding, Stuck};
use super::{Cause, cluster};
use crate::order::natural;

/// Members that are worth a look at most: more would not change the answer, and each takes
/// its time.
const LOOKS: usize = 3;

/// Clusters of the run that are being updated and do not get on, each with what holds it.
pub fn causes(facts: &Facts) -> BTreeMap<String, Cause> {
    let Some(run) = &facts.run else { return BTreeMap::new() };
    let held = in_flight_clusters(run).filter_map(|entry| {
        let found = cluster::of_run(facts, &entry.cluster_name)?;
        (!is_coming_up(found.cause)).then(|| (entry.cluster_name.clone(), found.cause))
    });
    held.collect()
}

/// What may pass by itself: pods take a while.
pub fn is_coming_up(cause: Cause) -> bool {
    matches!(cause, Cause::PodNotReady | Cause::ObjectNotReady | Cause::InProgress)
}

/// Clusters under way, in the order of the stages.
pub fn in_flight_clusters(run: &RunFacts) -> impl Iterator<Item = &ClusterUpdatingStatus> {
    run.status
        .stages_status
        .iter()
        .flat_map(|stage| &stage.clusters)
        .filter(|cluster| in_flight(cluster))
}

/// Findings of clusters by cause, the most frequent first; among equals the one that came
/// first stays first.
pub fn grouped(findings: &[(&str, Finding)]) -> Vec<Stuck> {
    let mut groups: Vec<Stuck> = Vec::new();
    for (cluster, finding) in findings {
        let name = (*cluster).to_owned();
        match groups.iter_mut().find(|group| group.cause == finding.cause) {
            Some(group) => group.clusters.push(name),
            None => groups.push(Stuck { cause: finding.cause, clusters: vec![name] }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.clusters.len()));
    for group in &mut groups {
        group.clusters.sort_by(|a, b| natural(a, b));
    }
    groups
}

/// `148 IMAGE_NOT_FOUND, 2 HEARTBEAT_STALE`.
pub fn counted(groups: &[Stuck]) -> String {
    let parts: Vec<String> =
        groups.iter().map(|group| format!("{} {}", group.clusters.len(), group.cause)).collect();
    parts.join(", ")
}

/// Objects on members that would make the answer deeper than the hub alone can: of few
/// clusters, those that the answer is about first.
pub fn worth_a_look(facts: &Facts) -> Vec<(String, ResourceIdentifier)> {
    let troubled = |bound: &&BindingFacts| {
        let first = bound.status.failed_placements.first();
        first.is_some_and(|failed| failed.condition.type_ == work::AVAILABLE)
    };
    let order: Vec<String> = match (&facts.subject, &facts.run) {
        (Subject::Run(_) | Subject::Placement(_), Some(run)) => {
            let found = in_flight_clusters(run).filter_map(|entry| {
                let found = cluster::of_run(facts, &entry.cluster_name)?;
                Some((entry.cluster_name.as_str(), found))
            });
            let found: Vec<(&str, Finding)> = found.collect();
            // One of the most frequent cause is what is explained.
            grouped(&found).into_iter().flat_map(|group| group.clusters).collect()
        }
        _ => facts.bindings.iter().map(|bound| bound.spec.target_cluster.clone()).collect(),
    };
    let mut looks: Vec<(String, ResourceIdentifier)> = Vec::new();
    for name in order {
        let of_cluster = |bound: &&BindingFacts| bound.spec.target_cluster == name;
        let Some(bound) = facts.bindings.iter().filter(of_cluster).find(troubled) else { continue };
        let known = looks.iter().any(|(cluster, _)| *cluster == name);
        if let (false, Some(failed)) = (known, bound.status.failed_placements.first()) {
            looks.push((name, failed.resource.clone()));
        }
        if looks.len() == LOOKS {
            break;
        }
    }
    looks
}

/// The placement of a binding, as a key.
pub fn placement_of(bound: &BindingFacts) -> ObjectKey {
    ObjectKey::new(bound.key.namespace.as_deref(), &bound.placement)
}
