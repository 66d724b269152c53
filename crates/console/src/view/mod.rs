//! What the page shows, as values: each view is a [`Model`] built from the mirror by the
//! rules that the commands print.
//!
//! A model has a head, whose fields are sent when they change, and rows, which are sent one
//! by one: the cells of a board, the lines of the fleet. Times are instants and never ages,
//! so that a model changes only when something happened.

mod approvals;
mod cluster;
mod fleet;
mod home;
mod placements;
mod run;
mod verbs;

use flagship_api::names::ObjectKey;
use flagship_explain::printable::printable_json;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::looks::MemberLookups;
use crate::mirror::Mirror;
use crate::rights::Rights;

pub(crate) use run::status;
pub use verbs::Verb;

/// What a page can be about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    /// What needs somebody, what moves, what ended.
    Home,
    /// One run.
    Run(ObjectKey),
    /// All clusters and what is on them.
    Fleet,
    /// All placements and their runs.
    Placements,
    /// One cluster.
    Cluster(String),
}

/// What a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// Fields that are sent when they change.
    pub head: Map<String, Value>,
    /// Rows that are sent one by one.
    pub rows: Vec<Row>,
}

/// One cell or line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is about; the rows of a model keep their order.
    pub key: String,
    /// What it shows, as JSON.
    pub value: Box<str>,
}

/// What a model is made from.
pub struct ViewInputs<'a> {
    /// The hub.
    pub mirror: &'a Mirror,
    /// What the caller may do.
    pub rights: &'a Rights,
    /// What members show.
    pub looks: &'a MemberLookups,
    /// When.
    pub now: Timestamp,
}

impl View {
    /// Reads `view=run&namespace=a&name=b`.
    pub fn read(query: &str) -> Option<Self> {
        let field = |name: &str| field(query, name).filter(|value| !value.is_empty());
        Some(match field("view")?.as_str() {
            "home" => Self::Home,
            "fleet" => Self::Fleet,
            "placements" => Self::Placements,
            "cluster" => Self::Cluster(field("name")?),
            "run" => Self::Run(ObjectKey::new(field("namespace").as_deref(), &field("name")?)),
            _ => return None,
        })
    }

    /// The view as it is now.
    pub fn model(&self, seen: &ViewInputs<'_>) -> Model {
        let mut model = match self {
            Self::Home => home::model(seen),
            Self::Run(key) => run::model(seen, key),
            Self::Fleet => fleet::model(seen),
            Self::Placements => placements::model(seen),
            Self::Cluster(name) => cluster::model(seen, name),
        };
        model.set("loading", &!seen.mirror.is_filled());
        model.set("gaps", &seen.mirror.gaps());
        model
    }
}

impl Model {
    pub(crate) fn set(&mut self, field: &str, value: &impl Serialize) {
        // Our own values always have a JSON form.
        let value = serde_json::to_value(value).unwrap_or_default();
        self.head.insert(field.to_owned(), value);
    }

    pub(crate) fn push(&mut self, key: String, value: &impl Serialize) {
        let value = printable_json(value).into_boxed_str();
        self.rows.push(Row { key, value });
    }
}

/// A field of a query, decoded.
pub(crate) fn field(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| decoded(value))
}

/// `%41` and `+`, as forms and URLSearchParams write them.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Milliseconds since 1970, as the page counts.
fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// `1 cluster`, `45 clusters`.
fn clusters(count: usize) -> String {
    if count == 1 { "1 cluster".to_owned() } else { format!("{count} clusters") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_named_by_its_address() {
        for (query, view) in [
            ("view=home", Some(View::Home)),
            ("view=run&name=demo-run", Some(View::Run(ObjectKey::cluster("demo-run")))),
            (
                "view=run&namespace=a%2Fb&name=%3Cimg+x%3E",
                Some(View::Run(ObjectKey::namespaced("a/b", "<img x>"))),
            ),
            ("view=run&namespace=&name=r", Some(View::Run(ObjectKey::cluster("r")))),
            ("view=run", None),
            ("view=secrets", None),
            ("", None),
            ("view=cluster&name=%", Some(View::Cluster("%".into()))),
        ] {
            assert_eq!(View::read(query), view, "{query}");
        }
    }
}
