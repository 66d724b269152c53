//! Users and groups as Kubernetes names them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Groups that mean something to the server itself.
pub mod group {
    /// May do everything.
    pub const MASTERS: &str = "system:masters";
    /// Everybody who could be identified.
    pub const AUTHENTICATED: &str = "system:authenticated";
    /// Everybody else.
    pub const UNAUTHENTICATED: &str = "system:unauthenticated";
}

/// Users that mean something to the server itself.
pub mod name {
    /// Whoever showed no credentials.
    pub const ANONYMOUS: &str = "system:anonymous";
}

/// Who a request comes from, as far as it could be proven.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Such as `kubernetes-admin` or `system:serviceaccount:default:builder`.
    pub name: Arc<str>,
    /// Identifies the user beyond its name; mostly empty.
    pub uid: Arc<str>,
    /// Groups, `system:authenticated` included.
    pub groups: Vec<Arc<str>>,
    /// What else the authenticator knows, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user who proved to be this one and to be in these groups.
    pub fn authenticated<'a>(name: &str, groups: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all: Vec<Arc<str>> = groups.into_iter().map(Arc::from).collect();
        if !all.iter().any(|known| **known == *group::AUTHENTICATED) {
            all.push(group::AUTHENTICATED.into());
        }
        Self { name: name.into(), groups: all, ..Self::default() }
    }

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        let groups = vec![group::UNAUTHENTICATED.into()];
        Self { name: name::ANONYMOUS.into(), groups, ..Self::default() }
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|known| **known == *group)
    }
}
