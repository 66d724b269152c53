//! Writing one object by compare-and-swap.
//!
//! Whether a write changes anything at all is the caller's business: a commit always
//! takes a revision and always makes an event. Who reads sees it when `serving` lets it
//! through, which with a backend is when it is durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::backend::{BackendError, Committed};
use super::history::Event;
use super::serving::Unserved;
use super::{Encoded, Head, ObjectKey, Resource, Store, Stored};

/// One write.
#[derive(Debug)]
pub struct Write<'a> {
    /// The resource; it begins to exist with its first object.
    pub resource: &'a Resource,
    /// The place.
    pub key: ObjectKey,
    /// What must be there now.
    pub expect: Expect,
    /// What to make of it.
    pub change: Change,
}

/// What must stand at a place for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// The object of exactly this revision.
    At(u64),
}

/// What a write does.
#[derive(Debug)]
pub enum Change {
    /// Creates or replaces.
    Put {
        /// Facts of the new object.
        head: Head,
        /// Its text.
        json: Encoded,
    },
    /// Removes. Carries the object as it was last, for those who watch.
    Delete {
        /// Facts of the final object.
        head: Head,
        /// Its text.
        json: Encoded,
    },
}

/// Why nothing was written. Each carries what stands there instead.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Nothing was expected, but there is an object.
    #[error("the object exists already")]
    Exists(Arc<Stored>),
    /// Somebody wrote first. Read again; nothing is wrong.
    #[error("the object is now at revision {}", .0.revision)]
    Moved(Arc<Stored>),
    /// There is nothing to replace or remove.
    #[error("the object does not exist")]
    Gone,
    /// The backend does not take it.
    #[error(transparent)]
    Refused(#[from] BackendError),
}

impl Store {
    /// Writes if the place is as expected. Returns the object with its new revision; for
    /// a deletion, the final object with the revision of the deletion.
    pub fn commit(&self, write: Write<'_>) -> Result<Arc<Stored>, CommitError> {
        let Write { resource, key, expect, change } = write;
        let shared = &self.shared;
        let mut guard = shared.write();
        let state = &mut *guard;
        let current = state.tables.get(resource).and_then(|table| table.get(&key)).cloned();
        match (expect, &current) {
            (Expect::Absent, Some(there)) => return Err(CommitError::Exists(there.clone())),
            (Expect::At(_), None) => return Err(CommitError::Gone),
            (Expect::At(revision), Some(there)) if there.revision != revision => {
                return Err(CommitError::Moved(there.clone()));
            }
            (Expect::Absent, None) if matches!(change, Change::Delete { .. }) => {
                return Err(CommitError::Gone);
            }
            (Expect::Absent, None) | (Expect::At(_), Some(_)) => {}
        }

        let revision = state.last_commit + 1;
        let gone = matches!(change, Change::Delete { .. });
        let (Change::Put { head, json } | Change::Delete { head, json }) = change;
        // Versions of one object share the text of its name.
        let key = match (&current, state.tables.get(resource)) {
            (Some(there), _) => there.key.clone(),
            (None, Some(table)) => table.shared(key),
            (None, None) => key,
        };
        let now = Arc::new(Stored::new(key, revision, head, &json));
        if let Some(backend) = &self.backend {
            backend.append(Committed { resource, now: &now, before: current.as_ref(), gone })?;
        }

        state.last_commit = revision;
        let table = state.table(resource);
        match gone {
            true => table.remove(&now.key),
            false => table.put(now.clone()),
        }
        table.changed = revision;
        let event = Event { now: now.clone(), before: current, gone };
        let before = table.history.cost();
        table.history.push(event.clone());
        let more = table.history.cost() - before;
        state.history_cost += more;
        let wakers = match self.serves_at_once() {
            true => state.serve_event(resource, &event, &shared.limits),
            false => {
                state.unserved.push_back(Unserved::Event(resource.clone(), event));
                Vec::new()
            }
        };
        shared.published.store(state.served, Ordering::Release);
        drop(guard);
        wakers.into_iter().for_each(std::task::Waker::wake);
        Ok(now)
    }
}
