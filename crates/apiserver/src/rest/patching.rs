//! The four kinds of patches and how their bodies are read.

use flagship_base::machinery::status::{ApiError, FieldError};
use serde_json::Value;

use super::decode::{self, Decoded};
use super::options::WriteOptions;
use crate::patch;
use crate::registry::Served;

/// A kind of patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902 operations.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, which merges lists by key. Only for built-in kinds.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// A patch with its body.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    Json(Decoded),
    Merge(Decoded),
    Strategic(Decoded),
    Apply(Decoded),
}

impl PatchKind {
    /// By the media type of the body.
    pub(super) fn from_media(media: &str, custom: bool) -> Result<Self, ApiError> {
        match media {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => {
                if custom {
                    return Err(super::negotiate::unknown_format(&[
                        "application/json-patch+json",
                        "application/merge-patch+json",
                        "application/apply-patch+yaml",
                    ]));
                }
                let mut error = ApiError::unsupported_media_type("415: Unsupported Media Type");
                error.details = Some(Box::default());
                Err(error)
            }
        }
    }

    /// Holds the options against the kind of patch.
    pub(super) fn check(self, options: &WriteOptions) -> Result<(), ApiError> {
        let error = match self {
            Self::Apply if options.field_manager.is_none() => {
                FieldError::required("fieldManager", "is required for apply patch")
            }
            Self::Json | Self::Merge | Self::Strategic if options.force => {
                FieldError::forbidden("force", "may not be specified for non-apply patch")
            }
            _ => return Ok(()),
        };
        Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[error]))
    }

    /// Reads the body.
    pub(super) fn read(self, body: &[u8]) -> Result<Patch, ApiError> {
        match self {
            Self::Json => Ok(Patch::Json(decode::json(body)?)),
            Self::Merge => Ok(Patch::Merge(decode::json(body)?)),
            Self::Strategic => Ok(Patch::Strategic(decode::json(body)?)),
            Self::Apply => Ok(Patch::Apply(decode::yaml(body)?)),
        }
    }

    /// With a body that is a value already.
    pub(super) fn with(self, value: Value) -> Patch {
        match self {
            Self::Json => Patch::Json(value.into()),
            Self::Merge => Patch::Merge(value.into()),
            Self::Strategic => Patch::Strategic(value.into()),
            Self::Apply => Patch::Apply(value.into()),
        }
    }
}

impl Patch {
    /// Duplicate keys in the body. Operations of a JSON patch have other paths than the object.
    pub(super) fn duplicates(&self) -> &[String] {
        match self {
            Self::Json(_) => &[],
            Self::Merge(body) | Self::Strategic(body) | Self::Apply(body) => &body.duplicates,
        }
    }

    /// The object after the patch. Server-side apply goes through `managers` instead.
    pub(super) fn apply(&self, old: &Value, served: &Served) -> Result<Value, ApiError> {
        match self {
            Self::Strategic(body) => {
                patch::strategic(old, &body.value, served.version().merges_by())
                    .map_err(patch::refused)
            }
            other => other.apply_plain(old),
        }
    }

    /// The same for a value without a schema, such as a Scale.
    pub(super) fn apply_plain(&self, old: &Value) -> Result<Value, ApiError> {
        match self {
            Self::Json(body) => {
                let kind = match &body.value {
                    Value::Array(_) => None,
                    Value::Object(_) => Some("object"),
                    Value::String(_) => Some("string"),
                    Value::Number(_) => Some("number"),
                    Value::Bool(_) => Some("bool"),
                    Value::Null => return Ok(old.clone()),
                };
                if let Some(kind) = kind {
                    return Err(ApiError::bad_request(format!(
                        "error decoding patch: json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp"
                    )));
                }
                patch::json(old, &body.value).map_err(patch::refused)
            }
            Self::Merge(body) | Self::Strategic(body) | Self::Apply(body) => {
                patch::merge(old, &body.value).map_err(patch::refused)
            }
        }
    }
}
