//! A copy of a file, made while it is written to, or while nobody has it.
//!
//! Records are copied as they lie, sealed ones sealed, and the copy is read again as a start
//! would read it. The log of changes is left out: whoever starts from a copy cannot know what
//! became of later revisions, so watches begin anew there.

use std::path::Path;

use redb::{ReadTransaction, ReadableDatabase, ReadableTable};

use super::check::{self, Unusable, guarded};
use super::seal::Keys;
use super::{DurableError, POSITIONS, RECORDS, SEQUENCE, file, mark, record, rescue, sequence};

/// What a copy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// How many objects, of all clusters together.
    pub objects: u64,
    /// The last revision of each cluster, sorted by name.
    pub revisions: Vec<(String, u64)>,
}

/// Copies what a transaction sees to a new file.
pub fn copy(
    held: &ReadTransaction,
    from: &Path,
    to: &Path,
    keys: &Keys,
) -> Result<Backup, DurableError> {
    let counted = guarded(|| count(held, keys)).map_err(|why| DurableError::of(from, why))?;
    let written = guarded(|| {
        file::make(to, |writing| {
            let mut records = writing.open_table(RECORDS)?;
            for entry in held.open_table(RECORDS)?.iter()? {
                let (key, value) = entry?;
                records.insert(key.value(), value.value())?;
            }
            let mut positions = writing.open_table(POSITIONS)?;
            for entry in held.open_table(POSITIONS)?.iter()? {
                let (name, number) = entry?;
                positions.insert(name.value(), number.value())?;
            }
            Ok(())
        })?;
        let (found, batches) = (check::look(to, keys)?.sequence, sequence(held)?);
        match found == batches {
            true => Ok(()),
            false => Err(Unusable::Damaged(format!("of {batches} batches it holds {found}"))),
        }
    });
    if let Err(why) = written {
        // A copy that cannot be used would be found when it is needed.
        drop(flagship_files::remove_if_there(to));
        return Err(DurableError::of(to, why));
    }
    Ok(counted)
}

/// Copies a file that no process has open, as it lies.
pub fn copy_closed(from: &Path, to: &Path, keys: &Keys) -> Result<Backup, DurableError> {
    let failed = |why| DurableError::of(from, why);
    let found = check::look(from, keys).map_err(failed)?.sequence;
    let acknowledged = mark::acknowledged(from).map_err(failed)?;
    if let Some(acknowledged) = acknowledged.filter(|number| *number > found) {
        let what =
            format!("it holds {found} batches of changes, and {acknowledged} were acknowledged");
        return Err(failed(Unusable::Damaged(what)));
    }
    rescue::restore(from, to, keys)?;
    let counted = guarded(|| count(&check::opened(to)?.0.begin_read()?, keys));
    counted.map_err(|why| DurableError::of(to, why))
}

/// Reads every record, and says how much there is.
fn count(held: &ReadTransaction, keys: &Keys) -> Result<Backup, Unusable> {
    let mut counted = Backup { objects: 0, revisions: Vec::new() };
    for entry in held.open_table(RECORDS)?.iter()? {
        let (key, value) = entry?;
        let text = record::unwrap(key.value(), value.value(), keys)?;
        record::read(key.value(), &text).map_err(Unusable::Damaged)?;
        counted.objects += 1;
    }
    for entry in held.open_table(POSITIONS)?.iter()? {
        let (name, number) = entry?;
        let revision = record::read_number(name.value(), number.value())?;
        if name.value() != SEQUENCE {
            counted.revisions.push((name.value().to_owned(), revision));
        }
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use serde_json::Value;

    use super::super::tests::{Scratch, put};
    use super::super::{Durable, LONGEST_QUEUE};
    use super::*;
    use crate::env::Env;
    use crate::{Limits, Scope, Store};

    const CLUSTERS: [&str; 2] = ["hub", "member1"];
    const TRIES: u64 = 100;

    fn objects(store: &Store) -> BTreeMap<String, u64> {
        let read = |object: &crate::Stored| {
            let value: Value = serde_json::from_slice(&object.json).unwrap();
            (object.key.name.to_string(), value["data"].as_u64().unwrap())
        };
        store.list("pods", Scope::All).items.iter().map(|object| read(object)).collect()
    }

    fn wait(store: &Store, revision: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.settled(revision)).unwrap();
    }

    /// Writes versions of a few objects one after the other until told to stop, and says how far
    /// it was acknowledged. What was written, with the revision of each.
    fn write(
        store: &Store,
        stop: &AtomicBool,
        acknowledged: &AtomicU64,
    ) -> Vec<(u64, String, u64)> {
        let mut history = Vec::new();
        for version in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let name = format!("pod{}", version % 5);
            let revision = put(store, "pods", &name, version);
            history.push((revision, name, version));
            // Some are still on their way to the disk when the copy begins.
            if version % 3 == 0 {
                wait(store, revision);
                acknowledged.store(revision, Ordering::SeqCst);
            }
        }
        history
    }

    #[test]
    fn a_copy_made_under_writes_is_a_moment_that_was_acknowledged() {
        let (source, copy, elsewhere) =
            (Scratch::new("backup"), Scratch::new("backup-copy"), Scratch::new("backup-else"));
        for turn in 0..TRIES {
            drop(std::fs::remove_file(&source.0));
            drop(std::fs::remove_file(mark::place(&source.0)));
            drop(std::fs::remove_file(&copy.0));
            let durable = Durable::open(&source.0).unwrap();
            let stores = CLUSTERS.map(|cluster| {
                durable.store(cluster, Env::simulated(turn), Limits::default()).unwrap()
            });
            let stop = AtomicBool::new(false);
            let acknowledged = [AtomicU64::new(0), AtomicU64::new(0)];
            let (known, backup, histories) = std::thread::scope(|scope| {
                let writers: Vec<_> = stores
                    .iter()
                    .zip(&acknowledged)
                    .map(|(store, acknowledged)| scope.spawn(|| write(store, &stop, acknowledged)))
                    .collect();
                let load = |of: &AtomicU64| of.load(Ordering::SeqCst);
                // Each try begins a little later in the life of the store.
                while acknowledged.iter().any(|number| load(number) < 2 + turn % 20) {
                    std::thread::yield_now();
                }
                let known = [load(&acknowledged[0]), load(&acknowledged[1])];
                let backup = durable.backup(&copy.0).unwrap();
                stop.store(true, Ordering::SeqCst);
                let histories: Vec<_> =
                    writers.into_iter().map(|writer| writer.join().unwrap()).collect();
                (known, backup, histories)
            });
            drop((stores, durable));

            rescue::restore(&copy.0, &elsewhere.0, &Keys::default()).unwrap();
            let restored = Durable::open(&elsewhere.0).unwrap();
            let mut count = 0;
            for (number, cluster) in CLUSTERS.into_iter().enumerate() {
                let revision = backup.revisions[number].1;
                assert!(revision >= known[number], "try {turn}: what was acknowledged is missing");
                let before = histories[number].iter().filter(|(at, ..)| *at <= revision);
                let then: BTreeMap<String, u64> =
                    before.map(|(_, name, version)| (name.clone(), *version)).collect();
                let store =
                    restored.store(cluster, Env::simulated(turn), Limits::default()).unwrap();
                assert_eq!(objects(&store), then, "try {turn}, {cluster} at {revision}");
                assert_eq!(store.revision(), revision + LONGEST_QUEUE as u64);
                count += then.len() as u64;
            }
            assert_eq!(backup.objects, count);
        }
    }

    #[test]
    fn a_sealed_file_has_a_sealed_copy_and_a_damaged_one_has_none() {
        let (source, copy) = (Scratch::new("backup-sealed"), Scratch::new("backup-of-sealed"));
        let keys = || Keys::parse("c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=\n").unwrap();
        let durable = Durable::open_with(&source.0, keys()).unwrap();
        let store = durable.store("hub", Env::simulated(1), Limits::default()).unwrap();
        let revision = put(&store, "pods", "a", 1);
        wait(&store, revision);
        assert_eq!(durable.backup(&copy.0).unwrap().objects, 1);
        assert!(matches!(Durable::open(&copy.0).err(), Some(DurableError::Key { .. })));
        assert_eq!(Durable::open_with(&copy.0, keys()).unwrap().clusters().unwrap(), ["hub"]);
        std::fs::remove_file(&copy.0).unwrap();

        // Closed it is copied as it lies; behind what was acknowledged it is no copy of that.
        drop(store);
        durable.close().unwrap();
        drop(durable);
        copy_closed(&source.0, &copy.0, &keys()).unwrap();
        std::fs::remove_file(&copy.0).unwrap();
        std::fs::write(mark::place(&source.0), record::number("acknowledged", 99)).unwrap();
        let refusal = copy_closed(&source.0, &copy.0, &keys()).unwrap_err().to_string();
        assert!(refusal.contains("99 were acknowledged"), "{refusal}");
        assert!(!copy.0.exists());
    }
}
