//! Which clusters a policy admits, and which of them it likes best.
//!
//! Required terms filter: any term suffices, and within a term everything must hold.
//! Preferred terms score: each adds its weight, whole or in proportion to a property.

use std::borrow::Cow;

use flagship_api::policy::{
    ClusterAffinity, ClusterSelectorTerm, PlacementPolicy, PropertySelectorRequirement,
    PropertySortOrder,
};
use flagship_api::property::{self, PropertyName};
use flagship_api::selector::{self, Selector};

use super::properties::{Found, look_up};
use crate::model::Cluster;

/// Said when no required term fits and no better reason is known.
const NO_TERM: &str = "cluster does not match with any of the required cluster affinity terms";

/// The affinity of one policy, understood once for all clusters. A
/// mistake in the policy is an error of the whole pass; a malformed value is a reason
/// about its cluster.
pub struct Affinity<'a> {
    required: Vec<Term<'a>>,
    preferred: Vec<Preference<'a>>,
}

/// A required term.
struct Term<'a> {
    selector: Selector,
    expressions: Vec<Expression<'a>>,
}

struct Expression<'a> {
    property: PropertyName<'a>,
    wanted: &'a PropertySelectorRequirement,
}

/// A preferred term.
struct Preference<'a> {
    selector: Selector,
    weight: i32,
    sorter: Option<Sorter<'a>>,
}

struct Sorter<'a> {
    property: PropertyName<'a>,
    order: PropertySortOrder,
}

/// What one preferred term finds on one cluster.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    matched: bool,
    /// The value that sorts, whether the term matches or not.
    value: Option<f64>,
}

/// For each preferred term the smallest and largest value in the fleet; `None` when nobody
/// reports it.
#[derive(Debug, Default)]
pub struct Ranges(Vec<Option<(f64, f64)>>);

impl<'a> Affinity<'a> {
    /// Reads the policy.
    pub fn of(policy: Option<&'a PlacementPolicy>) -> Result<Self, String> {
        let affinity = policy.and_then(|p| p.affinity.as_ref()?.cluster_affinity.as_ref());
        let mut read = Self { required: Vec::new(), preferred: Vec::new() };
        let Some(ClusterAffinity {
            required_during_scheduling_ignored_during_execution: required,
            preferred_during_scheduling_ignored_during_execution: preferred,
        }) = affinity
        else {
            return Ok(read);
        };
        for term in required.iter().flat_map(|r| &r.cluster_selector_terms) {
            read.required.push(Term::read(term)?);
        }
        for term in preferred {
            let selector = labels_of(&term.preference)?;
            let sorter = match &term.preference.property_sorter {
                None => None,
                Some(sorter) => {
                    let property = PropertyName::read(&sorter.name).map_err(|e| e.to_string())?;
                    Some(Sorter { property, order: sorter.sort_order })
                }
            };
            read.preferred.push(Preference { selector, weight: term.weight, sorter });
        }
        Ok(read)
    }

    /// Why no required term admits the cluster; `None` when one does. What it reports and
    /// nobody can read goes into `malformed`.
    pub fn rejected(
        &self,
        cluster: &Cluster,
        malformed: &mut Vec<String>,
    ) -> Result<Option<Cow<'static, str>>, String> {
        if self.required.is_empty() {
            return Ok(None);
        }
        let mut reason = None;
        for term in &self.required {
            match term.admits(cluster)? {
                Match::Yes => return Ok(None),
                Match::No => {}
                Match::Malformed(why) => {
                    note(malformed, &why);
                    reason = reason.or(Some(why));
                }
            }
        }
        Ok(Some(reason.map_or(Cow::Borrowed(NO_TERM), Cow::Owned)))
    }

    /// How many preferred terms there are.
    pub fn preferences(&self) -> usize {
        self.preferred.len()
    }

    /// What the preferred terms find on a cluster, one after the other. What it reports
    /// and nobody can read goes into `malformed`.
    pub fn wishes(&self, cluster: &Cluster, into: &mut Vec<Wish>, malformed: &mut Vec<String>) {
        into.extend(self.preferred.iter().map(|term| term.wish(cluster, malformed)));
    }

    /// The extremes over every cluster that reports a property, fit or not.
    pub fn ranges(&self, wishes: &[Wish]) -> Ranges {
        let mut ranges = vec![None; self.preferred.len()];
        for row in wishes.chunks(self.preferred.len().max(1)) {
            for (range, wish) in ranges.iter_mut().zip(row) {
                let Some(v) = wish.value else { continue };
                *range = Some(match *range {
                    None => (v, v),
                    Some((min, max)) => (f64::min(min, v), f64::max(max, v)),
                });
            }
        }
        Ranges(ranges)
    }

    /// The sum of what the preferred terms give a cluster on which they find this.
    pub fn score(&self, wishes: &[Wish], ranges: &Ranges) -> Result<i32, String> {
        let mut total = 0i32;
        for ((term, wish), range) in self.preferred.iter().zip(wishes).zip(&ranges.0) {
            if term.weight != 0 {
                total = total.saturating_add(term.worth(*wish, *range)?);
            }
        }
        Ok(total)
    }
}

enum Match {
    Yes,
    No,
    Malformed(String),
}

impl<'a> Term<'a> {
    fn read(term: &'a ClusterSelectorTerm) -> Result<Self, String> {
        let wanted = term.property_selector.as_ref().map_or(&[][..], |s| &s.match_expressions);
        let mut expressions = Vec::new();
        for expression in wanted {
            expressions.push(Expression {
                property: PropertyName::read(&expression.name).map_err(|e| e.to_string())?,
                wanted: expression,
            });
        }
        Ok(Self { selector: labels_of(term)?, expressions })
    }

    fn admits(&self, cluster: &Cluster) -> Result<Match, String> {
        if !self.selector.matches_what(|key| cluster.labels.get(key)) {
            return Ok(Match::No);
        }
        for expression in &self.expressions {
            let value = match look_up(expression.property, cluster) {
                Found::Absent => return Ok(Match::No),
                Found::Malformed(why) => return Ok(Match::Malformed(why)),
                Found::Value(value) => value,
            };
            let holds = property::matches(Some(value), expression.wanted);
            if !holds.map_err(|e| e.to_string())? {
                return Ok(Match::No);
            }
        }
        Ok(Match::Yes)
    }
}

impl Preference<'_> {
    fn wish(&self, cluster: &Cluster, malformed: &mut Vec<String>) -> Wish {
        let found = self.sorter.as_ref().map(|sorter| look_up(sorter.property, cluster));
        let value = match found {
            Some(Found::Value(value)) => Some(value.as_f64()),
            Some(Found::Malformed(why)) => {
                note(malformed, &why);
                None
            }
            Some(Found::Absent) | None => None,
        };
        Wish { matched: self.selector.matches_what(|key| cluster.labels.get(key)), value }
    }

    fn worth(&self, wish: Wish, range: Option<(f64, f64)>) -> Result<i32, String> {
        match (wish, &self.sorter, range) {
            (Wish { matched: false, .. }, _, _) => Ok(0),
            (_, None, _) => Ok(self.weight),
            (Wish { value: Some(value), .. }, Some(sorter), Some(range)) => {
                interpolate(sorter.order, self.weight, value, range)
            }
            _ => Ok(0),
        }
    }
}

/// Says it once, however many terms ask for the property.
fn note(malformed: &mut Vec<String>, why: &str) {
    if !malformed.iter().any(|said| said == why) {
        malformed.push(why.to_owned());
    }
}

/// A term without a label selector takes every cluster.
fn labels_of(term: &ClusterSelectorTerm) -> Result<Selector, String> {
    match &term.label_selector {
        None => Ok(Selector::EVERYTHING),
        selector => selector::read(selector.as_ref()).map_err(|e| e.to_string()),
    }
}

fn interpolate(
    order: PropertySortOrder,
    weight: i32,
    value: f64,
    (min, max): (f64, f64),
) -> Result<i32, String> {
    if !min.is_finite() || !max.is_finite() || value < min || value > max {
        return Err(format!(
            "cannot interpolate weight, observed value {value}, observed min {min}, observed max {max}"
        ));
    }
    // All alike: the property tells no cluster from another.
    if min >= max {
        return Ok(0);
    }
    let ratio = (value - min) / (max - min);
    let share = match order {
        PropertySortOrder::Descending => ratio,
        PropertySortOrder::Ascending => 1.0 - ratio,
    };
    // `round` goes half away from zero, and |weight| is at most 100.
    #[allow(clippy::cast_possible_truncation)]
    Ok((share * f64::from(weight)).round() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    // checklist 18.25
    #[test]
    fn a_range_that_makes_no_sense_is_an_error_that_shows_it() {
        use PropertySortOrder::{Ascending, Descending};
        assert_eq!(interpolate(Descending, 10, 2.0, (1.0, 3.0)), Ok(5));
        assert_eq!(interpolate(Ascending, 10, 1.0, (1.0, 3.0)), Ok(10));
        assert_eq!(interpolate(Ascending, 10, 1.0, (1.0, 1.0)), Ok(0));
        for (value, range, said) in [
            (0.0, (1.0, 3.0), "observed value 0, observed min 1, observed max 3"),
            (4.0, (1.0, 3.0), "observed value 4, observed min 1, observed max 3"),
            (2.0, (f64::NEG_INFINITY, 3.0), "observed value 2, observed min -inf, observed max 3"),
            (2.0, (1.0, f64::INFINITY), "observed value 2, observed min 1, observed max inf"),
        ] {
            let error = interpolate(Descending, 10, value, range).unwrap_err();
            assert_eq!(error, format!("cannot interpolate weight, {said}"));
        }
    }
}
