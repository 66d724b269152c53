//! Label selectors: who matches, and what is wrong with one.
//!
//! A selector that is absent and one that is empty are opposites: as everywhere in
//! Kubernetes the first matches nothing and the second everything. (Affinity terms of
//! placements are the exception; there an absent selector is no constraint.)
//!
//! Three forms are read into the same [`Selector`]: the structured form of objects
//! ([`Selector::structured`]), the same as JSON ([`Selector::from_value`]) and the text of a
//! query ([`Selector::parse`], in `query`).

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use crate::go_number::quoted;
use crate::names;

mod query;

/// A label selector that was found valid: a conjunction of requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// All must hold; absent altogether if nothing may match.
    requirements: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    operator: Operator,
    /// In order and each once, so that selectors that mean the same are equal.
    values: Vec<Box<str>>,
}

/// How a label is held against the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent, or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is a larger number than the only value. Not in `matchExpressions`.
    Gt,
    /// The label is a smaller number than the only value. Not in `matchExpressions`.
    Lt,
}

impl Operator {
    /// Reads the word that `matchExpressions` and node selector terms use.
    pub fn named(word: &str) -> Option<Self> {
        Some(match word {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            _ => return None,
        })
    }

    /// Whether a label passes. What is no number is neither larger nor smaller.
    pub fn holds<'a>(self, label: Option<&str>, mut values: impl Iterator<Item = &'a str>) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        match (self, label) {
            (Self::Exists, label) => label.is_some(),
            (Self::DoesNotExist, label) => label.is_none(),
            (Self::In, Some(label)) => values.any(|value| value == label),
            (Self::NotIn, Some(label)) => values.all(|value| value != label),
            (Self::NotIn, None) => true,
            (Self::Gt | Self::Lt, Some(label)) => {
                match (number(label), values.next().and_then(number)) {
                    (Some(label), Some(bound)) if self == Self::Gt => label > bound,
                    (Some(label), Some(bound)) => label < bound,
                    _ => false,
                }
            }
            (Self::In | Self::Gt | Self::Lt, None) => false,
        }
    }
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
    /// `>` or `<` without a number.
    #[error(
        "values: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
        in_brackets(.values)
    )]
    NoNumber {
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
            | Self::NeedlessValues { field, .. }
            | Self::NoNumber { field, .. } => field,
        }
    }
}

fn in_brackets(values: &[String]) -> String {
    let values: Vec<_> = values.iter().map(|value| quoted(value)).collect();
    format!("[{}]", values.join(","))
}

/// One of `matchExpressions`.
#[derive(Clone, Debug)]
pub struct Expression<'a> {
    /// The label.
    pub key: &'a str,
    /// One of the four words.
    pub operator: &'a str,
    /// What the label is held against.
    pub values: Vec<&'a str>,
}

impl Default for Selector {
    fn default() -> Self {
        Self::EVERYTHING
    }
}

impl Selector {
    /// Matches nothing, as an absent selector does.
    pub const NOTHING: Self = Self { requirements: None };

    /// Matches everything, as an empty selector does.
    pub const EVERYTHING: Self = Self { requirements: Some(Vec::new()) };

    /// Checks `matchLabels` and `matchExpressions`; without any it matches everything.
    pub fn structured<'a>(
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        expressions: impl IntoIterator<Item = Expression<'a>>,
    ) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in labels {
            let field = format!("matchLabels[{key}]");
            check_key(&field, key)?;
            check_value(&field, key, 0, value)?;
            requirements.push(Requirement::new(key, Operator::In, &[value]));
        }
        for (at, expression) in expressions.into_iter().enumerate() {
            let field = format!("matchExpressions[{at}]");
            let known = Operator::named(expression.operator);
            let operator = known.filter(|known| !matches!(known, Operator::Gt | Operator::Lt));
            let operator = operator.ok_or_else(|| SelectorError::Operator {
                field: format!("{field}.operator"),
                operator: expression.operator.to_owned(),
            })?;
            requirements.push(requirement(&field, expression.key, operator, &expression.values)?);
        }
        Ok(Self { requirements: Some(requirements) })
    }

    /// Reads `matchLabels` and `matchExpressions` from JSON. An absent or `null` selector
    /// matches nothing by convention of its callers, so they check that first.
    pub fn from_value(selector: &Value) -> Result<Self, String> {
        let pairs = selector.get("matchLabels").and_then(Value::as_object);
        let labels = pairs
            .into_iter()
            .flatten()
            .map(|(key, value)| value.as_str().map(|value| (key.as_str(), value)));
        let labels: Option<Vec<(&str, &str)>> = labels.collect();
        let labels = labels.ok_or("matchLabels: values must be strings")?;
        let listed = selector.get("matchExpressions").and_then(Value::as_array);
        let expressions = listed.into_iter().flatten().map(|expression| Expression {
            key: expression["key"].as_str().unwrap_or_default(),
            operator: expression["operator"].as_str().unwrap_or_default(),
            values: values_of(expression).collect(),
        });
        Self::structured(labels, expressions).map_err(|error| error.to_string())
    }

    /// Whether it lets everything through.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// A label and the one value that everything it lets through has, if it names such.
    pub fn exact(&self) -> Option<(&str, &str)> {
        self.requirements.iter().flatten().find_map(|wanted| {
            match (&wanted.operator, &*wanted.values) {
                (Operator::In, [only]) => Some((&*wanted.key, &**only)),
                _ => None,
            }
        })
    }

    /// Whether something with these labels is meant.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_what(|key| labels.get(key).map(String::as_str))
    }

    /// Whether something whose labels `get` looks up is meant.
    pub fn matches_what<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        let Some(requirements) = &self.requirements else { return false };
        requirements.iter().all(|wanted| {
            wanted.operator.holds(get(&wanted.key), wanted.values.iter().map(|value| &**value))
        })
    }
}

/// The strings in `values` of a `{key, operator, values}`.
fn values_of(expression: &Value) -> impl Iterator<Item = &str> {
    expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a `{key, operator, values}` holds of the label it names, which also node selector
/// terms are made of. Nothing is checked: the server has accepted the object it stands in.
pub fn holds(expression: &Value, label: Option<&str>) -> bool {
    let operator = expression["operator"].as_str().and_then(Operator::named);
    operator.is_some_and(|operator| operator.holds(label, values_of(expression)))
}

impl Requirement {
    fn new(key: &str, operator: Operator, values: &[&str]) -> Self {
        let mut values: Vec<Box<str>> = values.iter().map(|value| (*value).into()).collect();
        values.sort_unstable();
        values.dedup();
        Self { key: key.into(), operator, values }
    }
}

fn requirement(
    field: &str,
    key: &str,
    operator: Operator,
    values: &[&str],
) -> Result<Requirement, SelectorError> {
    check_key(&format!("{field}.key"), key)?;
    let whole = || format!("{field}.values");
    let all = || values.iter().map(|value| (*value).to_owned()).collect();
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            return Err(SelectorError::NoValues { field: whole() });
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            return Err(SelectorError::NeedlessValues { field: whole(), values: all() });
        }
        Operator::Gt | Operator::Lt => match values {
            [only] if only.parse::<i64>().is_ok() => {}
            _ => return Err(SelectorError::NoNumber { field: whole(), values: all() }),
        },
        _ => {}
    }
    for (at, value) in values.iter().enumerate() {
        check_value(&format!("{field}.values[{at}]"), key, at, value)?;
    }
    Ok(Requirement::new(key, operator, values))
}

fn check_key(field: &str, key: &str) -> Result<(), SelectorError> {
    let problems = names::qualified_name(key);
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
    let problems = names::label_value(value);
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
