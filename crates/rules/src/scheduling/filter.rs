//! Which clusters may take the placement, and how well each would suit it.
//!
//! A cluster meets the filters in a fixed order and stops at the first that rejects
//! it; only that reason is kept. Clusters that have the placement already are neither
//! candidates nor rejected.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::affinity::Affinity;
use super::classify::Classes;
use super::decision::Score;
use super::eligibility::ineligible;
use super::namespaces;
use super::observed::{Cluster, Observed};
use super::spread::Spread;
use super::taints;

/// A fleet after the filters.
#[derive(Debug, Default)]
pub struct Sieved<'a> {
    /// Clusters that passed, by name.
    pub passed: Vec<&'a Cluster>,
    /// Clusters that did not, by name, with the reason.
    pub filtered: Vec<(&'a Cluster, Cow<'static, str>)>,
}

/// The filters and scores of one pass.
pub struct Sieve<'a> {
    seen: &'a Observed,
    affinity: Affinity<'a>,
    spread: Spread<'a>,
    present: BTreeSet<&'a str>,
    obsolete: BTreeSet<&'a str>,
}

/// A cluster that passed, with its score. Greater is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate<'a> {
    /// What people see.
    pub score: Score,
    /// Whether an earlier policy had chosen it; breaks ties, never shown.
    pub was_chosen: bool,
    /// Its place among the clusters by name: the last tie-break, without a look at names.
    place: usize,
    /// The cluster.
    pub name: &'a str,
}

impl<'a> Sieve<'a> {
    /// Prepares the filters. An error is a mistake in the policy.
    pub fn new(seen: &'a Observed, classes: &Classes<'a>) -> Result<Self, String> {
        let policy = seen.snapshot.policy.as_ref();
        let present: BTreeSet<&str> =
            classes.present_bindings().map(|b| b.cluster.as_str()).collect();
        let obsolete = classes.obsolete.iter().map(|b| b.cluster.as_str()).collect();
        let affinity = Affinity::of(policy, &seen.clusters)?;
        let mut sieve = Self { seen, affinity, spread: Spread::default(), present, obsolete };
        let constraints = policy.map_or(&[][..], |p| &p.topology_spread_constraints);
        if !constraints.is_empty() {
            sieve.spread = sieve.spread_over(constraints)?;
        }
        Ok(sieve)
    }

    fn spread_over(
        &self,
        constraints: &'a [flagship_api::policy::TopologySpreadConstraint],
    ) -> Result<Spread<'a>, String> {
        let placed = |name: &str| self.present.contains(name);
        if !self.seen.options.spread_over_feasible_clusters {
            return Ok(Spread::over(
                constraints,
                self.seen.clusters.iter().map(Arc::as_ref),
                placed,
            ));
        }
        let mut feasible = Vec::new();
        for cluster in &self.seen.clusters {
            if placed(&cluster.name) || self.rejected_before_spread(cluster)?.is_none() {
                feasible.push(&**cluster);
            }
        }
        Ok(Spread::over(constraints, feasible.into_iter(), placed))
    }

    /// Whether picks must be made one at a time.
    pub fn spreads(&self) -> bool {
        !self.spread.is_empty()
    }

    /// Runs every cluster through the filters.
    pub fn run(&self) -> Result<Sieved<'a>, String> {
        let mut sieved = Sieved::default();
        for cluster in &self.seen.clusters {
            if let Some(why) = self.rejected_before_spread(cluster)? {
                sieved.filtered.push((cluster, why));
            } else if self.present.contains(cluster.name.as_str()) {
                // Already there: not a candidate, and nothing to explain.
            } else if let Some(why) = self.spread.violated(cluster) {
                sieved.filtered.push((cluster, why.into()));
            } else {
                sieved.passed.push(cluster);
            }
        }
        Ok(sieved)
    }

    fn rejected_before_spread(
        &self,
        cluster: &Cluster,
    ) -> Result<Option<Cow<'static, str>>, String> {
        if let Some(why) = self.affinity.rejected(cluster)? {
            return Ok(Some(why));
        }
        if let Some(why) = ineligible(cluster, self.seen.now) {
            return Ok(Some(why.into()));
        }
        if let Some(why) = namespaces::missing(cluster, self.seen.namespace.as_deref()) {
            return Ok(Some(why.into()));
        }
        let tolerations = self.seen.snapshot.policy.as_ref().map_or(&[][..], |p| &p.tolerations);
        Ok(taints::untolerated(cluster, tolerations).map(Cow::Owned))
    }

    /// Scores clusters that passed, best first.
    pub fn rank(&self, passed: &[&'a Cluster]) -> Result<Vec<Candidate<'a>>, String> {
        let mut ranked = Vec::with_capacity(passed.len());
        for (place, cluster) in passed.iter().enumerate() {
            let score = Score {
                spread: self.spread.score(cluster),
                affinity: self.affinity.score(cluster)?,
            };
            let name = cluster.name.as_str();
            let was_chosen = self.obsolete.contains(name);
            ranked.push(Candidate { score, was_chosen, place, name });
        }
        // Descending all the way: on a full tie the greatest name is picked first.
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ranked)
    }
}

/// Bindings by the cluster they are for.
pub fn by_cluster<'a>(
    bindings: &[&'a super::observed::Binding],
) -> BTreeMap<&'a str, &'a super::observed::Binding> {
    bindings.iter().map(|b| (b.cluster.as_str(), *b)).collect()
}
