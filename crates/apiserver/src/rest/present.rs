//! Stored bytes as clients asked to see them.
//!
//! Objects in their storage version are sent as they lie. Another version whose schema
//! is the same only has its `apiVersion` spliced in; otherwise, and when the object is
//! older than the kind's definition, it is parsed, converted and written again.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use flagship_base::machinery::status::ApiError;
use flagship_kinds::tables::Table;
use flagship_store::env::Clock;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::negotiate::{Form, Include};
use super::rules;
use crate::registry::{Origin, Served};

/// How to show the objects of one request.
#[derive(Clone)]
pub(crate) struct Presenter {
    pub(super) served: Served,
    pub(super) form: Form,
    clock: Arc<dyn Clock>,
}

impl Presenter {
    pub(super) fn new(cluster: &Cluster, served: Served, form: Form) -> Self {
        Self { served, form, clock: cluster.env.clock.clone() }
    }

    /// One object as it was written at a revision; borrowed where it is sent as it lies.
    /// A table of one row has its columns with it.
    pub(super) fn object<'a>(
        &self,
        json: &'a [u8],
        revision: u64,
    ) -> Result<Cow<'a, [u8]>, ApiError> {
        self.event(json, revision, true)
    }

    /// The same for an event of a watch, where only the first table has `columns`.
    pub(super) fn event<'a>(
        &self,
        json: &'a [u8],
        revision: u64,
        columns: bool,
    ) -> Result<Cow<'a, [u8]>, ApiError> {
        let Form::Table(_) = self.form else { return self.item(json, revision) };
        let row = self.item(json, revision)?;
        let columns = if columns { self.table().columns() } else { Value::Null };
        let metadata = json!({"resourceVersion": revision.to_string()});
        let mut table = table_head(&metadata, &columns).into_bytes();
        table.extend_from_slice(&row);
        table.extend_from_slice(b"]}");
        Ok(Cow::Owned(table))
    }

    /// One entry of a list: an object, or a row.
    pub(super) fn item<'a>(
        &self,
        json: &'a [u8],
        revision: u64,
    ) -> Result<Cow<'a, [u8]>, ApiError> {
        match self.form {
            Form::Metadata => partial(json).map(Cow::Owned).map_err(ApiError::internal),
            Form::Whole | Form::Aggregated => self.versioned(json, revision),
            Form::Table(include) => self.row(json, revision, include).map(Cow::Owned),
        }
    }

    /// Whether entries of a list are sent as they are stored, as long as nobody asks for another
    /// version of them.
    pub(super) fn as_it_lies(&self) -> bool {
        matches!(self.form, Form::Whole | Form::Aggregated)
    }

    /// Where an entry of a list says what kind it is, to be left out: lists of built-in kinds say
    /// it once for all, in their own kind. Empty where it stays.
    pub(super) fn type_in(&self, json: &[u8]) -> [Range<usize>; 2] {
        let whole = matches!(self.form, Form::Whole | Form::Aggregated);
        let left_out = whole && self.served.kind.origin != Origin::Custom;
        left_out.then(|| type_entries(json)).flatten().unwrap_or_default()
    }

    /// Everything of a list before its first item.
    pub(super) fn list_head(&self, metadata: &Value) -> Bytes {
        let (kind, api_version) = match self.form {
            Form::Table(_) => return table_head(metadata, &self.table().columns()).into(),
            Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
            Form::Whole | Form::Aggregated => {
                (&*self.served.kind.list_kind, &*self.served.version().api_version)
            }
        };
        format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        )
        .into()
    }

    /// What a bookmark carries: nothing but its revision.
    pub(super) fn bookmark(&self, metadata: &Value) -> String {
        if let Form::Table(_) = self.form {
            return table_head(metadata, &Value::Null) + "]}";
        }
        let (kind, api_version) = match self.form {
            Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            _ => (&*self.served.kind.kind, &*self.served.version().api_version),
        };
        json!({"kind": kind, "apiVersion": api_version, "metadata": metadata}).to_string()
    }

    fn table(&self) -> Table<'_> {
        self.served.kind.table(self.served.version)
    }

    fn row(&self, json: &[u8], revision: u64, include: Include) -> Result<Vec<u8>, ApiError> {
        let table = self.table();
        // Built-in kinds are shown from what is stored, which has all that any version has.
        let shown = match self.served.kind.origin {
            Origin::Builtin(_) => Cow::Borrowed(json),
            Origin::Custom => self.versioned(json, revision)?,
        };
        let value: Value = serde_json::from_slice(&shown).map_err(ApiError::internal)?;
        let cells = Value::Array(table.cells(&value, self.clock.now()));
        let mut row = format!("{{\"cells\":{cells}").into_bytes();
        if let Some(conditions) = table.conditions(&value) {
            row.extend_from_slice(format!(",\"conditions\":{conditions}").as_bytes());
        }
        row.extend_from_slice(b",\"object\":");
        match include {
            Include::None => row.extend_from_slice(b"null"),
            Include::Metadata => {
                row.extend_from_slice(&partial(json).map_err(ApiError::internal)?);
            }
            Include::Object => row.extend_from_slice(&self.versioned(json, revision)?),
        }
        row.push(b'}');
        Ok(row)
    }

    /// One entry of a list that is put together at once.
    pub(super) fn entry(&self, json: &[u8], revision: u64) -> Result<Bytes, ApiError> {
        let json = self.item(json, revision)?;
        let [version, kind] = self.type_in(&json);
        Ok([&json[..version.start], &json[version.end..kind.start], &json[kind.end..]]
            .concat()
            .into())
    }

    /// One object as a body.
    pub(super) fn body(&self, json: &Bytes, revision: u64) -> Result<Bytes, ApiError> {
        Ok(match self.object(json, revision)? {
            // Always all of it.
            Cow::Borrowed(_) => json.clone(),
            Cow::Owned(other) => other.into(),
        })
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

/// The entries `apiVersion` and `kind` of an object, each with the comma after it, in the order
/// in which they stand: metadata follows both. `None` for what is no object as stored.
fn type_entries(json: &[u8]) -> Option<[Range<usize>; 2]> {
    let mut found: Vec<Range<usize>> = Vec::with_capacity(2);
    let mut start = 1;
    while found.len() < 2 {
        let end_of_key = end_of_text(json, start)?;
        let end = end_of_value(json, end_of_key + 1)?;
        if json.get(end) != Some(&b',') {
            return None;
        }
        if let b"\"apiVersion\"" | b"\"kind\"" = &json[start..end_of_key] {
            found.push(start..end + 1);
        }
        start = end + 1;
    }
    found.try_into().ok()
}

/// Behind the text that begins here. Most of a large object is in few texts, so whole words
/// without a quote or a backslash are passed over.
fn end_of_text(json: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let words = json.get(at..)?.as_chunks::<8>().0.iter();
        at += 8 * words.take_while(|word| !ends_or_escapes(u64::from_le_bytes(**word))).count();
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether one of eight bytes is a quote or a backslash.
fn ends_or_escapes(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 255;
    [b'"', b'\\'].into_iter().any(|byte| {
        let zero_where_equal = word ^ (ONES * u64::from(byte));
        zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & (ONES << 7) != 0
    })
}

/// Behind the value that begins here, in JSON without spaces.
fn end_of_value(json: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0_usize);
    loop {
        match json.get(at)? {
            b'"' => at = end_of_text(json, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            b',' | b'}' | b']' if depth == 0 => return Some(at),
            _ => at += 1,
        }
        if depth == 0 && matches!(json.get(at)?, b',' | b'}' | b']') {
            return Some(at);
        }
    }
}

/// A table up to its first row.
pub(super) fn table_head(metadata: &Value, columns: &Value) -> String {
    format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\
         \"columnDefinitions\":{columns},\"rows\":["
    )
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
    fn the_type_is_found_wherever_it_stands() {
        let table = [
            (r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#, Some(r#"{"metadata":{}}"#)),
            (
                r#"{"apiVersion":"v1","data":{"kind":"x","a":"}\"],"},"kind":"ConfigMap","metadata":{"a":[1,{}]}}"#,
                Some(r#"{"data":{"kind":"x","a":"}\"],"},"metadata":{"a":[1,{}]}}"#),
            ),
            (
                r#"{"action":"a","apiVersion":"v1","count":1,"done":true,"kind":"E","metadata":{}}"#,
                Some(r#"{"action":"a","count":1,"done":true,"metadata":{}}"#),
            ),
            (
                r#"{"apiVersion":"v1","data":{"a":"0123456789abcdef\"01234567\\","b":"01234567"},"kind":"ConfigMap","metadata":{}}"#,
                Some(
                    r#"{"data":{"a":"0123456789abcdef\"01234567\\","b":"01234567"},"metadata":{}}"#,
                ),
            ),
            (r#"{"kind":"Pod"}"#, None),
            ("", None),
            ("7", None),
        ];
        for (json, expected) in table {
            let json = json.as_bytes();
            let rest = type_entries(json).map(|[version, kind]| {
                let parts =
                    [&json[..version.start], &json[version.end..kind.start], &json[kind.end..]];
                String::from_utf8(parts.concat()).unwrap()
            });
            assert_eq!(rest.as_deref(), expected);
        }
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
