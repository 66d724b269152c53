//! Errors as Kubernetes says them: a `Status` with a reason, a code and causes.
//!
//! Clients branch on `reason` and read `details.causes`; people read `message`.
//! [`FieldError`] is one finding about one field, [`ApiError`] the whole answer.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use super::bounds::{self, MAX_PATH, MAX_SENTENCE, MAX_SHOWN};

/// A refused request. Turns into the `Status` object that clients expect.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`; empty when none applies.
    pub reason: &'static str,
    /// One sentence for people.
    pub message: String,
    /// What the error is about.
    pub details: Option<Box<Details>>,
}

/// The object and the fields an [`ApiError`] is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind for `Invalid`, resource for everything else, as Kubernetes does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// UID of the object, when one was involved.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry a field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One reason among several.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// Such as `FieldValueInvalid` or `FieldManagerConflict`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'static str,
    /// One sentence for people, without the field path.
    pub message: String,
    /// Path of the field, such as `spec.template.spec.containers[0].image`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldProblem {
    /// The field must be present.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value stands in the list twice.
    Duplicate,
    /// The value is not among the allowed ones.
    NotSupported,
    /// The field may not be set, or not changed.
    Forbidden,
    /// The string is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The value names something that does not exist.
    NotFound,
}

/// One finding about one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What is wrong.
    pub problem: FieldProblem,
    /// Where, such as `spec.ports[0].port`; keys of maps as `data[key]`.
    pub path: String,
    /// The offending value; `None` where Kubernetes does not print it.
    pub value: Option<Value>,
    /// The rule that was broken.
    pub detail: String,
}

impl FieldProblem {
    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Duplicate => "Duplicate value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
        }
    }

    fn cause(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
        }
    }
}

impl FieldError {
    /// A finding that prints the offending value.
    pub fn new(
        problem: FieldProblem,
        path: impl Into<String>,
        value: Value,
        detail: impl Into<String>,
    ) -> Self {
        Self { problem, path: path.into(), value: Some(value), detail: detail.into() }
    }

    /// The value breaks a rule.
    pub fn invalid(path: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self::new(FieldProblem::Invalid, path, value, detail)
    }

    /// The field is missing.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            problem: FieldProblem::Required,
            path: path.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// The field may not be set or changed.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            problem: FieldProblem::Forbidden,
            path: path.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// The value stands in the list twice.
    pub fn duplicate(path: impl Into<String>, value: Value) -> Self {
        Self::new(FieldProblem::Duplicate, path, value, "")
    }

    /// The value is none of `allowed`.
    pub fn not_supported(path: impl Into<String>, value: Value, allowed: &[&str]) -> Self {
        let list: Vec<String> = allowed.iter().map(|a| format!("{a:?}")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::new(FieldProblem::NotSupported, path, value, detail)
    }

    /// The string has more than `max` bytes.
    pub fn too_long(path: impl Into<String>, max: usize) -> Self {
        let detail = format!("may not be more than {max} bytes");
        Self { problem: FieldProblem::TooLong, path: path.into(), value: None, detail }
    }

    fn place(&self) -> String {
        bounds::clip(self.path.clone(), MAX_PATH)
    }

    /// The message without the path, as it stands in a cause. Long values are clipped.
    pub fn body(&self) -> String {
        let mut text = self.problem.words().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(&bounds::print(value));
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        bounds::clip(text, MAX_SENTENCE)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.body())
    }
}

impl ApiError {
    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    /// `resource` is the plural, qualified as in `deployments.apps`.
    fn about(code: u16, reason: &'static str, resource: &str, name: &str, says: String) -> Self {
        let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            ..Details::default()
        };
        Self { code, reason, message: says, details: Some(Box::new(details)) }
    }

    /// 404: no such object. `resource` as in `deployments.apps`.
    pub fn not_found(resource: &str, name: &str) -> Self {
        Self::about(404, "NotFound", resource, name, format!("{resource} {name:?} not found"))
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &str, name: &str) -> Self {
        let says = format!("{resource} {name:?} already exists");
        Self::about(409, "AlreadyExists", resource, name, says)
    }

    /// 409: somebody wrote first, or a precondition failed.
    pub fn conflict(resource: &str, name: &str, why: &str) -> Self {
        let says = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::about(409, "Conflict", resource, name, says)
    }

    /// 409 with the sentence that clients and people know for a stale resourceVersion.
    pub fn stale(resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 403: refused by policy.
    pub fn forbidden(resource: &str, name: &str, why: &str) -> Self {
        let says = format!("{resource} {name:?} is forbidden: {why}");
        Self::about(403, "Forbidden", resource, name, says)
    }

    /// 400: the request makes no sense as written.
    pub fn bad_request(says: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", says)
    }

    /// 410: the revision asked for is no longer kept.
    pub fn expired(says: impl Into<String>) -> Self {
        Self::new(410, "Expired", says)
    }

    /// 413: the body has more than `limit` bytes.
    pub fn too_large(limit: usize) -> Self {
        let says = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", says)
    }

    /// 415: the body's media type is not understood here.
    pub fn unsupported_media_type(says: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", says)
    }

    /// 405: the verb does not exist for this resource.
    pub fn method_not_allowed() -> Self {
        let says = "the server does not allow this method on the requested resource";
        Self::about(405, "MethodNotAllowed", "", "", says.to_owned())
    }

    /// 500: a defect of ours, or an injected fault.
    pub fn internal(says: impl fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {says}"))
    }

    /// 422: the object was understood and is wrong. One cause a field, up to a bound.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let (shown, rest) = errors.split_at(errors.len().min(MAX_SHOWN));
        let mut all: Vec<String> = shown.iter().map(ToString::to_string).collect();
        if !rest.is_empty() {
            // Who found them may have stopped counting.
            all.push(format!("and at least {} more", rest.len()));
        }
        let list = match all.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes = shown
            .iter()
            .map(|e| Cause { reason: e.problem.cause(), message: e.body(), field: e.place() })
            .collect();
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        };
        Self {
            code: 422,
            reason: "Invalid",
            message: format!("{qualified} {name:?} is invalid: {list}"),
            details: Some(Box::new(details)),
        }
    }

    /// Adds a cause, for errors that carry one beside their reason.
    #[must_use]
    pub fn with_cause(mut self, reason: &'static str, message: &str, field: &str) -> Self {
        let cause = Cause { reason, message: message.to_owned(), field: field.to_owned() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Tells the client when to come back.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            status["details"] = json!(details);
        }
        if self.reason.is_empty()
            && let Some(map) = status.as_object_mut()
        {
            map.remove("reason");
        }
        status
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_error_reads_as_kubernetes_prints_it() {
        let errors =
            [FieldError::invalid("spec.replicas", json!(-1), "must be greater than or equal to 0")];
        let error = ApiError::invalid("apps", "Deployment", "web", &errors);
        assert_eq!(
            error.message,
            "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
        let status = error.to_status();
        assert_eq!(status["details"]["causes"][0]["field"], "spec.replicas");
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueInvalid");
    }

    #[test]
    fn several_field_errors_are_listed_in_brackets() {
        let errors = [
            FieldError::required("metadata.name", "name or generateName is required"),
            FieldError::not_supported("spec.type", json!("X"), &["A", "B"]),
        ];
        let error = ApiError::invalid("", "Service", "s", &errors);
        assert_eq!(
            error.message,
            "Service \"s\" is invalid: [metadata.name: Required value: name or generateName is required, \
             spec.type: Unsupported value: \"X\": supported values: \"A\", \"B\"]"
        );
    }

    #[test]
    fn an_answer_stays_small_however_much_is_wrong() {
        let key = "k".repeat(100_000);
        let errors: Vec<FieldError> = (0..5000)
            .map(|n| FieldError::invalid(format!("data[{key}{n}]"), json!(key), key.as_str()))
            .collect();
        let error = ApiError::invalid("", "ConfigMap", "a", &errors);
        assert!(error.message.ends_with(", and at least 4900 more]"));
        assert_eq!(error.details.as_ref().unwrap().causes.len(), 100);
        assert!(error.to_status().to_string().len() < 600_000);
    }

    #[test]
    fn not_found_names_resource_and_group() {
        let status = ApiError::not_found("deployments.apps", "web").to_status();
        assert_eq!(status["message"], "deployments.apps \"web\" not found");
        assert_eq!(
            status["details"],
            json!({"name": "web", "group": "apps", "kind": "deployments"})
        );
    }
}
