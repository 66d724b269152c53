//! What Kubernetes refuses, with its paths and its words.
//!
//! [`validate_create`] looks at an object alone, [`validate_update`] at what may not
//! change as well. One file a family of kinds. Types and unknown fields are the
//! schema's business, and a field of the wrong type is passed over here.

mod meta;

use serde_json::Value;

use super::catalog::Kind;
use super::json::Field;
use crate::machinery::status::FieldError;

/// What was found so far.
type Findings = Vec<FieldError>;

/// Findings about a new object.
pub fn validate_create(kind: Kind, object: &Value) -> Vec<FieldError> {
    let mut out = Findings::new();
    meta::create(kind.info(), &Field::root(object).get("metadata"), &mut out);
    out
}

/// Findings about a changed object.
pub fn validate_update(kind: Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let _ = kind;
    let mut out = Findings::new();
    let (new, old) = (Field::root(new), Field::root(old));
    meta::update(&new.get("metadata"), &old.get("metadata"), &mut out);
    out
}

fn invalid(path: String, value: &str, detail: &str) -> FieldError {
    FieldError::invalid(path, value.into(), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: &[FieldError]) -> String {
        let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
        all.join("\n")
    }

    /// What is said about a new object, a line a finding.
    pub(super) fn on_create(kind: Kind, object: &Value) -> String {
        lines(&validate_create(kind, object))
    }

    /// What is said about a changed object, a line a finding.
    pub(super) fn on_update(kind: Kind, new: &Value, old: &Value) -> String {
        lines(&validate_update(kind, new, old))
    }
}
