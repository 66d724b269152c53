//! Which form an answer takes, and which form a body is in.
//!
//! Answers are JSON, whole or as `Table` or `PartialObjectMetadata`. Bodies are JSON, YAML
//! or, of built-in kinds, protobuf.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::json;

use crate::machinery::query::Query;
use crate::machinery::status::{ApiError, FieldError};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Objects as they are.
    #[default]
    Whole,
    /// Only type and metadata.
    Metadata,
    /// Rows for people.
    Table(Include),
    /// The aggregated discovery document, where that is what is asked for.
    Aggregated,
}

/// What of an object goes with its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Include {
    /// Nothing.
    None,
    /// Type and metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl Form {
    /// The same with what `includeObject` asks for.
    pub fn including(self, query: &Query) -> Result<Self, ApiError> {
        let Self::Table(_) = self else { return Ok(self) };
        Ok(Self::Table(match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            "None" => Include::None,
            other => {
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                let error = FieldError::invalid("includeObject", json!(other), detail);
                return Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: {error}"
                )));
            }
        }))
    }
}

/// Picks the form of the answer. `discovery` paths know other forms than objects do.
pub fn accept(headers: &HeaderMap, discovery: bool) -> Result<Form, ApiError> {
    let mut asked = false;
    for header in headers.get_all(ACCEPT) {
        let text = header.to_str().unwrap_or_default();
        for range in text.split(',').filter(|range| !range.trim().is_empty()) {
            asked = true;
            if let Some(form) = form(range, discovery) {
                return Ok(form);
            }
        }
    }
    if asked {
        let says = "only the following media types are accepted: application/json";
        return Err(ApiError::new(406, "NotAcceptable", says));
    }
    Ok(Form::Whole)
}

/// Whether a media type is asked for by its name.
pub fn names(headers: &HeaderMap, media: &str) -> bool {
    let texts = headers.get_all(ACCEPT).iter().filter_map(|header| header.to_str().ok());
    let mut ranges = texts.flat_map(|text| text.split(','));
    ranges.any(|range| range.split(';').next().is_some_and(|name| name.trim() == media))
}

fn form(range: &str, discovery: bool) -> Option<Form> {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    if !matches!(media.as_str(), "application/json" | "application/*" | "*/*") {
        return None;
    }
    let (mut kind, mut group, mut version) = (None, None, None);
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key.trim() {
            "as" => kind = Some(value.trim()),
            "g" => group = Some(value.trim()),
            "v" => version = Some(value.trim()),
            "q" if value.trim().parse() == Ok(0.0) => return None,
            _ => {}
        }
    }
    match (kind, group, version) {
        (None, ..) => Some(Form::Whole),
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) if discovery => {
            Some(Form::Aggregated)
        }
        (
            Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
            Some("meta.k8s.io"),
            Some("v1"),
        ) if !discovery => Some(Form::Metadata),
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) if !discovery => {
            Some(Form::Table(Include::Metadata))
        }
        _ => None,
    }
}

/// The media type of a body, without parameters, in lower case. Empty when not said.
pub fn content_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// 415 with the list of what would have been read.
pub fn unknown_format(accepted: &[&str]) -> ApiError {
    ApiError::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(header: &str, discovery: bool) -> Result<Form, u16> {
        let mut headers = HeaderMap::new();
        if !header.is_empty() {
            headers.insert(ACCEPT, header.parse().unwrap());
        }
        accept(&headers, discovery).map_err(|e| e.code)
    }

    #[test]
    fn objects_come_as_json_or_as_metadata() {
        let table = [
            ("", Ok(Form::Whole)),
            ("*/*", Ok(Form::Whole)),
            ("application/json, */*", Ok(Form::Whole)),
            ("application/vnd.kubernetes.protobuf,application/json", Ok(Form::Whole)),
            ("application/vnd.kubernetes.protobuf", Err(406)),
            ("application/cbor", Err(406)),
            ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Ok(Form::Metadata)),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Ok(Form::Metadata),
            ),
            ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1", Err(406)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Ok(Form::Table(Include::Metadata)),
            ),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Err(406)),
            ("application/json;q=0", Err(406)),
        ];
        for (header, want) in table {
            assert_eq!(picked(header, false), want, "{header}");
        }
    }

    #[test]
    fn discovery_knows_its_own_form() {
        let header =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(picked(header, true), Ok(Form::Aggregated));
        assert_eq!(picked("application/json", true), Ok(Form::Whole));
    }
}
