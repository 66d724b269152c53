//! Which form an answer takes, and which form a body is in.
//!
//! Answers are JSON or YAML, whole or as `Table` or `PartialObjectMetadata`; watches are JSON.
//! Bodies are JSON, YAML or, of built-in kinds, protobuf.

use flagship_base::machinery::query::Query;
use flagship_base::machinery::status::{ApiError, FieldError};
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::json;

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

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    Json,
    Yaml,
}

/// Picks the form of the answer. `discovery` paths know other forms than objects do.
pub fn accept(headers: &HeaderMap, discovery: bool) -> Result<Form, ApiError> {
    match pick(headers, discovery) {
        Ok(picked) => Ok(picked.map(|(form, _)| form).unwrap_or_default()),
        Err(()) => Err(not_acceptable("application/json, application/yaml")),
    }
}

/// Refuses who wants a watch in something else than JSON.
pub fn accept_stream(headers: &HeaderMap) -> Result<(), ApiError> {
    match wants_yaml(headers) {
        true => Err(not_acceptable("application/json;stream=watch")),
        false => Ok(()),
    }
}

/// Whether the answer is to be written in YAML.
pub fn wants_yaml(headers: &HeaderMap) -> bool {
    // Every form that discovery knows is JSON.
    matches!(pick(headers, false), Ok(Some((_, Writing::Yaml))))
}

/// Refuses who wants a table of what has none.
pub fn no_table() -> ApiError {
    not_acceptable("application/json, application/yaml")
}

fn not_acceptable(known: &str) -> ApiError {
    let says = format!("only the following media types are accepted: {known}");
    ApiError::new(406, "NotAcceptable", says)
}

/// What the client likes best of what there is; nothing in particular if it does not say.
fn pick(headers: &HeaderMap, discovery: bool) -> Result<Option<(Form, Writing)>, ()> {
    let texts = headers.get_all(ACCEPT).iter().map(|header| header.to_str().unwrap_or_default());
    let ranges = texts.flat_map(|text| text.split(',')).filter(|range| !range.trim().is_empty());
    let mut ranges: Vec<(f32, &str)> = ranges.map(|range| (quality(range), range)).collect();
    if ranges.is_empty() {
        return Ok(None);
    }
    // Of equal ones the first.
    ranges.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let wanted = ranges.into_iter().filter(|(quality, _)| *quality > 0.0);
    wanted.map(|(_, range)| range).find_map(|range| form(range, discovery)).map(Some).ok_or(())
}

/// How much a range is liked, from 0 to 1.
fn quality(range: &str) -> f32 {
    let mut parameters = range.split(';').filter_map(|part| part.split_once('='));
    let text = parameters.find(|(key, _)| key.trim() == "q").map(|(_, value)| value.trim());
    text.and_then(|text| text.parse().ok()).unwrap_or(1.0)
}

/// Whether a media type is asked for by its name.
pub fn names(headers: &HeaderMap, media: &str) -> bool {
    let texts = headers.get_all(ACCEPT).iter().filter_map(|header| header.to_str().ok());
    let mut ranges = texts.flat_map(|text| text.split(','));
    ranges.any(|range| range.split(';').next().is_some_and(|name| name.trim() == media))
}

fn form(range: &str, discovery: bool) -> Option<(Form, Writing)> {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    let writing = match media.as_str() {
        "application/json" | "application/*" | "*/*" => Writing::Json,
        "application/yaml" => Writing::Yaml,
        _ => return None,
    };
    let (mut kind, mut group, mut version) = (None, None, None);
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key.trim() {
            "as" => kind = Some(value.trim()),
            "g" => group = Some(value.trim()),
            "v" => version = Some(value.trim()),
            _ => {}
        }
    }
    let form = match (kind, group, version) {
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
    };
    form.map(|form| (form, writing))
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
    fn what_is_liked_best_is_picked() {
        for (header, yaml) in [
            ("", false),
            ("application/yaml", true),
            ("application/yaml, application/json", true),
            ("application/json, application/yaml", false),
            ("application/json;q=0.1, application/yaml;q=0.9", true),
            ("application/yaml;q=0, */*", false),
            ("application/yaml;as=Table;v=v1;g=meta.k8s.io", true),
            ("text/html", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, header.parse().unwrap());
            assert_eq!(wants_yaml(&headers), yaml, "{header}");
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
