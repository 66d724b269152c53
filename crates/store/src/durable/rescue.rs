//! What can be done about a damaged file: put a copy in its place, or save what can be read.
//!
//! Saving walks the tables from both ends. Where that does not lead everywhere, every page is
//! looked at by itself: a record that matches its checksum is a record, wherever it lies. It
//! may then be an older version, or one that was deleted, and is named as such.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use redb::{Database, ReadableDatabase, ReadableTable};

use super::check::{self, Unusable, guarded};
use super::record::{self, Unreadable};
use super::seal::Keys;
use super::{DurableError, OLD_OBJECTS, POSITIONS, RECORDS, SEQUENCE, file, mark};

/// What was saved of a file.
#[derive(Debug, Default)]
pub struct Salvaged {
    /// How many objects.
    pub saved: usize,
    /// Those among them that may be older versions, or may have been deleted.
    pub doubtful: Vec<String>,
    /// What could not be read.
    pub lost: Vec<String>,
}

/// Puts a copy of a file in the place of another after a look at all of it. Where the other
/// is now, if there was one.
pub fn restore(copy: &Path, to: &Path, keys: &Keys) -> Result<Option<PathBuf>, DurableError> {
    check::look(copy, keys).map_err(|unusable| DurableError::of(copy, unusable))?;
    let put = || -> std::io::Result<Option<PathBuf>> {
        let beside = flagship_files::beside(to);
        flagship_files::remove_if_there(&beside)?;
        let (mut from, mut into) =
            (flagship_files::open_to_read(copy)?, flagship_files::make_new(&beside)?);
        std::io::copy(&mut from, &mut into)?;
        into.sync_all()?;
        let aside = std::fs::symlink_metadata(to).is_ok().then(|| free_name(to));
        if let Some(aside) = &aside {
            std::fs::rename(to, aside)?;
        }
        // The copy may be older than what was acknowledged: that is what was asked for.
        flagship_files::remove_if_there(&mark::place(to))?;
        flagship_files::put_in_place(&beside, to)?;
        Ok(aside)
    };
    put().map_err(|why| DurableError::of(to, why.into()))
}

fn free_name(path: &Path) -> PathBuf {
    let named = |end: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let names = (1_u32..).map(|number| named(format!(".replaced.{number}")));
    let mut free = names.filter(|name| std::fs::symlink_metadata(name).is_err());
    free.next().unwrap_or_else(|| named(".replaced".to_owned()))
}

/// Writes what can be read of a file to a new one.
pub fn salvage(path: &Path, to: &Path, keys: &Keys) -> Result<Salvaged, DurableError> {
    let found = Mutex::new(Found::new(keys));
    let walked = walk(path, &found);
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let acknowledged = mark::acknowledged(path).map_err(|why| DurableError::of(path, why))?;
    let behind = acknowledged.unwrap_or(0).saturating_sub(found.sequence);
    let reason = match walked {
        Ok(()) if behind == 0 => None,
        Ok(()) => Some(format!("the last {behind} batch(es) of changes")),
        Err(Unusable::Damaged(reason)) => {
            Some(format!("what the tables lead to no more: {reason}"))
        }
        Err(other) => return Err(DurableError::of(path, other)),
    };
    if let Some(reason) = reason {
        found.told.lost.push(reason);
        let bytes = std::fs::read(path).map_err(|why| DurableError::of(path, why.into()))?;
        found.carve(&bytes);
    }
    if let Some(id) = found.missing_key {
        return Err(DurableError::of(path, Unusable::Key(id)));
    }
    let Found { records, positions, mut told, .. } = found;
    told.saved = records.len();
    told.lost.sort();
    told.lost.dedup();
    // What was damaged at one place was perhaps found at another.
    told.lost.retain(|lost| !records.keys().any(|key| record::named(key) == *lost));
    let written = file::make(to, |writing| {
        let mut table = writing.open_table(RECORDS)?;
        let mut last = positions.clone();
        for (key, text) in &records {
            table.insert(key.as_slice(), record::wrap(key, text, keys).as_slice())?;
            let cluster =
                String::from_utf8_lossy(key.split(|byte| *byte == 0).next().unwrap_or_default());
            let last = last.entry(cluster.into_owned()).or_default();
            *last = (*last).max(revision(text));
        }
        let mut positions = writing.open_table(POSITIONS)?;
        for (name, revision) in &last {
            positions.insert(name.as_str(), record::number(name, *revision).as_slice())?;
        }
        Ok(())
    });
    written.map_err(|unusable| DurableError::of(to, unusable))?;
    Ok(told)
}

/// What is known so far.
struct Found<'k> {
    keys: &'k Keys,
    /// Texts of objects by their keys.
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    positions: BTreeMap<String, u64>,
    /// How many batches the tables lead to.
    sequence: u64,
    told: Salvaged,
    missing_key: Option<String>,
}

impl<'k> Found<'k> {
    fn new(keys: &'k Keys) -> Self {
        let (records, positions) = (BTreeMap::new(), BTreeMap::new());
        Self { keys, records, positions, sequence: 0, told: Salvaged::default(), missing_key: None }
    }

    fn take(&mut self, key: &[u8], value: &[u8], is_old: bool) {
        let text = match is_old {
            true => Ok(value.to_vec()),
            false => record::unwrap(key, value, self.keys).map(|text| text.into_owned()),
        };
        match text {
            Ok(text) if record::read(key, &text).is_ok() => {
                self.records.insert(key.to_vec(), text);
            }
            Err(Unreadable::Key(id)) => self.missing_key = Some(id),
            _ => self.told.lost.push(record::named(key)),
        }
    }

    /// Looks for records in every page, whether a table leads to it or not.
    fn carve(&mut self, bytes: &[u8]) {
        let mut carved: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for begin in (0..bytes.len()).step_by(PAGE) {
            for (key, value) in pairs(&bytes[begin..]).into_iter().flatten() {
                if record::parts(key, value).is_none() {
                    continue;
                }
                match record::unwrap(key, value, self.keys) {
                    Ok(text) if record::read(key, &text).is_ok() => {
                        let known = carved.get(key).or_else(|| self.records.get(key));
                        if known.is_none_or(|known| revision(known) < revision(&text)) {
                            carved.insert(key.to_vec(), text.into_owned());
                        }
                    }
                    Err(Unreadable::Key(id)) => self.missing_key = Some(id),
                    _ => {}
                }
            }
        }
        self.told.doubtful.extend(carved.keys().map(|key| record::named(key)));
        self.records.append(&mut carved);
    }
}

fn revision(text: &[u8]) -> u64 {
    text.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Reads the tables from the front and from the back, as far as they go.
fn walk(path: &Path, found: &Mutex<Found<'_>>) -> Result<(), Unusable> {
    // Each way in a thread of its own: a panic on the one way does not end the other.
    let forward = guarded(|| along(&check::opened(path)?.0, found, false));
    if forward.is_err() {
        drop(guarded(|| along(&check::opened(path)?.0, found, true)));
    }
    forward
}

fn along(database: &Database, found: &Mutex<Found<'_>>, back: bool) -> Result<(), Unusable> {
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let reading = database.begin_read()?;
    let (table, is_old) = match check::there(reading.open_table(RECORDS))? {
        Some(table) => (table, false),
        None => (reading.open_table(OLD_OBJECTS)?, true),
    };
    if let Some(positions) = check::there(reading.open_table(POSITIONS))? {
        for entry in positions.iter()? {
            let (name, value) = entry?;
            match record::read_number(name.value(), value.value()) {
                Ok(number) if name.value() == SEQUENCE => lock().sequence = number,
                Ok(number) => drop(lock().positions.insert(name.value().to_owned(), number)),
                Err(_) => {}
            }
        }
    }
    let mut entries = table.iter()?;
    while let Some(entry) = if back { entries.next_back() } else { entries.next() } {
        let (key, value) = entry?;
        let mut found = lock();
        if back && found.records.contains_key(key.value()) {
            return Ok(());
        }
        found.take(key.value(), value.value(), is_old);
    }
    Ok(())
}

/// Bytes of the smallest page; each page begins at a multiple of it.
const PAGE: usize = 4096;
/// The first byte of a page that holds pairs.
const LEAF: u8 = 1;

/// The pairs of a page of redb's: their count, where each key ends, where each value ends,
/// the keys, the values. `None` if it is not such a page.
fn pairs(page: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let (head, _) = page.split_first_chunk::<4>()?;
    let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
    if head[0] != LEAF || count == 0 {
        return None;
    }
    let end = |number: usize| {
        let bytes = page.get(4 + 4 * number..)?.first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    };
    let (mut key, mut value) = (4 + 8 * count, end(count - 1)?);
    let mut found = Vec::new();
    for number in 0..count {
        let (key_end, value_end) = (end(number)?, end(count + number)?);
        if let (Some(key), Some(value)) = (page.get(key..key_end), page.get(value..value_end)) {
            found.push((key, value));
        }
        (key, value) = (key_end, value_end);
    }
    Some(found)
}
