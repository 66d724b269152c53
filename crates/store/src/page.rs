//! Continue tokens: reading one snapshot in pages.
//!
//! A token names the revision of the list and the last key read, sealed with a hash under
//! a secret of this store together with the query it belongs to: an altered token, or one
//! used for another query, is refused. While the snapshot is kept here (a few, for a few
//! minutes) resuming is free and outlives the history; after that the list is rebuilt from
//! the history as long as that reaches, and then the token has expired.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{Expired, Limits, ObjectKey, Resource, Scope, Snapshot, Store};
use crate::env::{Clock, Env};

/// Why a page cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The token is not one of ours, was altered, or belongs to another query.
    #[error("continue key is not valid")]
    Invalid,
    /// The snapshot is gone. List again from the beginning.
    #[error(transparent)]
    Expired(#[from] Expired),
}

/// Snapshots that somebody is paging through.
pub(super) struct Pages {
    clock: Arc<dyn Clock>,
    secret: [u8; 16],
    most: usize,
    life: Duration,
    /// Oldest first.
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    resource: Resource,
    query: Box<str>,
    snapshot: Arc<Snapshot>,
    since: Timestamp,
}

impl Store {
    /// A token to go on after `last` with [`Store::resume_page`]. `query` is the caller's
    /// text for everything that decides what is listed: scope and selectors.
    pub fn page_token(
        &self,
        resource: &str,
        query: &str,
        snapshot: &Arc<Snapshot>,
        last: &ObjectKey,
    ) -> String {
        let pages = &self.shared.pages;
        pages.keep(resource, query, snapshot);
        let mut token = pages.seal(resource, query, snapshot.revision, last).to_vec();
        token.extend_from_slice(&snapshot.revision.to_be_bytes());
        token.extend_from_slice(last.namespace.as_bytes());
        token.push(0);
        token.extend_from_slice(last.name.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(token)
    }

    /// The snapshot a token belongs to and the index of the first object not yet read.
    /// `within` must be the scope of the first page.
    pub fn resume_page(
        &self,
        resource: &str,
        within: Scope<'_>,
        query: &str,
        token: &str,
    ) -> Result<(Arc<Snapshot>, usize), PageError> {
        let pages = &self.shared.pages;
        let (seal, revision, last) = parse(token).ok_or(PageError::Invalid)?;
        if pages.seal(resource, query, revision, &last) != seal {
            return Err(PageError::Invalid);
        }
        let snapshot = match pages.find(resource, query, revision) {
            Some(kept) => kept,
            None => Arc::new(self.list_at(resource, within, revision)?),
        };
        let next = snapshot.items.partition_point(|object| object.key <= last);
        Ok((snapshot, next))
    }
}

const SEAL: usize = 16;

fn parse(token: &str) -> Option<([u8; SEAL], u64, ObjectKey)> {
    // No honest token is longer: two names of at most 253 bytes.
    if token.len() > 1024 {
        return None;
    }
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
    let (seal, rest) = bytes.split_first_chunk()?;
    let (revision, rest) = rest.split_first_chunk()?;
    let (namespace, name) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
    Some((*seal, u64::from_be_bytes(*revision), ObjectKey::new(namespace, name)))
}

impl Pages {
    pub(super) fn new(env: &Env, limits: &Limits) -> Self {
        let mut secret = [0; 16];
        let (first, second) = secret.split_at_mut(8);
        first.copy_from_slice(&env.entropy.u64().to_le_bytes());
        second.copy_from_slice(&env.entropy.u64().to_le_bytes());
        Self {
            clock: env.clock.clone(),
            secret,
            most: limits.pages,
            life: limits.page_life,
            kept: Mutex::default(),
        }
    }

    fn seal(&self, resource: &str, query: &str, revision: u64, last: &ObjectKey) -> [u8; SEAL] {
        let mut inner = Sha256::new_with_prefix(self.secret);
        for part in [resource, query, &last.namespace, &last.name] {
            inner.update((part.len() as u64).to_le_bytes());
            inner.update(part);
        }
        inner.update(revision.to_le_bytes());
        // Hashed twice, so that a seal cannot be extended to a longer text.
        let outer = Sha256::new_with_prefix(self.secret).chain_update(inner.finalize()).finalize();
        let mut seal = [0; SEAL];
        seal.copy_from_slice(&outer[..SEAL]);
        seal
    }

    fn keep(&self, resource: &str, query: &str, snapshot: &Arc<Snapshot>) {
        self.with(|kept| {
            let old = kept.iter().position(|one| one.is(resource, query, snapshot.revision));
            // Moved to the end: whoever is still paging keeps its snapshot alive.
            let old = old.and_then(|at| kept.remove(at));
            kept.push_back(Kept {
                resource: old.as_ref().map_or_else(|| resource.into(), |old| old.resource.clone()),
                query: old.map_or_else(|| query.into(), |old| old.query),
                snapshot: snapshot.clone(),
                since: self.clock.now(),
            });
            while kept.len() > self.most {
                kept.pop_front();
            }
        });
    }

    fn find(&self, resource: &str, query: &str, revision: u64) -> Option<Arc<Snapshot>> {
        self.with(|kept| {
            let found = kept.iter().find(|one| one.is(resource, query, revision));
            found.map(|one| one.snapshot.clone())
        })
    }

    pub(super) fn forget(&self, resource: &str) {
        self.with(|kept| kept.retain(|one| *one.resource != *resource));
    }

    pub(super) fn compact(&self, resource: Option<&str>, below: u64) {
        self.with(|kept| {
            kept.retain(|one| {
                one.snapshot.revision >= below || resource.is_some_and(|r| *one.resource != *r)
            });
        });
    }

    /// Works on what is not too old.
    fn with<T>(&self, work: impl FnOnce(&mut VecDeque<Kept>) -> T) -> T {
        let now = self.clock.now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.front().is_some_and(|one| {
            let age = Duration::try_from(now.duration_since(one.since)).unwrap_or_default();
            age >= self.life
        }) {
            kept.pop_front();
        }
        work(&mut kept)
    }
}

impl Kept {
    fn is(&self, resource: &str, query: &str, revision: u64) -> bool {
        self.snapshot.revision == revision && *self.query == *query && *self.resource == *resource
    }
}
