//! Which resources a cluster serves: built-in kinds and custom resource definitions.
//!
//! [`Registry`] is the routing table of one cluster. Its custom half is copied on
//! write, and the kinds in it are shared with every cluster that has the same
//! definition, through [`Library`].

mod definition;
mod discovery;
mod kind;
mod library;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

pub use definition::{Condition, conditions, names_of};
pub use discovery::{aggregated, group, groups, resources};
pub use kind::{Kind, Origin, Rules, ScalePaths, Version};
pub use library::Library;

use flagship_base::machinery::gvk::GroupVersion;
use flagship_kinds as kinds;

/// Kinds by their table's name, `plural.group`.
pub type Kinds = BTreeMap<Box<str>, Arc<Kind>>;

/// The built-in kinds, made once a process.
static BUILTIN: LazyLock<Kinds> = LazyLock::new(|| {
    let kinds = kinds::catalog().iter().map(|row| Arc::new(Kind::builtin(row)));
    kinds.map(|kind| (Box::from(&*kind.resource), kind)).collect()
});

/// The kinds one cluster serves.
#[derive(Debug, Default)]
pub struct Registry {
    custom: RwLock<Arc<Kinds>>,
    /// For each custom kind, the first revision written under its present definition.
    since: RwLock<BTreeMap<Box<str>, u64>>,
}

/// A kind and which of its versions was asked for.
#[derive(Debug, Clone)]
pub struct Served {
    /// The kind.
    pub kind: Arc<Kind>,
    /// Index into its versions.
    pub version: usize,
    /// Objects of earlier revisions may lack what the kind's schema fills in today, and
    /// have what it no longer knows. 0 for built-in kinds.
    pub since: u64,
}

impl Served {
    /// The version asked for.
    pub fn version(&self) -> &Version {
        &self.kind.versions[self.version]
    }

    /// Whether objects are stored in the version asked for.
    pub fn is_storage(&self) -> bool {
        self.version == self.kind.storage
    }
}

impl Registry {
    /// The custom kinds as they are now.
    pub fn custom(&self) -> Arc<Kinds> {
        self.custom.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves a custom kind from now on, in place of one with the same name. Objects from
    /// revision `since` on are written under it.
    pub fn put(&self, kind: Arc<Kind>, since: u64) {
        // First: whoever finds the kind then finds this, too.
        let mut sinces = self.since.write().unwrap_or_else(PoisonError::into_inner);
        sinces.insert(Box::from(&*kind.resource), since);
        drop(sinces);
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut *custom).insert(Box::from(&*kind.resource), kind);
    }

    /// Stops serving a custom kind.
    pub fn remove(&self, resource: &str) {
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        if custom.contains_key(resource) {
            Arc::make_mut(&mut *custom).remove(resource);
        }
        drop(custom);
        self.since.write().unwrap_or_else(PoisonError::into_inner).remove(resource);
    }

    fn since(&self, kind: &Kind) -> u64 {
        if kind.row().is_some() {
            return 0;
        }
        let sinces = self.since.read().unwrap_or_else(PoisonError::into_inner);
        sinces.get(&*kind.resource).copied().unwrap_or_default()
    }

    /// The kind served at this group, version and plural.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Served> {
        let name = flagship_base::machinery::gvk::qualified(plural, group);
        let kind = self.by_resource(&name).or_else(|| aliased(group, version, plural))?;
        let version = kind.served(group, version)?;
        let since = self.since(&kind);
        Some(Served { kind, version, since })
    }

    /// The kind of this name in a group and version.
    pub fn named(&self, gv: &GroupVersion, kind: &str) -> Option<Served> {
        let all = self.all();
        let serves = |known: &&Arc<Kind>| known.served(&gv.group, &gv.version).is_some();
        let known = all.iter().filter(serves).find(|known| *known.kind == *kind)?;
        self.find(&gv.group, &gv.version, &known.plural)
    }

    /// The kind of a table in its storage version.
    pub fn stored(&self, resource: &str) -> Option<Served> {
        let kind = self.by_resource(resource)?;
        let since = self.since(&kind);
        Some(Served { version: kind.storage, kind, since })
    }

    /// The kind of a table, such as `deployments.apps`.
    pub fn by_resource(&self, resource: &str) -> Option<Arc<Kind>> {
        BUILTIN.get(resource).cloned().or_else(|| self.custom().get(resource).cloned())
    }

    /// Whether a table's name is that of a built-in kind.
    pub fn is_builtin(resource: &str) -> bool {
        BUILTIN.contains_key(resource)
    }

    /// Every kind, built-in ones first.
    pub fn all(&self) -> Vec<Arc<Kind>> {
        let custom = self.custom();
        BUILTIN.values().chain(custom.values()).cloned().collect()
    }
}

/// A built-in kind that is served in a second group.
fn aliased(group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
    let row = kinds::find_resource(group, version, plural)?;
    BUILTIN.get(row.resource().as_str()).cloned()
}
