//! Request bodies in protobuf, as typed Go clients send them for built-in kinds.
//!
//! A body is the magic `k8s\0`, then an envelope that names the kind, then the object.
//! [`decode`] turns it into the JSON that the same client would have sent: a table read
//! off the Go types says which field is what, and which zeros JSON leaves out. Answers
//! are never protobuf: every such client also takes JSON.
//!
//! The table is derived, never edited: `cargo run -p xtask -- protobuf` makes it,
//! `data/README.md` says from what.

mod message;
mod special;
mod table;
mod wire;

use serde_json::{Map, Value, json};

use flagship_base::machinery::gvk::GroupVersion;
use message::Decoder;
use table::TABLE;
use wire::{Malformed, Reader, Wire};

/// The media type of such bodies.
pub const MEDIA: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";

/// Why a body is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The bytes are not what they claim to be.
    #[error("the protobuf body cannot be read: {0}")]
    Malformed(&'static str),
    /// No such kind is known in protobuf.
    #[error("no kind {kind:?} is registered for version {version:?}")]
    UnknownKind {
        /// Kind in the envelope.
        kind: String,
        /// `apiVersion` in the envelope.
        version: String,
    },
}

impl From<Malformed> for ProtobufError {
    fn from(Malformed(what): Malformed) -> Self {
        Self::Malformed(what)
    }
}

#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
    encoding: &'a str,
    content: &'a str,
}

/// A body as the JSON it stands for.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let rest = body.strip_prefix(MAGIC).ok_or(Malformed("it does not begin with its mark"))?;
    let envelope = envelope(rest)?;
    if !envelope.encoding.is_empty() {
        return Err(Malformed("it is encoded once more").into());
    }
    if envelope.content == "application/json" {
        let value = serde_json::from_slice(envelope.raw);
        return value.map_err(|_| Malformed("the JSON in it cannot be read").into());
    }
    let unknown = || ProtobufError::UnknownKind {
        kind: envelope.kind.to_owned(),
        version: envelope.api_version.to_owned(),
    };
    let gv = GroupVersion::parse(envelope.api_version).ok_or_else(unknown)?;
    let message = TABLE.kind(&gv.group, &gv.version, envelope.kind).ok_or_else(unknown)?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(envelope.api_version));
    object.insert("kind".to_owned(), json!(envelope.kind));
    object.extend(Decoder::new(&TABLE).message(message, envelope.raw)?);
    Ok(Value::Object(object))
}

fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, Malformed> {
    let mut found = Envelope::default();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(inside)) => {
                let mut reader = Reader::new(inside);
                while let Some((number, wire)) = reader.next()? {
                    match number {
                        1 => found.api_version = wire.text()?,
                        2 => found.kind = wire.text()?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(raw)) => found.raw = raw,
            (3, wire) => found.encoding = wire.text()?,
            (4, wire) => found.content = wire.text()?,
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
