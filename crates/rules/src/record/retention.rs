//! How long records are kept, and of how many runs; the oldest go first.
//!
//! A record is removed whole, with all its parts, and never while its run is under way, so
//! every chain that is left verifies from its first entry. The record that follows a removed
//! one gets a checkpoint: that it was retention, when, and the hash it had to end with.

use std::collections::BTreeMap;

use flagship_api::keys::own;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How long a record is kept.
    pub age: SignedDuration,
    /// Of how many runs records are kept, in each namespace and without one.
    pub runs: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: SignedDuration::from_hours(90 * 24), runs: 1000 }
    }
}

/// That the record before this one was removed by retention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// UID of the run whose record was removed.
    pub uid: String,
    /// Hash of its last entry.
    pub hash: String,
    /// When it was removed.
    pub removed: Timestamp,
}

impl Checkpoint {
    /// What a record says of the one before it.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let text = metadata.annotations.as_ref()?.get(own::RECORD_CHECKPOINT)?;
        serde_json::from_str(text).ok()
    }
}

/// UIDs of the runs whose records go, the oldest first. `under_way` tells which runs have not
/// ended.
pub fn expired(
    records: &[&ObjectMeta],
    kept: Retention,
    under_way: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Vec<String> {
    let mut runs: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for record in records {
        let created = record.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let Some(uid) = run_of(record) else { continue };
        let last = runs.entry(uid).or_insert(created);
        *last = (*last).max(created);
    }
    let mut by_age: Vec<(Timestamp, &str)> = runs.iter().map(|(uid, at)| (*at, *uid)).collect();
    by_age.sort_unstable();
    let too_many = by_age.len().saturating_sub(kept.runs);
    let over = by_age.iter().enumerate().filter(|(at, (created, uid))| {
        (*at < too_many || now.duration_since(*created) > kept.age) && !under_way(uid)
    });
    over.map(|(_, (_, uid))| (*uid).to_owned()).collect()
}

/// UID of the run that a record is about.
pub fn run_of(record: &ObjectMeta) -> Option<&str> {
    record.labels.as_ref()?.get(own::UPDATE_RUN_UID).map(String::as_str)
}

/// Records that follow the one of this run.
pub fn followers<'a>(records: &[&'a ObjectMeta], uid: &str) -> Vec<&'a ObjectMeta> {
    let follows = |record: &ObjectMeta| {
        let named = record.labels.as_ref().and_then(|labels| labels.get(own::FOLLOWS_UID));
        named.is_some_and(|named| named == uid)
    };
    records.iter().copied().filter(|record| follows(record)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(uid: &str, created: &str) -> ObjectMeta {
        serde_json::from_value(json!({"name": uid, "creationTimestamp": created,
            "labels": {own::UPDATE_RUN_UID: uid}}))
        .unwrap()
    }

    #[test]
    fn the_oldest_records_go_first_and_none_of_a_run_under_way() {
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let all = [
            meta("old", "2026-01-01T00:00:00Z"),
            meta("open", "2026-01-02T00:00:00Z"),
            meta("young", "2026-05-01T00:00:00Z"),
            // A second part, written a while later.
            meta("long", "2026-01-03T00:00:00Z"),
            meta("long", "2026-05-03T00:00:00Z"),
        ];
        let all: Vec<&ObjectMeta> = all.iter().collect();
        assert_eq!(expired(&all, Retention::default(), |uid| uid == "open", now), ["old"]);
        let month = Retention { age: SignedDuration::from_hours(28 * 24), runs: 1000 };
        assert_eq!(expired(&all, month, |uid| uid == "open", now), ["old", "young", "long"]);
        let one = Retention { runs: 1, ..Retention::default() };
        assert_eq!(expired(&all, one, |uid| uid == "open", now), ["old", "young"]);
        let many: Vec<ObjectMeta> =
            (0..1002).map(|at| meta(&format!("r{at:05}"), "2026-05-01T00:00:00Z")).collect();
        let many: Vec<&ObjectMeta> = many.iter().collect();
        assert_eq!(expired(&many, Retention::default(), |_| false, now), ["r00000", "r00001"]);
    }
}
