//! Label selectors as typed objects carry them.

use flagship_base::selector::Expression;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

pub use flagship_base::selector::{Selector, SelectorError};

/// The name it had when it was here.
pub use crate::printed::PrintedSelector as Printed;

/// Checks a selector; an absent one matches nothing.
pub fn read(selector: Option<&LabelSelector>) -> Result<Selector, SelectorError> {
    let Some(selector) = selector else { return Ok(Selector::NOTHING) };
    let labels = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    Selector::structured(
        labels.map(|(key, value)| (key.as_str(), value.as_str())),
        expressions.map(|expression| Expression {
            key: &expression.key,
            operator: &expression.operator,
            values: expression.values.iter().flatten().map(String::as_str).collect(),
        }),
    )
}

#[cfg(test)]
mod tests;
