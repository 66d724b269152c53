//! Where in an object a finding is, built on the stack and printed only when needed.
//!
//! Kubernetes prints map keys in two ways: structural validation and strict decoding
//! with a dot, everything else in brackets. The walker chooses by the variant it pushes.

use std::fmt;

use serde_json::Value;

use crate::machinery::status::FieldError;

/// A chain of steps from the root; each walker frame owns one link.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    /// The object itself, printed as Go prints a nil path.
    Root,
    /// A field, printed after a dot.
    Field(&'a Path<'a>, &'a str),
    /// A map key, printed in brackets.
    Key(&'a Path<'a>, &'a str),
    /// A list element.
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(super) fn is_root(&self) -> bool {
        matches!(self, Path::Root)
    }

    /// As in [`Display`](fmt::Display), but with nothing for the root.
    pub(super) fn text(&self) -> String {
        if self.is_root() { String::new() } else { self.to_string() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => f.write_str("<nil>"),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Key(Path::Root, key) => write!(f, "[{key}]"),
            Path::Key(parent, key) => write!(f, "{parent}[{key}]"),
            Path::Index(Path::Root, at) => write!(f, "[{at}]"),
            Path::Index(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

/// A list of findings that takes paths as they are.
pub(super) trait Findings {
    /// The field is missing.
    fn required(&mut self, path: &Path<'_>, detail: &str);
    /// The field may not be set.
    fn forbidden(&mut self, path: &Path<'_>, detail: &str);
    /// The value breaks a rule.
    fn invalid(&mut self, path: &Path<'_>, value: Value, detail: &str);
}

impl Findings for Vec<FieldError> {
    fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.push(FieldError::required(path.to_string(), detail));
    }

    fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.push(FieldError::forbidden(path.to_string(), detail));
    }

    fn invalid(&mut self, path: &Path<'_>, value: Value, detail: &str) {
        self.push(FieldError::invalid(path.to_string(), value, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn steps_are_printed_as_kubernetes_prints_them() {
        let spec = Path::Field(&Path::Root, "spec");
        let first = Path::Index(&spec, 0);
        let key = Path::Key(&first, "a/b");
        assert_eq!(Path::Field(&key, "x").to_string(), "spec[0][a/b].x");
        assert_eq!(Path::Root.to_string(), "<nil>");
        assert_eq!(Path::Root.text(), "");
    }
}
