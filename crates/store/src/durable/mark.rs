//! How far a file was acknowledged: a number beside it that never goes back.
//!
//! After a kill redb may fall back to the batch before the last, which is right if the last
//! was not finished and wrong if it was and was damaged since. The number tells the two
//! apart: it is written after a batch is on the disk and before it is acknowledged. It needs
//! no flush of its own: a killed process loses nothing that the system has taken, and a power
//! cut leaves an older number, which asks for less.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::check::Unusable;
use super::record;

/// The number of a file, to be written.
pub struct Mark {
    file: Option<File>,
}

impl Mark {
    /// Beside a file that holds this many batches; refused if more were acknowledged.
    pub fn beside(store: &Path, sequence: u64) -> Result<Self, Unusable> {
        let path = place(store);
        let acknowledged = acknowledged(store)?;
        if let Some(acknowledged) = acknowledged.filter(|number| *number > sequence) {
            return Err(Unusable::Damaged(format!(
                "it holds {sequence} batches of changes, and {acknowledged} were acknowledged"
            )));
        }
        // On a full disk there may be no place for it. Then there is one check less.
        let file = flagship_files::open_or_make(&path);
        let file =
            file.inspect_err(|why| tracing::warn!(%why, "{} cannot be written", path.display()));
        let mark = Self { file: file.ok() };
        mark.set(sequence);
        Ok(mark)
    }

    /// This many batches are on the disk.
    pub fn set(&self, sequence: u64) {
        let Some(file) = &self.file else { return };
        if let Err(why) = file.write_all_at(&record::number(NAME, sequence), 0) {
            tracing::warn!(%why, "how far the store was acknowledged cannot be noted");
        }
    }

    /// Makes sure that it outlives a power cut, too.
    pub fn flush(&self) {
        if let Some(Err(why)) = self.file.as_ref().map(File::sync_data) {
            tracing::warn!(%why, "how far the store was acknowledged cannot be noted");
        }
    }
}

const NAME: &str = "acknowledged";

/// Where the number of a file is.
pub fn place(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".mark");
    name.into()
}

/// The number of a file; `None` if there is none, or none that can be trusted.
pub fn acknowledged(store: &Path) -> Result<Option<u64>, Unusable> {
    let mut value = [0; 12];
    let file = match flagship_files::open_to_read(&place(store)) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let read = file.read_exact_at(&mut value, 0).ok();
    Ok(read.and_then(|()| record::read_number(NAME, &value).ok()))
}
