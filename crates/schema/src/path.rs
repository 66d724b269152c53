//! Where in an object a finding is, built on the stack and printed only when needed.
//!
//! Kubernetes prints map keys in two ways: structural validation and strict decoding
//! with a dot, everything else in brackets. The walker chooses by the variant it pushes.

use std::fmt::{self, Write};

use flagship_base::machinery::bounds::{Clipped, MAX_FINDINGS, MAX_PATH};
use flagship_base::machinery::status::FieldError;
use serde_json::Value;

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

    fn write(&self, out: &mut Clipped) -> fmt::Result {
        match self {
            Path::Root => return out.write_str("<nil>"),
            Path::Field(parent, _) | Path::Key(parent, _) | Path::Index(parent, _) => {
                if !parent.is_root() {
                    parent.write(out)?;
                }
            }
        }
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => out.write_str(name),
            Path::Field(_, name) => write!(out, ".{name}"),
            Path::Key(_, key) => write!(out, "[{key}]"),
            Path::Index(_, at) => write!(out, "[{at}]"),
        }
    }
}

impl fmt::Display for Path<'_> {
    /// Keys are as long as somebody likes, and a path is printed for every finding below it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Clipped::new(MAX_PATH);
        // Full is the only way to fail, and then the text says so.
        self.write(&mut text).ok();
        f.write_str(&text.finish())
    }
}

/// A list of findings that takes paths as they are, and no more than are worth keeping.
pub(super) trait Findings {
    /// Adds a finding unless there are too many.
    fn add(&mut self, error: FieldError);
    /// The field is missing.
    fn required(&mut self, path: &Path<'_>, detail: &str);
    /// The field may not be set.
    fn forbidden(&mut self, path: &Path<'_>, detail: &str);
    /// The value breaks a rule.
    fn invalid(&mut self, path: &Path<'_>, value: Value, detail: &str);
}

impl Findings for Vec<FieldError> {
    fn add(&mut self, error: FieldError) {
        if self.len() < MAX_FINDINGS {
            self.push(error);
        }
    }

    fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.add(FieldError::required(path.to_string(), detail));
    }

    fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.add(FieldError::forbidden(path.to_string(), detail));
    }

    fn invalid(&mut self, path: &Path<'_>, value: Value, detail: &str) {
        self.add(FieldError::invalid(path.to_string(), value, detail));
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
        assert_eq!(Path::Index(&Path::Key(&Path::Root, "k"), 1).to_string(), "[k][1]");
        let long = "k".repeat(100_000);
        let shown = Path::Field(&Path::Field(&spec, &long), "x").to_string();
        assert_eq!(shown, format!("spec.{}...", "k".repeat(251)));
    }
}
