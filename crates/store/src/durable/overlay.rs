//! A file to be looked at as a database without a byte of it being changed: what redb writes
//! while it opens, repairs and checks stays in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

const BLOCK: u64 = 4096;

/// The file beneath and what was written over it.
#[derive(Debug)]
pub struct Overlay {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How much of the file beneath still counts.
    beneath: u64,
    length: u64,
    /// Blocks that were written, by where they begin.
    written: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    /// Over a file as long as it is now.
    pub fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let state = Mutex::new(State { beneath: length, length, written: BTreeMap::new() });
        Ok(Self { file, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of the file beneath, zeros beyond its end.
    fn read_beneath(&self, state: &State, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = state.beneath.saturating_sub(offset).min(out.len() as u64) as usize;
        let (there, beyond) = out.split_at_mut(there);
        beyond.fill(0);
        self.file.read_exact_at(there, offset)
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.lock();
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= state.length);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.read_beneath(&state, offset, out)?;
        let first = offset - offset % BLOCK;
        for (begin, block) in state.written.range(first..end) {
            let (from, to) = (offset.max(*begin), end.min(begin + BLOCK));
            let part = &block[(from - begin) as usize..(to - begin) as usize];
            out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.lock();
        state.beneath = state.beneath.min(length);
        state.length = length;
        let gone = state.written.split_off(&length);
        drop(gone);
        // What is written later beyond the new end begins as zeros.
        let (begin, kept) = (length - length % BLOCK, (length % BLOCK) as usize);
        if let Some(block) = state.written.get_mut(&begin) {
            block[kept..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let end = offset + data.len() as u64;
        state.length = state.length.max(end);
        let mut begin = offset - offset % BLOCK;
        while begin < end {
            let (from, to) = (offset.max(begin), end.min(begin + BLOCK));
            let part = &data[(from - offset) as usize..(to - offset) as usize];
            let mut block = match state.written.remove(&begin) {
                Some(block) => block,
                None => {
                    let mut block = vec![0; BLOCK as usize];
                    self.read_beneath(&state, begin, &mut block)?;
                    block
                }
            };
            block[(from - begin) as usize..(to - begin) as usize].copy_from_slice(part);
            state.written.insert(begin, block);
            begin += BLOCK;
        }
        Ok(())
    }

    // Nobody else sees what is written here, so there is nothing to lock.
    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_the_file_stays_as_it_was() {
        let path = std::env::temp_dir().join(format!("flagship-overlay-{}", std::process::id()));
        let before: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
        std::fs::write(&path, &before).unwrap();
        let over = Overlay::new(File::open(&path).unwrap()).unwrap();
        let mut model = before.clone();
        // Within a block, over two ends of blocks, beyond the end.
        for (offset, length) in [(10_usize, 5_usize), (4090, 4110), (9_990, 30), (20_000, 1)] {
            let data = vec![0xee; length];
            over.write(offset as u64, &data).unwrap();
            model.resize(model.len().max(offset + length), 0);
            model[offset..offset + length].copy_from_slice(&data);
        }
        for length in [20_001, 4_100, 9_000] {
            over.set_len(length as u64).unwrap();
            model.resize(length, 0);
            assert_eq!(over.len().unwrap(), length as u64);
            let mut read = vec![1; length];
            over.read(0, &mut read).unwrap();
            assert!(read == model, "{length}");
            assert!(over.read(1, &mut read).is_err(), "beyond the end");
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
        std::fs::remove_file(&path).unwrap();
    }
}
