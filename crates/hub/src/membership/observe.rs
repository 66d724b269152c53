//! What one pass over a member looks at. All of it is mirrored, but the Works of a
//! member that leaves: those are listed when it comes to that.

use flagship_api::names::{ObjectKey, member_namespace, member_role, member_role_binding};
use flagship_api::work::Work;
use flagship_rules::membership::{Internal, Namespace, Observed, RoleBinding};
use flagship_runtime::client::{ClientError, Listed, Precondition, ResourceType, Selection};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube_core::metadata::PartialObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hub::Context;
use crate::mirrors::{Cluster, Mirrors, Versioned};

/// What a pass looks at, and what its writes carry as preconditions.
pub(super) struct PassInputs {
    pub observed: Observed,
    pub cluster: Arc<Cluster>,
    pub namespace: Option<Arc<Versioned<Namespace>>>,
    pub role: Option<Arc<Versioned<Vec<PolicyRule>>>>,
    pub role_binding: Option<Arc<Versioned<RoleBinding>>>,
    pub internal: Option<Arc<Versioned<Internal>>>,
    pub works: BTreeMap<String, Precondition>,
}

/// Reads everything for one pass over a member.
pub(super) async fn observe(
    cx: &Context,
    mirrors: &Mirrors,
    cluster: Arc<Cluster>,
) -> Result<PassInputs, ClientError> {
    let name = &cluster.member.name;
    let space = member_namespace(name);
    let inside = |name: &str| ObjectKey::namespaced(&space, name);
    let namespace = mirrors.members.namespaces.get(&ObjectKey::cluster(&space));
    let role = mirrors.members.roles.get(&inside(&member_role(name)));
    let role_binding = mirrors.members.role_bindings.get(&inside(&member_role_binding(name)));
    let internal = mirrors.members.internals.get(&inside(name));
    let leaving = cluster.member.leaving_since.is_some() && namespace.is_some();
    let works = if leaving { works_with_finalizers(cx, &space).await? } else { BTreeMap::new() };
    let observed = Observed {
        now: cx.env.now(),
        member: cluster.member.clone(),
        namespace: namespace.as_ref().map(|seen| seen.value.clone()),
        role: role.as_ref().map(|seen| seen.value.clone()),
        role_binding: role_binding.as_ref().map(|seen| seen.value.clone()),
        internal: internal.as_ref().map(|seen| seen.value.clone()),
        works_with_finalizers: works.keys().cloned().collect(),
        options: cx.options.membership,
    };
    Ok(PassInputs { observed, cluster, namespace, role, role_binding, internal, works })
}

async fn works_with_finalizers(
    cx: &Context,
    space: &str,
) -> Result<BTreeMap<String, Precondition>, ClientError> {
    let works = cx.client.of_type(ResourceType::of::<Work>()).metadata_only();
    let listed: Listed<PartialObjectMeta<Work>> = works.list(&Selection::namespace(space)).await?;
    let held = listed.items.into_iter().filter(|work| {
        work.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
    });
    Ok(held
        .filter_map(|work| Some((work.metadata.name.clone()?, Precondition::of(&work)?)))
        .collect())
}
