//! Where commits go to survive the process. None by default: memory is the truth.
//!
//! A change is handed over under the store's lock, so a backend sees changes in the order
//! of their revisions without gaps, before anybody else sees them. Writing to disk happens
//! later, off the lock, many changes at a time; a server that promises durability waits
//! for [`Backend::settled`] before it answers. Readers and watchers see a change only when
//! the backend has told the [`Publisher`] that it is durable: what anybody outside saw is
//! still there after a power cut.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;

use super::{Encoded, Head, ObjectKey, Resource, Shared, Stored};

/// Keeps what was committed.
pub trait Backend: Send + Sync {
    /// Takes the next change. Runs under the store's lock: queue it, do no I/O. A refusal
    /// (a full disk, a queue too long) refuses the commit; nothing has happened then.
    fn append(&self, change: Committed<'_>) -> Result<(), BackendError>;

    /// Takes note that a whole resource was dropped while the cluster stood at `revision`.
    /// Also called under the lock. It cannot be refused: the definition is gone already.
    fn forget(&self, resource: &str, revision: u64);

    /// Resolves once every change up to `revision` would survive a power cut, and readers
    /// see it.
    fn settled(&self, revision: u64) -> BoxFuture<'_, Result<(), BackendError>>;

    /// Whom to tell what has become durable. Called once, before the first change.
    fn publish_to(&self, publisher: Publisher);

    /// What a person should know: changes are refused, or soon will be. `None` if all is well.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// The way to tell a store what has become durable. Does not keep the store alive.
#[derive(Clone)]
pub struct Publisher(pub(super) Weak<Shared>);

impl Publisher {
    /// Everything up to this revision is durable: readers and watchers may see it. Takes the
    /// store's lock, so it must not be called while a change is handed over.
    pub fn durable(&self, revision: u64) {
        if let Some(shared) = self.0.upgrade() {
            shared.serve(revision);
        }
    }
}

/// A change as a backend sees it.
#[derive(Debug, Clone, Copy)]
pub struct Committed<'a> {
    /// Of what.
    pub resource: &'a Resource,
    /// The object as it is now; of a removal, what it was last, with the revision of that.
    pub now: &'a Arc<Stored>,
    /// What it replaced or removed.
    pub before: Option<&'a Arc<Stored>>,
    /// Whether it was removed.
    pub gone: bool,
}

/// Why a backend does not keep a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the change cannot be stored: {0}")]
pub struct BackendError(pub String);

/// One object as a backend gives it back.
#[derive(Debug, Clone)]
pub struct Restored {
    /// Its resource.
    pub resource: Resource,
    /// Its place.
    pub key: ObjectKey,
    /// The revision that wrote it.
    pub revision: u64,
    /// Its facts.
    pub head: Head,
    /// Its text.
    pub json: Encoded,
}

/// What a backend remembers of how its objects came about.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// All changes after this revision are in `events`, whatever they were of...
    pub floor: u64,
    /// ... but for these resources, of which only those after their own are.
    pub floors: BTreeMap<Resource, u64>,
    /// Changes in the order of their revisions.
    pub events: Vec<PastEvent>,
}

/// One change as a backend gives it back.
#[derive(Debug, Clone)]
pub struct PastEvent {
    /// Its revision.
    pub revision: u64,
    /// Of what.
    pub resource: Resource,
    /// Of which object.
    pub key: ObjectKey,
    /// Of a removal, what was removed, as it was last.
    pub removed: Option<Restored>,
    /// What stood there before.
    pub before: Option<Restored>,
}
