//! The open database: how it is made, opened, written to and written anew.
//!
//! After the disk failed a write, redb refuses everything until it is opened anew; so that is
//! done before the next write.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{Builder, Database, ReadableDatabase, ReadableTable, WriteTransaction};

use super::check::{self, Unusable, guarded};
use super::failing_disk::FailingDisk;
use super::mark::{self, Mark};
use super::record;
use super::seal::Keys;
use super::{FORMAT, FORMAT_NOW, OLD_CLUSTERS, OLD_OBJECTS, POSITIONS, RECORDS, SEQUENCE};

/// Bytes of the file that are kept in memory. Everything in it is in memory anyway, and is
/// read from here only when a server starts; redb by itself would keep a gibibyte.
const CACHE: usize = 16 << 20;

/// Why a batch was not written.
#[derive(Debug, Clone)]
pub struct Refused {
    /// What the system says.
    pub says: String,
    /// Whether there is no room.
    pub is_full: bool,
}

impl From<redb::Error> for Refused {
    fn from(why: redb::Error) -> Self {
        let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
        let is_full = matches!(&why, redb::Error::Io(why) if full.contains(&why.kind()));
        Self { says: why.to_string(), is_full }
    }
}

/// A file with a database in it.
pub struct File {
    path: PathBuf,
    /// What goes wrong on purpose, if anything does.
    disk: Option<FailingDisk>,
    /// `None` from a write that failed, or from [`File::close`], until the next.
    open: Mutex<Option<Database>>,
    mark: Mark,
    /// Whether whoever had it open last did not close it.
    pub cut_off: bool,
    /// Whether it may be an older copy of what was there: nothing says how far it was
    /// acknowledged.
    pub may_be_older: bool,
}

impl File {
    /// Opens the file after a look at all of it, or makes it.
    pub fn open(path: &Path, keys: &Keys, disk: Option<FailingDisk>) -> Result<Self, Unusable> {
        let is_new =
            std::fs::symlink_metadata(path).is_err_and(|why| why.kind() == ErrorKind::NotFound);
        if is_new {
            make(path, |_| Ok(()))?;
        }
        let seen = check::look(path, keys)?;
        let may_be_older = !is_new && mark::acknowledged(path)?.is_none();
        let mark = Mark::beside(path, seen.sequence)?;
        if seen.is_to_be_rewritten {
            tracing::info!(path = %path.display(), "the store is written anew");
            rewrite(path, keys)?;
        }
        let database = guarded(|| Ok(open_database(path, disk.as_ref())?))?;
        let (path, open) = (path.to_owned(), Mutex::new(Some(database)));
        Ok(Self { path, disk, open, mark, cut_off: seen.cut_off, may_be_older })
    }

    /// Closes the file, so that it need not be repaired when it is opened again.
    pub fn close(&self) {
        *self.lock() = None;
        self.mark.flush();
    }

    /// Reads.
    pub fn read<T>(
        &self,
        act: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        act(self.opened(&mut self.lock())?)
    }

    /// Writes one batch. A failure closes the file, which also drops what was half done.
    pub fn write(
        &self,
        act: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), Refused> {
        let mut open = self.lock();
        let written = catch_unwind(AssertUnwindSafe(|| {
            let written = self.opened(&mut open).and_then(|database| {
                let writing = database.begin_write()?;
                act(&writing)?;
                let sequence = next(&writing)?;
                writing.commit()?;
                Ok(sequence)
            });
            if written.is_err() {
                *open = None;
            }
            written.map_err(Refused::from)
        }));
        let written = written.unwrap_or_else(|panic| {
            // Even closing it may fail on pages that make no sense: it is left as it is.
            std::mem::forget(open.take());
            Err(Refused { says: check::said(&*panic), is_full: false })
        });
        written.map(|sequence| self.mark.set(sequence))
    }

    /// Gives back to the disk what the file does not need, if that is half of it: its length
    /// before and after. Changes wait meanwhile; reads do not come here.
    pub fn compact(&self) -> Result<Option<(u64, u64)>, String> {
        let mut open = self.lock();
        let before = self.length();
        let compacted = catch_unwind(AssertUnwindSafe(|| -> Result<bool, redb::Error> {
            // Closed for good, or until the next change.
            let Some(database) = open.as_mut() else { return Ok(false) };
            let writing = database.begin_write()?;
            let stats = writing.stats()?;
            writing.abort()?;
            let needed = stats.allocated_pages() * stats.page_size() as u64;
            Ok(needed * 2 < before && database.compact()?)
        }));
        match compacted {
            Ok(Ok(false)) => Ok(None),
            Ok(Ok(true)) => Ok(Some((before, self.length()))),
            // Somebody looks at all of it just now.
            Ok(Err(redb::Error::TransactionInProgress)) => Ok(None),
            Ok(Err(why)) => {
                *open = None;
                Err(why.to_string())
            }
            Err(panic) => {
                std::mem::forget(open.take());
                Err(check::said(&*panic))
            }
        }
    }

    /// How long the file is.
    pub fn length(&self) -> u64 {
        std::fs::symlink_metadata(&self.path).map_or(0, |found| found.len())
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn opened<'a>(&self, open: &'a mut Option<Database>) -> Result<&'a Database, redb::Error> {
        let database = match open.take() {
            Some(database) => database,
            None => open_database(&self.path, self.disk.as_ref())?,
        };
        Ok(open.insert(database))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Database>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one more batch.
fn next(writing: &WriteTransaction) -> Result<u64, redb::Error> {
    let mut positions = writing.open_table(POSITIONS)?;
    let last = positions.get(SEQUENCE)?.map(|found| record::read_number(SEQUENCE, found.value()));
    let last = match last {
        None => 0,
        Some(Ok(last)) => last,
        Some(Err(_)) => return Err(redb::Error::Corrupted("the count of batches".to_owned())),
    };
    positions.insert(SEQUENCE, record::number(SEQUENCE, last + 1).as_slice())?;
    Ok(last + 1)
}

/// Makes a file with this in it: all of it appears at once or nothing does.
pub fn make(
    path: &Path,
    fill: impl FnOnce(&WriteTransaction) -> Result<(), Unusable>,
) -> Result<(), Unusable> {
    let beside = flagship_files::beside(path);
    flagship_files::remove_if_there(&beside)?;
    let made = || {
        let database = builder().create_file(flagship_files::make_new(&beside)?)?;
        let writing = database.begin_write()?;
        writing.open_table(FORMAT)?.insert("format", FORMAT_NOW)?;
        writing.open_table(RECORDS)?;
        writing.open_table(POSITIONS)?.insert(SEQUENCE, record::number(SEQUENCE, 0).as_slice())?;
        fill(&writing)?;
        writing.commit()?;
        drop(database);
        Ok(flagship_files::put_in_place(&beside, path)?)
    };
    let made = made();
    if made.is_err() {
        // Half a file is of no use, and on a full disk it is in the way.
        drop(flagship_files::remove_if_there(&beside));
    }
    made
}

/// Writes everything anew: in today's form, with today's key, without what lies in free
/// pages, and without the log of changes.
fn rewrite(path: &Path, keys: &Keys) -> Result<(), Unusable> {
    guarded(|| {
        let (old, _) = check::opened(path)?;
        let reading = old.begin_read()?;
        make(path, |writing| {
            let mut records = writing.open_table(RECORDS)?;
            let mut positions = writing.open_table(POSITIONS)?;
            if let Some(objects) = check::there(reading.open_table(OLD_OBJECTS))? {
                for entry in objects.iter()? {
                    let (key, value) = entry?;
                    let wrapped = record::wrap(key.value(), value.value(), keys);
                    records.insert(key.value(), wrapped.as_slice())?;
                }
                for entry in reading.open_table(OLD_CLUSTERS)?.iter()? {
                    let (name, revision) = entry?;
                    let number = record::number(name.value(), revision.value());
                    positions.insert(name.value(), number.as_slice())?;
                }
                return Ok(());
            }
            for entry in reading.open_table(RECORDS)?.iter()? {
                let (key, value) = entry?;
                let text = record::unwrap(key.value(), value.value(), keys)?;
                let wrapped = record::wrap(key.value(), &text, keys);
                records.insert(key.value(), wrapped.as_slice())?;
            }
            for entry in reading.open_table(POSITIONS)?.iter()? {
                let (name, number) = entry?;
                positions.insert(name.value(), number.value())?;
            }
            Ok(())
        })
    })
}

/// How files are opened.
pub fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    builder
}

fn open_database(path: &Path, disk: Option<&FailingDisk>) -> Result<Database, redb::Error> {
    let file = flagship_files::open_existing(path)?;
    // redb would begin a new database in it.
    if file.metadata()?.len() == 0 {
        return Err(redb::Error::Corrupted("it is empty".to_owned()));
    }
    Ok(match disk {
        None => builder().create_file(file)?,
        Some(disk) => builder().create_with_backend(disk.beneath(file))?,
    })
}
