//! Which clusters a policy admits, and which of them it likes best.
//!
//! Required terms filter: any term suffices, and within a term everything must hold.
//! Preferred terms score: each adds its weight, whole or in proportion to a property.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::policy::{
    ClusterAffinity, ClusterSelectorTerm, PlacementPolicy, PropertySelectorRequirement,
    PropertySortOrder,
};
use flagship_api::property::{self, PropertyName};
use flagship_api::selector::Selector;

use super::observed::Cluster;
use super::properties::{Found, look_up};

/// Said when no required term fits and no better reason is known.
const NO_TERM: &str = "cluster does not match with any of the required cluster affinity terms";

/// The affinity of one policy over one fleet, understood once for all clusters. A
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
    /// Smallest and largest value in the fleet; `None` when nobody reports it.
    range: Option<(f64, f64)>,
}

impl<'a> Affinity<'a> {
    /// Reads the policy and finds the extremes of every property that sorts.
    pub fn of(policy: Option<&'a PlacementPolicy>, fleet: &[Arc<Cluster>]) -> Result<Self, String> {
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
        let mut ranges: BTreeMap<PropertyName<'a>, Option<(f64, f64)>> = BTreeMap::new();
        for term in preferred {
            let selector = labels_of(&term.preference)?;
            let sorter = match &term.preference.property_sorter {
                None => None,
                Some(sorter) => {
                    let property = PropertyName::read(&sorter.name).map_err(|e| e.to_string())?;
                    let range =
                        *ranges.entry(property).or_insert_with(|| range_over(fleet, property));
                    Some(Sorter { property, order: sorter.sort_order, range })
                }
            };
            read.preferred.push(Preference { selector, weight: term.weight, sorter });
        }
        Ok(read)
    }

    /// Why no required term admits the cluster; `None` when one does.
    pub fn rejected(&self, cluster: &Cluster) -> Result<Option<Cow<'static, str>>, String> {
        if self.required.is_empty() {
            return Ok(None);
        }
        let mut malformed = None;
        for term in &self.required {
            match term.admits(cluster)? {
                Match::Yes => return Ok(None),
                Match::No => {}
                Match::Malformed(why) => malformed = malformed.or(Some(why)),
            }
        }
        Ok(Some(malformed.map_or(Cow::Borrowed(NO_TERM), Cow::Owned)))
    }

    /// The sum of what the preferred terms give this cluster.
    pub fn score(&self, cluster: &Cluster) -> Result<i32, String> {
        let mut total = 0i32;
        for term in self.preferred.iter().filter(|t| t.weight != 0) {
            total = total.saturating_add(term.worth(cluster)?);
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
        if !self.selector.matches(&cluster.labels) {
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
    fn worth(&self, cluster: &Cluster) -> Result<i32, String> {
        if !self.selector.matches(&cluster.labels) {
            return Ok(0);
        }
        let Some(sorter) = &self.sorter else { return Ok(self.weight) };
        match (look_up(sorter.property, cluster), sorter.range) {
            (Found::Value(value), Some(range)) => {
                interpolate(sorter.order, self.weight, value.as_f64(), range)
            }
            _ => Ok(0),
        }
    }
}

/// A term without a label selector takes every cluster.
fn labels_of(term: &ClusterSelectorTerm) -> Result<Selector, String> {
    match &term.label_selector {
        None => Ok(Selector::EVERYTHING),
        selector => Selector::new(selector.as_ref()).map_err(|e| e.to_string()),
    }
}

/// Smallest and largest value over every cluster that reports the property, fit or not.
fn range_over(fleet: &[Arc<Cluster>], property: PropertyName<'_>) -> Option<(f64, f64)> {
    let values = fleet.iter().filter_map(|cluster| match look_up(property, cluster) {
        Found::Value(value) => Some(value.as_f64()),
        Found::Absent | Found::Malformed(_) => None,
    });
    values.fold(None, |range, v| match range {
        None => Some((v, v)),
        Some((min, max)) => Some((f64::min(min, v), f64::max(max, v))),
    })
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
