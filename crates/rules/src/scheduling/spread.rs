//! Topology spread: how evenly a placement lies over the domains of a label.
//!
//! Everything is judged against the state at the start of a pass, so a pass under
//! spread constraints picks one cluster and comes back for the next.

use std::collections::BTreeMap;

use flagship_api::policy::{TopologySpreadConstraint, UnsatisfiableConstraintAction};

use super::observed::Cluster;

/// What a violated `ScheduleAnyway` constraint costs.
const PENALTY: i32 = 1000;

/// The constraints of a policy over a fleet.
#[derive(Debug, Default)]
pub struct Spread<'a> {
    constraints: Vec<Constraint<'a>>,
}

#[derive(Debug)]
struct Constraint<'a> {
    key: &'a str,
    max_skew: i64,
    strict: bool,
    counts: BTreeMap<&'a str, i64>,
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
    /// Counts domains over `fleet`; `placed` says which clusters have the placement now.
    pub fn over(
        constraints: &'a [TopologySpreadConstraint],
        fleet: impl Iterator<Item = &'a Cluster> + Clone,
        placed: impl Fn(&str) -> bool,
    ) -> Self {
        let constraints = constraints
            .iter()
            .map(|wanted| {
                let mut counts = BTreeMap::new();
                for cluster in fleet.clone() {
                    if let Some(domain) = cluster.labels.get(&wanted.topology_key) {
                        *counts.entry(domain.as_str()).or_insert(0) +=
                            i64::from(placed(&cluster.name));
                    }
                }
                Constraint::new(wanted, counts)
            })
            .collect();
        Self { constraints }
    }

    /// Whether there is anything to keep even.
    pub fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// The words for the first strict constraint that this cluster would violate.
    pub fn violated(&self, cluster: &Cluster) -> Option<String> {
        self.constraints.iter().filter(|c| c.strict).find_map(|c| {
            c.effect(cluster)?.violates.then(|| {
                format!(
                    "violated doNotSchedule topology spread constraint \"{}\" (max skew {})",
                    c.key, c.max_skew
                )
            })
        })
    }

    /// How much this cluster would even things out.
    pub fn score(&self, cluster: &Cluster) -> i32 {
        let worth = |c: &Constraint<'_>| match c.effect(cluster) {
            None => 0,
            Some(effect) if effect.violates && !c.strict => -PENALTY,
            Some(effect) => -effect.change,
        };
        self.constraints.iter().map(worth).sum()
    }
}

impl<'a> Constraint<'a> {
    fn new(wanted: &'a TopologySpreadConstraint, counts: BTreeMap<&'a str, i64>) -> Self {
        let mut sorted: Vec<i64> = counts.values().copied().collect();
        sorted.sort_unstable();
        let smallest = sorted.first().copied().unwrap_or(0);
        Self {
            key: &wanted.topology_key,
            max_skew: i64::from(wanted.max_skew.unwrap_or(1)),
            strict: wanted.when_unsatisfiable.unwrap_or_default()
                == UnsatisfiableConstraintAction::DoNotSchedule,
            smallest,
            second: sorted.get(1).copied().unwrap_or(smallest),
            largest: sorted.last().copied().unwrap_or(0),
            counts,
        }
    }

    /// `None` for a cluster without the label: it is outside the spread.
    fn effect(&self, cluster: &Cluster) -> Option<Effect> {
        let count = *self.counts.get(cluster.labels.get(self.key)?.as_str())?;
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
        let names: Vec<String> = (0..counts.len()).map(|i| format!("r{i}")).collect();
        let domains = names.iter().map(String::as_str).zip(counts.iter().copied()).collect();
        let constraint = Constraint::new(&wanted, domains);
        let at = counts.iter().position(|c| *c == count).expect("the table names a domain");
        let labels = BTreeMap::from([("region".to_owned(), names[at].clone())]);
        let candidate = Cluster { labels, ..Cluster::default() };
        constraint.effect(&candidate).expect("the candidate has the label")
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
            labels: BTreeMap::from([
                ("region".to_owned(), region.to_owned()),
                ("zone".to_owned(), zone.to_owned()),
            ]),
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
            let spread = Spread::over(&constraints, fleet.iter(), |name| name == "a");
            for (place, key) in violated.into_iter().enumerate() {
                let said = key.map(|key| {
                    format!(
                        "violated doNotSchedule topology spread constraint \"{key}\" (max skew 1)"
                    )
                });
                assert_eq!(spread.violated(&fleet[place + 1]), said, "{lenient:?}");
                let score = spread.score(&fleet[place + 1]);
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
        let fleet = [bare.clone()];
        let spread = Spread::over(&wanted, fleet.iter(), |_| true);
        assert_eq!(spread.violated(&bare), None);
        assert_eq!(spread.score(&bare), 0);
    }
}
