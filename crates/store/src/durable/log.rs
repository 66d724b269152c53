//! The last changes of each cluster, so that a restart does not send every watch back to a
//! list.
//!
//! Key: the cluster and the revision. Value: a record like that of an object, of which object
//! it was, what it replaced, and of a removal also what was removed. What a change wrote is
//! not in it: that is the object itself, or what the next change of the object replaced. So
//! every version lies in the file once.
//!
//! `FLOORS` has how far changes were dropped from the log again, for each resource, since a
//! quiet resource should not suffer from a busy one. Without a floor for the cluster itself
//! its log is void: whoever wrote last kept none.

use std::collections::{BTreeMap, VecDeque};

use redb::{ReadTransaction, ReadableTable, Table, TableDefinition};

use super::check::{self, Unusable};
use super::record;
use super::seal::Keys;
use crate::{Limits, Past, PastEvent, Resource, Restored, Stored};

/// Changes by cluster and revision.
pub const LOG: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("log");
/// The last change dropped, by cluster and resource.
pub const FLOORS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("floors");

/// What the writer knows of the log of one cluster.
#[derive(Debug)]
pub struct Log {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Entries and bytes that are kept.
    most: (usize, usize),
    /// Whether what lies in the file is to be cleared before anything is added.
    void: bool,
    /// Whether changes are kept at all.
    pub kept: bool,
}

#[derive(Debug, Clone)]
struct Entry {
    revision: u64,
    bytes: usize,
    resource: Resource,
}

/// A change to be added.
pub struct Addition<'a> {
    /// Of what.
    pub resource: &'a Resource,
    /// What was written; of a removal, what was removed.
    pub now: &'a Stored,
    /// What it replaced.
    pub before: Option<&'a Stored>,
    /// Whether it was removed.
    pub gone: bool,
}

/// What a batch does to a log: done to [`Log`] when the batch is on the disk.
#[derive(Debug, Default)]
pub struct Step {
    added: Vec<Entry>,
    dropped: usize,
}

/// The two tables while a batch is written.
pub struct Tables<'t> {
    /// [`LOG`].
    pub log: Table<'t, &'static [u8], &'static [u8]>,
    /// [`FLOORS`].
    pub floors: Table<'t, &'static [u8], &'static [u8]>,
}

impl Log {
    /// A log of which nothing is known. What lies in the file is cleared with the first batch.
    pub fn void(limits: &Limits) -> Self {
        let (entries, most) = (VecDeque::new(), (limits.log, limits.log_bytes));
        Self { entries, bytes: 0, most, void: true, kept: !limits.early_reads }
    }

    /// Gives up everything in the log of a cluster, which then stands at this revision: on a
    /// full disk objects are worth more than their past, and a deletion must not need room.
    pub fn give_up(
        &self,
        cluster: &str,
        tables: &mut Tables<'_>,
        revision: u64,
    ) -> Result<Step, redb::Error> {
        if self.void || !self.entries.is_empty() {
            let (from, to) = record::range(cluster);
            tables.log.retain_in(from.as_slice()..to.as_slice(), |_, _| false)?;
        }
        if self.kept {
            set_floor(tables, cluster, "", revision)?;
        }
        Ok(Step { added: Vec::new(), dropped: self.entries.len() })
    }

    /// Writes the changes of one batch, before which the cluster stood at this revision.
    pub fn write(
        &self,
        cluster: &str,
        tables: &mut Tables<'_>,
        changes: &[Addition<'_>],
        floor: u64,
        keys: &Keys,
    ) -> Result<Step, redb::Error> {
        let mut step = Step::default();
        if self.void {
            let (from, to) = record::range(cluster);
            tables.log.retain_in(from.as_slice()..to.as_slice(), |_, _| false)?;
            tables.floors.retain_in(from.as_slice()..to.as_slice(), |_, _| false)?;
            if self.kept {
                set_floor(tables, cluster, "", floor)?;
            }
        }
        if !self.kept {
            return Ok(step);
        }
        for change in changes {
            let key = key(cluster, change.now.revision);
            let value = record::wrap(&key, &text(change), keys);
            tables.log.insert(key.as_slice(), value.as_slice())?;
            let (revision, resource) = (change.now.revision, change.resource.clone());
            step.added.push(Entry { revision, bytes: value.len(), resource });
        }
        // The oldest go, which may be some of those that just came.
        let added: usize = step.added.iter().map(|entry| entry.bytes).sum();
        let mut left = (self.entries.len() + step.added.len(), self.bytes + added);
        let mut floors: BTreeMap<&Resource, u64> = BTreeMap::new();
        for entry in self.entries.iter().chain(&step.added) {
            if left.0 <= self.most.0 && left.1 <= self.most.1 {
                break;
            }
            left = (left.0 - 1, left.1 - entry.bytes);
            step.dropped += 1;
            tables.log.remove(key(cluster, entry.revision).as_slice())?;
            floors.insert(&entry.resource, entry.revision);
        }
        for (resource, revision) in floors {
            set_floor(tables, cluster, resource, revision)?;
        }
        Ok(step)
    }

    /// The batch is on the disk.
    pub fn take(&mut self, step: Step) {
        self.void = false;
        self.bytes += step.added.iter().map(|entry| entry.bytes).sum::<usize>();
        self.entries.extend(step.added);
        for entry in self.entries.drain(..step.dropped) {
            self.bytes -= entry.bytes;
        }
    }
}

/// Notes that changes of a resource up to a revision are not known.
pub fn set_floor(
    tables: &mut Tables<'_>,
    cluster: &str,
    resource: &str,
    revision: u64,
) -> Result<(), redb::Error> {
    let name = format!("{cluster}\0{resource}");
    // A dropped resource may have older changes in the log, which are dropped later.
    let known = tables.floors.get(name.as_bytes())?;
    let known = known.and_then(|known| record::read_number(&name, known.value()).ok());
    let number = record::number(&name, revision.max(known.unwrap_or(0)));
    tables.floors.insert(name.as_bytes(), number.as_slice())?;
    Ok(())
}

/// The log of a cluster as the file has it; `None` if it has none that holds.
pub fn read(
    cluster: &str,
    reading: &ReadTransaction,
    keys: &Keys,
    limits: &Limits,
) -> Result<Option<(Past, Log)>, Unusable> {
    let tables =
        (check::there(reading.open_table(LOG))?, check::there(reading.open_table(FLOORS))?);
    let (Some(entries), Some(floors)) = tables else { return Ok(None) };
    let (from, to) = record::range(cluster);
    let (mut past, mut found) = (Past::default(), false);
    for entry in floors.range(from.as_slice()..to.as_slice())? {
        let (name, number) = entry?;
        let (resource, floor) = read_floor(name.value(), number.value())?;
        if resource.is_empty() {
            (past.floor, found) = (floor, true);
        } else {
            past.floors.insert(resource.into(), floor);
        }
    }
    if !found {
        return Ok(None);
    }
    let mut log = Log { void: false, ..Log::void(limits) };
    for entry in entries.range(from.as_slice()..to.as_slice())? {
        let (key, value) = entry?;
        let event = read_entry(key.value(), value.value(), keys)?;
        let (revision, resource) = (event.revision, event.resource.clone());
        let bytes = value.value().len();
        log.entries.push_back(Entry { revision, bytes, resource });
        log.bytes += bytes;
        past.events.push(event);
    }
    Ok(Some((past, log)))
}

/// Sees whether both tables are what was written. Whether they would be written otherwise
/// with these keys.
pub fn look(reading: &ReadTransaction, keys: &Keys) -> Result<bool, Unusable> {
    let mut is_to_be_rewritten = false;
    if let Some(entries) = check::there(reading.open_table(LOG))? {
        for entry in entries.iter()? {
            let (key, value) = entry?;
            read_entry(key.value(), value.value(), keys)?;
            is_to_be_rewritten |= record::would_rewrite(value.value(), keys);
        }
    }
    if let Some(floors) = check::there(reading.open_table(FLOORS))? {
        for entry in floors.iter()? {
            let (name, number) = entry?;
            read_floor(name.value(), number.value())?;
        }
    }
    Ok(is_to_be_rewritten)
}

fn read_floor(name: &[u8], number: &[u8]) -> Result<(String, u64), Unusable> {
    let text = std::str::from_utf8(name).ok().and_then(|text| Some((text, text.split_once('\0')?)));
    let Some((text, (_, resource))) = text else {
        return Err(Unusable::Damaged("a floor of the log has no name".to_owned()));
    };
    Ok((resource.to_owned(), record::read_number(text, number)?))
}

fn key(cluster: &str, revision: u64) -> Vec<u8> {
    [cluster.as_bytes(), &[0], &revision.to_be_bytes()].concat()
}

fn text(change: &Addition<'_>) -> Vec<u8> {
    let place = record::key("", change.resource, &change.now.key);
    let removed = if change.gone { record::text(change.now) } else { Vec::new() };
    let before = change.before.map(record::text).unwrap_or_default();
    let mut text = Vec::with_capacity(12 + place.len() + removed.len() + before.len());
    for part in [&place, &removed, &before] {
        text.extend_from_slice(&u32::try_from(part.len()).unwrap_or(0).to_le_bytes());
        text.extend_from_slice(part);
    }
    text
}

fn read_entry(key: &[u8], value: &[u8], keys: &Keys) -> Result<PastEvent, Unusable> {
    let text = record::unwrap(key, value, keys)?;
    read_text(key, &text).ok_or_else(|| {
        Unusable::Damaged(format!("the change {:?} cannot be read", String::from_utf8_lossy(key)))
    })
}

fn read_text(key: &[u8], text: &[u8]) -> Option<PastEvent> {
    let revision = u64::from_be_bytes(*key.last_chunk::<8>()?);
    let (place, rest) = part(text)?;
    let (removed, rest) = part(rest)?;
    let (before, _) = part(rest)?;
    let object = |text: &[u8]| -> Option<Option<Restored>> {
        match text {
            [] => Some(None),
            text => record::read(place, text).ok().map(Some),
        }
    };
    let (resource, key) = record::place(place)?;
    let (removed, before) = (object(removed)?, object(before)?);
    Some(PastEvent { revision, resource, key, removed, before })
}

fn part(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = text.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
