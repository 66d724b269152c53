//! A disk that fails on purpose, between the database and its file: it is full, it is slow, it
//! says that it has flushed and has not, and when the power goes it has kept some of what was
//! not flushed, and of some of it only sectors.
//!
//! Everything goes to the file at once, as to a system's page cache; what stood there before is
//! remembered until it is flushed. A power cut puts some of that back.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redb::{BackendError, StorageBackend};

use crate::env::Entropy;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// The faults of a disk. Clones are the same disk.
#[derive(Clone)]
pub struct FailingDisk(Arc<Mutex<State>>);

struct State {
    entropy: Entropy,
    full: bool,
    slow: Duration,
    lying: bool,
    is_off: bool,
    /// What stood where something was written that was not flushed, oldest first.
    unflushed: Vec<Before>,
    seen: Seen,
}

/// What is put back when a write is lost.
enum Before {
    Bytes { offset: u64, old: Vec<u8> },
    Length(u64),
}

/// How often things went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Writes that were refused for lack of room.
    pub full: u64,
    /// Writes that took their time.
    pub slow: u64,
    /// Flushes that were acknowledged and did not happen.
    pub lies: u64,
    /// Writes that a power cut undid.
    pub lost: u64,
    /// Writes of which a power cut left some sectors.
    pub torn: u64,
}

impl std::fmt::Debug for FailingDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FailingDisk({:?})", self.seen())
    }
}

impl FailingDisk {
    /// A disk without a fault; chance comes from the seed.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            entropy: Entropy::seeded(seed),
            full: false,
            slow: Duration::ZERO,
            lying: false,
            is_off: false,
            unflushed: Vec::new(),
            seen: Seen::default(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on there is no room for a longer file, or there is again.
    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// From now on every flush takes so long.
    pub fn set_slow(&self, slow: Duration) {
        self.lock().slow = slow;
    }

    /// From now on flushes are acknowledged and not done, or they are again.
    pub fn set_lying(&self, lying: bool) {
        self.lock().lying = lying;
    }

    /// What went wrong so far.
    pub fn seen(&self) -> Seen {
        self.lock().seen
    }

    /// The power goes: from now on nothing is written. Whoever has the file open is to be
    /// dropped before [`FailingDisk::comes_back`].
    pub fn goes_off(&self) {
        self.lock().is_off = true;
    }

    /// Only the process was killed: what the system had taken is there.
    pub fn comes_on(&self) {
        self.lock().is_off = false;
    }

    /// The power is back: of what was not flushed the file has some, and of that some in part.
    pub fn comes_back(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let file = File::options().read(true).write(true).open(path)?;
        for before in std::mem::take(&mut state.unflushed).into_iter().rev() {
            match before {
                // A length that was not flushed may be there all the same.
                Before::Length(length) if state.entropy.u64().is_multiple_of(2) => {
                    file.set_len(length)?;
                }
                Before::Length(_) => {}
                Before::Bytes { offset, old } => match state.entropy.u64() % 3 {
                    0 => {}
                    1 => {
                        state.seen.lost += 1;
                        put_back(&file, offset, &old)?;
                    }
                    _ => {
                        state.seen.torn += 1;
                        for (at, sector) in old.chunks(SECTOR).enumerate() {
                            if state.entropy.u64().is_multiple_of(2) {
                                put_back(&file, offset + (at * SECTOR) as u64, sector)?;
                            }
                        }
                    }
                },
            }
        }
        state.is_off = false;
        Ok(())
    }

    /// The disk beneath a database.
    pub(super) fn beneath(&self, file: File) -> Beneath {
        Beneath { disk: self.clone(), file }
    }
}

#[expect(clippy::disallowed_methods, reason = "only the thread that writes waits for its disk")]
fn wait(slow: Duration) {
    std::thread::sleep(slow);
}

/// Within what the file has: what lay beyond its end was never there.
fn put_back(file: &File, offset: u64, old: &[u8]) -> io::Result<()> {
    let length = file.metadata()?.len();
    let there = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
    file.write_all_at(&old[..there.min(old.len())], offset)
}

/// A file on such a disk.
#[derive(Debug)]
pub(super) struct Beneath {
    disk: FailingDisk,
    file: File,
}

impl Beneath {
    fn awake(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.lock();
        match state.is_off {
            true => Err(io::Error::other("the power is off")),
            false => Ok(state),
        }
    }
}

impl StorageBackend for Beneath {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.awake()?;
        let now = self.file.metadata()?.len();
        if length > now && state.full {
            state.seen.full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.unflushed.push(Before::Length(now));
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        let slow = self.awake()?.slow;
        if !slow.is_zero() {
            wait(slow);
        }
        let mut state = self.awake()?;
        state.seen.slow += u64::from(!slow.is_zero());
        match state.lying {
            true => state.seen.lies += 1,
            false => state.unflushed.clear(),
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.awake()?;
        let length = self.file.metadata()?.len();
        if offset + data.len() as u64 > length && state.full {
            state.seen.full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut old = vec![0; data.len()];
        let there = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let there = there.min(old.len());
        self.file.read_exact_at(&mut old[..there], offset)?;
        if there < old.len() {
            state.unflushed.push(Before::Length(length));
        }
        state.unflushed.push(Before::Bytes { offset, old });
        self.file.write_all_at(data, offset)
    }

    // A test has the only process.
    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
}
