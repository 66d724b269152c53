//! How Kubernetes 1.34 words what is wrong with a field.
//!
//! Each line is `reason | field: message`. Where the text names the field again it means
//! the place within what was checked: for the status that is the status, not the object.

use serde_json::Value;

/// A field, by its place in the object and by its place in what is checked.
pub struct Field {
    pub path: String,
    pub text: String,
}

impl Field {
    /// As the errors of a schema name it.
    pub fn of(path: String) -> Self {
        let text = match path.strip_prefix("status") {
            Some(rest) => rest.trim_start_matches('.').to_owned(),
            None => path.clone(),
        };
        Self { path, text }
    }

    pub fn child(&self, name: &str) -> Self {
        Self::of(if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        })
    }

    pub fn required(&self) -> String {
        format!("FieldValueRequired | {}: Required value", self.path)
    }

    pub fn unsupported(&self, value: &str, allowed: &Value) -> String {
        let allowed: Vec<String> = allowed
            .as_array()
            .unwrap()
            .iter()
            .map(|a| format!("\"{}\"", a.as_str().unwrap()))
            .collect();
        let list = allowed.join(", ");
        let path = &self.path;
        format!(
            "FieldValueNotSupported | {path}: Unsupported value: {value}: supported values: {list}"
        )
    }

    pub fn wrong_type(&self, found: &str, wanted: &str) -> String {
        let Self { path, text } = self;
        format!(
            "FieldValueTypeInvalid | {path}: Invalid value: \"{found}\": {text} in body must be of type {wanted}: \"{found}\""
        )
    }

    pub fn none_of_several(&self) -> String {
        // Kubernetes has no path for findings of several schemas together.
        let place = if self.path.starts_with("status") { "status" } else { "<nil>" };
        let text = &self.text;
        format!(
            "FieldValueInvalid | {place}: Invalid value: \"\": \"{text}\" must validate at least one schema (anyOf)"
        )
    }

    pub fn too_long(&self, max: u64) -> String {
        format!("FieldValueTooLong | {}: Too long: may not be more than {max} bytes", self.path)
    }

    pub fn too_many(&self, found: u64, max: u64) -> String {
        let items = if max == 1 { "item" } else { "items" };
        format!(
            "FieldValueTooMany | {}: Too many: {found}: must have at most {max} {items}",
            self.path
        )
    }

    pub fn too_short(&self, value: &str, min: u64) -> String {
        self.breaks(&format!("\"{value}\""), &format!("be at least {min} chars long"))
    }

    pub fn too_few_items(&self, found: u64, min: u64) -> String {
        self.breaks(&found.to_string(), &format!("have at least {min} items"))
    }

    pub fn too_few_properties(&self, found: u64, min: u64) -> String {
        self.breaks(&found.to_string(), &format!("have at least {min} properties"))
    }

    pub fn too_small(&self, value: i64, min: i64) -> String {
        self.breaks(&value.to_string(), &format!("be greater than or equal to {min}"))
    }

    pub fn too_large(&self, value: i64, max: i64) -> String {
        self.breaks(&value.to_string(), &format!("be less than or equal to {max}"))
    }

    pub fn no_match(&self, value: &str, pattern: &str) -> String {
        self.breaks(&format!("\"{value}\""), &format!("match '{pattern}'"))
    }

    pub fn duplicate(&self, value: &Value) -> String {
        format!("FieldValueDuplicate | {}: Duplicate value: {value}", self.path)
    }

    pub fn unkeyed(&self, value: &str) -> String {
        let path = &self.path;
        format!(
            "FieldValueInvalid | {path}: Invalid value: {value}: must be an object for an array of list-type map"
        )
    }

    fn breaks(&self, value: &str, rule: &str) -> String {
        let Self { path, text } = self;
        format!("FieldValueInvalid | {path}: Invalid value: {value}: {text} in body should {rule}")
    }
}

/// A broken rule. `kind` is the type that the schema names, if it names one.
pub fn broken_rule(path: &str, kind: &Value, message: &str) -> String {
    let kind = kind.as_str().unwrap_or_default();
    format!("FieldValueInvalid | {path}: Invalid value: \"{kind}\": {message}")
}

/// Follows findings after which the rules are not asked.
pub const RULES_UNCHECKED: &str = "FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// Whether the rules are not asked after this finding.
pub fn hides_rules(line: &str) -> bool {
    ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"]
        .iter()
        .any(|reason| line.starts_with(&format!("FieldValue{reason} ")))
}
