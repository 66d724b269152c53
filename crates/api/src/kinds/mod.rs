//! The table of all kinds: names, scope, versions, columns.
//!
//! Each row is written where the kind's types are, with `kind!` from `root`.
//! Field rules are on the specs themselves.

mod root;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::crd::versions::Edits;

pub(crate) use root::{check_type_meta, field_type, missing, read, scope_marker, written};
pub(crate) use root::{condition, group, kind};

macro_rules! table {
    ($($module:ident::$Kind:ident),*) => {
        &[$(crate::$module::$Kind::INFO),*]
    };
}

const ALL: &[&KindInfo] = crate::every_kind!(table);

/// Our own kinds, which a hub works without.
const POLICIES: &[&KindInfo] = &[
    crate::approval_decision::Approval::INFO,
    crate::approval_decision::ClusterApproval::INFO,
    crate::rollout_record::ClusterRolloutRecord::INFO,
    crate::freeze::Freeze::INFO,
    crate::notification_channel::NotificationChannel::INFO,
    crate::rollout_policy::RolloutPolicy::INFO,
    crate::rollout_record::RolloutRecord::INFO,
];

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One name space for the whole cluster.
    Cluster,
    /// Each object belongs to a namespace.
    Namespaced,
}

impl Scope {
    /// The word a CustomResourceDefinition uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Namespaced => "Namespaced",
        }
    }
}

/// Everything about one kind that is not in its fields.
#[derive(Debug)]
pub struct KindInfo {
    /// API group, such as `placement.kubernetes-fleet.io`.
    pub group: &'static str,
    /// Kind, in upper camel case.
    pub kind: &'static str,
    /// Name in URLs.
    pub plural: &'static str,
    /// Cluster or namespace.
    pub scope: Scope,
    /// Abbreviations kubectl accepts.
    pub short_names: &'static [&'static str],
    /// Whether status is written through its own endpoint.
    pub status_subresource: bool,
    /// Served versions; the first one is stored.
    pub versions: &'static [Version],
    /// CEL rules on the whole object, with their messages.
    pub(crate) rules: &'static [(&'static str, &'static str)],
    /// Raw schema of the storage version, as derived from the Rust types.
    pub(crate) schema: fn() -> Value,
}

impl KindInfo {
    /// Lower-case name of one object.
    pub fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// Kind of a list of these.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Name of the CustomResourceDefinition: `plural.group`.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Groups of kinds kubectl can list together, such as `fleet`.
    pub fn categories(&self) -> &'static [&'static str] {
        match self.group {
            group!(placement) => &["fleet", "fleet-placement"],
            group!(cluster) => &["fleet", "fleet-cluster"],
            _ => &[],
        }
    }

    /// Whether a person could mean this kind: kind, plural, singular, short name
    /// or `plural.group`, in any case.
    pub fn answers_to(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        name == self.singular()
            || name == self.plural
            || name == self.crd_name()
            || self.short_names.contains(&name.as_str())
    }

    /// Whether an `apiVersion` is one of this kind's, group and version.
    pub fn serves(&self, api_version: &str) -> bool {
        api_version.split_once('/').is_some_and(|(group, version)| {
            group == self.group && self.versions.iter().any(|served| served.name == version)
        })
    }
}

/// One served version of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// Such as `v1beta1`.
    pub name: &'static str,
    /// Columns of `kubectl get`, in order.
    pub columns: &'static [Column],
    /// How this version's schema differs from the stored one.
    pub(crate) edits: fn(&mut Edits),
}

impl Version {
    /// A version whose schema is that of the Rust types.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self { name, columns: &[], edits: |_| {} }
    }

    /// The same, with columns.
    pub(crate) const fn columns(self, columns: &'static [Column]) -> Self {
        Self { columns, ..self }
    }

    /// The same, with differences from the stored schema.
    pub(crate) const fn edited(self, edits: fn(&mut Edits)) -> Self {
        Self { edits, ..self }
    }
}

/// One column of `kubectl get`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// Where the value is found in an object.
    pub json_path: &'static str,
    /// `string` or `date`.
    pub r#type: &'static str,
    /// Shown only by `-o wide`.
    pub wide: bool,
}

impl Column {
    /// Time since creation.
    pub(crate) const AGE: Self = Self::date("Age", ".metadata.creationTimestamp");

    /// A column of text.
    pub(crate) const fn text(name: &'static str, json_path: &'static str) -> Self {
        Self { name, json_path, r#type: "string", wide: false }
    }

    /// A column of text that only `-o wide` shows.
    pub(crate) const fn wide(name: &'static str, json_path: &'static str) -> Self {
        Self { wide: true, ..Self::text(name, json_path) }
    }

    /// A column that shows how long ago something was.
    pub(crate) const fn date(name: &'static str, json_path: &'static str) -> Self {
        Self { r#type: "date", ..Self::text(name, json_path) }
    }
}

/// A root type of this API: what ties `kube::Api<K>` to the table.
pub trait FleetKind: kube_core::Resource<DynamicType = ()> {
    /// Names, scope and versions of the kind.
    const INFO: &'static KindInfo;
}

/// Every kind of KubeFleet's API, in alphabetical order.
pub fn all() -> &'static [&'static KindInfo] {
    ALL
}

/// The kinds of our own group, in alphabetical order.
pub fn policies() -> &'static [&'static KindInfo] {
    POLICIES
}

/// Finds a kind by anything [`KindInfo::answers_to`] accepts.
pub fn find(name: &str) -> Option<&'static KindInfo> {
    ALL.iter().chain(POLICIES).copied().find(|info| info.answers_to(name))
}
