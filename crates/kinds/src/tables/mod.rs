//! What `kubectl get` shows: objects as rows of a table.
//!
//! A [`Table`] is the columns of a kind and how to fill them. Built-in kinds have theirs
//! here, one file for each neighbourhood; custom kinds have those of their definition
//! ([`Custom`]); everything else shows name and creation. Cells come for all columns:
//! `-o wide` is the client's choice.
//!
//! Who asks for a table, and how it is sent, is in `rest`.

mod age;
mod cluster;
mod custom;
mod network;
mod object;
mod pod;
mod policy;
mod storage;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use age::human;
pub use custom::Custom;

use crate::Kind;
use object::Object;

/// One column of a built-in kind: name, type, and 1 when only `-o wide` shows it.
type Column = (&'static str, &'static str, u8);

/// The columns of a kind and how to fill them.
#[derive(Clone, Copy)]
pub enum Table<'a> {
    /// A kind with columns of its own.
    Builtin(&'static Printer),
    /// A kind that a definition made.
    Custom(&'a Custom),
    /// Name and creation.
    Plain,
    /// The `/scale` of a workload.
    Scale,
}

/// Columns and cells of one built-in kind.
pub struct Printer {
    columns: &'static [Column],
    cells: fn(&Object<'_>) -> Vec<Value>,
}

const NAME: Column = ("Name", "string", 0);
const AGE: Column = ("Age", "string", 0);

const SCALE: Printer = Printer {
    columns: &[NAME, ("Desired", "integer", 0), ("Available", "integer", 0), AGE],
    cells: |object| {
        vec![
            object.name(),
            object.count("/spec/replicas"),
            object.count("/status/replicas"),
            object.age(),
        ]
    },
};

impl Table<'_> {
    /// The table of a built-in kind.
    pub fn of(kind: Kind) -> Self {
        let found = [
            cluster::printer,
            network::printer,
            pod::printer,
            policy::printer,
            storage::printer,
            workload::printer,
        ];
        found.iter().find_map(|printer| printer(kind)).map_or(Self::Plain, Self::Builtin)
    }

    /// `columnDefinitions`.
    pub fn columns(&self) -> Value {
        let columns = match self {
            Self::Custom(custom) => return custom.columns(),
            Self::Builtin(printer) => printer.columns,
            Self::Scale => SCALE.columns,
            Self::Plain => &[NAME, ("Created At", "date", 0)],
        };
        let each = columns.iter().map(|(name, kind, priority)| {
            let format = if *name == "Name" { "name" } else { "" };
            json!({
                "name": name, "type": kind, "format": format, "description": "",
                "priority": priority,
            })
        });
        each.collect()
    }

    /// The cells of one object, in the order of the columns.
    pub fn cells(&self, value: &Value, now: Timestamp) -> Vec<Value> {
        let object = Object { value, now };
        match self {
            Self::Custom(custom) => custom.cells(&object),
            Self::Builtin(printer) => (printer.cells)(&object),
            Self::Scale => (SCALE.cells)(&object),
            Self::Plain => {
                vec![object.name(), value["metadata"]["creationTimestamp"].clone()]
            }
        }
    }

    /// `conditions` of a row: pods that are done say so, for clients that hide them.
    pub fn conditions(&self, value: &Value) -> Option<Value> {
        let Self::Builtin(_) = self else { return None };
        pod::row_conditions(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    #[test]
    fn every_kind_fills_every_column_even_of_an_empty_object() {
        for row in catalog() {
            let table = Table::of(row.id);
            let columns = table.columns().as_array().map(Vec::len);
            for value in [json!({}), json!(null), json!({"spec": [], "status": "x", "metadata": 1})]
            {
                let cells = table.cells(&value, Timestamp::UNIX_EPOCH);
                assert_eq!(Some(cells.len()), columns, "{}", row.kind);
            }
        }
    }

    #[test]
    fn kinds_without_columns_show_name_and_creation() {
        let at = "2026-01-01T00:00:00Z";
        let role = json!({"metadata": {"name": "r", "creationTimestamp": at}});
        let table = Table::of(Kind::Role);
        assert_eq!(table.cells(&role, Timestamp::UNIX_EPOCH), [json!("r"), json!(at)]);
        assert_eq!(table.columns()[1]["name"], "Created At");
    }
}
