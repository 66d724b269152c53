//! The one thread that writes, and the queue in front of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use super::file::File;
use super::seal::Keys;
use super::{POSITIONS, RECORDS, record};
use crate::{Backend, BackendError, Committed};

/// Changes that may wait for the disk. Revisions after a restart begin this far beyond
/// the last one on the disk, so that none is ever used twice.
pub const LONGEST_QUEUE: usize = 65_536;
/// Bytes that may wait for the disk.
const LARGEST_QUEUE: usize = 256 << 20;
/// How soon a disk that refused is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Writes changes of all clusters, in the order they came. The last handle to go waits
/// until what it took on is on the disk.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread shares with those who give it work.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Told when the queue has something, or is to end.
    work: Condvar,
    /// Told when a batch is done, well or badly.
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    changes: Vec<Change>,
    bytes: usize,
    /// What the disk said last, while it refuses.
    refusal: Option<String>,
    /// Batches that ended, well or badly.
    ended: u64,
    writing: bool,
    closed: bool,
    /// Who waits for which cluster.
    settled: BTreeMap<String, watch::Sender<Settled>>,
}

/// How far a cluster is on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Settled {
    revision: u64,
    refusal: Option<String>,
}

struct Change {
    cluster: Arc<str>,
    revision: u64,
    what: What,
}

enum What {
    Put { key: Vec<u8>, text: Vec<u8> },
    Delete { key: Vec<u8> },
    Forget { from: Vec<u8>, to: Vec<u8> },
}

impl What {
    fn size(&self) -> usize {
        match self {
            Self::Put { key, text } => key.len() + text.len(),
            Self::Delete { key } => key.len(),
            Self::Forget { from, to } => from.len() + to.len(),
        }
    }
}

impl Writer {
    /// Starts the thread.
    pub fn start(file: Arc<File>, keys: Arc<Keys>) -> std::io::Result<Arc<Self>> {
        let shared = Arc::<Shared>::default();
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("durable-writer".to_owned())
            .spawn(move || while theirs.write_once(&file, &keys) {})?;
        Ok(Arc::new(Self { shared, thread: Some(thread) }))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.shared.lock()
    }

    fn take_on(&self, change: Change) -> Result<(), BackendError> {
        let mut queue = self.lock();
        if let Some(refusal) = &queue.refusal {
            return Err(BackendError(refusal.clone()));
        }
        if queue.changes.len() >= LONGEST_QUEUE / 2 || queue.bytes >= LARGEST_QUEUE {
            return Err(BackendError("too many changes wait for the disk".to_owned()));
        }
        queue.push(change);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Waits until everything taken on so far was written or refused.
    pub fn flush(&self) -> Result<(), String> {
        let mut queue = self.lock();
        let begun = queue.ended;
        while queue.writing || !queue.changes.is_empty() {
            if let Some(refusal) = queue.refusal.clone().filter(|_| queue.ended > begun) {
                return Err(refusal);
            }
            queue = self.shared.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.lock().closed = true;
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported there.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for changes and writes them. False when there will be no more.
    fn write_once(&self, file: &File, keys: &Keys) -> bool {
        let mut queue = self.lock();
        while queue.changes.is_empty() && !queue.closed {
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let batch = std::mem::take(&mut queue.changes);
        if batch.is_empty() {
            return false;
        }
        queue.writing = true;
        drop(queue);
        let written = commit(file, keys, &batch);
        let mut queue = self.lock();
        queue.writing = false;
        queue.ended += 1;
        queue.refusal = written.clone().err();
        queue.tell(&batch, written.as_ref().err());
        self.done.notify_all();
        let Err(refusal) = written else {
            queue.bytes = queue.changes.iter().map(|change| change.what.size()).sum();
            return true;
        };
        tracing::error!(%refusal, "changes cannot be stored");
        if queue.closed {
            return false;
        }
        // What was taken on is kept, before what came since, and tried again.
        let since = std::mem::replace(&mut queue.changes, batch);
        queue.changes.extend(since);
        drop(self.work.wait_timeout(queue, RETRY));
        true
    }
}

impl Queue {
    fn push(&mut self, change: Change) {
        self.bytes += change.what.size();
        self.changes.push(change);
    }

    fn tell(&mut self, batch: &[Change], refusal: Option<&String>) {
        for (cluster, revision) in last_of_each(batch) {
            if let Some(sender) = self.settled.get(&*cluster) {
                sender.send_modify(|settled| {
                    settled.refusal = refusal.cloned();
                    if refusal.is_none() {
                        settled.revision = settled.revision.max(revision);
                    }
                });
            }
        }
    }
}

fn last_of_each(batch: &[Change]) -> BTreeMap<Arc<str>, u64> {
    let mut last = BTreeMap::new();
    for change in batch {
        last.insert(change.cluster.clone(), change.revision);
    }
    last
}

fn commit(file: &File, keys: &Keys, batch: &[Change]) -> Result<(), String> {
    file.write(|writing| {
        let mut records = writing.open_table(RECORDS)?;
        for change in batch {
            match &change.what {
                What::Put { key, text } => {
                    // Here and not when it was taken on: that happens under the store's lock.
                    records.insert(key.as_slice(), record::wrap(key, text, keys).as_slice())?;
                }
                What::Delete { key } => {
                    records.remove(key.as_slice())?;
                }
                What::Forget { from, to } => {
                    records.retain_in(from.as_slice()..to.as_slice(), |_, _| false)?;
                }
            }
        }
        let mut positions = writing.open_table(POSITIONS)?;
        for (cluster, revision) in last_of_each(batch) {
            let number = record::number(&cluster, revision);
            positions.insert(&*cluster, number.as_slice())?;
        }
        Ok(())
    })
}

/// One cluster's way to the writer.
pub struct Cluster {
    name: Arc<str>,
    writer: Arc<Writer>,
    settled: watch::Receiver<Settled>,
}

impl Cluster {
    /// A cluster whose changes up to `revision` are on the disk.
    pub fn new(name: &str, writer: Arc<Writer>, revision: u64) -> Self {
        let (sender, settled) = watch::channel(Settled { revision, refusal: None });
        writer.lock().settled.insert(name.to_owned(), sender);
        Self { name: name.into(), writer, settled }
    }

    fn change(&self, revision: u64, what: What) -> Change {
        Change { cluster: self.name.clone(), revision, what }
    }
}

impl Backend for Cluster {
    fn append(&self, change: Committed<'_>) -> Result<(), BackendError> {
        let change = match change {
            Committed::Put(resource, stored) => {
                let key = record::key(&self.name, resource, &stored.key);
                self.change(stored.revision, What::Put { key, text: record::text(stored) })
            }
            Committed::Deleted(resource, stored) => {
                let key = record::key(&self.name, resource, &stored.key);
                self.change(stored.revision, What::Delete { key })
            }
        };
        self.writer.take_on(change)
    }

    fn forget(&self, resource: &str, revision: u64) {
        let (from, to) = record::range_of(&self.name, resource);
        let mut queue = self.writer.lock();
        queue.push(self.change(revision, What::Forget { from, to }));
        self.writer.shared.work.notify_one();
    }

    fn settled(&self, revision: u64) -> BoxFuture<'_, Result<(), BackendError>> {
        let mut settled = self.settled.clone();
        Box::pin(async move {
            let waited = settled
                .wait_for(|now| now.revision >= revision || now.refusal.is_some())
                .await
                .map_err(|_| BackendError("the server is closing".to_owned()))?;
            match &waited.refusal {
                Some(refusal) if waited.revision < revision => Err(BackendError(refusal.clone())),
                _ => Ok(()),
            }
        })
    }
}
