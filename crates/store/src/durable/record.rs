//! How an object lies in the file.
//!
//! Key: cluster, resource, namespace and name, each closed by a zero byte, which none of
//! them may contain; so one cluster is one range. Value: one byte that says whether it is
//! sealed, a checksum over that byte, the key and the rest, and the rest: the revision, the
//! selectable fields as JSON, and the object's own text, or all that sealed.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use super::seal::Keys;
use crate::{Encoded, Head, ObjectKey, Pairs, Resource, Restored, Stored};

const PLAIN: u8 = 1;
const SEALED: u8 = 2;

/// Why a record is of no use.
#[derive(Debug)]
pub enum Unreadable {
    /// Something else lies there than was written.
    Damaged(String),
    /// It is sealed by the key of this id, which is not at hand.
    Key(String),
}

/// A record as it lies in the file.
pub fn wrap(key: &[u8], text: &[u8], keys: &Keys) -> Vec<u8> {
    let sealed = keys.seal(key, text);
    let (kind, rest) = match &sealed {
        Some(sealed) => (SEALED, sealed.as_slice()),
        None => (PLAIN, text),
    };
    let mut value = Vec::with_capacity(5 + rest.len());
    value.push(kind);
    value.extend_from_slice(&checksum(&[&[kind], key, rest]).to_le_bytes());
    value.extend_from_slice(rest);
    value
}

/// What was wrapped, if it is whole and its key is at hand.
pub fn unwrap<'v>(key: &[u8], value: &'v [u8], keys: &Keys) -> Result<Cow<'v, [u8]>, Unreadable> {
    let damaged = |why: &str| Unreadable::Damaged(format!("{} {why}", named(key)));
    match parts(key, value).ok_or_else(|| damaged("does not match its checksum"))? {
        (PLAIN, rest) => Ok(Cow::Borrowed(rest)),
        (SEALED, rest) => keys.open(key, rest).map(Cow::Owned).map_err(|why| match why {
            Unreadable::Damaged(why) => damaged(&format!("cannot be read: {why}")),
            other => other,
        }),
        _ => Err(damaged("was written by a later version")),
    }
}

/// Whether a record that is whole would be written otherwise with these keys.
pub fn would_rewrite(value: &[u8], keys: &Keys) -> bool {
    let sealed = value.get(5..).filter(|_| value.first() == Some(&SEALED));
    keys.would_rewrite(sealed)
}

/// Kind and content of a value that matches its checksum.
pub fn parts<'v>(key: &[u8], value: &'v [u8]) -> Option<(u8, &'v [u8])> {
    let (kind, rest) = value.split_first()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let matches = checksum(&[&[*kind], key, rest]) == u32::from_le_bytes(*sum);
    matches.then_some((*kind, rest))
}

/// A number as it lies in the file under a name.
pub fn number(name: &str, number: u64) -> [u8; 12] {
    let bytes = number.to_le_bytes();
    let sum = checksum(&[name.as_bytes(), &bytes]).to_le_bytes();
    let mut value = [0; 12];
    value[..8].copy_from_slice(&bytes);
    value[8..].copy_from_slice(&sum);
    value
}

/// That number, if it is whole.
pub fn read_number(name: &str, value: &[u8]) -> Result<u64, Unreadable> {
    let read = value.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
    read.filter(|read| number(name, *read) == value).ok_or_else(|| {
        Unreadable::Damaged(format!("the revision of {name:?} does not match its checksum"))
    })
}

fn checksum(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// What a key names, for people.
pub fn named(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    let parts: Vec<&str> = text.split('\0').collect();
    match parts.as_slice() {
        [cluster, resource, "", name, ""] => format!("{resource} {name} of {cluster}"),
        [cluster, resource, namespace, name, ""] => {
            format!("{resource} {namespace}/{name} of {cluster}")
        }
        _ => format!("the record {text:?}"),
    }
}

/// The key of an object.
pub fn key(cluster: &str, resource: &str, object: &ObjectKey) -> Vec<u8> {
    let parts = [cluster, resource, &*object.namespace, &*object.name];
    let mut key = Vec::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
    for part in parts {
        key.extend_from_slice(part.as_bytes());
        key.push(0);
    }
    key
}

/// The object that a key names.
pub fn place(key: &[u8]) -> Option<(Resource, ObjectKey)> {
    let text = std::str::from_utf8(key).ok()?;
    let parts: Vec<&str> = text.split('\0').collect();
    let [_, resource, namespace, name, ""] = parts.as_slice() else { return None };
    Some(((*resource).into(), ObjectKey::new(*namespace, *name)))
}

/// From the first key of a cluster to the first beyond it.
pub fn range(cluster: &str) -> (Vec<u8>, Vec<u8>) {
    let with = |end: u8| [cluster.as_bytes(), &[end]].concat();
    (with(0), with(1))
}

/// The same for one resource of a cluster.
pub fn range_of(cluster: &str, resource: &str) -> (Vec<u8>, Vec<u8>) {
    let with = |end: u8| [cluster.as_bytes(), &[0], resource.as_bytes(), &[end]].concat();
    (with(0), with(1))
}

/// The text of an object's record.
pub fn text(stored: &Stored) -> Vec<u8> {
    let fields: Vec<(&str, &str)> = stored.head.fields.iter().collect();
    let fields = serde_json::to_vec(&fields).unwrap_or_default();
    let length = u32::try_from(fields.len()).unwrap_or(0);
    let mut value = Vec::with_capacity(12 + fields.len() + stored.json.len());
    value.extend_from_slice(&stored.revision.to_le_bytes());
    value.extend_from_slice(&length.to_le_bytes());
    value.extend_from_slice(&fields[..length as usize]);
    value.extend_from_slice(&stored.json);
    value
}

/// What is looked at of an object when it is read again. The rest is only seen to be whole:
/// a start should not take longer than it must.
#[derive(Deserialize)]
struct Glance {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    uid: Value,
    labels: Value,
    generation: Value,
    deletion_timestamp: Value,
}

/// An object as it was written.
pub fn read(key: &[u8], value: &[u8]) -> Result<Restored, String> {
    let Some((resource, place)) = place(key) else {
        let text = String::from_utf8_lossy(key);
        return Err(format!("the key {text:?} does not name an object"));
    };
    let at = || format!("{resource} {}/{}", place.namespace, place.name);
    let short = || format!("{} is cut short", at());
    let (revision, rest) = value.split_first_chunk::<8>().ok_or_else(short)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (fields, text) = rest.split_at_checked(length).ok_or_else(short)?;
    let unreadable = |error: serde_json::Error| format!("{} cannot be read: {error}", at());
    let fields: Vec<(String, String)> = match fields {
        [] => Vec::new(),
        fields => serde_json::from_slice(fields).map_err(unreadable)?,
    };
    let Glance { metadata } = serde_json::from_slice(text).map_err(unreadable)?;
    let Metadata { uid, labels, generation, deletion_timestamp } = metadata;
    let object = json!({"metadata": {
        "uid": uid, "labels": labels, "generation": generation,
        "deletionTimestamp": deletion_timestamp,
    }});
    Ok(Restored {
        head: Head::of(&object, Pairs::new(fields)),
        revision: u64::from_le_bytes(*revision),
        json: Encoded::stored(text),
        resource,
        key: place,
    })
}
