//! The one thread that writes, and the queue in front of it.
//!
//! A batch is on the disk, then readers may see it, then its writers are answered. Where many
//! write at once, the next batch waits a moment for as many as the last one had: each flush
//! costs the same, however little it is for.
//!
//! A disk with little room left takes what makes nothing larger, deletions above all; one
//! that has none gets back what `space` held in reserve.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use super::file::{File, Refused};
use super::log::{self, Addition, FLOORS, LOG, Log, Step, Tables};
use super::seal::Keys;
use super::space::{Left, Space};
use super::{POSITIONS, RECORDS, record};
use crate::{Backend, BackendError, Committed, Publisher, Resource, Stored};

/// Changes that may wait for the disk. Where revisions may have been seen that are not on
/// the disk, they go on this far beyond the last one that is, so that none is used twice.
pub const LONGEST_QUEUE: usize = 65_536;
/// Bytes that may wait for the disk.
const LARGEST_QUEUE: usize = 256 << 20;
/// Bytes after which the file is looked at, whether it could be smaller; at least as many as
/// it has.
const COMPACTED_AFTER: u64 = 8 << 20;
/// A batch of so many changes says that many write at once.
const MANY: usize = 8;
/// How long the next one then waits at most for as many.
const GATHERING: Duration = Duration::from_millis(4);
/// How soon a disk that refused is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Writes changes of all clusters, in the order they came. The last handle to go waits
/// until what it took on is on the disk.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread shares with those who give it work.
struct Shared {
    file: Arc<File>,
    keys: Arc<Keys>,
    space: Space,
    /// The logs of the clusters; only the thread and a cluster that begins hold it.
    logs: Mutex<BTreeMap<Arc<str>, Log>>,
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
    /// How much room the disk had when it was last looked at.
    left: Option<Left>,
    /// Whether a person was told that there is little.
    is_low: bool,
    /// What a look at the file found wrong with it.
    damage: Option<String>,
    /// Bytes written since the file was last compacted.
    written: u64,
    /// Batches that ended, well or badly.
    ended: u64,
    /// Changes in the last of them.
    last: usize,
    /// How many changes wake the thread; it looks at fewer when its time is over.
    wanted: usize,
    writing: bool,
    closed: bool,
    /// Who waits for which cluster.
    settled: BTreeMap<Arc<str>, watch::Sender<Settled>>,
    /// Whose readers wait for which cluster.
    publishers: BTreeMap<Arc<str>, Publisher>,
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
    Change { resource: Resource, now: Arc<Stored>, before: Option<Arc<Stored>>, gone: bool },
    Forget { resource: Box<str> },
}

/// What a change costs beside its JSON, roughly.
const BESIDE_JSON: usize = 256;
/// By how much an object may grow when there is little room: finalizers and conditions come
/// and go while things are deleted.
const SMALL: usize = 1024;

impl What {
    fn size(&self) -> usize {
        match self {
            Self::Change { now, .. } => now.json.len() + BESIDE_JSON,
            Self::Forget { resource } => resource.len(),
        }
    }

    /// Whether there is more to keep afterwards than before.
    fn grows(&self) -> bool {
        match self {
            Self::Change { gone: true, .. } | Self::Forget { .. } => false,
            Self::Change { before: None, .. } => true,
            Self::Change { now, before: Some(before), .. } => {
                now.json.len() > before.json.len() + SMALL
            }
        }
    }
}

impl Writer {
    /// Starts the thread.
    pub fn start(file: Arc<File>, keys: Arc<Keys>) -> std::io::Result<Arc<Self>> {
        let space = Space::beside(file.path());
        space.keep();
        let queue = Mutex::new(Queue { left: space.left(), ..Queue::default() });
        let (work, done, logs) = (Condvar::new(), Condvar::new(), Mutex::default());
        let shared = Arc::new(Shared { file, keys, space, logs, queue, work, done });
        shared.tell_room(&mut shared.lock());
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("durable-writer".to_owned())
            .spawn(move || while theirs.write_once() {})?;
        Ok(Arc::new(Self { shared, thread: Some(thread) }))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.shared.lock()
    }

    fn take_on(&self, change: Change) -> Result<(), BackendError> {
        let queue = self.lock();
        if let Some(refusal) = &queue.refusal {
            return Err(BackendError(refusal.clone()));
        }
        if queue.changes.len() >= LONGEST_QUEUE / 2 || queue.bytes >= LARGEST_QUEUE {
            return Err(BackendError("too many changes wait for the disk".to_owned()));
        }
        if change.what.grows()
            && let Some(full) = queue.no_room_for(change.what.size())
        {
            return Err(BackendError(full));
        }
        self.shared.give(queue, change);
        Ok(())
    }

    /// What a person should know about the disk and the file.
    pub fn trouble(&self) -> Option<String> {
        let mut queue = self.lock();
        queue.left = self.shared.space.left();
        let refusal = queue.refusal.as_ref();
        let refusal = refusal.map(|why| format!("changes cannot be stored: {why}"));
        let low = || queue.low().map(ToString::to_string);
        refusal.or_else(low).or_else(|| queue.damage.clone())
    }

    /// Notes what a look at the whole file found.
    pub fn note_damage(&self, damage: Option<String>) {
        self.lock().damage = damage;
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

    /// Hands a change to the thread, and wakes it where it has waited for this one.
    fn give(&self, mut queue: MutexGuard<'_, Queue>, change: Change) {
        queue.bytes += change.what.size();
        queue.changes.push(change);
        if queue.changes.len() >= queue.wanted {
            self.work.notify_one();
        }
    }

    /// Waits a moment for as many changes as were in the last batch, if those were many.
    fn gather<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        if queue.last < MANY {
            return queue;
        }
        queue.wanted = queue.last;
        let too_few = |queue: &mut Queue| queue.changes.len() < queue.wanted && !queue.closed;
        let gathered = self.work.wait_timeout_while(queue, GATHERING, too_few);
        let mut queue = gathered.unwrap_or_else(PoisonError::into_inner).0;
        queue.wanted = 1;
        queue
    }

    /// Waits for changes and writes them. False when there will be no more.
    fn write_once(&self) -> bool {
        let mut queue = self.lock();
        while queue.changes.is_empty() && !queue.closed {
            queue = match queue.is_low {
                false => self.work.wait(queue).unwrap_or_else(PoisonError::into_inner),
                // Somebody may have made room, or deleted enough for a smaller file.
                true => {
                    let waited = self.work.wait_timeout(queue, RETRY);
                    let idle = waited.unwrap_or_else(PoisonError::into_inner).0;
                    match idle.changes.is_empty() {
                        true => self.look_at_room(idle),
                        false => idle,
                    }
                }
            };
        }
        queue = self.gather(queue);
        let batch = std::mem::take(&mut queue.changes);
        if batch.is_empty() {
            return false;
        }
        queue.writing = true;
        queue.left = self.space.left();
        let is_low = queue.low().is_some();
        drop(queue);
        let mut written = self.commit(&batch, is_low);
        // What was kept for this moment is enough to delete by.
        if written.as_ref().is_err_and(|refused| refused.is_full)
            && (self.space.release() || !is_low)
        {
            written = self.commit(&batch, true);
        }
        if written.is_ok() {
            self.publish(&batch);
        }
        let left = self.space.left();
        let refusal = written.err().map(|refused| refused.says);
        let mut queue = self.lock();
        queue.left = left;
        queue.writing = false;
        queue.last = batch.len();
        queue.ended += 1;
        queue.refusal = refusal.clone();
        queue.tell(&batch, refusal.as_ref());
        self.done.notify_all();
        let Some(refusal) = refusal else {
            queue.bytes = queue.changes.iter().map(|change| change.what.size()).sum();
            queue.written += batch.iter().map(|change| change.what.size() as u64).sum::<u64>();
            self.tell_room(&mut queue);
            drop(self.compact_if_worthwhile(queue));
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

    /// Lets readers see what is on the disk. Never while the queue is held: whoever commits
    /// holds the store and then takes the queue.
    fn publish(&self, batch: &[Change]) {
        let publishers: Vec<(Publisher, u64)> = {
            let queue = self.lock();
            let last = last_of_each(batch).into_iter();
            last.filter_map(|(name, last)| Some((queue.publishers.get(&name)?.clone(), last)))
                .collect()
        };
        for (publisher, revision) in publishers {
            publisher.durable(revision);
        }
    }

    fn look_at_room<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.left = self.space.left();
        self.tell_room(&mut queue);
        self.compact_if_worthwhile(queue)
    }

    /// Tells a person when there begins and ceases to be little room.
    fn tell_room(&self, queue: &mut Queue) {
        let low = queue.low().map(ToString::to_string);
        match (&low, queue.is_low) {
            (Some(low), false) => tracing::warn!("{low}"),
            (None, true) => {
                tracing::warn!("the disk has room again, and everything is stored");
                self.space.keep();
            }
            _ => {}
        }
        queue.is_low = low.is_some();
    }

    /// Makes the file smaller when enough was written since it last was; on a disk with
    /// little room, with every pause.
    fn compact_if_worthwhile<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
    ) -> MutexGuard<'a, Queue> {
        let due = match queue.is_low {
            true => queue.changes.is_empty() && queue.written > 0,
            false => queue.written > COMPACTED_AFTER.max(self.file.length()),
        };
        if !due {
            return queue;
        }
        queue.written = 0;
        queue.writing = true;
        drop(queue);
        let compacted = self.file.compact();
        let mut queue = self.lock();
        queue.writing = false;
        queue.left = self.space.left();
        self.done.notify_all();
        match compacted {
            Ok(None) => {}
            Ok(Some((before, after))) => {
                tracing::info!(before, after, "the store's file was made smaller");
            }
            Err(why) => tracing::warn!(%why, "the store's file could not be made smaller"),
        }
        queue
    }

    fn commit(&self, batch: &[Change], is_low: bool) -> Result<(), Refused> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut steps: Vec<(Arc<str>, Step)> = Vec::new();
        self.file.write(|writing| {
            let mut records = writing.open_table(RECORDS)?;
            let (log, floors) = (writing.open_table(LOG)?, writing.open_table(FLOORS)?);
            let mut tables = Tables { log, floors };
            // With the revision before the first of them.
            let mut additions: BTreeMap<Arc<str>, (u64, Vec<Addition<'_>>)> = BTreeMap::new();
            for change in batch {
                let name = &change.cluster;
                let taken = u64::from(matches!(change.what, What::Change { .. }));
                let of_cluster = additions.entry(name.clone());
                let of_cluster = of_cluster.or_insert((change.revision - taken, Vec::new()));
                match &change.what {
                    What::Change { resource, now, before, gone } => {
                        let key = record::key(name, resource, &now.key);
                        match gone {
                            true => drop(records.remove(key.as_slice())?),
                            false => {
                                let value = record::wrap(&key, &record::text(now), &self.keys);
                                records.insert(key.as_slice(), value.as_slice())?;
                            }
                        }
                        let (before, gone) = (before.as_deref(), *gone);
                        of_cluster.1.push(Addition { resource, now, before, gone });
                    }
                    What::Forget { resource } => {
                        let (from, to) = record::range_of(name, resource);
                        records.retain_in(from.as_slice()..to.as_slice(), |_, _| false)?;
                        if logs.get(name).is_some_and(|log| log.kept) {
                            log::set_floor(&mut tables, name, resource, change.revision)?;
                        }
                    }
                }
            }
            let last = last_of_each(batch);
            for (name, (before, changes)) in additions {
                if let Some(log) = logs.get(&name) {
                    let step = match is_low {
                        true => log.give_up(&name, &mut tables, last[&name])?,
                        false => log.write(&name, &mut tables, &changes, before, &self.keys)?,
                    };
                    steps.push((name, step));
                }
            }
            let mut positions = writing.open_table(POSITIONS)?;
            for (cluster, revision) in last {
                let number = record::number(&cluster, revision);
                positions.insert(&*cluster, number.as_slice())?;
            }
            Ok(())
        })?;
        for (name, step) in steps {
            if let Some(log) = logs.get_mut(&name) {
                log.take(step);
            }
        }
        Ok(())
    }
}

impl Queue {
    /// How much room there is, if that is too little.
    fn low(&self) -> Option<&Left> {
        self.left.as_ref().filter(|left| left.is_less_than(0))
    }

    /// Why nothing of this size is taken on, when there is little room.
    fn no_room_for(&self, size: usize) -> Option<String> {
        let left = self.left.as_ref()?;
        // Pages are written anew whole, and old ones are free only after the next batch.
        let waiting = 2 * (self.bytes + size) as u64;
        left.is_less_than(waiting).then(|| left.to_string())
    }

    fn tell(&mut self, batch: &[Change], refusal: Option<&String>) {
        for (cluster, revision) in last_of_each(batch) {
            if let Some(sender) = self.settled.get(&cluster) {
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

/// One cluster's way to the writer.
pub struct Cluster {
    name: Arc<str>,
    writer: Arc<Writer>,
    settled: watch::Receiver<Settled>,
}

impl Cluster {
    /// A cluster whose changes up to `revision` are on the disk, with its log.
    pub fn new(name: &str, writer: Arc<Writer>, revision: u64, log: Log) -> Self {
        let name: Arc<str> = name.into();
        let (sender, settled) = watch::channel(Settled { revision, refusal: None });
        let mut logs = writer.shared.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.insert(name.clone(), log);
        drop(logs);
        writer.lock().settled.insert(name.clone(), sender);
        Self { name, writer, settled }
    }

    fn change(&self, revision: u64, what: What) -> Change {
        Change { cluster: self.name.clone(), revision, what }
    }
}

impl Backend for Cluster {
    fn append(&self, change: Committed<'_>) -> Result<(), BackendError> {
        let Committed { resource, now, before, gone } = change;
        let (revision, now, before) = (now.revision, now.clone(), before.cloned());
        let what = What::Change { resource: resource.clone(), now, before, gone };
        self.writer.take_on(self.change(revision, what))
    }

    fn forget(&self, resource: &str, revision: u64) {
        let change = self.change(revision, What::Forget { resource: resource.into() });
        self.writer.shared.give(self.writer.lock(), change);
    }

    fn publish_to(&self, publisher: Publisher) {
        self.writer.lock().publishers.insert(self.name.clone(), publisher);
    }

    fn trouble(&self) -> Option<String> {
        self.writer.trouble()
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
