//! Messages into JSON objects, by the table.

use flagship_patch::MAX_DEPTH;
use serde_json::{Map, Value, json};

use super::special;
use super::table::{Field, Kind, Shape, Table};
use super::wire::{Malformed, Reader, Wire};

/// Values that one body may unfold into: two bytes can be a whole message of zeros.
const MAX_VALUES: usize = 200_000;

/// Turns messages into JSON, within bounds.
pub(super) struct Decoder<'t> {
    pub(super) table: &'t Table,
    depth: usize,
    left: usize,
}

impl<'t> Decoder<'t> {
    pub(super) fn new(table: &'t Table) -> Self {
        Self { table, depth: 0, left: MAX_VALUES }
    }

    /// The JSON of a message.
    pub(super) fn message(
        &mut self,
        index: usize,
        bytes: &[u8],
    ) -> Result<Map<String, Value>, Malformed> {
        if self.depth >= MAX_DEPTH {
            return Err(Malformed("messages stand too deep inside each other"));
        }
        self.depth += 1;
        let object = self.fields(index, bytes);
        self.depth -= 1;
        object
    }

    fn fields(&mut self, index: usize, bytes: &[u8]) -> Result<Map<String, Value>, Malformed> {
        let fields = self.table.fields(index);
        let mut object = Map::new();
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            // What is not in the table is of a later Kubernetes, and unknown to JSON too.
            let Ok(at) = fields.binary_search_by_key(&number, |field| field.number) else {
                continue;
            };
            self.field(&fields[at], wire, &mut object)?;
        }
        for field in fields {
            self.settle(field, &mut object)?;
        }
        Ok(object)
    }

    fn field(
        &mut self,
        field: &Field,
        wire: Wire<'_>,
        object: &mut Map<String, Value>,
    ) -> Result<(), Malformed> {
        match field.shape {
            Shape::One if field.inline => {
                if let Value::Object(inside) = self.value(field.kind, wire)? {
                    object.extend(inside);
                }
            }
            Shape::One => {
                let value = self.value(field.kind, wire)?;
                object.insert(field.name.clone(), value);
            }
            Shape::List => {
                let list = object.entry(field.name.clone()).or_insert_with(|| json!([]));
                let Value::Array(list) = list else { return Ok(()) };
                match (field.kind, wire) {
                    // Numbers may come one by one or packed together.
                    (Kind::Int, Wire::Bytes(packed)) => {
                        let mut reader = Reader::new(packed);
                        while !reader.is_empty() {
                            list.push(self.value(Kind::Int, Wire::Varint(reader.varint()?))?);
                        }
                    }
                    (kind, wire) => list.push(self.value(kind, wire)?),
                }
            }
            Shape::Map => {
                let (mut key, mut value) = ("", None);
                let mut reader = Reader::new(wire.bytes()?);
                while let Some((number, wire)) = reader.next()? {
                    match number {
                        1 => key = wire.text()?,
                        2 => value = Some(self.value(field.kind, wire)?),
                        _ => {}
                    }
                }
                let value = match value {
                    Some(value) => value,
                    None => self.value(field.kind, Wire::Bytes(&[]))?,
                };
                let map = object.entry(field.name.clone()).or_insert_with(|| json!({}));
                if let Value::Object(map) = map {
                    map.insert(key.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// Leaves out what Go's JSON leaves out, and puts in the zeros that it writes. Nulls
    /// say nothing and are always left out.
    fn settle(&mut self, field: &Field, object: &mut Map<String, Value>) -> Result<(), Malformed> {
        if field.inline || field.shape != Shape::One {
            return Ok(());
        }
        let value = object.get(&field.name);
        if field.pointer {
            if value.is_some_and(Value::is_null) {
                object.remove(&field.name);
            }
            return Ok(());
        }
        let absent = value.is_none_or(Value::is_null);
        let zero = match field.kind {
            Kind::Text => json!(""),
            Kind::Bool => json!(false),
            Kind::Int | Kind::IntOrString => json!(0),
            Kind::Quantity => json!("0"),
            Kind::Message(index) if absent => Value::Object(self.message(index, &[])?),
            Kind::Message(_) => return Ok(()),
            _ => Value::Null,
        };
        // Go never calls a struct empty, and these three are structs.
        let structs = matches!(field.kind, Kind::IntOrString | Kind::Quantity | Kind::Message(_));
        let drops = zero.is_null() || field.omit_zero || (field.omit_empty && !structs);
        if drops && value.is_some_and(|value| *value == zero) {
            object.remove(&field.name);
        } else if !drops && absent {
            self.spend()?;
            object.insert(field.name.clone(), zero);
        }
        Ok(())
    }

    fn spend(&mut self) -> Result<(), Malformed> {
        self.left = self.left.checked_sub(1).ok_or(Malformed("it has too many values"))?;
        Ok(())
    }

    pub(super) fn value(&mut self, kind: Kind, wire: Wire<'_>) -> Result<Value, Malformed> {
        self.spend()?;
        Ok(match kind {
            Kind::Text => json!(wire.text()?),
            Kind::Bool => json!(wire.int()? != 0),
            Kind::Int => json!(wire.int()?),
            Kind::Double => json!(wire.double()?),
            Kind::Bytes => json!(special::base64(wire.bytes()?)),
            Kind::Texts => {
                let mut texts = Vec::new();
                let mut reader = Reader::new(wire.bytes()?);
                while let Some((_, wire)) = reader.next()? {
                    texts.push(self.value(Kind::Text, wire)?);
                }
                Value::Array(texts)
            }
            Kind::Quantity => special::quantity(wire.bytes()?)?,
            Kind::Time => special::time(wire.bytes()?, false)?,
            Kind::MicroTime => special::time(wire.bytes()?, true)?,
            Kind::IntOrString => special::int_or_string(wire.bytes()?)?,
            Kind::Json => special::json(wire.bytes()?)?,
            Kind::SchemaOrArray | Kind::SchemaOrBool | Kind::SchemaOrTexts => {
                special::schema_or(self, kind, wire.bytes()?)?
            }
            Kind::Message(index) => Value::Object(self.message(index, wire.bytes()?)?),
        })
    }
}
