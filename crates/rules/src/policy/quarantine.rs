//! Content that must not be rolled out: which it is, and in which words that is said.
//!
//! Noted on a resource snapshot with the hash of its content. What counts is the hash: the
//! same content under another index is the same.

use flagship_api::names::ObjectKey;
use serde::{Deserialize, Serialize};

use crate::model::ResourceSnapshot;

/// That the content of a resource snapshot must not be rolled out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    /// The hash of the content.
    pub hash: String,
    /// Why.
    pub reason: String,
    /// Who says so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// What a run brings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brought {
    /// The hash of the content.
    pub hash: String,
    /// Whether it must not be rolled out.
    pub quarantine: Option<Found>,
}

/// A quarantine, and where it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The index of the snapshot.
    pub index: String,
    /// What it says.
    pub quarantine: Quarantine,
}

impl Quarantine {
    /// What an annotation says. One that cannot be read holds the snapshot it stands on: what
    /// somebody wanted to stop is not let go for a slip.
    pub fn read(text: &str, hash: Option<&str>) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self {
            hash: hash.unwrap_or_default().to_owned(),
            reason: text.to_owned(),
            by: String::new(),
        })
    }

    /// What the annotation says.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The quarantine of this content.
pub fn holding<'a>(
    snapshots: impl IntoIterator<Item = &'a ResourceSnapshot>,
    hash: &str,
) -> Option<Found> {
    let mut all = snapshots.into_iter().filter_map(|snapshot| {
        let quarantine = snapshot.quarantine.clone()?;
        Some(Found { index: snapshot.index.clone().unwrap_or_default(), quarantine })
    });
    all.find(|found| !hash.is_empty() && found.quarantine.hash == hash)
}

/// What a run brings that has chosen this version.
pub fn brought<'a>(
    snapshots: impl IntoIterator<Item = &'a ResourceSnapshot> + Clone,
    index: &str,
) -> Option<Brought> {
    let of_index = |found: &&ResourceSnapshot| found.index.as_deref() == Some(index);
    let mut masters = snapshots.clone().into_iter().filter(of_index);
    let hash = masters.find_map(|found| found.hash.clone().filter(|hash| !hash.is_empty()))?;
    let quarantine = holding(snapshots, &hash);
    Some(Brought { hash, quarantine })
}

impl Found {
    /// `resource snapshot 2 is quarantined by alice: crashes; to roll it out all the same, lift
    /// it: flagship quarantine web --lift`.
    pub fn told(&self, placement: &ObjectKey, index: &str) -> String {
        let Self { index: noted, quarantine } = self;
        let by = match quarantine.by.as_str() {
            "" => String::new(),
            by => format!(" by {by}"),
        };
        let same = match noted == index {
            true => String::new(),
            false => format!(", which has the content of snapshot {noted},"),
        };
        format!(
            "resource snapshot {index}{same} is quarantined{by}: {}; to roll it out all the same, lift it: {}",
            quarantine.reason,
            lift(placement)
        )
    }
}

/// The command that lifts every quarantine of a placement.
pub fn lift(placement: &ObjectKey) -> String {
    let space =
        placement.namespace.as_ref().map_or_else(String::new, |space| format!("-n {space} "));
    format!("flagship quarantine {space}{} --lift", placement.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(index: &str, hash: &str, quarantine: Option<&str>) -> ResourceSnapshot {
        ResourceSnapshot {
            index: Some(index.into()),
            hash: Some(hash.into()),
            quarantine: quarantine.map(|text| Quarantine::read(text, Some(hash))),
            ..ResourceSnapshot::default()
        }
    }

    #[test]
    fn the_same_content_is_held_under_whatever_index() {
        let noted = Quarantine { hash: "h1".into(), reason: "crashes".into(), by: "alice".into() };
        let all = [
            snapshot("0", "h0", None),
            snapshot("1", "h1", Some(&noted.to_text())),
            snapshot("2", "h1", None),
        ];
        let told = |index: &str| {
            let key = ObjectKey::namespaced("app", "web");
            let found = brought(&all, index)?.quarantine?;
            Some(found.told(&key, index))
        };
        assert_eq!(told("0"), None);
        assert_eq!(
            told("1").as_deref(),
            Some(
                "resource snapshot 1 is quarantined by alice: crashes; to roll it out all the same, lift it: flagship quarantine -n app web --lift"
            )
        );
        assert_eq!(
            told("2").as_deref(),
            Some(
                "resource snapshot 2, which has the content of snapshot 1, is quarantined by alice: crashes; to roll it out all the same, lift it: flagship quarantine -n app web --lift"
            )
        );
    }

    #[test]
    fn a_note_that_cannot_be_read_holds_its_snapshot() {
        let all = [snapshot("1", "h1", Some("do not use"))];
        let found = holding(&all, "h1").map(|found| found.quarantine.reason);
        assert_eq!(found.as_deref(), Some("do not use"));
    }
}
