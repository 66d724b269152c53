//! One kind of object as a cluster serves it, whether built in or defined by a user.
//!
//! A [`Kind`] holds nothing of any one cluster, so that thousands of clusters with
//! the same definitions share one. Schemas are compiled when it is made.

use std::sync::Arc;

use flagship_base::machinery::gvk::{self, GroupVersion};
use flagship_kinds::tables::{Custom, Table};
use flagship_kinds::{self as kinds, BuiltinKind, NameRule};
use flagship_schema::{Compiled, NodeRef, Schema};
use flagship_store::Resource;

/// A kind, all its versions and the rules for writing it.
#[derive(Debug)]
pub struct Kind {
    /// `plural` or `plural.group`: the name of its table in the store.
    pub resource: Resource,
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// Resource name in paths.
    pub plural: Box<str>,
    /// Resource name for one.
    pub singular: Box<str>,
    /// Kind as written in manifests.
    pub kind: Box<str>,
    /// Kind of a list.
    pub list_kind: Box<str>,
    /// Abbreviations.
    pub short_names: Vec<Box<str>>,
    /// Groups of resources such as `all`.
    pub categories: Vec<Box<str>>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Every version, preferred first; unserved ones too.
    pub versions: Vec<Version>,
    /// Index of the version that objects are stored in.
    pub storage: usize,
    /// Where the kind comes from.
    pub origin: Origin,
}

/// Where a kind comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Kubernetes brings it.
    Builtin(kinds::Kind),
    /// A CustomResourceDefinition.
    Custom,
}

/// One version of a kind.
#[derive(Debug)]
pub struct Version {
    /// Group and version. Aliases stand in another group than the kind.
    pub gv: GroupVersion,
    /// `gv` as text.
    pub api_version: Box<str>,
    /// Whether requests may use it.
    pub served: bool,
    /// Whether there is a `/status` path.
    pub status: bool,
    /// Where the `/scale` path of a custom resource reads and writes.
    pub scale: Option<ScalePaths>,
    /// Warning to send with every answer.
    pub deprecation: Option<Box<str>>,
    /// Fields that selectors may name, of custom resources.
    pub selectable: Vec<Box<str>>,
    /// What objects must look like.
    pub rules: Rules,
    /// The columns of custom resources.
    pub columns: Option<Custom>,
}

/// `spec.versions[].subresources.scale` of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// Such as `.spec.replicas`, split at the dots.
    pub spec_replicas: Vec<Box<str>>,
    /// Such as `.status.replicas`.
    pub status_replicas: Vec<Box<str>>,
    /// Such as `.status.selector`.
    pub selector: Option<Vec<Box<str>>>,
}

/// What objects of one version must look like.
#[derive(Debug)]
pub enum Rules {
    /// The schema Kubernetes publishes, where there is one.
    Builtin(Option<Schema>),
    /// The schema of a definition.
    Custom(Arc<Compiled>),
}

impl Version {
    /// The schema of objects, where there is one.
    pub fn schema(&self) -> Option<&Schema> {
        match &self.rules {
            Rules::Builtin(schema) => schema.as_ref(),
            Rules::Custom(compiled) => Some(compiled.schema()),
        }
    }

    /// The schema that patches and server-side apply merge by.
    pub fn merges_by(&self) -> Option<NodeRef<'_>> {
        self.schema().map(Schema::root)
    }
}

impl Kind {
    /// The kind of a catalogue row.
    pub fn builtin(row: &'static BuiltinKind) -> Self {
        let boxed = |list: &[&str]| list.iter().map(|s| Box::from(*s)).collect();
        let versions: Vec<Version> =
            row.served().map(|(group, version)| builtin_version(row, group, version)).collect();
        let storage = versions
            .iter()
            .position(|v| v.gv.group == row.group && v.gv.version == row.storage_version)
            .unwrap_or_default();
        Self {
            resource: row.resource().into(),
            group: row.group.into(),
            plural: row.plural.into(),
            singular: row.singular.into(),
            kind: row.kind.into(),
            list_kind: row.list_kind.into(),
            short_names: boxed(row.short_names),
            categories: boxed(row.categories),
            namespaced: row.namespaced,
            versions,
            storage,
            origin: Origin::Builtin(row.id),
        }
    }

    /// The version with this group and name, if it is served.
    pub fn served(&self, group: &str, version: &str) -> Option<usize> {
        self.versions
            .iter()
            .position(|v| v.served && v.gv.group == group && v.gv.version == version)
    }

    /// The catalogue row, for built-in kinds.
    pub fn row(&self) -> Option<&'static BuiltinKind> {
        match self.origin {
            Origin::Builtin(id) => Some(id.info()),
            Origin::Custom => None,
        }
    }

    /// Whether this is a given built-in kind.
    pub fn is(&self, kind: kinds::Kind) -> bool {
        self.origin == Origin::Builtin(kind)
    }

    /// What names must look like.
    pub fn name_rule(&self) -> NameRule {
        self.row().map_or(NameRule::Subdomain, |row| row.name_rule)
    }

    /// Whether field selectors may name `path`.
    pub fn selects(&self, version: usize, path: &str) -> bool {
        matches!(path, "metadata.name" | "metadata.namespace")
            || match self.row() {
                Some(row) => row.selectable.iter().any(|field| field.label == path),
                None => self.versions[version].selectable.iter().any(|field| &**field == path),
            }
    }

    /// The fields that selectors may name in any version, of custom resources.
    pub fn selectable(&self) -> impl Iterator<Item = &str> {
        self.versions.iter().flat_map(|version| version.selectable.iter().map(|path| &**path))
    }

    /// How objects of a version are shown in a table.
    pub fn table(&self, version: usize) -> Table<'_> {
        match (self.origin, &self.versions[version].columns) {
            (Origin::Builtin(id), _) => Table::of(id),
            (Origin::Custom, Some(columns)) => Table::Custom(columns),
            (Origin::Custom, None) => Table::Plain,
        }
    }

    /// Whether two versions differ in nothing but their name.
    pub fn same_schema(&self, one: usize, other: usize) -> bool {
        match (&self.versions[one].rules, &self.versions[other].rules) {
            (Rules::Custom(one), Rules::Custom(other)) => Arc::ptr_eq(one, other),
            _ => one == other,
        }
    }

    /// `plural.group` for messages, in the group that was asked for.
    pub fn qualified(&self, version: usize) -> String {
        gvk::qualified(&self.plural, &self.versions[version].gv.group)
    }
}

fn builtin_version(row: &'static BuiltinKind, group: &str, version: &str) -> Version {
    let gv = GroupVersion::new(group, version);
    Version {
        api_version: gv.to_string().into(),
        served: true,
        status: row.has_status(),
        scale: None,
        deprecation: None,
        selectable: Vec::new(),
        rules: Rules::Builtin(flagship_schema::builtin(group, version, row.kind)),
        columns: None,
        gv,
    }
}
