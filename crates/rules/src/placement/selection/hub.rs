//! The hub's objects as selection sees them: kinds that are known, watched and caught
//! up, and their content.
//!
//! The hub crate implements [`Hub`] over its caches, tests over a map. Content is handed
//! out one object at a time, because a cache keeps text and a parsed tree is ten times
//! that size.

use std::borrow::Cow;
use std::fmt;

use flagship_api::kinds::Scope;
use flagship_api::selector::Selector;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A kind of objects, in one version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl Kind {
    /// A kind by its three names.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    /// Whether it goes by these names.
    pub fn is(&self, group: &str, version: &str, kind: &str) -> bool {
        self.group == group && self.version == version && self.kind == kind
    }

    /// Whether it is the core Namespace.
    pub fn is_namespace(&self) -> bool {
        self.is("", "v1", "Namespace")
    }

    /// As `apiVersion` is written: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Kind {
    /// `apps/v1, Kind=Deployment`, `/v1, Kind=Secret`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// What discovery says about a kind, and whether it is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceType {
    /// The kind.
    pub kind: Kind,
    /// Its name in URLs.
    pub plural: String,
    /// Where its objects live.
    pub scope: Scope,
    /// Whether this is the version of them that the server prefers.
    pub preferred: bool,
    /// Whether its objects can be seen.
    pub watch: Watch,
}

impl ResourceType {
    /// `apps/v1, Resource=deployments`.
    pub fn gvr(&self) -> String {
        format!("{}/{}, Resource={}", self.kind.group, self.kind.version, self.plural)
    }
}

/// Whether the objects of a type can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// All of them.
    Synced,
    /// Not all of them yet.
    Syncing,
    /// Discovery knows the type since then, but nobody watches it.
    Unwatched {
        /// When discovery first showed it.
        since: Timestamp,
    },
}

/// A read-only view of the hub, all of it from caches.
pub trait Hub {
    /// What discovery says about a kind; `Err` tells why it knows nothing, in the words of
    /// the API, such as `no matches for kind "X" in version "g/v1"`.
    fn look_up(&self, kind: &Kind) -> Result<&ResourceType, String>;

    /// Every type that is watched, caught up or not.
    fn watched(&self) -> Vec<&ResourceType>;

    /// One object; `Err` says why it cannot be told.
    fn get(
        &self,
        of: &ResourceType,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Cow<'_, Value>>, String>;

    /// Objects of a type in a namespace, or anywhere, that match by label, in any order.
    fn list<'a>(
        &'a self,
        of: &ResourceType,
        namespace: Option<&str>,
        matching: Option<&Selector>,
    ) -> Box<dyn Iterator<Item = Result<Cow<'a, Value>, String>> + 'a>;
}
