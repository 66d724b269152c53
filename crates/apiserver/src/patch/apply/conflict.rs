//! Why an apply was refused, in the words of Kubernetes.

use std::collections::BTreeMap;

use flagship_base::machinery::bounds::{self, MAX_PATH, MAX_SHOWN};
use flagship_base::machinery::status::{ApiError, Cause};
use thiserror::Error;

use super::element::Element;
use super::managers::{Entry, Operation};

/// A configuration that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// What is applied does not fit its schema: 500 in Kubernetes, too.
    #[error("{0}")]
    Untyped(String),
    /// The request makes no sense as written: 400.
    #[error("{0}")]
    BadRequest(String),
    /// Others own some of the fields, with other values: 409.
    #[error("{}", summary(.0))]
    Conflicts(Vec<Conflict>),
}

/// One field that somebody else owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager as it is printed: `"name" using apps/v1`.
    pub owner: String,
    /// The path, such as `.spec.replicas`.
    pub field: String,
}

impl Conflict {
    pub(super) fn new(entry: &Entry<'_>, path: &[Element]) -> Self {
        let field = bounds::clip(path.iter().map(ToString::to_string).collect(), MAX_PATH);
        Self { owner: printed(entry), field }
    }
}

/// Applying managers keep one entry across versions, so only updates name theirs.
fn printed(entry: &Entry<'_>) -> String {
    let mut text = format!("{:?}", entry.manager);
    if !entry.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", entry.subresource));
    }
    if entry.operation == Operation::Update {
        text.push_str(&format!(" using {}", entry.api_version));
    }
    text
}

fn summary(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        let Conflict { owner, field } = only;
        return format!("Apply failed with 1 conflict: conflict with {owner}: {field}");
    }
    let mut by_owner: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for conflict in conflicts.iter().take(MAX_SHOWN) {
        by_owner.entry(&conflict.owner).or_default().push(&conflict.field);
    }
    let mut lines = Vec::new();
    for (owner, fields) in by_owner {
        lines.push(format!("conflicts with {owner}:"));
        lines.extend(fields.iter().map(|field| format!("- {field}")));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

impl From<ApplyError> for ApiError {
    fn from(error: ApplyError) -> Self {
        let message = error.to_string();
        match error {
            ApplyError::BadRequest(_) => ApiError::bad_request(message),
            ApplyError::Untyped(_) => ApiError::new(500, "", message),
            ApplyError::Conflicts(conflicts) => {
                let mut error = ApiError::new(409, "Conflict", message);
                let causes =
                    conflicts.into_iter().take(MAX_SHOWN).map(|Conflict { owner, field }| Cause {
                        reason: "FieldManagerConflict",
                        message: format!("conflict with {owner}"),
                        field,
                    });
                error.details.get_or_insert_default().causes.extend(causes);
                error
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_all_conflicts_and_shows_a_hundred() {
        let one = |n| Conflict { owner: "\"m\"".to_owned(), field: format!(".data.k{n}") };
        let error = ApiError::from(ApplyError::Conflicts((0..5000).map(one).collect()));
        assert!(error.message.starts_with("Apply failed with 5000 conflicts: "));
        assert_eq!(error.message.lines().count(), 101);
        assert_eq!(error.details.unwrap().causes.len(), 100);
    }
}
