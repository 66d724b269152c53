//! Which clusters may take the placement, and how well each would suit it.
//!
//! A cluster meets the filters in a fixed order and stops at the first that rejects
//! it; only that reason is kept. Clusters that have the placement already are neither
//! candidates nor rejected.
//!
//! Each cluster is looked at once, and what was seen goes into a row. A fleet does not fit
//! a processor's cache, its rows do; ranges, counts and scores are worked out on them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::Remark;
use super::affinity::{Affinity, Ranges, Wish};
use super::classify::Classes;
use super::decision::Score;
use super::eligibility::ineligible;
use super::namespaces;
use super::observed::Observed;
use super::spread::{Domain, Spread};
use super::taints;
use crate::model::{Binding, Cluster};

/// A fleet after the filters.
#[derive(Debug, Default)]
pub struct Filtered<'a> {
    /// Places of clusters that passed, by name.
    pub passed: Vec<usize>,
    /// Clusters that did not, by name, with the reason.
    pub rejected: Vec<(&'a Cluster, Cow<'static, str>)>,
}

/// The filters and scores of one pass.
pub struct Filters<'a> {
    seen: &'a Observed,
    affinity: Affinity<'a>,
    ranges: Ranges,
    spread: Spread<'a>,
    /// One for each cluster, in the order of the fleet.
    rows: Vec<Row>,
    /// So many for each row as there are preferred terms.
    wishes: Vec<Wish>,
    /// So many for each row as there are spread constraints.
    domains: Vec<Domain>,
    /// What clusters report and nobody can read.
    remarks: Vec<Remark>,
}

/// What was seen of one cluster.
#[derive(Debug)]
struct Row {
    /// Why a filter before the spread rejects it.
    rejected: Option<Cow<'static, str>>,
    /// Whether it has the placement.
    present: bool,
    /// Whether an earlier policy had chosen it.
    was_chosen: bool,
}

/// A cluster that passed, with its score. Greater is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// What people see.
    pub score: Score,
    /// Whether an earlier policy had chosen it; breaks ties, never shown.
    pub was_chosen: bool,
    /// Its place in the fleet, which is ordered by name: the last tie-break.
    pub place: usize,
}

impl<'a> Filters<'a> {
    /// Looks at every cluster. An error is a mistake in the policy.
    pub fn new(seen: &'a Observed, classes: &Classes<'a>) -> Result<Self, String> {
        let policy = seen.snapshot.policy.as_ref();
        let constraints = policy.map_or(&[][..], |p| &p.topology_spread_constraints);
        let mut filters = Self {
            seen,
            affinity: Affinity::of(policy)?,
            ranges: Ranges::default(),
            spread: Spread::of(constraints),
            rows: Vec::with_capacity(seen.clusters.len()),
            wishes: Vec::new(),
            domains: Vec::new(),
            remarks: Vec::new(),
        };
        filters.look(classes)?;
        filters.ranges = filters.affinity.ranges(&filters.wishes);
        let feasible_only = seen.options.spread_over_feasible_clusters;
        for (place, row) in filters.rows.iter().enumerate() {
            if !feasible_only || row.present || row.rejected.is_none() {
                filters.spread.count(part(&filters.domains, place, constraints.len()), row.present);
            }
        }
        filters.spread.counted();
        Ok(filters)
    }

    /// The one look at the fleet.
    fn look(&mut self, classes: &Classes<'a>) -> Result<(), String> {
        let present: BTreeSet<&str> = classes.present_bindings().map(|b| b.cluster()).collect();
        let obsolete: BTreeSet<&str> = classes.obsolete.iter().map(|b| b.cluster()).collect();
        let mut malformed = Vec::new();
        for cluster in &self.seen.clusters {
            let rejected = self.rejected_before_spread(cluster, &mut malformed)?;
            self.affinity.wishes(cluster, &mut self.wishes, &mut malformed);
            self.spread.domains(cluster, &mut self.domains);
            let name = cluster.name.as_str();
            self.remarks.extend(
                malformed
                    .drain(..)
                    .map(|why| Remark::BadProperty { cluster: name.to_owned(), why }),
            );
            let (present, was_chosen) = (present.contains(name), obsolete.contains(name));
            self.rows.push(Row { rejected, present, was_chosen });
        }
        Ok(())
    }

    /// Whether picks must be made one at a time.
    pub fn spreads(&self) -> bool {
        self.spread.len() > 0
    }

    /// The name of a candidate.
    pub fn name(&self, place: usize) -> &'a str {
        self.seen.clusters.get(place).map_or("", |cluster| &cluster.name)
    }

    /// What a person should hear of the fleet.
    pub fn remarks(&mut self) -> Vec<Remark> {
        std::mem::take(&mut self.remarks)
    }

    /// Takes out what the filters reject.
    pub fn run(&mut self) -> Filtered<'a> {
        let mut filtered = Filtered::default();
        for (place, row) in self.rows.iter_mut().enumerate() {
            let domains = part(&self.domains, place, self.spread.len());
            if let Some(why) = row.rejected.take() {
                filtered.rejected.push((&self.seen.clusters[place], why));
            } else if row.present {
                // Already there: not a candidate, and nothing to explain.
            } else if let Some(why) = self.spread.violated(domains) {
                filtered.rejected.push((&self.seen.clusters[place], why.into()));
            } else {
                filtered.passed.push(place);
            }
        }
        filtered
    }

    fn rejected_before_spread(
        &self,
        cluster: &Cluster,
        malformed: &mut Vec<String>,
    ) -> Result<Option<Cow<'static, str>>, String> {
        if let Some(why) = self.affinity.rejected(cluster, malformed)? {
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
    pub fn rank(&self, passed: &[usize]) -> Result<Vec<Candidate>, String> {
        let mut ranked = Vec::with_capacity(passed.len());
        for place in passed.iter().copied() {
            let wishes = part(&self.wishes, place, self.affinity.preferences());
            let score = Score {
                spread: self.spread.score(part(&self.domains, place, self.spread.len())),
                affinity: self.affinity.score(wishes, &self.ranges)?,
            };
            let was_chosen = self.rows.get(place).is_some_and(|row| row.was_chosen);
            ranked.push(Candidate { score, was_chosen, place });
        }
        // Descending all the way: on a full tie the greatest name is picked first.
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ranked)
    }
}

/// The part of a flat table that belongs to one row.
fn part<T>(table: &[T], place: usize, width: usize) -> &[T] {
    table.get(place * width..(place + 1) * width).unwrap_or_default()
}

/// Bindings by the cluster they are for.
pub fn by_cluster<'a>(bindings: &[&'a Binding]) -> BTreeMap<&'a str, &'a Binding> {
    bindings.iter().map(|b| (b.cluster(), *b)).collect()
}
