//! Roles and bindings in step with their writes: what a cluster that people reach starts
//! with, who may write them, and rules that one role gathers from others.
//!
//! Who may do what is decided in `auth::rbac`. As with definitions, what a real cluster
//! leaves to a controller is done before the write is answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flagship_base::machinery::path::ObjectPath;
use flagship_base::machinery::status::ApiError;
use flagship_kinds::Kind as K;
use flagship_store::ObjectKey;
use serde_json::{Value, json};

use super::certificates::{self, Signer};
use super::cluster::{Caller, Cluster, ClusterHandle, Ctx, Place};
use super::{tokens, write};
use crate::auth::rbac::grant::Grant;
use crate::auth::rbac::{CLUSTER_BINDINGS, CLUSTER_ROLES, Policy, Rule, bootstrap};
use crate::auth::{Decision, RequestAttributes, group};
use crate::registry::Kind;

/// Roles may gather from roles that gather, this deep.
const DEPTH: usize = 8;

impl ClusterHandle {
    /// The roles and bindings of the cluster, compiled.
    pub fn policy(&self) -> Arc<Policy> {
        self.cluster.policy.current(&self.cluster.store)
    }

    /// Gives the cluster the roles and bindings that people expect, and its waiting secrets
    /// their tokens, once a process. Done when it is first reached from outside: thousands
    /// of simulated clusters never are. The authority is the one that programs trust the
    /// server by.
    pub fn furnish(&self, authority: &Arc<dyn Signer>) {
        let cluster = &*self.cluster;
        if cluster.furnished.load(Ordering::Acquire) {
            return;
        }
        cluster.authority.get_or_init(|| authority.clone());
        let system = Caller::named("kube-apiserver");
        let lists =
            [(CLUSTER_ROLES, bootstrap::roles()), (CLUSTER_BINDINGS, bootstrap::bindings())];
        let all =
            || lists.iter().flat_map(|(resource, list)| list.iter().map(move |o| (*resource, o)));
        let key = |object: &Value| {
            ObjectKey::new("", object["metadata"]["name"].as_str().unwrap_or_default())
        };
        // Several requests may do this at once: each step is one that the others have not
        // done, and whoever is through finds everything there.
        for (resource, wanted) in all() {
            let key = key(wanted);
            if cluster.store.get(resource, &key).is_none() {
                write::seed(cluster, &system, resource, wanted.clone());
                continue;
            }
            write::amend(cluster, &system, resource, &key, |there| {
                if let Some(fixed) = bootstrap::reconciled(wanted, there) {
                    *there = fixed;
                }
            });
        }
        gather(cluster);
        // A full disk may have refused some; then the next request tries again.
        let complete = all().all(|(resource, o)| cluster.store.get(resource, &key(o)).is_some());
        cluster.furnished.store(complete, Ordering::Release);
        tokens::fill_all(cluster);
        certificates::sign_all(cluster);
    }
}

/// Refuses a role or binding that hands out more than its writer holds.
pub(super) fn check(
    cluster: &Cluster,
    caller: &Caller,
    place: &Place,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let kind = &place.served.kind;
    if ![K::Role, K::ClusterRole, K::RoleBinding, K::ClusterRoleBinding].iter().any(|k| kind.is(*k))
    {
        return Ok(());
    }
    if is_master(caller) {
        return Ok(());
    }
    let grant = Grant {
        user: &caller.user(),
        policy: &cluster.policy.current(&cluster.store),
        plural: &kind.plural,
        namespace: &place.namespace,
        name: if old.is_some() { &place.name } else { "" },
    };
    grant.check(new, old)
}

/// Whether the caller may do everything. Asked before the policy, which is brought up to date
/// with whatever was written since somebody last asked: a hub that makes a Role and a binding for
/// each of thousands of members would do that after each of them.
fn is_master(caller: &Caller) -> bool {
    caller.groups.iter().any(|of| &**of == group::MASTERS)
}

/// Refuses to make by PUT or PATCH what the caller may not create.
pub(super) fn check_create(ctx: &Ctx<'_>) -> Result<(), ApiError> {
    if is_master(ctx.caller) {
        return Ok(());
    }
    let (user, place) = (ctx.caller.user(), ctx.place);
    let gv = &place.served.version().gv;
    let at = ObjectPath {
        group: gv.group.clone(),
        version: gv.version.clone(),
        namespace: Some(place.namespace.to_string()).filter(|text| !text.is_empty()),
        resource: place.served.kind.plural.to_string(),
        name: Some(place.name.to_string()),
        subresource: None,
    };
    let ask = RequestAttributes::Resource { verb: "create".to_owned(), at };
    match ctx.cluster.policy.current(&ctx.cluster.store).decide(&user, &ask) {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(why) => Err(ask.forbidden(&user, &why)),
    }
}

/// Brings gathered rules up to date after a role was written.
pub(super) fn after_commit(cluster: &Cluster, kind: &Kind) {
    if kind.is(K::ClusterRole) {
        gather(cluster);
    }
}

fn gather(cluster: &Cluster) {
    let system = Caller::named("clusterrole-aggregation-controller");
    for _ in 0..DEPTH {
        let mut changed = false;
        for (key, wanted) in cluster.policy.current(&cluster.store).gathered() {
            changed |= write::amend(cluster, &system, CLUSTER_ROLES, &key, |role| {
                if Rule::list(role) != wanted {
                    role["rules"] = json!(wanted.iter().map(Rule::to_value).collect::<Vec<_>>());
                }
            });
        }
        if !changed {
            return;
        }
    }
}
