//! Whole Kubernetes objects inside a custom resource: their type and metadata.

use flagship_base::machinery::status::FieldError;
use serde_json::{Map, Value};

use super::builtin::object_meta;
use super::decode::decode_error;
use super::node::NodeRef;
use super::path::{Findings, Path};
use super::walk::visit;

/// Findings about every embedded object below `value`, which itself is not one.
pub(super) fn embedded_objects(value: &Value, node: NodeRef<'_>) -> Vec<FieldError> {
    let mut found = Vec::new();
    visit(value, node, &mut |value, node, path| {
        if let Value::Object(map) = value
            && node.node().embedded_resource
        {
            object(map, path, &mut found);
        }
    });
    found
}

fn object(map: &Map<String, Value>, path: &Path<'_>, found: &mut Vec<FieldError>) {
    for (name, check) in
        [("apiVersion", check_version as fn(&str) -> Option<String>), ("kind", check_kind)]
    {
        let path = Path::Field(path, name).to_string();
        match map.get(name) {
            None => found.add(FieldError::required(path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                found.add(FieldError::invalid(path, "".into(), "must not be empty"));
            }
            Some(Value::String(text)) => {
                if let Some(why) = check(text) {
                    found.add(FieldError::invalid(path, text.as_str().into(), why));
                }
            }
            Some(other) => found.add(FieldError::invalid(path, other.clone(), "must be a string")),
        }
    }
    if let Some(metadata) = map.get("metadata") {
        let path = Path::Field(path, "metadata");
        check_metadata(metadata, &path, found);
    }
}

fn check_version(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn check_kind(text: &str) -> Option<String> {
    let why = not_a_dns_1035_label(&text.to_lowercase())?;
    Some(format!("may have mixed case, but should otherwise match: {why}"))
}

fn check_metadata(metadata: &Value, path: &Path<'_>, found: &mut Vec<FieldError>) {
    if let Some(why) = decode_error(&object_meta(), metadata) {
        found.add(FieldError::invalid(path.to_string(), metadata.clone(), why));
        return;
    }
    for name in ["name", "generateName"] {
        let Some(text) = metadata.get(name).and_then(Value::as_str) else { continue };
        let path = Path::Field(path, name).to_string();
        let wrong = match text {
            "." | ".." => Some(format!("may not be '{text}'")),
            _ => ['/', '%']
                .iter()
                .find(|c| text.contains(**c))
                .map(|c| format!("may not contain '{c}'")),
        };
        if let Some(why) = wrong {
            found.add(FieldError::invalid(path, text.into(), why));
        }
    }
}

/// Why this is no DNS-1035 label, in Kubernetes' words.
pub(super) fn not_a_dns_1035_label(text: &str) -> Option<String> {
    const SHAPE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
        start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  \
        or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let shaped = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(inner)
        && bytes.iter().all(|b| inner(b) || *b == b'-');
    let mut why = Vec::new();
    if bytes.len() > 63 {
        why.push("must be no more than 63 characters");
    }
    if !shaped {
        why.push(SHAPE);
    }
    (!why.is_empty()).then(|| why.join(","))
}
