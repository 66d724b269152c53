//! How an object lies in the file.
//!
//! Key: cluster, resource, namespace and name, each closed by a zero byte, which none of
//! them may contain; so one cluster is one range. Value: the revision, the selectable
//! fields as JSON, and the object's own text.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Encoded, Head, ObjectKey, Pairs, Restored, Stored};

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

/// The value of an object.
pub fn value(stored: &Stored) -> Vec<u8> {
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
    let text = std::str::from_utf8(key).map_err(|_| "a key is not text".to_owned())?;
    let parts: Vec<&str> = text.split('\0').collect();
    let [_, resource, namespace, name, ""] = parts.as_slice() else {
        return Err(format!("the key {text:?} does not name an object"));
    };
    let at = || format!("{resource} {namespace}/{name}");
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
        resource: (*resource).into(),
        key: ObjectKey::new(*namespace, *name),
        revision: u64::from_le_bytes(*revision),
        head: Head::of(&object, Pairs::new(fields)),
        json: Encoded::stored(text),
    })
}
