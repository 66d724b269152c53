//! The layout of the built-in kinds, from the embedded table.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use serde::Deserialize;

static PACKED: &[u8] = include_bytes!("../../data/protobuf.json.gz");

/// Read once, on first use.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

pub(super) struct Table {
    /// `group/version/Kind` to index.
    kinds: BTreeMap<String, usize>,
    /// Fields by number.
    messages: Vec<Vec<Field>>,
    /// The message of a schema inside a definition, which appears in shapes of its own.
    pub(super) schema: usize,
}

pub(super) struct Field {
    pub(super) number: u64,
    /// Its name in JSON; empty for one whose fields stand in the parent.
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) kind: Kind,
    /// Absent and zero differ.
    pub(super) pointer: bool,
    /// JSON leaves a zero out, except of a struct.
    pub(super) omit_empty: bool,
    /// JSON leaves an empty struct out.
    pub(super) omit_zero: bool,
    /// Its fields stand in the parent.
    pub(super) inline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bool,
    Int,
    Double,
    Bytes,
    /// A message that is a list of texts.
    Texts,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// JSON inside a message: extensions, owned fields, values of schemas.
    Json,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrTexts,
    Message(usize),
}

impl Table {
    pub(super) fn kind(&self, group: &str, version: &str, kind: &str) -> Option<usize> {
        self.kinds.get(&format!("{group}/{version}/{kind}")).copied()
    }

    pub(super) fn fields(&self, message: usize) -> &[Field] {
        self.messages.get(message).map_or(&[], Vec::as_slice)
    }

    fn read() -> Self {
        #[derive(Deserialize)]
        struct File {
            kinds: BTreeMap<String, usize>,
            messages: Vec<Vec<(u64, String, String, u8)>>,
            schema: usize,
        }
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(PACKED)
            .read_to_end(&mut plain)
            .expect("the table is embedded at build time and a test unpacks it");
        let file: File = serde_json::from_slice(&plain).expect("xtask wrote the table as JSON");
        let messages = file.messages.into_iter().map(|fields| {
            let each = fields.into_iter().map(|(number, name, kind, flags)| {
                let (shape, kind) = kind_of(&kind);
                let (pointer, omit_empty) = (flags & 1 != 0, flags & 2 != 0);
                let (inline, omit_zero) = (flags & 4 != 0, flags & 8 != 0);
                Field { number, name, shape, kind, pointer, omit_empty, omit_zero, inline }
            });
            each.collect()
        });
        Self { kinds: file.kinds, messages: messages.collect(), schema: file.schema }
    }
}

fn kind_of(text: &str) -> (Shape, Kind) {
    if let Some(rest) = text.strip_prefix("[]") {
        return (Shape::List, kind_of(rest).1);
    }
    if let Some(rest) = text.strip_prefix("{}") {
        return (Shape::Map, kind_of(rest).1);
    }
    let kind = match text {
        "string" => Kind::Text,
        "bool" => Kind::Bool,
        "int" => Kind::Int,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "items:string" => Kind::Texts,
        "quantity" => Kind::Quantity,
        "time" => Kind::Time,
        "micro" => Kind::MicroTime,
        "intstr" => Kind::IntOrString,
        "raw" | "json" | "fields" => Kind::Json,
        "or-array" => Kind::SchemaOrArray,
        "or-bool" => Kind::SchemaOrBool,
        "or-strings" => Kind::SchemaOrTexts,
        index => {
            Kind::Message(index.parse().expect("xtask writes no other kind; a test reads all"))
        }
    };
    (Shape::One, kind)
}
