//! Which clusters of a run another run has taken since, and to which version.
//!
//! KubeFleet's API lets an old run that waited go on after a newer one has passed it, and
//! take clusters back to the older version. Nothing here forbids that; whoever lets the old
//! run go on is told first.

use std::collections::BTreeMap;

use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::Timestamp;

use super::lifecycle::started_at;
use super::observed::OtherRun;

/// A cluster of a run that follows another run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The cluster.
    pub cluster: String,
    /// The run that promised it last.
    pub by: String,
    /// Whether that run is newer than the one it took the cluster from.
    pub newer: bool,
    /// The version that run brings.
    pub version: String,
    /// When it promised the cluster.
    pub at: Timestamp,
}

/// Clusters of a run that others have taken to another version since the run updated them,
/// or, where it has not come to them yet, that a newer run has.
pub fn taken(status: &UpdateRunStatus, created: Timestamp, others: &[OtherRun]) -> Vec<Taken> {
    let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let last = clusters.filter_map(|cluster| {
        let name = &cluster.cluster_name;
        let ours = started_at(cluster);
        let promises = others.iter().filter_map(|other| Some((*other.started.get(name)?, other)));
        let later = promises.filter(|(at, other)| match ours {
            Some(ours) => *at > ours,
            None => other.created > created,
        });
        let (at, other) = later.max_by_key(|(at, _)| *at)?;
        let (by, version) = (other.name.clone(), other.version.clone());
        let newer = other.created > created;
        Some(Taken { cluster: name.clone(), by, newer, version, at })
    });
    last.filter(|taken| taken.version != status.resource_snapshot_index_used).collect()
}

/// Several taken clusters in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superseded {
    /// The run that has most of them.
    pub by: String,
    /// Whether that run is the newer one.
    pub newer: bool,
    /// The version it brings.
    pub version: String,
    /// When it promised the last of them.
    pub at: Timestamp,
    /// How many clusters were taken, by whomever.
    pub clusters: usize,
    /// How many clusters the run has.
    pub of: usize,
}

/// Who has passed the run, if somebody has.
pub fn superseded(status: &UpdateRunStatus, taken: &[Taken]) -> Option<Superseded> {
    let mut by: BTreeMap<&str, usize> = BTreeMap::new();
    for taken in taken {
        *by.entry(&taken.by).or_default() += 1;
    }
    let (most, _) = by.into_iter().max_by_key(|(_, clusters)| *clusters)?;
    let last = taken.iter().filter(|taken| taken.by == most).max_by_key(|taken| taken.at)?;
    Some(Superseded {
        by: last.by.clone(),
        newer: last.newer,
        version: last.version.clone(),
        at: last.at,
        clusters: taken.len(),
        of: status.stages_status.iter().map(|stage| stage.clusters.len()).sum(),
    })
}

impl Superseded {
    /// `demo-2, a newer run, has taken 2 of its 3 cluster(s) to snapshot 1`.
    pub fn told(&self) -> String {
        let Self { by, newer, version, clusters, of, .. } = self;
        let which = if *newer { "a newer" } else { "an older" };
        format!(
            "{by}, {which} run, has taken {clusters} of its {of} cluster(s) to snapshot {version}"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::update_run::Run;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_268_800 + second).unwrap()
    }

    /// A run that was created at a second, brings a version, and promised clusters at others.
    fn run(name: &str, created: i64, version: &str, promises: &[(&str, Option<i64>)]) -> Run {
        let clusters: Vec<_> = promises
            .iter()
            .map(|(cluster, promised)| {
                let started = promised.map(|second| {
                    json!({"type": "Started", "status": "True", "reason": "R", "message": "",
                        "lastTransitionTime": at(second).to_string()})
                });
                json!({"clusterName": cluster, "conditions": started.into_iter().collect::<Vec<_>>()})
            })
            .collect();
        let status = json!({"resourceSnapshotIndexUsed": version,
            "stagesStatus": [{"stageName": "all", "clusters": clusters}]});
        let metadata = json!({"name": name, "uid": name, "generation": 1,
            "creationTimestamp": at(created).to_string()});
        let spec = json!({"placementName": "web", "stagedRolloutStrategyName": "all"});
        let metadata = serde_json::from_value(metadata).unwrap();
        let spec = serde_json::from_value(spec).unwrap();
        Run::read(&metadata, &spec, &serde_json::from_value(status).unwrap())
    }

    fn told(run: &Run, others: &[Run]) -> Vec<String> {
        let others: Vec<OtherRun> = others.iter().map(OtherRun::of).collect();
        let taken = taken(&run.status, run.created, &others);
        taken
            .iter()
            .map(|one| format!("{} by {} to {}", one.cluster, one.by, one.version))
            .collect()
    }

    #[test]
    fn clusters_that_a_later_run_has_promised_are_taken_from_one_that_waits() {
        let old = run("a", 0, "0", &[("c1", Some(10)), ("c2", None), ("c3", None)]);
        let new = run("b", 20, "1", &[("c1", Some(30)), ("c2", Some(31)), ("c3", None)]);
        assert_eq!(told(&old, std::slice::from_ref(&new)), ["c1 by b to 1", "c2 by b to 1"]);
        assert_eq!(told(&new, &[old]), Vec::<String>::new());
    }

    #[test]
    fn an_older_run_that_goes_on_takes_clusters_back() {
        let old = run("a", 0, "0", &[("c1", Some(10)), ("c2", Some(50))]);
        let new = run("b", 20, "1", &[("c1", Some(30)), ("c2", Some(31))]);
        assert_eq!(told(&new, std::slice::from_ref(&old)), ["c2 by a to 0"]);
        assert_eq!(told(&old, &[new]), ["c1 by b to 1"]);
        // One that has not come to a cluster yet has lost nothing to an older run.
        let held = run("c", 40, "2", &[("c2", None)]);
        assert_eq!(told(&held, &[old]), Vec::<String>::new());
    }

    #[test]
    fn the_same_version_is_no_loss() {
        let old = run("a", 0, "1", &[("c1", Some(10))]);
        let new = run("b", 20, "1", &[("c1", Some(30))]);
        assert_eq!(told(&old, &[new]), Vec::<String>::new());
    }
}
