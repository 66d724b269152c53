//! Is a file what was written? Every page and every record of it is looked at, and nothing
//! of it is changed.
//!
//! redb keeps a checksum of every page and asks for it only after a file was not closed; so
//! it is told to. It panics on some damages, which is caught and told as the damage.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableError};

use super::log;
use super::overlay::Overlay;
use super::record::{self, Unreadable};
use super::seal::Keys;
use super::{OLD_CLUSTERS, OLD_OBJECTS, POSITIONS, RECORDS, SEQUENCE};

/// Why a file cannot be used, in the words that a person is told.
#[derive(Debug)]
pub enum Unusable {
    /// It cannot be opened or written: no right to it, taken, or a disk that fails.
    Closed(String),
    /// Something else lies there than was written.
    Damaged(String),
    /// It is sealed by the key of this id.
    Key(String),
}

/// What a look at a file found.
pub struct Findings {
    /// Whether whoever had it open last did not close it.
    pub cut_off: bool,
    /// Whether it was written in another way than it would be now.
    pub is_to_be_rewritten: bool,
    /// How many batches were written to it; none if an older version wrote it.
    pub sequence: u64,
}

/// Looks at every page and every record.
pub fn look(path: &Path, keys: &Keys) -> Result<Findings, Unusable> {
    guarded(|| {
        let (mut database, cut_off) = opened(path)?;
        if !database.check_integrity()? {
            let what = "pages do not match their checksums".to_owned();
            return Err(Unusable::Damaged(what));
        }
        let reading = database.begin_read()?;
        let mut findings = Findings { cut_off, is_to_be_rewritten: false, sequence: 0 };
        let Some(positions) = there(reading.open_table(POSITIONS))? else {
            // Made by an older version: its own reading of each object is all there is.
            let Some(objects) = there(reading.open_table(OLD_OBJECTS))? else {
                return Err(Unusable::Damaged("it has no tables".to_owned()));
            };
            for entry in objects.iter()? {
                let (key, value) = entry?;
                record::read(key.value(), value.value()).map_err(Unusable::Damaged)?;
            }
            drop(reading.open_table(OLD_CLUSTERS)?);
            findings.is_to_be_rewritten = true;
            return Ok(findings);
        };
        for entry in positions.iter()? {
            let (name, value) = entry?;
            let number = record::read_number(name.value(), value.value())?;
            if name.value() == SEQUENCE {
                findings.sequence = number;
            }
        }
        for entry in reading.open_table(RECORDS)?.iter()? {
            let (key, value) = entry?;
            let text = record::unwrap(key.value(), value.value(), keys)?;
            record::read(key.value(), &text).map_err(Unusable::Damaged)?;
            findings.is_to_be_rewritten |= record::would_rewrite(value.value(), keys);
        }
        findings.is_to_be_rewritten |= log::look(&reading, keys)?;
        Ok(findings)
    })
}

/// The file as a database that can be read and is never changed, and whether it was not closed.
pub fn opened(path: &Path) -> Result<(Database, bool), Unusable> {
    let file = flagship_files::open_to_read(path)?;
    if file.metadata()?.len() == 0 {
        return Err(Unusable::Damaged("it is empty".to_owned()));
    }
    let cut_off = Arc::new(AtomicBool::new(false));
    let told = cut_off.clone();
    let mut builder = super::file::builder();
    builder.set_repair_callback(move |_| told.store(true, Ordering::Relaxed));
    let database = builder.create_with_backend(Overlay::new(file)?)?;
    Ok((database, cut_off.load(Ordering::Relaxed)))
}

/// A table, if the file has it.
pub fn there<T>(table: Result<T, TableError>) -> Result<Option<T>, Unusable> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => Ok(None),
        Err(why) => Err(redb::Error::from(why).into()),
    }
}

thread_local! {
    /// Whether a panic of this thread is handed on as the damage that was found.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Does something with a file that may be damaged; a panic is such a damage.
pub fn guarded<T>(act: impl FnOnce() -> Result<T, Unusable>) -> Result<T, Unusable> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                usual(panic);
            }
        }));
    });
    let before = GUARDED.replace(true);
    let ended = catch_unwind(AssertUnwindSafe(act));
    GUARDED.set(before);
    ended.unwrap_or_else(|panic| Err(Unusable::Damaged(said(&*panic))))
}

/// What a panic says.
pub fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("its pages make no sense ({})", text.unwrap_or("no reason was given"))
}

impl From<std::io::Error> for Unusable {
    fn from(why: std::io::Error) -> Self {
        match why.kind() {
            // What it says about itself is longer than it is.
            std::io::ErrorKind::UnexpectedEof => Self::Damaged("it is cut short".to_owned()),
            std::io::ErrorKind::InvalidData => Self::Damaged(why.to_string()),
            _ => Self::Closed(why.to_string()),
        }
    }
}

impl From<redb::Error> for Unusable {
    fn from(why: redb::Error) -> Self {
        match why {
            redb::Error::Io(why) => why.into(),
            redb::Error::DatabaseAlreadyOpen => Self::Closed("another process has it".to_owned()),
            why => Self::Damaged(why.to_string()),
        }
    }
}

macro_rules! as_redb_error {
    ($($error:ty),*) => {
        $(impl From<$error> for Unusable {
            fn from(why: $error) -> Self {
                redb::Error::from(why).into()
            }
        })*
    };
}

as_redb_error!(DatabaseError, StorageError, TableError, redb::TransactionError, redb::CommitError);

impl From<Unreadable> for Unusable {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Damaged(what) => Self::Damaged(what),
            Unreadable::Key(id) => Self::Key(id),
        }
    }
}
