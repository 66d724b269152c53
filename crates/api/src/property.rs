//! Which property of a cluster a selector means, and how it compares.
//!
//! A property the cluster does not report matches no expression at all, `Ne`
//! included. Numbers are compared as [`Quantity`], exactly.

use std::fmt;
use std::str::FromStr;

use flagship_base::quantity::{Quantity, QuantityError};
use thiserror::Error;

use crate::keys::property::RESOURCE_PREFIX;
use crate::policy::{PropertySelectorOperator, PropertySelectorRequirement};

/// A property by name, sorted by where its value is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PropertyName<'a> {
    /// `resources.kubernetes-fleet.io/{capacity}-{resource}`: in the resource usage.
    Resource {
        /// Which of the three amounts.
        capacity: Capacity,
        /// Of which resource; it may contain dashes itself.
        resource: &'a str,
    },
    /// Anything else: in the properties.
    Reported(&'a str),
}

/// The three amounts a cluster reports of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capacity {
    /// What the nodes have.
    Total,
    /// What pods may use of it.
    Allocatable,
    /// What is left of that.
    Available,
}

/// Why an expression cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PropertyError {
    /// The part behind the resource prefix is no `{capacity}-{resource}`.
    #[error("invalid resource property name: {0}")]
    BadResourceName(String),
    /// There is no such amount.
    #[error("invalid capacity type {capacity} in resource property name {name}")]
    BadCapacity {
        /// What was written.
        capacity: String,
        /// The part behind the prefix.
        name: String,
    },
    /// Not one of the six operators.
    #[error("invalid operator: {0}")]
    BadOperator(String),
    /// None or several values where one is needed.
    #[error("more than one value in the property selector expression")]
    NotOneValue,
    /// The value to compare with is no quantity.
    #[error("value {value} in the property selector expression is not a valid quantity: {source}")]
    BadValue {
        /// What was written.
        value: String,
        /// What is wrong with it.
        source: QuantityError,
    },
}

impl<'a> PropertyName<'a> {
    /// Reads a name. The resource starts behind the first dash, so that
    /// `total-ephemeral-storage` means what it says.
    pub fn read(name: &'a str) -> Result<Self, PropertyError> {
        let Some(rest) = name.strip_prefix(RESOURCE_PREFIX) else {
            return Ok(Self::Reported(name));
        };
        let bad = || PropertyError::BadResourceName(rest.to_owned());
        let (capacity, resource) = rest.split_once('-').ok_or_else(bad)?;
        if capacity.is_empty() || resource.is_empty() {
            return Err(bad());
        }
        let capacity = capacity.parse().map_err(|()| PropertyError::BadCapacity {
            capacity: capacity.to_owned(),
            name: rest.to_owned(),
        })?;
        Ok(Self::Resource { capacity, resource })
    }
}

impl fmt::Display for PropertyName<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource { capacity, resource } => {
                write!(out, "{RESOURCE_PREFIX}{}-{resource}", capacity.as_str())
            }
            Self::Reported(name) => out.write_str(name),
        }
    }
}

impl Capacity {
    const ALL: [Self; 3] = [Self::Total, Self::Allocatable, Self::Available];

    /// How it is written in a property name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Allocatable => "allocatable",
            Self::Available => "available",
        }
    }
}

impl FromStr for Capacity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(())
    }
}

/// Evaluates one expression of a property selector. A property that is not
/// reported matches nothing, before anything else is even looked at.
pub fn matches(
    observed: Option<Quantity>,
    expression: &PropertySelectorRequirement,
) -> Result<bool, PropertyError> {
    let Some(observed) = observed else { return Ok(false) };
    let [value] = expression.values.as_slice() else { return Err(PropertyError::NotOneValue) };
    let wanted =
        value.parse().map_err(|source| PropertyError::BadValue { value: value.clone(), source })?;
    holds(observed, &expression.operator, wanted)
}

/// Whether `observed` stands in this relation to `wanted`.
fn holds(
    observed: Quantity,
    operator: &PropertySelectorOperator,
    wanted: Quantity,
) -> Result<bool, PropertyError> {
    Ok(match operator {
        PropertySelectorOperator::Gt => observed > wanted,
        PropertySelectorOperator::Ge => observed >= wanted,
        PropertySelectorOperator::Eq => observed == wanted,
        PropertySelectorOperator::Ne => observed != wanted,
        PropertySelectorOperator::Lt => observed < wanted,
        PropertySelectorOperator::Le => observed <= wanted,
        PropertySelectorOperator::Other(word) => {
            return Err(PropertyError::BadOperator(word.clone()));
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resource_properties_name_an_amount_and_a_resource() {
        let read = PropertyName::read;
        let resource = |capacity, resource| Ok(PropertyName::Resource { capacity, resource });
        assert_eq!(
            read("resources.kubernetes-fleet.io/total-cpu"),
            resource(Capacity::Total, "cpu")
        );
        assert_eq!(
            read("resources.kubernetes-fleet.io/allocatable-memory"),
            resource(Capacity::Allocatable, "memory")
        );
        assert_eq!(
            read("resources.kubernetes-fleet.io/available-ephemeral-storage"),
            resource(Capacity::Available, "ephemeral-storage")
        );
        let node_count = "kubernetes-fleet.io/node-count";
        assert_eq!(read(node_count), Ok(PropertyName::Reported(node_count)));
    }

    #[test]
    fn a_name_prints_as_it_was_read() {
        for name in ["resources.kubernetes-fleet.io/total-a-b", "k8s.io/k8s-version"] {
            assert_eq!(PropertyName::read(name).unwrap().to_string(), name);
        }
    }

    // checklist 18.23
    #[test]
    fn bad_resource_names_are_named() {
        for (rest, complaint) in [
            ("cpu", "invalid resource property name: cpu"),
            ("", "invalid resource property name: "),
            ("-cpu", "invalid resource property name: -cpu"),
            ("total-", "invalid resource property name: total-"),
            ("free-cpu", "invalid capacity type free in resource property name free-cpu"),
        ] {
            let name = format!("{RESOURCE_PREFIX}{rest}");
            assert_eq!(PropertyName::read(&name).unwrap_err().to_string(), complaint);
        }
    }

    fn check(observed: &str, operator: &str, values: &[&str]) -> Result<bool, String> {
        let expression = json!({"name": "p", "operator": operator, "values": values});
        let expression = serde_json::from_value(expression).unwrap();
        matches(observed.parse().ok(), &expression).map_err(|error| error.to_string())
    }

    // checklist 18.24
    #[test]
    fn six_operators_compare_exactly() {
        let table = [
            ("Gt", [false, false, true]),
            ("Ge", [false, true, true]),
            ("Eq", [false, true, false]),
            ("Ne", [true, false, true]),
            ("Lt", [true, false, false]),
            ("Le", [true, true, false]),
        ];
        for (operator, expected) in table {
            let held = ["999m", "1000m", "1001m"].map(|observed| check(observed, operator, &["1"]));
            assert_eq!(held, expected.map(Ok), "{operator}");
        }
        assert_eq!(check("1Gi", "Gt", &["1G"]), Ok(true));
        assert_eq!(check("1000m", "Eq", &["1"]), Ok(true));
    }

    // checklist 18.24
    #[test]
    fn a_property_that_is_not_there_matches_nothing() {
        for operator in ["Eq", "Ne", "nonsense"] {
            assert_eq!(check("", operator, &[]), Ok(false));
        }
    }

    // checklist 18.24
    #[test]
    fn mistakes_in_the_expression_are_errors() {
        let one_value = "more than one value in the property selector expression";
        assert_eq!(check("1", "Eq", &[]), Err(one_value.to_owned()));
        assert_eq!(check("1", "Eq", &["1", "2"]), Err(one_value.to_owned()));
        assert_eq!(check("1", "Like", &["1"]), Err("invalid operator: Like".to_owned()));
        assert!(check("1", "Eq", &["v1"]).unwrap_err().starts_with("value v1 in the property"));
    }
}
