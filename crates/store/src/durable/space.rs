//! How much room the disk has, and a reserve on it.
//!
//! A database that changes nothing in place needs room to delete. So a file lies beside the
//! store that is good for nothing but to be removed when the disk is full. It is made again
//! when there is room.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// The largest reserve; on a small disk it is a share of it.
const RESERVE: u64 = 4 << 20;
const SHARE: u64 = 16;
/// How often the reserve must fit into what is left before it is made again.
const PLENTY: u64 = 4;

/// The disk of a store.
pub struct Space {
    store: PathBuf,
    reserve: PathBuf,
}

/// How much room there is.
#[derive(Debug, Clone)]
pub struct Left {
    store: PathBuf,
    available: u64,
    total: u64,
}

impl Space {
    /// The disk that a store lies on.
    pub fn beside(store: &Path) -> Self {
        Self { store: store.to_owned(), reserve: place(store) }
    }

    /// How much room there is; `None` where the system does not say.
    pub fn left(&self) -> Option<Left> {
        let folder = self.store.parent().filter(|folder| !folder.as_os_str().is_empty());
        let found = statvfs(folder.unwrap_or(Path::new("."))).ok()?;
        let size = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        let (available, total) = (size(found.f_bavail), size(found.f_blocks));
        Some(Left { store: self.store.clone(), available, total })
    }

    /// Makes the reserve, unless it is there or the disk is too full for it.
    pub fn keep(&self) {
        let Some(left) = self.left() else { return };
        let size = left.reserve();
        if self.reserve.exists() || left.available < size * PLENTY {
            return;
        }
        let made = flagship_files::make_new(&self.reserve).and_then(|file| {
            fallocate(&file, FallocateFlags::empty(), 0, size)?;
            file.sync_all()
        });
        if let Err(why) = made {
            tracing::debug!(%why, "{} cannot be made", self.reserve.display());
            drop(flagship_files::remove_if_there(&self.reserve));
        }
    }

    /// Gives the reserve up. Whether there was one.
    pub fn release(&self) -> bool {
        release(&self.store)
    }
}

impl Left {
    /// What is not to be used for anything that makes the store larger.
    fn reserve(&self) -> u64 {
        RESERVE.min(self.total / SHARE)
    }

    /// Whether this much more would leave too little.
    pub fn is_less_than(&self, more: u64) -> bool {
        self.available < self.reserve() + more
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without figures: whoever asks twice should hear the same.
        write!(
            f,
            "the disk of {} is full: nothing new is stored until there is room. Deleting objects still works",
            self.store.display(),
        )
    }
}

/// Where the reserve of a store is.
pub fn place(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".reserve");
    name.into()
}

/// Gives up what is held in reserve for a store on a full disk. Whether there was any.
pub fn release(store: &Path) -> bool {
    std::fs::remove_file(place(store)).is_ok()
}
