//! The objects of one logical cluster: revisions, compare-and-swap, snapshots and watches.
//!
//! [`Store`] is one cluster. Objects are kept as their encoded JSON, with the few
//! facts that selectors and controllers ask for beside it in [`Head`]. A commit
//! takes the next revision of the cluster, splices it into the bytes as
//! `metadata.resourceVersion`, remembers the event in a ring and hands it to the
//! watchers that asked for it, all under one short lock.
//!
//! Knows nothing of HTTP, schemas or kinds.

use std::sync::Arc;

use bytes::Bytes;

/// A resource, as `plural` or `plural.group`: `pods`, `deployments.apps`.
pub type Resource = Arc<str>;

/// Where an object stands within its resource. Orders by namespace, then name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
}

/// One version of one object. Never changes once committed.
#[derive(Debug)]
pub struct Stored {
    /// Its place.
    pub key: ObjectKey,
    /// The cluster revision that wrote it.
    pub revision: u64,
    /// What selectors and controllers ask for without parsing.
    pub head: Head,
    /// The whole object as compact JSON, `resourceVersion` included.
    pub json: Bytes,
}

/// Facts of an object kept beside its bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Head {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Selectable fields beyond name and namespace, sorted by path.
    pub fields: Box<[(Box<str>, Box<str>)]>,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub terminating: bool,
}
