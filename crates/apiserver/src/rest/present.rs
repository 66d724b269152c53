//! Stored bytes as clients asked to see them.
//!
//! Objects in their storage version are sent as they lie. Another version whose schema
//! is the same only has its `apiVersion` spliced in; otherwise, and when the object is
//! older than the kind's definition, it is parsed, converted and written again.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::negotiate::Form;
use super::rules;
use crate::machinery::status::ApiError;
use crate::registry::{Origin, Served};

/// How to show the objects of one request.
#[derive(Debug, Clone)]
pub(crate) struct Presenter {
    pub(super) served: Served,
    pub(super) form: Form,
}

impl Presenter {
    pub(super) fn new(served: Served, form: Form) -> Self {
        Self { served, form }
    }

    /// One object as it was written at a revision; borrowed where it is sent as it lies.
    pub(super) fn object<'a>(
        &self,
        json: &'a [u8],
        revision: u64,
    ) -> Result<Cow<'a, [u8]>, ApiError> {
        match self.form {
            Form::Metadata => partial(json).map(Cow::Owned).map_err(ApiError::internal),
            Form::Whole | Form::Aggregated => self.versioned(json, revision),
        }
    }

    /// One object as a body.
    pub(super) fn body(&self, json: &[u8], revision: u64) -> Result<Bytes, ApiError> {
        Ok(match self.object(json, revision)? {
            Cow::Borrowed(same) => Bytes::copy_from_slice(same),
            Cow::Owned(other) => other.into(),
        })
    }

    /// `kind` and `apiVersion` of single objects.
    pub(super) fn type_of_object(&self) -> (&str, &str) {
        match self.form {
            Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            Form::Whole | Form::Aggregated => {
                (&self.served.kind.kind, &self.served.version().api_version)
            }
        }
    }

    /// `kind` and `apiVersion` of lists.
    pub(super) fn type_of_list(&self) -> (&str, &str) {
        match self.form {
            Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
            Form::Whole | Form::Aggregated => {
                (&self.served.kind.list_kind, &self.served.version().api_version)
            }
        }
    }

    fn versioned<'a>(&self, json: &'a [u8], revision: u64) -> Result<Cow<'a, [u8]>, ApiError> {
        let kind = &*self.served.kind;
        if revision < self.served.since {
            let object: Value = serde_json::from_slice(json).map_err(ApiError::internal)?;
            let fresh = rules::refresh(kind, self.served.version, object);
            return Ok(Cow::Owned(fresh.to_string().into_bytes()));
        }
        let wanted = &self.served.version().api_version;
        if begins_with(json, wanted) {
            return Ok(Cow::Borrowed(json));
        }
        // Which version it is in, among those with the same schema: then a splice will do.
        let same = |v: &usize| kind.same_schema(*v, self.served.version);
        let spliced = (0..kind.versions.len())
            .filter(|_| kind.origin == Origin::Custom)
            .filter(same)
            .find_map(|v| splice(json, &kind.versions[v].api_version, wanted));
        if let Some(spliced) = spliced {
            return Ok(Cow::Owned(spliced));
        }
        let object: Value = serde_json::from_slice(json).map_err(ApiError::internal)?;
        if object["apiVersion"] == **wanted {
            return Ok(Cow::Borrowed(json));
        }
        Ok(Cow::Owned(rules::convert(kind, self.served.version, object).to_string().into_bytes()))
    }
}

/// `apiVersion` is nearly always the first key: keys are sorted.
const KEY: &[u8] = b"{\"apiVersion\":\"";

/// What follows the version, where the first key is `apiVersion` with this one.
fn after_version<'a>(json: &'a [u8], version: &str) -> Option<&'a [u8]> {
    let rest = json.strip_prefix(KEY)?.strip_prefix(version.as_bytes())?;
    rest.starts_with(b"\"").then_some(rest)
}

fn begins_with(json: &[u8], version: &str) -> bool {
    after_version(json, version).is_some()
}

/// Replaces the leading `apiVersion`.
fn splice(json: &[u8], from: &str, to: &str) -> Option<Vec<u8>> {
    Some([KEY, to.as_bytes(), after_version(json, from)?].concat())
}

/// Type and metadata of an object, the metadata untouched.
fn partial(json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Partial<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    let Partial { metadata } = serde_json::from_slice(json)?;
    let metadata = metadata.map_or("{}", RawValue::get);
    Ok(format!(
        "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}}}"
    )
    .into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_leading_version_is_replaced() {
        let json = br#"{"apiVersion":"a/v1","spec":{"apiVersion":"a/v1"}}"#;
        let want = br#"{"apiVersion":"a/v2","spec":{"apiVersion":"a/v1"}}"#;
        assert_eq!(splice(json, "a/v1", "a/v2").as_deref(), Some(want.as_slice()));
        assert_eq!(splice(json, "a/v", "a/v2"), None);
        assert_eq!(splice(br#"{"A":1,"apiVersion":"a/v1"}"#, "a/v1", "a/v2"), None);
    }

    #[test]
    fn a_partial_object_keeps_its_metadata_bytes() {
        let got = partial(br#"{"apiVersion":"v1","metadata":{"name":"a"},"data":{}}"#).unwrap();
        assert_eq!(
            &got[..],
            br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}"#
        );
    }
}
