//! Where commits go to survive the process. None by default: memory is the truth.
//!
//! A change is handed over under the store's lock, so a backend sees changes in the order
//! of their revisions without gaps, before anybody else sees them. Writing to disk happens
//! later, off the lock, many changes at a time; a server that promises durability waits
//! for [`Backend::settled`] before it answers. Watchers may see a change that a power cut
//! then loses: a restored store therefore goes on with revisions beyond any it can have
//! handed out, and has no history, so that every old watch is told to list again.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Encoded, Head, ObjectKey, Resource, Stored};

/// Keeps what was committed.
pub trait Backend: Send + Sync {
    /// Takes the next change. Runs under the store's lock: queue it, do no I/O. A refusal
    /// (a full disk, a queue too long) refuses the commit; nothing has happened then.
    fn append(&self, change: Committed<'_>) -> Result<(), BackendError>;

    /// Takes note that a whole resource was dropped while the cluster stood at `revision`.
    /// Also called under the lock. It cannot be refused: the definition is gone already.
    fn forget(&self, resource: &str, revision: u64);

    /// Resolves once every change up to `revision` would survive a power cut.
    fn settled(&self, revision: u64) -> BoxFuture<'_, Result<(), BackendError>>;
}

/// A change as a backend sees it.
#[derive(Debug, Clone, Copy)]
pub enum Committed<'a> {
    /// An object was created or replaced; its revision is in it.
    Put(&'a Resource, &'a Arc<Stored>),
    /// An object was removed; this is what it was, with the revision of its removal.
    Deleted(&'a Resource, &'a Arc<Stored>),
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
