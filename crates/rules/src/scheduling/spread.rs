//! Topology spread: how evenly a placement lies over the domains of a label.
//!
//! Everything is judged against the state at the start of a pass, so a pass under
//! spread constraints picks one cluster and comes back for the next.

use std::collections::BTreeMap;

use flagship_api::policy::{TopologySpreadConstraint, UnsatisfiableConstraintAction};

use crate::model::Cluster;

/// What a violated `ScheduleAnyway` constraint costs.
const PENALTY: i32 = 1000;

/// The constraints of a policy over a fleet.
#[derive(Debug, Default)]
pub struct Spread<'a> {
    constraints: Vec<Constraint<'a>>,
}

/// Which domain of a constraint a cluster is in; `None` outside of the spread.
pub type Domain = Option<usize>;

#[derive(Debug)]
struct Constraint<'a> {
    key: &'a str,
    max_skew: i64,
    strict: bool,
    /// Values of the label, in the order they were met.
    domains: BTreeMap<&'a str, usize>,
    /// How often each domain has the placement; `None` for one that does not count.
    counts: Vec<Option<i64>>,
    smallest: i64,
    second: i64,
    largest: i64,
}

/// What one more cluster in a domain would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Effect {
    violates: bool,
    change: i32,
}

impl<'a> Spread<'a> {
    /// Reads the constraints; no cluster is counted yet.
    pub fn of(constraints: &'a [TopologySpreadConstraint]) -> Self {
        Self { constraints: constraints.iter().map(Constraint::of).collect() }
    }

    /// How many constraints there are.
    pub fn len(&self) -> usize {
        self.constraints.len()
    }

    /// The domains of a cluster, one for each constraint.
    pub fn domains(&mut self, cluster: &'a Cluster, into: &mut Vec<Domain>) {
        into.extend(self.constraints.iter_mut().map(|constraint| constraint.domain(cluster)));
    }

    /// Counts a cluster in these domains; `placed` if it has the placement now.
    pub fn count(&mut self, domains: &[Domain], placed: bool) {
        for (constraint, domain) in self.constraints.iter_mut().zip(domains) {
            if let Some(count) = domain.and_then(|domain| constraint.counts.get_mut(domain)) {
                *count = Some(count.unwrap_or(0) + i64::from(placed));
            }
        }
    }

    /// All clusters are counted.
    pub fn counted(&mut self) {
        self.constraints.iter_mut().for_each(Constraint::counted);
    }

    /// The words for the first strict constraint that a cluster in these domains would
    /// violate.
    pub fn violated(&self, domains: &[Domain]) -> Option<String> {
        let mut strict = self.constraints.iter().zip(domains).filter(|(c, _)| c.strict);
        strict.find_map(|(c, domain)| {
            c.effect(*domain)?.violates.then(|| {
                format!(
                    "violated doNotSchedule topology spread constraint \"{}\" (max skew {})",
                    c.key, c.max_skew
                )
            })
        })
    }

    /// How much a cluster in these domains would even things out.
    pub fn score(&self, domains: &[Domain]) -> i32 {
        let worth = |(c, domain): (&Constraint<'_>, &Domain)| match c.effect(*domain) {
            None => 0,
            Some(effect) if effect.violates && !c.strict => -PENALTY,
            Some(effect) => -effect.change,
        };
        self.constraints.iter().zip(domains).map(worth).sum()
    }
}

impl<'a> Constraint<'a> {
    fn of(wanted: &'a TopologySpreadConstraint) -> Self {
        Self {
            key: &wanted.topology_key,
            max_skew: i64::from(wanted.max_skew.unwrap_or(1)),
            strict: wanted.when_unsatisfiable.unwrap_or_default()
                == UnsatisfiableConstraintAction::DoNotSchedule,
            domains: BTreeMap::new(),
            counts: Vec::new(),
            smallest: 0,
            second: 0,
            largest: 0,
        }
    }

    fn domain(&mut self, cluster: &'a Cluster) -> Domain {
        let value = cluster.labels.get(self.key)?;
        let next = self.counts.len();
        let domain = *self.domains.entry(value).or_insert(next);
        if domain == next {
            self.counts.push(None);
        }
        Some(domain)
    }

    fn counted(&mut self) {
        let mut sorted: Vec<i64> = self.counts.iter().copied().flatten().collect();
        sorted.sort_unstable();
        self.smallest = sorted.first().copied().unwrap_or(0);
        self.second = sorted.get(1).copied().unwrap_or(self.smallest);
        self.largest = sorted.last().copied().unwrap_or(0);
    }

    /// `None` for a cluster without the label: it is outside the spread.
    fn effect(&self, domain: Domain) -> Option<Effect> {
        let count = (*self.counts.get(domain?)?)?;
        let skew = self.largest - self.smallest;
        let (after, change) = if self.largest == self.smallest {
            (skew + 1, 1)
        } else if count == self.smallest && self.smallest != self.second {
            (skew - 1, -1)
        } else if count == self.largest {
            (skew + 1, 1)
        } else {
            (skew, 0)
        };
        Some(Effect { violates: after > self.max_skew, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect_of(counts: &[i64], count: i64, max_skew: i32) -> Effect {
        let wanted = TopologySpreadConstraint {
            max_skew: Some(max_skew),
            topology_key: "region".into(),
            when_unsatisfiable: None,
        };
        let mut constraint = Constraint::of(&wanted);
        constraint.counts = counts.iter().copied().map(Some).collect();
        constraint.counted();
        let at = counts.iter().position(|c| *c == count).expect("the table names a domain");
        constraint.effect(Some(at)).expect("the domain is counted")
    }

    /// A spread over clusters, and the domains of each.
    fn over<'a>(
        wanted: &'a [TopologySpreadConstraint],
        fleet: &'a [Cluster],
        placed: impl Fn(&str) -> bool,
    ) -> (Spread<'a>, Vec<Vec<Domain>>) {
        let mut spread = Spread::of(wanted);
        let mut all = Vec::new();
        for cluster in fleet {
            let mut domains = Vec::new();
            spread.domains(cluster, &mut domains);
            spread.count(&domains, placed(&cluster.name));
            all.push(domains);
        }
        spread.counted();
        (spread, all)
    }

    // checklist 18.29
    #[test]
    fn each_row_of_the_spread_table() {
        let rows: &[(&[i64], i64, bool, i32)] = &[
            (&[0, 0], 0, false, 1),
            (&[1, 0], 0, false, -1),
            (&[1, 0], 1, true, 1),
            (&[1, 0, 0], 0, false, 0),
            (&[2, 1, 0], 1, true, 0),
            (&[2, 1, 0], 0, false, -1),
            (&[2, 0, 0], 0, true, 0),
            (&[5], 5, false, 1),
            (&[3, 3], 3, false, 1),
        ];
        for (counts, count, violates, change) in rows {
            let want = Effect { violates: *violates, change: *change };
            assert_eq!(effect_of(counts, *count, 1), want, "{counts:?} at {count}");
        }
    }

    #[test]
    fn a_wider_skew_allows_what_a_narrow_one_rejects() {
        assert!(effect_of(&[2, 0, 0], 0, 1).violates);
        assert!(!effect_of(&[2, 0, 0], 0, 2).violates);
    }

    // checklist 18.29
    #[test]
    fn constraints_are_judged_apart_and_their_scores_are_summed() {
        let cluster = |name: &str, region: &str, zone: &str| Cluster {
            name: name.into(),
            labels: [("region", region), ("zone", zone)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            ..Cluster::default()
        };
        let fleet =
            [cluster("a", "east", "1"), cluster("b", "west", "1"), cluster("c", "west", "2")];
        let wanted = |lenient: [bool; 2]| {
            ["region", "zone"].into_iter().zip(lenient).map(|(key, lenient)| {
                use UnsatisfiableConstraintAction::{DoNotSchedule, ScheduleAnyway};
                let action = if lenient { ScheduleAnyway } else { DoNotSchedule };
                TopologySpreadConstraint {
                    max_skew: None,
                    topology_key: key.into(),
                    when_unsatisfiable: Some(action),
                }
            })
        };
        // a is taken: region 1/0, zone 1/0. c evens both out, b only one of them.
        let table = [
            ([false, false], [Some("zone"), None], [0, 2]),
            ([true, true], [None, None], [-999, 2]),
            ([false, true], [None, None], [-999, 2]),
            ([true, false], [Some("zone"), None], [0, 2]),
        ];
        for (lenient, violated, scores) in table {
            let constraints: Vec<_> = wanted(lenient).collect();
            let (spread, domains) = over(&constraints, &fleet, |name| name == "a");
            for (place, key) in violated.into_iter().enumerate() {
                let said = key.map(|key| {
                    format!(
                        "violated doNotSchedule topology spread constraint \"{key}\" (max skew 1)"
                    )
                });
                assert_eq!(spread.violated(&domains[place + 1]), said, "{lenient:?}");
                let score = spread.score(&domains[place + 1]);
                if key.is_none() {
                    assert_eq!(score, scores[place], "{lenient:?}");
                }
            }
        }
    }

    // checklist 18.29
    #[test]
    fn a_cluster_without_the_label_is_outside_the_spread() {
        let wanted =
            [TopologySpreadConstraint { topology_key: "zone".into(), ..Default::default() }];
        let bare = Cluster { name: "bare".into(), ..Cluster::default() };
        let fleet = [bare];
        let (spread, domains) = over(&wanted, &fleet, |_| true);
        assert_eq!(spread.violated(&domains[0]), None);
        assert_eq!(spread.score(&domains[0]), 0);
    }
}
