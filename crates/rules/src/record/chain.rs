//! How entries are chained, spread over objects and verified.
//!
//! The first entry carries the hash of the record's head (run, record before it, plan and
//! policies), every other one the hash of the entry before it, over the parts of a record as
//! if it were one. Whoever changes, removes or inserts something has to write every later
//! entry anew, and cannot where somebody kept a later hash.

use std::fmt;

use flagship_api::condition::wire_time;
use flagship_api::hash;
use flagship_api::rollout_record::{
    Follows, RecordEntry, RecordedPlan, RecordedPolicy, RecordedRun, RolloutRecordSpec, Who,
};
use jiff::Timestamp;
use serde::Serialize;

use super::{EntryDraft, Head};

/// One object holds no more than this: etcd refuses objects of 1.5 MB, and every entry writes
/// the object anew.
pub const MOST_BYTES: usize = 200_000;
/// Nor more entries than this, which is what the schema lets in.
pub const MOST_ENTRIES: usize = 2000;

/// A record that begins.
pub fn begun(run: RecordedRun, follows: Option<Follows>, head: Head) -> RolloutRecordSpec {
    RolloutRecordSpec {
        run,
        part: 1,
        follows,
        plan: Some(head.plan),
        policies: head.policies,
        entries: Vec::new(),
    }
}

/// The part after the last one.
pub fn next_part(last: &RolloutRecordSpec) -> RolloutRecordSpec {
    RolloutRecordSpec { run: last.run.clone(), part: last.part + 1, ..RolloutRecordSpec::default() }
}

/// Whether a part has room for these entries.
pub fn has_room(part: &RolloutRecordSpec, more: &[RecordEntry]) -> bool {
    // A part takes what it is begun with, or nothing would ever fit.
    part.entries.is_empty()
        || (part.entries.len() + more.len() <= MOST_ENTRIES
            && size(part) + more.iter().map(size).sum::<usize>() <= MOST_BYTES)
}

/// How long something is in JSON.
pub fn size<T: Serialize>(value: &T) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

/// What the first entry of a record hangs on.
pub fn head_hash(first: &RolloutRecordSpec) -> String {
    #[derive(Serialize)]
    struct Headed<'a> {
        run: &'a RecordedRun,
        follows: &'a Option<Follows>,
        plan: &'a Option<RecordedPlan>,
        policies: &'a Vec<RecordedPolicy>,
    }
    let RolloutRecordSpec { run, follows, plan, policies, .. } = first;
    let text = serde_json::to_string(&Headed { run, follows, plan, policies });
    hash::of_text(&text.unwrap_or_default())
}

/// The hash that an entry should have.
pub fn hash_of(entry: &RecordEntry) -> String {
    let bare = RecordEntry { hash: String::new(), ..entry.clone() };
    hash::of_text(&serde_json::to_string(&bare).unwrap_or_default())
}

/// Makes entries of drafts, after the last entry of the record's parts.
pub fn sealed(
    first: &RolloutRecordSpec,
    last: Option<&RecordEntry>,
    drafts: Vec<(EntryDraft, Option<Who>)>,
    now: Timestamp,
) -> Vec<RecordEntry> {
    let mut n = last.map_or(0, |last| last.n);
    let mut previous = last.map_or_else(|| head_hash(first), |last| last.hash.clone());
    // A clock that was set back does not turn the order of entries round.
    let time = last.map_or(now, |last| last.time.0.max(now));
    let seal = |(draft, who): (EntryDraft, Option<Who>)| {
        n += 1;
        let mut entry = RecordEntry {
            n,
            time: wire_time(time),
            what: draft.what,
            who,
            stage: draft.stage,
            cluster: draft.cluster,
            gate: draft.gate,
            cause: draft.cause,
            text: draft.text,
            measured: draft.measured,
            previous_hash: previous.clone(),
            hash: String::new(),
        };
        entry.hash = hash_of(&entry);
        previous.clone_from(&entry.hash);
        entry
    };
    drafts.into_iter().map(seal).collect()
}

/// Something about a record that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// The entry, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<i64>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str(&self.what)
    }
}

fn fault(entry: Option<i64>, what: String) -> Fault {
    Fault { entry, what }
}

/// Recomputes the chain over the parts of a record, in order of their number; what is wrong
/// with it, first things first.
pub fn verify(parts: &[&RolloutRecordSpec]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Some(first) = parts.first() else { return vec![fault(None, "there is no record".into())] };
    for (at, part) in (1..).zip(parts) {
        if part.part != at {
            faults.push(fault(None, format!("part {at} is missing, part {} is there", part.part)));
            return faults;
        }
    }
    let mut before: Option<&RecordEntry> = None;
    for entry in parts.iter().flat_map(|part| &part.entries) {
        let wanted = before.map_or(1, |before| before.n + 1);
        if entry.n != wanted {
            let what = format!("entry {} stands where entry {wanted} should", entry.n);
            faults.push(fault(Some(entry.n), what));
        }
        let linked = match before {
            None => entry.previous_hash == head_hash(first),
            Some(before) => entry.previous_hash == before.hash,
        };
        if !linked {
            let what = match before {
                None => format!(
                    "the plan, the policies or the run were changed after entry {} was written",
                    entry.n
                ),
                Some(before) => format!(
                    "entry {} does not follow entry {}: one of them was changed, or something between them was removed or inserted",
                    entry.n, before.n
                ),
            };
            faults.push(fault(Some(entry.n), what));
        }
        if entry.hash != hash_of(entry) {
            let what = format!("entry {} was changed after it was written", entry.n);
            faults.push(fault(Some(entry.n), what));
        }
        before = Some(entry);
    }
    faults
}

#[cfg(test)]
mod tests {
    use flagship_api::rollout_record::{Known, What};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn record(entries: usize) -> RolloutRecordSpec {
        let run = RecordedRun { name: "r".to_owned(), uid: "u".to_owned() };
        let mut record = begun(run, None, Head::default());
        for n in 0..entries {
            let draft = EntryDraft::of(What::ClusterBegan).cluster(&format!("c{n}"));
            let who = Who { name: "kubectl".to_owned(), known: Known::ManagedFields };
            let more =
                sealed(&record, record.entries.last(), vec![(draft, Some(who))], at(n as i64));
            record.entries.extend(more);
        }
        record
    }

    fn told(parts: &[&RolloutRecordSpec]) -> Vec<String> {
        verify(parts).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_chain_verifies_and_says_what_was_changed() {
        let whole = record(4);
        assert_eq!(told(&[&whole]), Vec::<String>::new());
        let read = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
        assert_eq!(told(&[&read]), Vec::<String>::new(), "it survives the wire");
        let changed = |change: fn(&mut RolloutRecordSpec)| {
            let mut other = whole.clone();
            change(&mut other);
            told(&[&other])
        };
        assert_eq!(
            changed(|r| r.entries[1].cluster = Some("c9".to_owned())),
            ["entry 2 was changed after it was written"]
        );
        assert_eq!(
            changed(|r| r.entries[1].time = wire_time(at(7))),
            ["entry 2 was changed after it was written"]
        );
        let unlinked = "does not follow entry 2: one of them was changed, or something between them was removed or inserted";
        // Whoever knows how to make a hash has to make every later one as well.
        let forged = changed(|r| {
            r.entries[1].cluster = Some("c9".to_owned());
            r.entries[1].hash = hash_of(&r.entries[1]);
        });
        assert_eq!(forged, [format!("entry 3 {unlinked}")]);
        let removed = changed(|r| drop(r.entries.remove(2)));
        assert_eq!(
            removed,
            ["entry 4 stands where entry 3 should".to_owned(), format!("entry 4 {unlinked}")]
        );
        assert_eq!(
            changed(|r| r.plan.as_mut().unwrap().snapshot = "9".to_owned()),
            ["the plan, the policies or the run were changed after entry 1 was written"]
        );
    }

    #[test]
    fn a_record_goes_on_in_further_objects() {
        let whole = record(4);
        let (mut one, mut two) = (whole.clone(), next_part(&whole));
        two.entries = one.entries.split_off(2);
        assert_eq!((two.part, &two.plan), (2, &None));
        assert_eq!(told(&[&one, &two]), Vec::<String>::new());
        assert_eq!(told(&[&two]), ["part 1 is missing, part 2 is there"]);
        let mut full = one.clone();
        full.entries[0].text = Some("x".repeat(MOST_BYTES));
        assert!(has_room(&one, &two.entries) && !has_room(&full, &two.entries));
        assert!(has_room(&next_part(&one), &full.entries), "a part takes what it begins with");
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_turn_entries_round() {
        let first = record(1);
        let late = sealed(&first, first.entries.last(), Vec::new(), at(0));
        assert_eq!(late, []);
        let before = sealed(
            &first,
            first.entries.last(),
            vec![(EntryDraft::of(What::Started), None)],
            at(-50),
        );
        assert_eq!((before[0].n, before[0].time.0), (2, at(0)));
    }
}
