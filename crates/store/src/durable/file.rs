//! The open database. After the disk failed a write, redb refuses everything until it is
//! opened anew; so that is done before the next write.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Builder, Database};

/// Bytes of the file that are kept in memory. Everything in it is in memory anyway, and is
/// read from here only when a server starts; redb by itself would keep a gibibyte.
const CACHE: usize = 64 << 20;

/// A file with a database in it.
pub struct File {
    path: PathBuf,
    /// `None` from a write that failed, or from [`File::close`], until the next.
    open: Mutex<Option<Database>>,
    /// Whether whoever had it open last did not close it.
    pub cut_off: bool,
}

impl File {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> Result<Self, redb::Error> {
        let checked = Arc::new(AtomicBool::new(false));
        let told = checked.clone();
        let mut builder = builder();
        // A file that was not closed is gone through from end to end before it is used.
        builder.set_repair_callback(move |_| told.store(true, Ordering::Relaxed));
        let database = builder.create_file(flagship_files::open_or_make(path)?)?;
        let (path, open) = (path.to_owned(), Mutex::new(Some(database)));
        Ok(Self { path, open, cut_off: checked.load(Ordering::Relaxed) })
    }

    /// Closes the file, so that it need not be gone through when it is opened again.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// Reads.
    pub fn read<T>(
        &self,
        act: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        act(opened(&mut self.lock(), &self.path)?)
    }

    /// Writes. A failure closes the file, which also drops what was half done.
    pub fn write<T>(
        &self,
        act: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let mut open = self.lock();
        let done = opened(&mut open, &self.path).and_then(act);
        if done.is_err() {
            *open = None;
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, Option<Database>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    builder
}

fn opened<'a>(open: &'a mut Option<Database>, path: &Path) -> Result<&'a Database, redb::Error> {
    let database = match open.take() {
        Some(database) => database,
        None => builder().create_file(flagship_files::open_existing(path)?)?,
    };
    Ok(open.insert(database))
}
