//! How objects are named after one another, and how such names are read back.
//!
//! A name is a promise between controllers that never talk: the work generator
//! finds a snapshot by the name the placement controller gave it. Patterns are
//! therefore functions here and nowhere else.
//!
//! Names that may grow too long say so: see [`flagship_base::names`] for what Kubernetes accepts.
//! Labels and annotations are in [`crate::keys`].

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

mod binding;
mod distinct;
mod eviction;
mod index;
mod member;
mod rollout;
mod snapshot;
mod update_run;
mod work;

pub use crate::kinds::Scope;
pub use binding::binding;
pub use distinct::{ClusterName, StageName, Uid};
pub use eviction::drain_eviction;
pub use index::{IndexError, SnapshotIndex, SubIndex};
pub use member::{
    HUB_TOKEN_SECRET, LONGEST_CLUSTER, LONGEST_CLUSTER_WITH_NAMESPACE, MEMBER_NAMESPACE_PREFIX,
    admission_policy_binding, cluster_of_namespace, cluster_profile, hub_access_account,
    hub_access_token, is_reserved_namespace, member_namespace, member_role, member_role_binding,
};
pub use rollout::rollout_trace;
pub use snapshot::{
    SnapshotName, master_snapshot, override_snapshot, policy_snapshot, sub_snapshot,
};
pub use update_run::{DELETION_STAGE, StageSide, approval_request, rollback_run, rolled_back_run};
pub use work::{EnvelopeKind, EnvelopeRef, WorkBase};

/// The namespace the system itself lives in, on the hub and on members.
pub const SYSTEM_NAMESPACE: &str = "fleet-system";

/// Lease that hubs and, on their own clusters, member agents elect their leader by.
pub const HUB_LEASE: &str = "136224848560.hub.fleet.azure.com";

/// Second lease of KubeFleet's member agent. It guards nothing: all that agent's
/// controllers run under the first.
pub const MEMBER_LEASE: &str = "136224848560.member.fleet.azure.com";

/// Namespace and name of an object; cluster-scoped ones have no namespace.
///
/// Users meet it in two spellings: [`fmt::Display`] leaves an absent namespace
/// out (`web`, `app/web`), [`ObjectKey::slashed`] never does (`/web`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Absent for cluster-scoped objects, never empty.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// A key; an empty namespace counts as none.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        Self { namespace: namespace.map(str::to_owned), name: name.to_owned() }
    }

    /// A cluster-scoped key.
    pub fn cluster(name: &str) -> Self {
        Self::new(None, name)
    }

    /// A namespaced key.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::new(Some(namespace), name)
    }

    /// Which of the two scopes this is.
    pub fn scope(&self) -> Scope {
        if self.namespace.is_some() { Scope::Namespaced } else { Scope::Cluster }
    }

    /// `{namespace}/{name}`, and `/{name}` without a namespace.
    pub fn slashed(&self) -> String {
        format!("{}/{}", self.namespace.as_deref().unwrap_or_default(), self.name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(out, "{namespace}/{}", self.name),
            None => out.write_str(&self.name),
        }
    }
}

/// A key that is neither `name` nor `namespace/name`. Retrying cannot help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{} is not a key of the form name or namespace/name", flagship_base::go_number::quoted(.0))]
pub struct BadKey(pub String);

impl FromStr for ObjectKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let bad = || BadKey(text.to_owned());
        match text.split_once('/') {
            None if !text.is_empty() => Ok(Self::cluster(text)),
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self::namespaced(namespace, name))
            }
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_name_or_a_namespace_and_a_name() {
        assert_eq!("web".parse(), Ok(ObjectKey::cluster("web")));
        assert_eq!("app/web".parse(), Ok(ObjectKey::namespaced("app", "web")));
        for bad in ["", "/", "/web", "app/", "a/b/c", "a//b"] {
            assert_eq!(bad.parse::<ObjectKey>(), Err(BadKey(bad.to_owned())));
        }
        assert_eq!(
            "a/b/c".parse::<ObjectKey>().unwrap_err().to_string(),
            r#""a/b/c" is not a key of the form name or namespace/name"#
        );
    }

    #[test]
    fn a_key_has_two_spellings() {
        let (cluster, namespaced) =
            (ObjectKey::cluster("web"), ObjectKey::namespaced("app", "web"));
        assert_eq!((cluster.to_string(), cluster.slashed()), ("web".into(), "/web".into()));
        assert_eq!(
            (namespaced.to_string(), namespaced.slashed()),
            ("app/web".into(), "app/web".into())
        );
    }

    #[test]
    fn an_empty_namespace_is_no_namespace() {
        assert_eq!(ObjectKey::new(Some(""), "web").scope(), Scope::Cluster);
        assert_eq!(ObjectKey::new(Some("app"), "web").scope(), Scope::Namespaced);
    }
}
