//! Label selectors: who matches, what is wrong, and how they are printed.
//!
//! A selector that is absent and one that is empty are opposites: as everywhere
//! in Kubernetes the first matches nothing and the second everything. (Affinity
//! terms are the exception; there an absent selector is no constraint.)
//!
//! Properties of clusters are matched in [`crate::property`].

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use thiserror::Error;

use crate::go_number::quoted;
use crate::names::rule;

/// The name it had when it was here.
pub use crate::printed::PrintedSelector as Printed;

/// A label selector that was found valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// All must hold; absent altogether if nothing may match.
    requirements: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

/// What is wrong with a label selector. Prints as Kubernetes would say it, with
/// the position inside the requirement; [`SelectorError::field`] is the way from
/// the selector down.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// Not one of the four operators.
    #[error("{} is not a valid label selector operator", quoted(.operator))]
    Operator {
        /// Where.
        field: String,
        /// What was written.
        operator: String,
    },
    /// A key that is no label key.
    #[error("key: Invalid value: {}: {problem}", quoted(.key))]
    Key {
        /// Where.
        field: String,
        /// What was written.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A value that is no label value.
    #[error("values[{at}][{key}]: Invalid value: {}: {problem}", quoted(.value))]
    Value {
        /// Where.
        field: String,
        /// The label.
        key: String,
        /// Which of the values.
        at: usize,
        /// What was written.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
    /// `In` or `NotIn` without a value.
    #[error("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")]
    NoValues {
        /// Where.
        field: String,
    },
    /// `Exists` or `DoesNotExist` with a value.
    #[error(
        "values: Invalid value: {}: values set must be empty for exists and does not exist",
        in_brackets(.values)
    )]
    NeedlessValues {
        /// Where.
        field: String,
        /// What was written.
        values: Vec<String>,
    },
}

impl SelectorError {
    /// The way to the mistake, such as `matchExpressions[0].values[2]`.
    pub fn field(&self) -> &str {
        match self {
            Self::Operator { field, .. }
            | Self::Key { field, .. }
            | Self::Value { field, .. }
            | Self::NoValues { field }
            | Self::NeedlessValues { field, .. } => field,
        }
    }
}

fn in_brackets(values: &[String]) -> String {
    let values: Vec<_> = values.iter().map(|value| quoted(value)).collect();
    format!("[{}]", values.join(","))
}

impl Selector {
    /// Matches nothing, as an absent selector does.
    pub const NOTHING: Self = Self { requirements: None };

    /// Matches everything, as an empty selector does.
    pub const EVERYTHING: Self = Self { requirements: Some(Vec::new()) };

    /// Checks a selector; an absent one matches nothing.
    pub fn new(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self::NOTHING) };
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            let field = format!("matchLabels[{key}]");
            check_key(&field, key)?;
            check_value(&field, key, 0, value)?;
            let test = Test::In(BTreeSet::from([value.clone()]));
            requirements.push(Requirement { key: key.clone(), test });
        }
        for (at, expression) in selector.match_expressions.iter().flatten().enumerate() {
            requirements.push(requirement(&format!("matchExpressions[{at}]"), expression)?);
        }
        Ok(Self { requirements: Some(requirements) })
    }

    /// Whether something with these labels is meant.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_what(|key| labels.get(key).map(String::as_str))
    }

    /// Whether something whose labels `get` looks up is meant.
    pub fn matches_what<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        let Some(requirements) = &self.requirements else { return false };
        requirements.iter().all(|wanted| {
            let value = get(&wanted.key);
            match &wanted.test {
                Test::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.iter().any(|v| v == value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
            }
        })
    }
}

fn requirement(
    field: &str,
    expression: &LabelSelectorRequirement,
) -> Result<Requirement, SelectorError> {
    let LabelSelectorRequirement { key, operator, values } = expression;
    let values = values.as_deref().unwrap_or_default();
    let set = || values.iter().cloned().collect();
    let test = match operator.as_str() {
        "In" => Test::In(set()),
        "NotIn" => Test::NotIn(set()),
        "Exists" => Test::Exists,
        "DoesNotExist" => Test::DoesNotExist,
        _ => {
            let (field, operator) = (format!("{field}.operator"), operator.clone());
            return Err(SelectorError::Operator { field, operator });
        }
    };
    check_key(&format!("{field}.key"), key)?;
    let wants_values = matches!(test, Test::In(_) | Test::NotIn(_));
    if wants_values && values.is_empty() {
        return Err(SelectorError::NoValues { field: format!("{field}.values") });
    }
    if !wants_values && !values.is_empty() {
        let (field, values) = (format!("{field}.values"), values.to_vec());
        return Err(SelectorError::NeedlessValues { field, values });
    }
    for (at, value) in values.iter().enumerate() {
        check_value(&format!("{field}.values[{at}]"), key, at, value)?;
    }
    Ok(Requirement { key: key.clone(), test })
}

fn check_key(field: &str, key: &str) -> Result<(), SelectorError> {
    let problems = rule::qualified_name(key);
    if problems.is_empty() {
        return Ok(());
    }
    Err(SelectorError::Key {
        field: field.to_owned(),
        key: key.to_owned(),
        problem: problems.join("; "),
    })
}

fn check_value(field: &str, key: &str, at: usize, value: &str) -> Result<(), SelectorError> {
    let problems = rule::label_value(value);
    if problems.is_empty() {
        return Ok(());
    }
    Err(SelectorError::Value {
        field: field.to_owned(),
        key: key.to_owned(),
        at,
        value: value.to_owned(),
        problem: problems.join("; "),
    })
}

#[cfg(test)]
mod tests;
