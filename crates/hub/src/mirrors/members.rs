//! What is kept of members, and of what the hub keeps for them.

use std::sync::Arc;

use flagship_api::cluster::{InternalMemberCluster, MemberCluster};
use flagship_api::names::{cluster_of_namespace, member_role, member_role_binding};
use flagship_rules::{membership, model};
use flagship_runtime::client::Precondition;
use flagship_runtime::effects::Kind;
use flagship_runtime::reflector::Store;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};

use super::{Set, Versioned};
use crate::patches::finalizers_of;

/// What belongs to members.
pub(crate) struct MemberMirrors {
    pub clusters: Store<Cluster>,
    /// What the hub and the agents of members tell each other.
    pub internals: Store<Versioned<membership::Internal>>,
    /// Namespaces of members on the hub.
    pub namespaces: Store<Versioned<membership::Namespace>>,
    /// Rights of members in their namespaces.
    pub roles: Store<Versioned<Vec<PolicyRule>>>,
    /// Who has those rights.
    pub role_bindings: Store<Versioned<membership::RoleBinding>>,
}

/// What is kept of a member cluster.
#[derive(Debug, PartialEq)]
pub(crate) struct Cluster {
    pub precondition: Precondition,
    pub finalizers: Vec<String>,
    /// As all but membership see it, shared with their passes.
    pub value: Arc<model::Cluster>,
    /// As membership sees it.
    pub member: membership::Member,
}

impl MemberMirrors {
    pub(super) fn new(set: &mut Set<'_>) -> Self {
        let clusters = set.mirror(|object: MemberCluster| Cluster::read(&object));
        let namespaces = set.mirror(|object: Namespace| {
            cluster_of_namespace(object.metadata.name.as_deref()?)?;
            Versioned::of(&object, membership::Namespace::read(&object))
        });
        Self {
            clusters: set.add(clusters),
            namespaces: set.add(namespaces),
            internals: inside(set, str::to_owned, |object: &InternalMemberCluster| {
                membership::Internal::read(object)
            }),
            roles: inside(set, member_role, |object: &Role| {
                object.rules.clone().unwrap_or_default()
            }),
            role_bindings: inside(set, member_role_binding, |object: &RoleBinding| {
                membership::RoleBinding::read(object)
            }),
        }
    }
}

impl Cluster {
    fn read(object: &MemberCluster) -> Option<Self> {
        Some(Self {
            precondition: Precondition::of(object)?,
            finalizers: finalizers_of(&object.metadata).to_vec(),
            value: Arc::new(model::Cluster::read(object)),
            member: membership::Member::read(object),
        })
    }
}

/// The one object of a kind that belongs to each member, by its name.
fn inside<K, V>(
    set: &mut Set<'_>,
    named: fn(&str) -> String,
    read: fn(&K) -> V,
) -> Store<Versioned<V>>
where
    K: Kind + Send + 'static,
    V: Send + Sync + 'static,
{
    let mirror = set.mirror(move |object: K| {
        let meta = object.meta();
        let cluster = cluster_of_namespace(meta.namespace.as_deref()?)?;
        if *meta.name.as_ref()? != named(cluster) {
            return None;
        }
        Versioned::of(&object, read(&object))
    });
    set.add(mirror)
}
