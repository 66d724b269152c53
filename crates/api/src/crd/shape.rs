//! Schemas of types that are not ours: conditions, selectors, times, quantities.
//!
//! Used from the types with `#[schemars(schema_with = "shape::...")]`. Field
//! attributes and doc comments are laid over what these return.

use super::cel::rules;
use schemars::{Schema, SchemaGenerator, json_schema};

/// Object metadata: the server checks it itself, so the schema says nothing.
pub(crate) fn metadata(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// A point in time, as RFC 3339 text.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Certificates in PEM, as base64 text. Without `format: byte`, which CEL would take for bytes.
pub(crate) fn ca_bundle(_: &mut SchemaGenerator) -> Schema {
    let rules = rules(&[(
        "self.startsWith('LS0tLS1CRUdJTiBD') && self.matches('^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$')",
        "must be certificates in PEM, in base64: base64 -w0 ca.crt",
    )]);
    json_schema!({ "type": "string", "maxLength": 16384, "x-kubernetes-validations": rules })
}

/// Bytes, as base64 text.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "byte" })
}

/// Text, where the Rust type is an enum that also keeps unknown values.
pub(crate) fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

/// A whole number of no stated width.
pub(crate) fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

/// A number or a text such as a percentage.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
    })
}

/// Amounts by resource name, such as `cpu: 500m`.
pub(crate) fn quantities(generator: &mut SchemaGenerator) -> Schema {
    let mut quantity = int_or_string(generator);
    quantity.insert("pattern".into(), QUANTITY.into());
    json_schema!({ "type": "object", "additionalProperties": quantity })
}

const QUANTITY: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
);

/// Any JSON value.
pub(crate) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Any JSON object.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A complete Kubernetes object of any kind.
pub(crate) fn manifest(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// A list of complete Kubernetes objects.
pub(crate) fn manifests(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": manifest(generator) })
}

/// A label selector; the two parts are ANDed.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels that must be present with exactly these values.",
                "additionalProperties": { "type": "string" },
            },
            "matchExpressions": {
                "type": "array",
                "description": "Further requirements on labels, all of which must hold.",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "type": "string",
                            "description": "Label key the requirement is about.",
                        },
                        "operator": {
                            "type": "string",
                            "description": "One of In, NotIn, Exists and DoesNotExist.",
                        },
                        "values": {
                            "type": "array",
                            "description": "Values to compare with; empty for Exists and DoesNotExist.",
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string" },
                        },
                    },
                },
            },
        },
    })
}

/// Conditions, merged by their type.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut list = condition_list(generator);
    list.insert("x-kubernetes-list-type".into(), "map".into());
    list.insert("x-kubernetes-list-map-keys".into(), vec!["type"].into());
    list
}

/// Conditions as a plain list, replaced as a whole.
pub(crate) fn condition_list(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": condition(generator) })
}

/// One condition.
pub(crate) fn condition(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "type": {
                "type": "string",
                "description": "What the condition is about.",
                "maxLength": 316,
                "pattern": CONDITION_TYPE,
            },
            "status": {
                "type": "string",
                "description": "Whether it holds.",
                "enum": ["True", "False", "Unknown"],
            },
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "Generation of the object this was said about; an older one is stale.",
                "minimum": 0,
            },
            "lastTransitionTime": {
                "type": "string",
                "format": "date-time",
                "description": "When the status last changed.",
            },
            "reason": {
                "type": "string",
                "description": "Why, as one word for programs.",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": CONDITION_REASON,
            },
            "message": {
                "type": "string",
                "description": "Why, as a sentence for people.",
                "maxLength": 32768,
            },
        },
    })
}

const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const CONDITION_TYPE: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
);
