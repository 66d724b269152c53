//! Types that JSON writes in a way of their own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_base::machinery::time::{micros, seconds};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::message::Decoder;
use super::table::Kind;
use super::wire::{Malformed, Reader};

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A quantity is its text; an empty one says nothing.
pub(super) fn quantity(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut text = "";
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            text = wire.text()?;
        }
    }
    Ok(if text.is_empty() { Value::Null } else { json!(text) })
}

/// A moment; null for one that never was, which travels as nothing.
pub(super) fn time(bytes: &[u8], fine: bool) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut second, mut nano) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => second = wire.int()?,
            2 => nano = wire.int()?,
            _ => {}
        }
    }
    let out_of_range = Malformed("a moment is out of range");
    let nano = i32::try_from(nano).map_err(|_| out_of_range)?;
    let at = Timestamp::new(second, nano).map_err(|_| out_of_range)?;
    Ok(json!(if fine { micros(at) } else { seconds(at) }))
}

pub(super) fn int_or_string(bytes: &[u8]) -> Result<Value, Malformed> {
    let (mut is_text, mut int, mut text) = (false, 0, "");
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => is_text = wire.int()? == 1,
            2 => int = wire.int()?,
            3 => text = wire.text()?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(int) })
}

/// JSON that travels as bytes in the first field.
pub(super) fn json(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut raw: &[u8] = b"null";
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == 1 {
            raw = wire.bytes()?;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(raw).map_err(|_| Malformed("the JSON in it cannot be read"))
}

/// A schema, or in its place a list of schemas, a list of names, or yes and no.
pub(super) fn schema_or(
    decoder: &mut Decoder<'_>,
    kind: Kind,
    bytes: &[u8],
) -> Result<Value, Malformed> {
    let schema = Kind::Message(decoder.table.schema);
    let (mut one, mut list, mut allows) = (None, Vec::new(), false);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match (kind, number) {
            (Kind::SchemaOrBool, 1) => allows = wire.int()? != 0,
            (Kind::SchemaOrBool, 2) | (_, 1) => one = Some(decoder.value(schema, wire)?),
            (Kind::SchemaOrArray, 2) => list.push(decoder.value(schema, wire)?),
            (Kind::SchemaOrTexts, 2) => list.push(decoder.value(Kind::Text, wire)?),
            _ => {}
        }
    }
    Ok(match (kind, one) {
        (_, Some(schema)) => schema,
        (Kind::SchemaOrBool, None) => json!(allows),
        (_, None) => Value::Array(list),
    })
}
