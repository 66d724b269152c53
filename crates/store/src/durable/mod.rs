//! What survives the process: one `redb` file for all clusters of a server.
//!
//! Memory stays the truth while the process lives. [`Durable`] hands every cluster a
//! [`Backend`](crate::Backend) whose changes one thread writes, as many as have gathered since it last
//! wrote: with many writers at once one flush of the disk serves them all. A write is
//! answered when it is on the disk.
//!
//! A disk that fails refuses further writes with its own words, keeps what was taken on, and
//! tries again every second; reads go on all the while. On one that is full deletions work.
//!
//! A file is used only after every page and record of it was found to be what was written
//! (`check`, `mark`). One that is damaged is reported and never repaired: it may be all that
//! is left. `rescue` puts a copy in its place, or saves what can be read of it; `backup` makes
//! that copy.

mod backup;
mod check;
mod failing_disk;
mod file;
mod log;
mod mark;
mod overlay;
mod record;
mod rescue;
mod seal;
mod space;
mod writer;

use std::path::Path;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition};

pub use backup::{Backup, copy_closed};
pub use failing_disk::{FailingDisk, Seen};
pub use rescue::{Salvaged, restore, salvage};
pub use seal::Keys;
pub use space::release as release_reserve;

use crate::env::Env;
use crate::{Limits, Past, Restored, Store};
use check::Unusable;
use file::File;
use log::Log;
use writer::{Cluster, LONGEST_QUEUE, Writer};

/// Objects by cluster, resource, namespace and name.
const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
/// The last durable revision of every cluster, and the count of batches.
const POSITIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("positions");
/// In [`POSITIONS`], where no cluster is: how many batches were written.
const SEQUENCE: &str = "";
/// In which form all this is. Has the name of a table of the first form, so that a version
/// that knows only that one refuses the file instead of finding nothing in it.
const FORMAT: TableDefinition<'_, &str, u64> = TableDefinition::new("objects");
const FORMAT_NOW: u64 = 2;

/// The tables of the first form, which had no checksums.
const OLD_OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
const OLD_CLUSTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("clusters");

/// How often the file is looked at again before it counts as damaged: a look may fall into
/// the writing of a header.
const LOOKS: usize = 3;

/// The file behind a server.
#[derive(Clone)]
pub struct Durable {
    writer: Arc<Writer>,
    file: Arc<File>,
    keys: Arc<Keys>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// It cannot be opened: no right to it, taken, or a disk that fails.
    #[error("{path} cannot be opened: {reason}")]
    Open {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// It is not what was written.
    #[error(
        "{path} is damaged and cannot be opened: {reason}. Nothing of it was changed. Put a copy in its place with `flagship restore FILE`, or save what can be read of it with `flagship restore --salvage`"
    )]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// It is sealed by a key that is not at hand.
    #[error(
        "{path} is encrypted with the key {id}. Pass the file that holds this key as --encryption-key-file"
    )]
    Key {
        /// The file.
        path: String,
        /// The key's id.
        id: String,
    },
}

impl DurableError {
    fn of(path: &Path, unusable: Unusable) -> Self {
        let path = path.display().to_string();
        match unusable {
            Unusable::Closed(reason) => Self::Open { path, reason },
            Unusable::Damaged(reason) => Self::Damaged { path, reason },
            Unusable::Key(id) => Self::Key { path, id },
        }
    }
}

impl Durable {
    /// Opens the file, or makes it. Nothing is encrypted.
    pub fn open(path: &Path) -> Result<Self, DurableError> {
        Self::open_with(path, Keys::default())
    }

    /// The same with keys: what the first of them did not seal is written anew.
    pub fn open_with(path: &Path, keys: Keys) -> Result<Self, DurableError> {
        Self::open_file(path, keys, None)
    }

    /// The same on a disk that fails on purpose.
    pub fn open_on(path: &Path, keys: Keys, disk: FailingDisk) -> Result<Self, DurableError> {
        Self::open_file(path, keys, Some(disk))
    }

    fn open_file(path: &Path, keys: Keys, disk: Option<FailingDisk>) -> Result<Self, DurableError> {
        let failed = |unusable| DurableError::of(path, unusable);
        let file = Arc::new(File::open(path, &keys, disk).map_err(failed)?);
        let keys = Arc::new(keys);
        let writer = Writer::start(file.clone(), keys.clone()).map_err(|why| failed(why.into()))?;
        Ok(Self { writer, file, keys })
    }

    /// The clusters the file knows, sorted.
    pub fn clusters(&self) -> Result<Vec<String>, DurableError> {
        let read = self.read(|reading| {
            let mut names = Vec::new();
            for entry in reading.open_table(POSITIONS)?.iter()? {
                names.push(entry?.0.value().to_owned());
            }
            Ok(names)
        });
        let names = read.map_err(|unusable| self.failed(unusable))?;
        Ok(names.into_iter().filter(|name| name != SEQUENCE).collect())
    }

    /// A cluster as the file has it, empty if it is not known; its writes go to the file.
    pub fn store(
        &self,
        cluster: &str,
        env: Env,
        limits: Limits,
    ) -> Result<Arc<Store>, DurableError> {
        let read = self.read(|reading| {
            let positions = reading.open_table(POSITIONS)?;
            let last = positions.get(cluster)?;
            let last = last.map(|last| record::read_number(cluster, last.value())).transpose()?;
            let table = reading.open_table(RECORDS)?;
            let (from, to) = record::range(cluster);
            let mut objects: Vec<Restored> = Vec::new();
            for entry in table.range(from.as_slice()..to.as_slice())? {
                let (key, value) = entry?;
                let text = record::unwrap(key.value(), value.value(), &self.keys)?;
                objects.push(record::read(key.value(), &text).map_err(Unusable::Damaged)?);
            }
            Ok((objects, last, log::read(cluster, reading, &self.keys, &limits)?))
        });
        let (objects, last, log) = read.map_err(|unusable| self.failed(unusable))?;
        let log = log.filter(|_| !self.file.may_be_older && !limits.early_reads);
        let (revision, past, log) = match (last, log) {
            (Some(last), Some((past, log))) => (last, past, log),
            // Somebody may have seen what is not in this file, but no more than was queued.
            (Some(last), None) => {
                let revision = last + LONGEST_QUEUE as u64;
                (revision, Past { floor: revision, ..Past::default() }, Log::void(&limits))
            }
            (None, _) => (1, Past::default(), Log::void(&limits)),
        };
        let backend = Arc::new(Cluster::new(cluster, self.writer.clone(), revision, log));
        Ok(Store::restore(env, limits, backend, objects, past, revision))
    }

    fn read<T>(
        &self,
        act: impl FnOnce(&ReadTransaction) -> Result<T, Unusable>,
    ) -> Result<T, Unusable> {
        let reading = self.file.read(|database| Ok(database.begin_read()?))?;
        check::guarded(|| act(&reading))
    }

    /// Waits until everything taken on so far is on the disk, or the disk has refused it.
    pub fn flush(&self) -> Result<(), String> {
        self.writer.flush()
    }

    /// The same, and then closes the file, so that the next start is quick. A change that
    /// comes later opens it again.
    pub fn close(&self) -> Result<(), String> {
        self.writer.flush()?;
        self.file.close();
        Ok(())
    }

    /// Whether whoever wrote the file last did not get to close it. What it acknowledged is
    /// there all the same.
    pub fn was_cut_off(&self) -> bool {
        self.file.cut_off
    }

    /// Writes everything of one moment to a new file while changes go on. Whatever was
    /// acknowledged before is in it, and all of it was read again afterwards.
    pub fn backup(&self, to: &Path) -> Result<Backup, DurableError> {
        // What this transaction sees stays as it is while it is held.
        let held = self.file.read(|database| Ok(database.begin_read()?));
        let held = held.map_err(|why| self.failed(why.into()))?;
        backup::copy(&held, self.file.path(), to, &self.keys)
    }

    /// Looks at every page and record on the disk while the server goes on. What it serves is
    /// in memory and right; a damage means that it would not start again.
    pub fn scrub(&self) -> Result<(), DurableError> {
        // What this transaction sees, and whatever is written later, is not overwritten
        // while it is held.
        let held = self.file.read(|database| Ok(database.begin_read()?));
        let held = held.map_err(|why| self.failed(why.into()))?;
        let look = || {
            let written = sequence(&held)?;
            match check::look(self.file.path(), &self.keys)?.sequence {
                found if found < written => Err(Unusable::Damaged(format!(
                    "of {written} batches of changes only {found} can be read"
                ))),
                _ => Ok(()),
            }
        };
        let mut seen = look();
        for _ in 1..LOOKS {
            seen = seen.or_else(|_| look());
        }
        drop(held);
        let seen = seen.map_err(|unusable| self.failed(unusable));
        self.writer.note_damage(seen.as_ref().err().map(ToString::to_string));
        seen
    }

    /// What a person should know: changes are refused, there is little room, or the file was
    /// found to be damaged. `None` if all is well.
    pub fn trouble(&self) -> Option<String> {
        self.writer.trouble()
    }

    /// How long the file is.
    pub fn size(&self) -> u64 {
        self.file.length()
    }

    fn failed(&self, unusable: Unusable) -> DurableError {
        DurableError::of(self.file.path(), unusable)
    }
}

/// How many batches a transaction sees.
fn sequence(reading: &ReadTransaction) -> Result<u64, Unusable> {
    let positions = reading.open_table(POSITIONS)?;
    let found = positions.get(SEQUENCE)?;
    Ok(found.map_or(Ok(0), |found| record::read_number(SEQUENCE, found.value()))?)
}

#[cfg(test)]
mod damage;
#[cfg(test)]
mod tests;
