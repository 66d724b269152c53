//! What survives the process: one `redb` file for all clusters of a server.
//!
//! Memory stays the truth while the process lives. [`Durable`] hands every cluster a
//! [`Backend`](crate::Backend) whose changes one thread writes, as many as have gathered since it last
//! wrote: with many writers at once one flush of the disk serves them all. A write is
//! answered when it is on the disk.
//!
//! A disk that fails or is full refuses further writes with its own words, keeps what was
//! taken on, and tries again every second; reads go on all the while. A file that cannot
//! be read is reported and never repaired: it may be all that is left.

mod file;
mod record;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use crate::env::Env;
use crate::{Limits, Restored, Store};
use file::File;
use writer::{Cluster, LONGEST_QUEUE, Writer};

/// Objects by cluster, resource, namespace and name.
const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
/// The last durable revision of every cluster.
const CLUSTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("clusters");

/// An object of the file, or what is wrong with it.
type Entry = Result<Restored, String>;

/// The file behind a server.
#[derive(Clone)]
pub struct Durable {
    writer: Arc<Writer>,
    file: Arc<File>,
    path: PathBuf,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// It cannot be opened: damaged, taken, or of another make.
    #[error("{path} cannot be opened: {reason}")]
    Open {
        /// The file.
        path: String,
        /// What redb says.
        reason: String,
    },
    /// It can be opened, and what is in it makes no sense.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

impl Durable {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> Result<Self, DurableError> {
        let failed =
            |reason: String| DurableError::Open { path: path.display().to_string(), reason };
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        let begun = file.write(|database| {
            let writing = database.begin_write()?;
            writing.open_table(OBJECTS)?;
            writing.open_table(CLUSTERS)?;
            writing.commit()?;
            Ok(())
        });
        begun.map_err(|error| failed(error.to_string()))?;
        let file = Arc::new(file);
        let writer = Writer::start(file.clone()).map_err(|error| failed(error.to_string()))?;
        Ok(Self { writer, file, path: path.to_owned() })
    }

    /// The clusters the file knows, sorted.
    pub fn clusters(&self) -> Result<Vec<String>, DurableError> {
        let read = self.file.read(|database| {
            let reading = database.begin_read()?;
            let table = reading.open_table(CLUSTERS)?;
            let names = table.iter()?.map(|entry| entry.map(|(name, _)| name.value().to_owned()));
            Ok(names.collect::<Result<_, _>>()?)
        });
        read.map_err(|error| self.damaged(error.to_string()))
    }

    /// A cluster as the file has it, empty if it is not known; its writes go to the file.
    pub fn store(
        &self,
        cluster: &str,
        env: Env,
        limits: Limits,
    ) -> Result<Arc<Store>, DurableError> {
        let (objects, last) = self.read(cluster)?;
        // Watchers may have seen what the disk never did, but no more than was queued.
        let revision = last.map_or(1, |last| last + LONGEST_QUEUE as u64);
        let backend = Arc::new(Cluster::new(cluster, self.writer.clone(), revision));
        Ok(Store::restore(env, limits, backend, objects, revision))
    }

    fn read(&self, cluster: &str) -> Result<(Vec<Restored>, Option<u64>), DurableError> {
        let read = self.file.read(|database| {
            let reading = database.begin_read()?;
            let last = reading.open_table(CLUSTERS)?.get(cluster)?.map(|found| found.value());
            let table = reading.open_table(OBJECTS)?;
            let (from, to) = record::range(cluster);
            let mut objects: Vec<Entry> = Vec::new();
            for entry in table.range(from.as_slice()..to.as_slice())? {
                let (key, value) = entry?;
                objects.push(record::read(key.value(), value.value()));
            }
            Ok((objects, last))
        });
        let (objects, last) = read.map_err(|error| self.damaged(error.to_string()))?;
        let objects = objects.into_iter().collect::<Result<_, _>>();
        Ok((objects.map_err(|reason| self.damaged(reason))?, last))
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

    fn damaged(&self, reason: String) -> DurableError {
        DurableError::Damaged { path: self.path.display().to_string(), reason }
    }
}

#[cfg(test)]
mod tests;
